"""The example programs, run as a person would run them."""
