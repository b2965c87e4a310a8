"""The exact audit, window by window: each window on its own, then stitched at the cuts.

``hashing`` names messages by 64 bits, ``matching`` pairs sends with deliveries inside a window,
``clocks`` runs the vectors, ``chains`` finds shortest witnesses, ``window`` puts these together
for one window, ``cuts`` proposes where to cut, ``stitch`` decides what crosses the cuts, and
``whole`` runs all of it in one process. Nothing in here knows Spark.
"""
