"""The exact audit, window by window: each is checked separately, then all are joined at the cuts.

``columns`` turns Arrow tables into arrays with 64-bit hashes of messages, ``edges`` add the order
of clocks and relays, ``matching`` pairs sends with deliveries inside a window, ``clocks`` runs the
vectors, ``chains`` finds shortest chains, ``window`` combines these for one window, ``cuts``
proposes where to cut, ``stitch`` says what is missing before windows can be joined, ``join`` joins
them, and ``rounds`` is the loop around it. Nothing here imports Spark.
"""
