"""Studies: a grid of runs, the campaign that makes them, and the experiments."""
