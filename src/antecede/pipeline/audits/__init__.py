"""The audit: the function and its verdict, windows, and the ways to arrange a log."""
