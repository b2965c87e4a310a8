"""What knows a cluster: the session, Java, shipping the package, and tasks."""
