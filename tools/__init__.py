"""Scripts that generate pages, pictures and test vectors from the code."""
