"""The comparison of the protocols in one small table, for the terminal and ``summary.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

EXPERIMENT = "overhead"
METRICS = {
    "entries_per_copy": "entries per copy",
    "model_bytes_per_copy": "bytes per copy",
    "total_bytes_per_message": "bytes per message",
    "held_fraction": "copies held",
    "extra_packets_per_message": "packets added per message",
}


def comparison(points: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per cast and protocol, at the largest number of processes that it was run at."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for point in points:
        if point["experiment"] != EXPERIMENT or point["metric"] not in METRICS:
            continue
        row = rows.setdefault(
            (point["facet"], point["series"]),
            {"cast": point["facet"], "protocol": point["series"], "processes": 0},
        )
        if point["x"] > row["processes"]:
            row["processes"] = int(point["x"])
        if point["x"] == row["processes"]:
            row[point["metric"]] = point["mean"]
    return sorted(
        rows.values(),
        key=lambda row: (row["cast"], -row["processes"], row.get("total_bytes_per_message") or 0.0),
    )


def title(rows: Iterable[Mapping[str, Any]], cast: str) -> str:
    """Return the heading of a cast's rows: at which size, and which rows are not like the rest."""
    own = [row for row in rows if row["cast"] == cast]
    n = max((row["processes"] for row in own), default=0)
    smaller = [f"{row['protocol']} at {row['processes']}" for row in own if row["processes"] < n]
    said = [f"{cast}, n = {n}" + (f" ({', '.join(smaller)})" if smaller else "")]
    names = [row["protocol"] for row in own]
    if any(name.startswith("vectors") for name in names):
        said.append("vectors on shorter schedules")
    if any(name.startswith("bounded") for name in names):
        said.append("bounded on two seeds")
    said.append("bytes per message count all copies and added packets")
    return "; ".join(said)
