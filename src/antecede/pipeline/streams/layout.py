"""Names of the columns that carry a row's numbers between the user's own columns."""

PREFIX = "__antecede_"
DEST, KEY, CHANNEL, SEQ, CAUSES, WORDS, TIME, REASON, BUCKET = (
    PREFIX + name
    for name in ("dest", "key", "channel", "seq", "causes", "words", "time", "reason", "bucket")
)
