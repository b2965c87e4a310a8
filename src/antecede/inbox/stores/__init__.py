"""Where inboxes keep what they have: memory, SQLite, PostgreSQL."""
