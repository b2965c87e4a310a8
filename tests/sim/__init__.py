"""Tests of the simulation: schedules, engines, kernels, figures."""
