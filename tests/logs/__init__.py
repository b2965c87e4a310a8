"""Tests of antecede.logs: the core, a model of its rules, and adapters on brokers."""
