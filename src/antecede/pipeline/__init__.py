"""The data pipeline on Spark: study, audit, advise and reorder as functions of DataFrames.

A session is passed in or taken from the frame, never made at import; ``jobs`` alone reads and
writes files.
"""
