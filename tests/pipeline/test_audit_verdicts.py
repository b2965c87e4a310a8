"""The verdict is decided in the library: the same from Python as from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import antecede.pipeline
from antecede.eventlog import Event
from antecede.pipeline.logs.sources import table_of

if TYPE_CHECKING:
    from antecede.pipeline.audits.entry import Audit

SENDS = [Event("a", 1, "send", "m1", ("b",)), Event("a", 2, "send", "m2", ("b",))]
REASON = "This log shows no deliveries of its own."


def audit(*log: Event, undecidable: str | None = None) -> Audit:
    found = antecede.pipeline.audit(table_of(log), engine="local", undecidable=undecidable)
    assert found.summary["verdict"] == found.verdict
    assert found.summary["reason"] == found.reason
    ordered = {"ordered": True, "broken": False, "undecidable": None}
    assert found.summary["causally_ordered"] is ordered[found.verdict]
    assert found.reason.endswith(".")
    return found


def deliveries(*messages: str) -> list[Event]:
    return [Event("b", seq, "deliver", message) for seq, message in enumerate(messages, start=1)]


def test_a_log_without_violations_is_ordered() -> None:
    found = audit(*SENDS, *deliveries("m1", "m2"))
    assert found.verdict == "ordered"
    assert found.reason == "No message was delivered after an effect of it."


def test_a_late_delivery_breaks_the_order() -> None:
    found = audit(*SENDS, *deliveries("m2", "m1"))
    assert found.verdict == "broken"
    assert "1 overtaken by the same sender, 0 through other processes" in found.reason


def test_a_message_that_never_arrived_breaks_the_order() -> None:
    found = audit(*SENDS, *deliveries("m2"))
    assert found.verdict == "broken"
    assert found.reason == "1 message never arrived although an effect did."


def test_a_delivery_before_its_own_send_breaks_the_order() -> None:
    log = [Event("a", 1, "deliver", "m1"), Event("a", 2, "send", "m1", ("a",))]
    found = audit(*log)
    assert found.verdict == "broken"
    assert found.reason == "1 delivery happened before the send of the same message."


@pytest.mark.parametrize("messages", [("other",), ("other", "other"), ("other", "else")])
def test_deliveries_that_match_no_send_decide_nothing(messages: tuple[str, ...]) -> None:
    found = audit(SENDS[0], *deliveries(*messages))
    assert found.verdict == "undecidable"
    assert "use the same message id at both ends" in found.reason


def test_one_delivery_that_matches_is_enough() -> None:
    assert audit(*SENDS, *deliveries("other", "m1")).verdict == "ordered"


def test_what_the_reader_knows_decides_unless_a_violation_is_found() -> None:
    kept = audit(*SENDS, *deliveries("m1", "m2"), undecidable=REASON)
    assert (kept.verdict, kept.reason) == ("undecidable", REASON)
    late = audit(*SENDS, *deliveries("m2", "m1"), undecidable=REASON)
    assert late.verdict == "broken"


def test_a_log_without_deliveries_is_undecidable() -> None:
    found = audit(*SENDS)
    assert (found.verdict, found.violations.num_rows) == ("undecidable", 0)
    assert found.summary["causally_ordered"] is None
    assert "no deliveries" in found.reason
