"""What builds the package in other ways than the default, and tells how much of it is tested."""
