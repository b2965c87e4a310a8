"""The members of a group of nodes: votes on the next view, and the change to it."""
