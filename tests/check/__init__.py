"""The oracle, the explorer and the mutants that they must catch."""
