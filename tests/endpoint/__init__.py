"""Tests of the endpoint, whatever its rules."""
