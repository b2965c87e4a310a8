"""The verdict is decided in the library: the same from Python as from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from antecede.audit.api import audit_table
from antecede.audit.verdicts import Asked
from antecede.events import Event
from antecede.events.arrow_schemas import CLOCKS
from antecede.events.sources import table_of

if TYPE_CHECKING:
    from antecede.audit.api import Audit

SENDS = [Event("a", 1, "send", "m1", ("b",)), Event("a", 2, "send", "m2", ("b",))]
REASON = "This log shows no deliveries of its own."


def audit(*log: Event, undecidable: str | None = None, complete: bool | None = False) -> Audit:
    asked = Asked(undecidable=undecidable, complete_until_end=complete)
    found = audit_table(table_of(log), asked, engine="plain")
    assert found.summary["verdict"] == found.verdict
    assert found.summary["reason"] == found.reason
    ordered = {"ordered": True, "broken": False, "undecidable": None}
    assert found.summary["causally_ordered"] is ordered[found.verdict]
    assert found.reason.endswith(".")
    return found


def deliveries(*messages: str) -> list[Event]:
    return [Event("b", seq, "deliver", message) for seq, message in enumerate(messages, start=1)]


def told(log: str, *, clocks: bool = False, complete: bool | None = None) -> str:
    """Return the verdict of both engines in this process on a log such as ``a: +m>b,c -n``."""
    events, stated = [], []
    for line in log.split(";"):
        process, _, words = line.partition(":")
        for seq, word in enumerate(words.split(), start=1):
            what, _, clock = word.partition("@")
            message, _, dests = what[1:].partition(">")
            kind = {"+": "send", "-": "deliver"}[what[0]]
            to = tuple(dests.split(",")) if dests else None
            events.append(Event(process.strip(), seq, kind, message, to))
            stated.append([(p[0], int(p[1:])) for p in clock.split(",")] if clock else None)
    table = table_of(events)
    if clocks:
        table = table.append_column("clock", pa.array(stated, CLOCKS))
    asked = Asked(complete_until_end=complete)
    found = [audit_table(table, asked, engine=engine) for engine in ("plain", "local")]
    assert found[0].records == found[1].records
    assert (found[0].verdict, found[0].reason) == (found[1].verdict, found[1].reason)
    return found[0].verdict


SERVERS = "s: -r1 -r2 +r1>c +r2>c; t: -r1 -r2 +r1>c +r2>c"


@pytest.mark.parametrize(
    ("log", "verdict"),
    [
        # q led to s's reply, that to x
        ("c: +r>s -r +x>d; s: -r +q>d +r>c; d: -x -q", "broken"),
        ("c: +r -r +x; s: -r +q +r; d: -x -q", "broken"),
        # replies out of order
        ("c: +r1>s +r2>s -r2 -r1; s: -r1 -r2 +r1>c +r2>c", "broken"),
        ("c: +r1>s +r2>s -r2 -r1; s: -r1 -r2 +r2>c +r1>c", "ordered"),
        ("c: +r1 +r2 -r2 -r1; s: -r1 -r2 +r1 +r2", "broken"),
        ("c: +r1 +r2 -r2 -r1; s: -r1 -r2 +r2 +r1", "ordered"),
        # replies of two servers: whose was the first?
        (
            "c: +r1>s,t +r2>s,t -r1 -r1 -r2 -r2; " + SERVERS,
            "ordered",
        ),
        (
            "c: +r1>s,t +r2>s,t -r1 -r2 -r1 -r2; " + SERVERS,
            "undecidable",
        ),
        (
            "c: +r1>s,t +r2>s,t -r1 -r2 -r2 -r1; " + SERVERS,
            "undecidable",
        ),
        ("c: +r>s,t -r -r; s: -r +r>c +q>t; t: -r -q +r>c", "undecidable"),
        # through a proxy and back, under one id
        ("c: +r>s -r +x>d; s: -r +r>t -r +r>c; t: -r +q>d +r>s; d: -x -q", "broken"),
        ("c: +r>s -r +x>d; s: -r +r>t -r +r>c; t: -r +q>d +r>s; d: -q -x", "ordered"),
        # one id for ever
        ("c: +h>s -h +h>s -h +x>d; s: -h +h>c -h +q>d +h>c; d: -x -q", "broken"),
        ("c: +h>s -h +h>s -h; s: -h +h>c -h +h>c", "ordered"),
        # to two servers: whose reply it is, is unknown
        ("c: +r>s,t +p>s,t -p -p -r -r; s: -r -p +r>c +p>c; t: -r -p +r>c +p>c", "undecidable"),
        ("c: +r>s,t +p>s,t -r -r -p -p; s: -r -p +r>c +p>c; t: -r -p +r>c +p>c", "ordered"),
        ("c: +r>s,t -r -y -r; s: -r +r>c; t: -r +r>c +y>c", "undecidable"),
        ("c: +r>s,t -r -r -y; s: -r +r>c; t: -r +r>c +y>c", "ordered"),
        ("c: +r>s,t -r -x; s: -r +r>c; t: -r +x>c +r>c", "undecidable"),
        # the reply is not in the log, but what its sender sent after it
        ("c: +r>s -z; s: -r +r>c +z>c", "undecidable"),
        ("c: +r>s -y; s: -r +y>c +r>c", "ordered"),
        # sent to others and delivered here: a reply that b sent after its last event in the log
        ("a: +r>b -r -y; b: +y>a", "undecidable"),
        ("a: +r>b -y -r; b: +y>a", "ordered"),
        ("a: +r>a,b -r -y; b: -r +y>a", "ordered"),
        ("a: +r -r -y; b: +y", "ordered"),
        # through a gateway, to two servers
        (
            "g: +r>c -r; c: -r +r>s,t -r -r +x>d +r>g; s: -r +q>d +r>c; t: -r +r>c; d: -x -q",
            "undecidable",
        ),
        # a turn is not in the log: c's delivery of the first reply, or the first reply
        ("c: +h>s -x +h>s -h; s: -h +h>c +x>c -h +h>c", "undecidable"),
        ("c: +h>s -h -x +h>s -h; s: -h +x>c -h +h>c", "undecidable"),
        # passed on by b to a, where an effect was delivered
        ("d: +m>b +e>a; b: -m +m>a; a: -e", "undecidable"),
        # two messages with one id: c got both after x, or each in time
        ("a: +m>c +x>c; b: +m>c; c: -x -m -m", "undecidable"),
        ("a: +m>c +x>c; b: +m>c +y>c; c: -m -m -x -y", "ordered"),
        ("a: +m>c +x>c; b: +m>c +y>c; c: -m -x -m -y", "undecidable"),
        # sent again, not answered
        ("a: +x>b +y>b +x>b; b: -x -x -y", "ordered"),
    ],
)
def test_a_reply_under_the_id_of_its_request_is_a_message_of_its_own(
    log: str, verdict: str
) -> None:
    assert told(log) == verdict


@pytest.mark.parametrize(
    "log",
    [
        # a may have delivered m before it sent m: then c delivered it late
        "b: +m>a +e>c; a: +m>c; c: -e -m",
        # a may have delivered the reply before it sent m again: then b may have delivered e late
        "a: +m>b +e>b +m>b; b: -m +m>a -e",
    ],
)
def test_a_delivery_that_the_log_lacks_may_show_what_a_send_is(log: str) -> None:
    assert told(log, complete=False) == "undecidable"
    assert told(log, complete=True) == "ordered"


def test_a_log_whose_clocks_know_more_than_its_events_is_not_complete() -> None:
    knows = "a: +m1>b@a1 +m2>b@a2; b: -m1@a2,b1"
    assert told(knows, clocks=True) == "undecidable"
    assert told(knows, clocks=True, complete=True) == "ordered"
    assert told(knows.replace(">b", ""), clocks=True) == "undecidable"
    assert told(knows.replace("a2,b1", "a1,b1"), clocks=True) == "ordered"


def test_rows_that_are_not_valid_may_be_all_that_a_process_has() -> None:
    log = [Event("a", 1, "send", "m1", ("c",)), Event("a", 2, "send", "m2", ("b",))]
    log += [Event("b", 1, "deliver", "m2"), Event("b", 2, "send", "m3", ("c",))]
    table = table_of([*log, Event("c", 1, "deliver", "m3"), Event("c", 2, "deliver", "m1")])
    kinds = [*(event.kind for event in log), "delivered", "delivered"]
    table = table.set_column(2, "kind", pa.array(kinds))
    for engine in ("plain", "local"):
        found = audit_table(table, Asked(complete_until_end=None), engine=engine)
        assert found.verdict == "undecidable"
        assert "a delivery at a process that has no valid row. 2 rows that are" in found.reason
    assert audit(*log, complete=None).verdict == "ordered"


def test_two_who_send_each_other_one_id_have_to_deliver_it() -> None:
    log = "a: +r>b +m>b; b: -r +r>a +m>a -m"
    assert told(log, complete=False) == "undecidable"
    log = "a: +r>b -r +m>b -m; b: -r +r>a +m>a -m"
    assert told(log, complete=False) == "ordered"


@pytest.mark.parametrize("engine", ["plain", "local"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_process_that_lacks_its_number_0_lacks_its_first_line(first: int, engine: str) -> None:
    log = [Event("a", 0, "send", "m1", ("b",)), Event("a", 1, "send", "m2", ("b",))]
    log += [Event("b", 0, "deliver", "m1"), Event("b", 1, "deliver", "m2")][first:]
    found = audit_table(table_of(log), Asked(complete_until_end=None), engine=engine)
    assert found.verdict == ("ordered", "undecidable")[first]


def test_the_reason_says_what_helps() -> None:
    lost = audit(*SENDS, Event("b", 2, "deliver", "m2"), complete=None)
    assert "say so: --complete-until-end" in lost.reason
    assumed = audit(SENDS[0], *deliveries("m2", "m1"), complete=None)
    assert "its numbers have no gaps. Log them" in assumed.reason
    assert "--complete-until-end" not in assumed.reason


def test_a_log_without_violations_is_ordered() -> None:
    found = audit(*SENDS, *deliveries("m1", "m2"))
    assert found.verdict == "ordered"
    assert found.reason == "No message was delivered after an effect of it."


def test_a_late_delivery_breaks_the_order() -> None:
    found = audit(*SENDS, *deliveries("m2", "m1"))
    assert found.verdict == "broken"
    assert "(1 from the same sender, 0 via others)" in found.reason


def test_a_message_that_never_arrived_breaks_the_order_if_the_log_is_complete() -> None:
    never = "1 message never arrived although an effect did: m1 at b, which delivered m2 (seq 1)."
    for complete in (True, None):
        found = audit(*SENDS, *deliveries("m2"), complete=complete)
        assert found.verdict == "broken"
        assert found.reason.startswith(f"{never} This assumes that the log of each process is")
    found = audit(*SENDS, *deliveries("m2"))
    assert found.verdict == "undecidable"
    assert "m1 at b, which delivered m2 (seq 1)" in found.reason
    assert found.missing.to_pylist()[0]["message"] == "m1"


def test_a_lost_line_shows_in_the_numbers_and_breaks_nothing() -> None:
    second = Event("b", 2, "deliver", "m2")
    assert audit(*SENDS, second, complete=None).verdict == "undecidable"
    assert audit(*SENDS, second, complete=True).verdict == "broken"


def test_a_running_system_that_was_cut_at_one_instant_is_ordered() -> None:
    in_flight = [*SENDS, *deliveries("m1")]
    assert audit(*in_flight).verdict == "undecidable"
    for complete, why in ((True, "(--complete-until-end)"), (None, "its numbers have no gaps")):
        found = audit(*in_flight, complete=complete)
        assert found.verdict == "ordered"
        assert why in found.reason


def test_a_delivery_before_its_own_send_decides_nothing() -> None:
    log = [Event("a", 1, "deliver", "m1"), Event("a", 2, "send", "m1", ("a",))]
    found = audit(*log)
    assert found.verdict == "undecidable"
    assert "contradicts itself" in found.reason
    assert "a delivered m1 (seq 1) before an event that led to its send" in found.reason


def test_a_cycle_makes_a_violation_elsewhere_undecidable_too() -> None:
    cycle = [Event("x", 1, "deliver", "y"), Event("x", 2, "send", "y", ("x",))]
    found = audit(*SENDS, *deliveries("m2", "m1"), *cycle)
    assert (found.verdict, found.violations.num_rows) == ("undecidable", 1)
    assert "Leaving these out: 1 of 3 deliveries arrived after" in found.reason


@pytest.mark.parametrize("count", [4, 5])
def test_the_reason_names_a_few_events_of_many_cycles(count: int) -> None:
    log = [
        Event(f"p{k}", seq, kind, f"m{k}", (f"p{k}",) if seq == 2 else None)
        for k in range(count)
        for seq, kind in ((1, "deliver"), (2, "send"))
    ]
    assert f"and {count - 3} more in the findings" in audit(*log).reason


@pytest.mark.parametrize("messages", [("other",), ("other", "other"), ("other", "else")])
def test_deliveries_that_match_no_send_decide_nothing(messages: tuple[str, ...]) -> None:
    found = audit(SENDS[0], *deliveries(*messages))
    assert found.verdict == "undecidable"
    assert "log the same id at both ends" in found.reason


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


def test_events_of_one_seq_leave_the_order_open() -> None:
    restarted = [Event("a", 1, "send", "m3", ("b",)), Event("b", 9, "deliver", "m3")]
    found = audit(*SENDS, *deliveries("m1", "m2"), *restarted)
    assert found.verdict == "undecidable"
    assert "have the same seq, so their order is unknown: a at seq 1." in found.reason
    both = [Event("b", 1, "deliver", "m1"), Event("b", 1, "deliver", "m2")]
    assert audit(*SENDS, *both).verdict == "undecidable"


def test_a_violation_that_rests_on_no_unknown_order_is_certain() -> None:
    elsewhere = [Event("a", 7, "send", "x", ("b",)), Event("a", 7, "send", "y", ("b",))]
    late = [*SENDS, *deliveries("m2", "m1")]
    assert audit(*late, *elsewhere).verdict == "broken"
    assert audit(*late, Event("a", 1, "send", "x", ("b",))).verdict == "undecidable"
    through = [Event("a", 1, "send", "m", ("q", "b")), Event("q", 1, "deliver", "m")]
    through += [Event("q", 1, "send", "x", ("b",)), *deliveries("x", "m")]
    assert audit(*through).verdict == "undecidable"


@pytest.mark.parametrize(
    "same", [[*SENDS, *deliveries("m1")], [Event("b", 1, "local", None)]], ids=["repeated", "local"]
)
def test_an_event_that_is_in_the_log_twice_and_a_local_one_leave_no_doubt(
    same: list[Event],
) -> None:
    assert audit(*SENDS, *deliveries("m1", "m2"), *same).verdict == "ordered"
