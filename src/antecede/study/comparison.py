"""The table that a study ends with: every protocol at the largest size at which it ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from antecede.study.experiments import EXPERIMENTS
from antecede.study.prs_readings import LABELS

COMPARED = {
    "entries_per_copy": "entries per copy",
    "model_bytes_per_copy": "bytes per copy",
    "total_bytes_per_message": "bytes per message",
    "held_fraction": "copies held",
    "extra_packets_per_message": "packets added per message",
}
"""The metrics of the comparison, and their headings."""
_OVERHEAD = "overhead"
_REMARKS = {
    "vectors": "vectors ran on shorter schedules",
    "bounded:k=2n": "bounded ran on two seeds",
    "direct": "PRS is reconstructed",
}


def comparison(points: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per cast and protocol, at the largest size at which it ran."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    experiment = EXPERIMENTS[_OVERHEAD]
    for point in points:
        cast, series = point["facet"], point["series"]
        if point["experiment"] != _OVERHEAD or point["metric"] not in COMPARED:
            continue
        if series in LABELS:
            continue
        new = {"cast": cast, "series": series, "protocol": experiment.label(series), "processes": 0}
        row = rows.setdefault((cast, series), new)
        if point["x"] > row["processes"]:
            row["processes"] = int(point["x"])
        if point["x"] == row["processes"]:
            row[point["metric"]] = point["mean"]
    return sorted(
        rows.values(),
        key=lambda row: (row["cast"], -row["processes"], row.get("total_bytes_per_message") or 0.0),
    )


def comparison_title(rows: Iterable[Mapping[str, Any]], cast: str) -> str:
    """Return the heading of a cast's rows: their size, and which rows differ from the others."""
    own = [row for row in rows if row["cast"] == cast]
    n = max((row["processes"] for row in own), default=0)
    smaller = [f"{row['protocol']} at {row['processes']}" for row in own if row["processes"] < n]
    said = [f"{cast}, n = {n}" + (f" ({', '.join(smaller)})" if smaller else "")]
    present = {row["series"] for row in own}
    said += [remark for series, remark in _REMARKS.items() if series in present]
    said.append("bytes per message include all copies and added packets")
    return "; ".join(said)
