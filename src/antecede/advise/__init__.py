"""Advice on which protocol to use for the traffic that a log shows.

`traffic` turns a log into a schedule, `replays` runs protocols on it, `costs` holds the typed rows
and computes the sizes of protocols too large to run, `recommendation` decides and explains, `api`
offers this as functions, and `results` writes the folder.
"""
