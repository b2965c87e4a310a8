"""Who belongs to a group of nodes: votes on the next view, and the change to it."""
