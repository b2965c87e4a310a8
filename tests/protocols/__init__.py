"""Tests of the protocols, one by one and all together."""
