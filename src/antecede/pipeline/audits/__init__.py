"""The audit: its function and verdict, the check of a window, and the arrangements of a log.

An arrangement cuts a log into windows and runs them: ``local`` in this process, ``slices`` and
``blobs`` on Spark.
"""
