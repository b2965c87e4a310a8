"""Everything that depends on a cluster: the session, Java, shipping the package, and tasks."""
