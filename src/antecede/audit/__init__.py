"""The audit: its function and verdict, the check of a window, and the arrangements of a log.

An arrangement cuts a log into windows and runs them: ``local_windows`` in this process,
``row_group_windows`` and ``shuffled_windows`` on Spark.
"""
