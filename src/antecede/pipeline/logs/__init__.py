"""Reading logs of any known format into tables of events; no Spark."""
