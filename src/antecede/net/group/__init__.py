"""Who belongs to a group of nodes: votes on the next view, and the way from one view to the next."""
