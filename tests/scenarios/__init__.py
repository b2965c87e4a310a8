"""Stories: text in, trace out."""
