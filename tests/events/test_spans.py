"""Spans of three formats: which are sends and deliveries, and which order they show."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from antecede.audit.api import audit_table, draw
from antecede.events import sources
from antecede.events.sources import Log, Source
from antecede.report import spacetime
from antecede.report.diagrams import ClockedEvent, diagram_of
from tests.support.traces import REVERSED, S, based, jaeger, otlp, zipkin


def snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


Write = Callable[[Sequence[S]], str]
WRITERS: dict[str, tuple[str, Write]] = {
    "otlp": ("otlp", otlp),
    "otlp lines": ("otlp", partial(otlp, lines=True)),
    "otlp base64": ("otlp", partial(otlp, id_of=based)),
    "otlp snake_case": ("otlp", partial(otlp, case=snake)),
    "jaeger": ("jaeger", jaeger),
    "zipkin": ("zipkin", zipkin),
    "zipkin shared": ("zipkin", partial(zipkin, shared=True)),
}


def read(tmp_path: Path, spans: Sequence[S], how: str = "otlp") -> Log:
    form, write = WRITERS[how]
    path = tmp_path / "trace.json"
    path.write_text(write(spans), encoding="utf-8")
    found = sources.read(Source(path, form))
    assert found.bad == 0, found.rejected.to_pylist()
    return found


def rows(log: Log) -> list[tuple[Any, ...]]:
    """Return process, kind and message of each event, and its clock."""
    found = []
    for row in log.events.to_pylist():
        clock = dict(row["clock"] or {row["process"]: 0})
        assert clock.pop(row["process"]) == 0  # It may follow more than its clock states.
        found.append((row["process"], row["kind"], row["message"], clock))
    return found


@pytest.mark.parametrize("how", WRITERS)
def test_the_return_of_an_rpc_orders(tmp_path: Path, how: str) -> None:
    found = read(tmp_path, REVERSED, how)
    request = "checkout POST /invoice c100"
    # Where both halves of an RPC have one id, they have one name as well.
    server = request if "shared" in how else "billing POST /invoice b100"
    assert rows(found) == [
        ("billing", "deliver", request, {}),
        ("billing", "send", "billing publish invoices b200", {}),
        ("billing", "local", f"end of {server}", {}),
        ("checkout", "send", request, {}),
        ("checkout", "local", f"end of {request}", {"billing": 3}),
        ("checkout", "send", "checkout publish orders c200", {}),
        ("mail", "deliver", "checkout publish orders c200", {}),
        ("mail", "deliver", "billing publish invoices b200", {}),
    ]


def after(log: Log) -> set[tuple[str, str, int]]:
    """Return the order that clocks add: (message of the later event, process, count there)."""
    return {(name, q, r) for _, _, name, clock in rows(log) for q, r in clock.items()}


@pytest.mark.parametrize("how", ["otlp", "jaeger", "zipkin"])
def test_a_client_that_did_not_wait_is_not_ordered_after_its_server(
    tmp_path: Path, how: str
) -> None:
    client, server, *others = REVERSED
    quick = replace(client, end=client.start + 29)  # the server took 30 ms
    assert not after(read(tmp_path, [quick, server, *others], how))
    gone = replace(client, end=49.0, failed=True)  # long enough, but it gave up before the end
    assert not after(read(tmp_path, [gone, server, *others], how))
    # A clock that is wrong changes nothing, because only durations are compared.
    skewed = [replace(s, start=s.start + 40, end=s.end + 40) for s in (server, others[0])]
    assert len(after(read(tmp_path, [client, *skewed, *others[1:]], how))) == 1


def kinds(log: Log) -> list[tuple[str, str, str]]:
    return [row[:3] for row in rows(log)]


@pytest.mark.parametrize("how", ["otlp", "jaeger", "zipkin"])
@pytest.mark.parametrize("key", ["messaging.operation.type", "messaging.operation", "name"])
def test_where_a_message_is_polled_and_processed_processing_delivers_it(
    tmp_path: Path, how: str, key: str
) -> None:
    def operation(word: str) -> dict[str, Any]:
        if key == "name":
            return {"name": f"{word} orders"}
        return {"name": "orders", "attributes": {key: word}}

    spans = [
        S("shop", "PRODUCER", "a1", 1, 2, "publish orders"),
        S("shop", "PRODUCER", "a2", 3, 4, "publish orders"),
        # The poll gets both; they are processed in the other order.
        S("mail", "CONSUMER", "b1", 0, 5, links=("a1", "a2"), **operation("receive")),
        S("mail", "CONSUMER", "b2", 6, 7, parent="b1", links=("a2",), **operation("process")),
        S("mail", "CONSUMER", "b3", 8, 9, parent="b1", links=("a1",), **operation("process")),
    ]
    assert [m for _, kind, m in kinds(read(tmp_path, spans, how)) if kind == "deliver"] == [
        "shop publish orders a200",
        "shop publish orders a100",
    ]
    # Without processing, the poll delivers both in the order of its links, when it ends.
    polled = read(tmp_path, spans[:3], how)
    assert [m for _, kind, m in kinds(polled) if kind == "deliver"] == [
        "shop publish orders a100",
        "shop publish orders a200",
    ]
    assert polled.events.column("time").to_pylist()[0] == pytest.approx(1_700_000_000.005)


def test_a_process_span_below_the_poll_of_one_message_delivers_that(tmp_path: Path) -> None:
    spans = [
        S("shop", "PRODUCER", "a1", 1, 2, "publish"),
        S("mail", "CLIENT", "b1", 0, 5, "poll", links=("a1",), attributes=operation("receive")),
        S("mail", "CONSUMER", "b2", 6, 7, "work", "b1", attributes=operation("process")),
    ]
    found = read(tmp_path, spans)
    assert kinds(found) == [
        ("mail", "deliver", "shop publish a100"),
        ("shop", "send", "shop publish a100"),
    ]
    assert found.events.column("time").to_pylist()[0] == pytest.approx(1_700_000_000.006)


@pytest.mark.parametrize("key", ["messaging.message.id", "messaging.message_id"])
def test_where_nothing_links_them_the_id_of_the_message_does(tmp_path: Path, key: str) -> None:
    spans = [
        S("shop", "PRODUCER", "a1", 1, 2, "x", attributes={key: "m-1"}),
        S("shop", "PRODUCER", "a2", 3, 4, "x", attributes={key: "m-2"}),
        S("mail", "CONSUMER", "b1", 0, 5, "receive", links=("a1", "a2")),
        S("mail", "CONSUMER", "b2", 6, 7, "process", "b1", attributes={key: "m-2"}),
        S("mail", "CONSUMER", "b3", 8, 9, "process", "b1", attributes={key: "m-1"}),
        S("desk", "CONSUMER", "c1", 8, 9, "process", attributes={key: "m-3"}),
    ]
    assert kinds(read(tmp_path, spans))[:3] == [
        ("desk", "deliver", "m-3"),
        ("mail", "deliver", "m-2"),
        ("mail", "deliver", "m-1"),
    ]


def test_ends_of_a_message_that_share_an_id_and_a_parent_are_paired(tmp_path: Path) -> None:
    spans = [
        S("shop", "SERVER", "c1", 0, 9, "order"),
        S("shop", "PRODUCER", "a1", 1, 2, "send", "c1"),
        S("mail", "CONSUMER", "a1", 3, 4, "send", "c1"),
    ]
    found = read(tmp_path, spans, "zipkin")
    assert ("mail", "deliver", "shop send a100") in kinds(found)
    assert audit_table(found.events).summary["paired_sends"] == 1


def operation(word: str) -> dict[str, str]:
    return {"messaging.operation.type": word, "messaging.system": "kafka"}


def test_a_message_that_was_created_is_sent_by_the_span_that_sends(tmp_path: Path) -> None:
    spans = [
        S("shop", "PRODUCER", "a1", 1, 2, "create", attributes=operation("create")),
        S("shop", "PRODUCER", "a2", 3, 4, "create", attributes=operation("create")),
        S("shop", "PRODUCER", "a3", 5, 6, "urgent", attributes=operation("send")),
        S("shop", "CLIENT", "a4", 7, 8, "send", links=("a1", "a2"), attributes=operation("send")),
        S("mail", "CONSUMER", "b1", 9, 9.5, links=("a3",), attributes=operation("process")),
        S("mail", "CONSUMER", "b2", 10, 11, links=("a1",), attributes=operation("process")),
        S("shop", "CLIENT", "a5", 12, 13, "ack", attributes=operation("settle")),
    ]
    found = read(tmp_path, spans)
    assert kinds(found)[2:] == [
        ("shop", "send", "shop urgent a300"),
        ("shop", "send", "shop create a100"),
        ("shop", "send", "shop create a200"),
    ]
    assert not len(audit_table(found.events).tables["violations"])


def test_what_is_known_of_spans_orders_events_of_one_time(tmp_path: Path) -> None:
    spans = [
        S("a", "CLIENT", "a1", 1, 5, "call"),
        S("b", "SERVER", "b1", 2, 4, "serve", "a1"),
        S("b", "PRODUCER", "b2", 4, 6, "inner", "b1"),  # starts just as the server ends
        S("a", "PRODUCER", "a2", 5, 6, "next"),  # starts just as the client ends
    ]
    assert [(p, m) for p, _, m in kinds(read(tmp_path, spans))] == [
        ("a", "a call a100"),
        ("a", "end of a call a100"),
        ("a", "a next a200"),
        ("b", "a call a100"),
        ("b", "b inner b200"),
        ("b", "end of b serve b100"),
    ]


def test_a_service_is_one_process_unless_it_has_several_instances(tmp_path: Path) -> None:
    one = [S("shop", "PRODUCER", "a1", 1, 2, "x", instance="i-1")]
    assert kinds(read(tmp_path, one))[0][0] == "shop"
    for how in ("otlp", "jaeger", "zipkin"):
        two = [*one, S("shop", "PRODUCER", "a2", 1, 2, "x", instance="i-2")]
        assert [row[0] for row in kinds(read(tmp_path, two, how))] == ["shop/i-1", "shop/i-2"]


def test_a_consumer_whose_producer_is_not_in_the_log_delivers_without_a_send(
    tmp_path: Path,
) -> None:
    spans = [
        S("mail", "CONSUMER", "b1", 1, 2, "x", parent="a1"),
        S("mail", "CONSUMER", "b2", 3, 4, "x", links=("a2",)),
        S("mail", "CONSUMER", "b3", 5, 6, "x"),
        S("mail", "INTERNAL", "b5", 7, 8, "loop"),
        S("mail", "CONSUMER", "b4", 7, 8, "x", "b5"),  # nothing tells what it got
    ]
    found = read(tmp_path, spans)
    assert [m for _, _, m in kinds(found)] == ["a1" + "0" * 14, "a2" + "0" * 14, "mail x b300"]
    assert audit_table(found.events).summary["findings_by_kind"] == {"delivery without send": 3}


def test_a_link_to_a_span_outside_the_log_is_not_a_message_if_the_parent_is_one(
    tmp_path: Path,
) -> None:
    spans = [
        S("shop", "PRODUCER", "a1", 1, 2, "x"),
        S("mail", "CONSUMER", "b1", 3, 4, "x", "a1", links=("f1",)),
    ]
    assert [row[1:] for row in kinds(read(tmp_path, spans))] == [
        ("deliver", "shop x a100"),
        ("send", "shop x a100"),
    ]


def test_calls_whose_other_end_is_not_in_the_log_are_local_events(tmp_path: Path) -> None:
    spans = [
        S("shop", "SERVER", "a1", 1, 9, "GET /"),
        S("shop", "CLIENT", "a2", 2, 3, "SELECT", "a1"),
    ]
    assert [row[1] for row in kinds(read(tmp_path, spans))] == ["local", "local"]


def test_what_came_from_a_span_that_is_not_in_the_log_is_a_delivery_without_a_send(
    tmp_path: Path,
) -> None:
    served = S("shop", "SERVER", "a1", 1, 9, "GET /", "ff")
    assert [row[1] for row in kinds(read(tmp_path, [served]))] == ["deliver"]
    # The server span is lost, but another process has spans of the same trace.
    sent = S("shop", "PRODUCER", "a2", 2, 3, "publish", "ff")
    inner = S("shop", "INTERNAL", "a3", 2, 5, "work", "ff")
    other = S("mail", "INTERNAL", "b1", 1, 9, "job")
    assert [row[1] for row in kinds(read(tmp_path, [sent, inner, other]))] == ["deliver", "send"]
    # A parent that was left out, inside a span of the same process, brought nothing.
    around = replace(served, parent="", start=0)
    assert [row[1] for row in kinds(read(tmp_path, [around, sent, other]))] == ["local", "send"]
    assert [row[1] for row in kinds(read(tmp_path, [sent]))] == ["send"]


def test_a_span_called_receive_that_handles_a_message_delivers_it_when_it_starts(
    tmp_path: Path,
) -> None:
    spans = [
        S("shop", "PRODUCER", "a1", 1, 2, "orders send"),
        S("billing", "CONSUMER", "b1", 3, 20, "orders receive", "a1"),
        S("billing", "PRODUCER", "b2", 10, 11, "invoices send", "b1"),
    ]
    found = [row[:2] for row in kinds(read(tmp_path, spans)) if row[0] == "billing"]
    assert found == [("billing", "deliver"), ("billing", "send")]
    after = [*spans[:2], replace(spans[2], start=30, end=31, parent="")]
    time = read(tmp_path, after).events.column("time").to_pylist()[0]
    assert time - 1_700_000_000 == pytest.approx(0.020, abs=1e-3)


def test_a_parent_in_another_service_orders_without_a_message(tmp_path: Path) -> None:
    spans = [
        S("a", "INTERNAL", "a1", 1, 9, "job"),
        S("b", "SERVER", "b1", 2, 3, "serve", "a1"),
        S("c", "INTERNAL", "c1", 4, 5, "follow", links=("b1",)),
        S("c", "INTERNAL", "c2", 4, 5, "inside", "c1"),
    ]
    assert rows(read(tmp_path, spans)) == [
        ("a", "local", "a job a100", {}),
        ("b", "local", "b serve b100", {"a": 1}),
        ("c", "local", "c follow c100", {"b": 1}),
    ]


def test_a_span_that_was_read_before_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(otlp([*REVERSED, *REVERSED[:2]]))
    found = sources.read(Source(path))
    assert found.bad == 2
    assert {row["reason"] for row in found.rejected.to_pylist()} == {
        "the same span was read before"
    }
    assert len(found.events) == 8


def test_names_are_short_but_never_the_same(tmp_path: Path) -> None:
    spans = [
        S("shop", "PRODUCER", "abcd1", 1, 2, "publish  orders"),
        S("shop", "PRODUCER", "abcd2", 3, 4, "publish orders"),
        S("shop", "PRODUCER", "ee", 5, 6, "shop: publish"),
        S("shop", "PRODUCER", "ff", 7, 8),
    ]
    assert [m for _, _, m in kinds(read(tmp_path, spans))] == [
        "shop publish orders abcd1",
        "shop publish orders abcd2",
        "shop: publish ee00",
        "ff" + "0" * 14,
    ]


def test_a_span_that_is_above_itself_is_read(tmp_path: Path) -> None:
    spans = [
        S("a", "CLIENT", "a1", 1, 5, "x", "a2"),
        S("a", "PRODUCER", "a2", 1, 5, "y", "a1"),
        S("b", "SERVER", "b1", 5, 5, "z", "a1"),
        S("b", "PRODUCER", "b2", 5, 5, "z", "b2"),
    ]
    assert len(read(tmp_path, spans).events) == 6


def test_diagrams_show_names_and_the_order_that_replies_add(tmp_path: Path) -> None:
    (shown,) = draw(read(tmp_path, REVERSED), None).illustrations
    nodes, arrows = shown.diagram.nodes, shown.diagram.arrows
    ends = [(nodes[a.source], nodes[a.target]) for a in arrows if a.mark == "order"]
    assert [(a.process, b.process) for a, b in ends] == [("billing", "checkout")]
    assert "end of billing POST /invoice b100" in ends[0][0].tip
    page = spacetime.draw(shown.diagram)
    assert "checkout publish orders c200" in page
    assert "known order without a message" in page
    assert "0000000000" not in page  # not a whole id


def test_arrows_of_order_leave_out_what_others_imply() -> None:
    def event(process: str, seq: int, message: str, **clock: int) -> ClockedEvent:
        return ClockedEvent(process, seq, "local", message, None, None, tuple(clock.items()))

    send = ClockedEvent("a", 2, "send", "m")
    deliver = ClockedEvent("b", 1, "deliver", "m", None, None, (("a", 2),))
    events = [
        event("a", 1, "x"), send, deliver, event("b", 2, "y", a=2),
        event("c", 1, "z", a=1, b=2), event("c", 2, "late", a=1, b=1), event("c", 3, "gone", d=1),
    ]  # fmt: skip
    arrows = diagram_of("order", events).arrows
    assert [(a.source, a.target, a.mark) for a in arrows] == [(1, 2, "plain"), (3, 4, "order")]
