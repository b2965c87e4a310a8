"""Tests of nodes and of the tools to test them."""
