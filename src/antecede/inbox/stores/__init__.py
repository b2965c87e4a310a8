"""Where inboxes store their messages: memory, SQLite, PostgreSQL."""
