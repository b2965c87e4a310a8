"""The command line: one file per verb, each parses, calls, prints and sets the exit status."""
