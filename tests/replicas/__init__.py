"""The replicated store."""
