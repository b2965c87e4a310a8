"""``antecede audit`` on traces: what is published in a call comes before what follows its reply."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from antecede.cli.main import app
from tests.support.traces import REVERSED, TRACE, S, hexed, jaeger, otlp, zipkin

WRITERS = {"otlp": otlp, "jaeger": jaeger, "zipkin": zipkin}


def audited(tmp_path: Path, text: str) -> int:
    """Audit a trace, whose format has to be told by its content; return the exit status."""
    path = tmp_path / "trace.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        app(["audit", str(path), "--local", "--out", str(tmp_path / "out")])
    return int(ended.value.code or 0)


def verdict(tmp_path: Path) -> str:
    return str(json.loads((tmp_path / "out" / "summary.json").read_text())["result"]["verdict"])


@pytest.mark.parametrize("form", WRITERS)
def test_what_a_reply_orders_is_a_violation_if_delivered_reversed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    assert audited(tmp_path, WRITERS[form](REVERSED)) == 1
    assert verdict(tmp_path) == "broken"
    shown = capsys.readouterr().out
    assert "mail delivered checkout publish orders c200 (seq 1) before billing publish" in shown
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert 'class="st-message st-order"' in page
    assert "billing publish invoices b200 came late to mail" in page
    assert "b2" + "0" * 14 not in page


def test_the_same_messages_in_order_are_kept(tmp_path: Path) -> None:
    swapped = [*REVERSED[:4], replace(REVERSED[4], start=110.0, end=115.0), REVERSED[5]]
    assert audited(tmp_path, otlp(swapped)) == 0
    assert verdict(tmp_path) == "ordered"


def test_without_the_reply_the_messages_are_concurrent(tmp_path: Path) -> None:
    client = replace(REVERSED[0], end=15.0)  # It did not wait for the server.
    assert audited(tmp_path, otlp([client, *REVERSED[1:]])) == 0


def test_a_call_that_the_log_lacks_leaves_it_open(tmp_path: Path) -> None:
    spans = [
        S("shop", "PRODUCER", "a1", 1, 2, "publish orders"),
        S("billing", "SERVER", "b1", 5, 9, "POST /pay", "ff"),
        S("billing", "PRODUCER", "b2", 6, 7, "publish invoices", "b1"),
        S("mail", "CONSUMER", "c1", 10, 11, "process invoices", "b2"),
        S("mail", "CONSUMER", "c2", 12, 13, "process orders", "a1"),
    ]
    assert audited(tmp_path, otlp(spans)) == 2
    assert audited(tmp_path, otlp([spans[0], *spans[3:], replace(spans[2], parent="")])) == 0


def test_messages_polled_in_order_but_processed_reversed_are_a_violation(tmp_path: Path) -> None:
    spans = [
        S("shop", "PRODUCER", "a1", 1, 2, "publish orders"),
        S("shop", "PRODUCER", "a2", 3, 4, "publish orders"),
        S("mail", "CONSUMER", "b1", 0, 5, "receive orders", links=("a1", "a2")),
        S("mail", "CONSUMER", "b2", 6, 7, "process orders", "b1", ("a2",)),
        S("mail", "CONSUMER", "b3", 8, 9, "process orders", "b1", ("a1",)),
    ]
    assert audited(tmp_path, otlp(spans)) == 1
    (tmp_path / "polled").mkdir()
    assert audited(tmp_path / "polled", otlp(spans[:3])) == 0


def test_a_consumer_whose_producer_was_not_traced_leaves_it_open(tmp_path: Path) -> None:
    spans = [
        S("shop", "PRODUCER", "a1", 1, 2, "publish orders"),
        S("mail", "CONSUMER", "b0", 3, 4, "process payments", "ff"),
        S("mail", "PRODUCER", "b1", 5, 6, "publish receipts"),
        S("desk", "CONSUMER", "c1", 7, 8, "process receipts", "b1"),
        S("desk", "CONSUMER", "c2", 9, 10, "process orders", "a1"),
    ]
    assert audited(tmp_path, otlp(spans)) == 2
    assert verdict(tmp_path) == "undecidable"


@pytest.mark.parametrize("form", WRITERS)
def test_violations_can_be_traced_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    def about(name: str) -> dict[str, str]:
        return {"messaging.message.id": name}

    spans = [
        S("shop", "PRODUCER", "a1", 1, 2, "publish", attributes=about("order-141")),
        S("shop", "PRODUCER", "a2", 3, 4, "publish", attributes=about("paid-141")),
        S("mail", "CONSUMER", "b2", 5, 9, "process", links=("a2",)),
        S("mail", "CONSUMER", "b1", 7, 8, "process", links=("a1",)),
    ]
    assert audited(tmp_path, WRITERS[form](spans)) == 1
    assert "shop -> mail: order-141. mail delivered paid-141 (seq 1)" in capsys.readouterr().out
    with (tmp_path / "out" / "violations.csv").open(newline="") as file:
        (late,) = csv.DictReader(file)
    assert (late["message"], late["message_id"]) == ("order-141", "order-141")
    assert (late["trace_id"], late["span_id"]) == (TRACE, hexed("a1"))
    assert (late["overtaker_trace_id"], late["overtaker_span_id"]) == (TRACE, hexed("a2"))
    assert late["overtaker_message_id"] == "paid-141"
    path, out = str(tmp_path / "trace.json"), str(tmp_path / "drawn")
    with pytest.raises(SystemExit) as ended:
        app(["report", path, "--around", "order-141", "--out", out])
    assert ended.value.code in {0, 1}
    assert "order-141 came late to mail" in (tmp_path / "drawn" / "index.html").read_text()
