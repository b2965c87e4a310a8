"""Names of the columns that carry a row's numbers between the user's own columns."""

PREFIX = "__antecede_"
DEST, KEY, CHANNEL, SEQ, CAUSES, TIME, REASON, BUCKET = (
    PREFIX + name
    for name in ("dest", "key", "channel", "seq", "causes", "time", "reason", "bucket")
)
#: What the names of columns begin with that hold a user's column as another type.
CAST = PREFIX + "cast_"
