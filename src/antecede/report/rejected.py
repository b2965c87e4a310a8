"""What every verb says about the rows of a log that it left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antecede.events import Rejected, left_out


def rejected_in_words(result: Mapping[str, Any]) -> str:
    """Say how many rows were left out and quote the first; ``result`` is that of a run's summary.

    Its ``rejected`` is their number and its ``rejected_first`` the first of them.
    """
    first = result["rejected_first"][0]
    quoted = Rejected(first["line"], str(first["text"]), first["reason"])
    return left_out(result["rejected"], quoted, first.get("source") or "")
