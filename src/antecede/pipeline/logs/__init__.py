"""Reading any log into the columns of an event log; no Spark."""
