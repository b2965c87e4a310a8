"""Advice on which protocol to use for the traffic that a log shows.

`traffic` turns a log into a schedule, `replays` runs protocols on it, `formulas` computes the sizes
of those too large to run, `costs` holds the typed rows, `recommendation` decides, `wording` puts
the decision into sentences, `entry` offers all this as functions, and `results` writes the folder.
"""
