"""The exact audit, window by window: each window is checked alone, then all are joined at the cuts.

``columns`` turns Arrow tables into arrays, ``hashing`` names messages by 64 bits, ``matching``
pairs sends with deliveries inside a window, ``clocks`` runs the vectors, ``chains`` finds shortest
chains, ``window`` combines these for one window, ``cuts`` proposes where to cut, ``stitch`` says
what is missing before windows can be joined, ``join`` joins them, and ``rounds`` is the loop around
all of it. Nothing here imports Spark.
"""
