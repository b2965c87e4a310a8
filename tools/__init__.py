"""What builds the package in other ways than the default."""
