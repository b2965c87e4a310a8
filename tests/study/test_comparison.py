"""The table that a study ends with."""

from __future__ import annotations

from antecede.study.results import comparison, comparison_title


def point(
    series: str, x: float, metric: str, mean: float, experiment: str = "overhead"
) -> dict[str, object]:
    return {
        "experiment": experiment,
        "facet": "unicast",
        "series": series,
        "x": x,
        "metric": metric,
        "mean": mean,
    }


def test_a_row_per_protocol_at_its_largest_size_cheapest_first() -> None:
    rows = comparison(
        [
            point("matrix", 50.0, "total_bytes_per_message", 10_000.0),
            point("matrix", 10.0, "total_bytes_per_message", 400.0),
            point("optimal", 10.0, "total_bytes_per_message", 128.0),
            point("optimal", 50.0, "total_bytes_per_message", 794.0),
            point("optimal", 50.0, "entries_per_copy", 111.0),
            point("optimal", 50.0, "seconds", 3.0),
            point("optimal", 70.0, "entries_per_copy", 5.0, experiment="growth"),
            point("direct:emptied-full", 50.0, "total_bytes_per_message", 1.0),
        ]
    )
    assert [
        (row["protocol"], row["processes"], row["total_bytes_per_message"]) for row in rows
    ] == [
        ("optimal (KS)", 50, 794.0),
        ("matrix (RST)", 50, 10_000.0),
    ]
    assert rows[0]["series"] == "optimal"
    assert rows[0]["entries_per_copy"] == 111.0
    assert "seconds" not in rows[0]


def test_without_that_experiment_there_is_nothing_to_compare() -> None:
    assert comparison([point("a", 1.0, "entries_per_copy", 2.0, experiment="bounded")]) == []


def test_the_heading_says_which_rows_are_not_like_the_rest() -> None:
    rows = comparison(
        [
            point("matrix", 50.0, "total_bytes_per_message", 10_000.0),
            point("vectors", 20.0, "total_bytes_per_message", 400.0),
            point("bounded:k=2n", 50.0, "total_bytes_per_message", 900.0),
        ]
    )
    said = comparison_title(rows, "unicast")
    assert said.startswith("unicast, n = 50 (vectors (SES) at 20)")
    assert "vectors ran on shorter schedules" in said
    assert "bounded ran on two seeds" in said
