"""The oracle: from histories to violations to sentences; worlds that run protocols; the explorer.

Nothing here uses a protocol's clock, so the judge cannot share the mistakes of what it judges.
"""

from antecede.check.exploration import Exploration, explore
from antecede.check.history import Event, History
from antecede.check.promises import PROPERTIES, BrokenPromiseError, Script
from antecede.check.scripts import process_names, random_script, run_script, shrunk
from antecede.check.specified import edited, rules_from
from antecede.check.violations import (
    HistoryClass,
    Violation,
    causal_violations,
    crown,
    history_class,
    undelivered,
)
from antecede.check.world import World

__all__ = [
    "PROPERTIES",
    "BrokenPromiseError",
    "Event",
    "Exploration",
    "History",
    "HistoryClass",
    "Script",
    "Violation",
    "World",
    "causal_violations",
    "crown",
    "edited",
    "explore",
    "history_class",
    "process_names",
    "random_script",
    "rules_from",
    "run_script",
    "shrunk",
    "undelivered",
]
