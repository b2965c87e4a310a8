"""Judge the papers' measurable claims from a study's points, one module per paper.

Each function returns what came out, with its figures, and a verdict; None if the points it needs
were not measured. The verdict follows from the figures: run at another scale it may differ.
"""
