"""``antecede audit --listen`` with a real exporter, and what continuous integration gets."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from antecede.errors import UsageError
from antecede.events.listener import Listener
from antecede.events.sources import Source, read
from tests.cli.test_audit import call, write
from tests.support.histories import LATE
from tests.support.traces import REVERSED, otlp

SRC = Path(__file__).parents[2] / "src"


def speak(address: str, *, reverse: bool, compression: Compression = Compression.Gzip) -> None:
    """Export the spans of a shop, each service by its own provider; mail may get them reversed."""
    exporter = OTLPSpanExporter(f"http://{address}/v1/traces", compression=compression)
    tracers: dict[str, trace.Tracer] = {}
    providers = []
    for name in ("shop", "bank", "mail"):
        provider = TracerProvider(resource=Resource({"service.name": name}))
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        providers.append(provider)
        tracers[name] = provider.get_tracer("test")

    def send(name: str, message: str) -> trace.SpanContext:
        attributes = {"messaging.message.id": message}
        kind = trace.SpanKind.PRODUCER
        with tracers[name].start_as_current_span("publish", kind=kind, attributes=attributes) as s:
            return s.get_span_context()

    def process(name: str, *sent: trace.SpanContext) -> None:
        for context in sent:
            links = [trace.Link(context)]
            kind = trace.SpanKind.CONSUMER
            with tracers[name].start_as_current_span("process", kind=kind, links=links):
                pass

    order = send("shop", "order-141")
    process("bank", order)
    paid = send("bank", "paid-141")
    process("mail", *((paid, order) if reverse else (order, paid)))
    providers[0].shutdown()


def listening(*words: str) -> tuple[subprocess.Popen[str], str]:
    """Start ``antecede audit --listen``; return the process and the address that it prints."""
    program = subprocess.Popen(
        # Shells let what they start in the background ignore Ctrl-C.
        [
            "sh",
            "-c",
            'trap "" INT; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "antecede",
            "audit",
            "--listen",
            "127.0.0.1:0",
            *words,
        ],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stderr is not None
    address = program.stderr.readline().partition("http://")[2].partition("/")[0]
    return program, address


@pytest.mark.parametrize(
    ("reverse", "stop"),
    [(True, signal.SIGINT), (False, signal.SIGINT), (True, signal.SIGTERM)],
)
def test_a_real_exporter_is_heard_and_audited(
    tmp_path: Path, reverse: bool, stop: signal.Signals
) -> None:
    out = tmp_path / "out"
    program, address = listening("--out", str(out))
    speak(address, reverse=reverse)
    program.send_signal(stop)
    said, trouble = program.communicate(timeout=600)
    if not reverse:
        assert program.returncode != 1, said + trouble
        assert "broken" not in said + trouble
        return
    assert program.returncode == 1, trouble
    assert "shop -> mail: order-141. mail delivered paid-141" in said
    summary = json.loads((out / "summary.json").read_text())["result"]
    assert (summary["violations"], summary["deliveries"]) == (1, 3)


def test_protobuf_and_json_come_packed_or_not_and_rubbish_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"

    def post(body: bytes, where: str = "/v1/traces", **headers: str) -> tuple[int, str]:
        host, _, port = listener.address.partition(":")
        client = http.client.HTTPConnection(host, int(port), timeout=60)
        client.request("POST", where, body, {k.replace("_", "-"): v for k, v in headers.items()})
        try:
            answer = client.getresponse()
            return answer.status, answer.read().decode()
        finally:
            client.close()

    json_type = "application/json"
    with Listener("127.0.0.1:0", path) as listener:
        speak(listener.address, reverse=True, compression=Compression.NoCompression)
        body = otlp(REVERSED).encode()
        assert post(body, Content_Type=json_type) == (200, "{}")
        packed = gzip.compress(otlp(REVERSED[:1]).encode())
        assert post(packed, Content_Type=json_type, Content_Encoding="gzip") == (200, "{}")
        one = otlp(REVERSED[:1]).encode()
        chunks = {"Content-Type": json_type, "Transfer-Encoding": "chunked"}
        client = http.client.HTTPConnection(listener.address, timeout=60)
        for again in (2, 3):  # the connection stays
            pieces = iter([one[:100], one[100:]])
            client.request("POST", "/v1/traces", pieces, chunks, encode_chunked=True)
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (200, b"{}")
            assert listener.requests >= again
        client.close()
        assert post(b"{", Content_Type=json_type)[0] == 400
        assert post(b"x\r\n", Content_Type=json_type, Transfer_Encoding="chunked")[0] == 400
        assert post(b"{}", "/v1/logs", Content_Type=json_type)[0] == 404
        assert post(b"\n\xff\xff", Content_Type="application/x-protobuf")[0] == 400
        assert post(b"hello", Content_Type="application/x-protobuf")[0] == 400
        assert post(b"x", Content_Type=json_type, Content_Encoding="gzip")[0] == 400
        with pytest.raises(UsageError, match="cannot listen at"):
            Listener(listener.address, path)
    found = read(Source(path))
    assert {"shop", "bank", "mail", "checkout", "billing"} == {
        *found.events.column("process").to_pylist()
    }
    for wrong in ("4318", "localhost:x", ":", "a:99999"):
        with pytest.raises(UsageError, match="use HOST:PORT"):
            Listener(wrong, path)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "neither a log nor --listen is given"),
        (["x.jsonl", "--listen", "127.0.0.1:1"], "both a log and --listen is given"),
        (["x.jsonl", "--every", "5"], "--every is for --listen"),
    ],
)
def test_a_log_or_an_address(words: list[str], reason: str) -> None:
    done = call("audit", *words)
    assert isinstance(done.exception, UsageError)
    assert reason in str(done.exception)


def test_continuous_integration_gets_junit_sarif_and_annotations(tmp_path: Path) -> None:
    log = write(tmp_path / "l.jsonl", LATE)
    xml, sarif = tmp_path / "junit.xml", tmp_path / "audit.sarif"
    others = ["--junit", xml, "--sarif", sarif, "--github"]
    done = call("audit", log, "--out", tmp_path / "o", *others)
    assert done.exit_code == 1
    suite = ET.parse(xml).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    failure = suite[0][0]
    assert "1 of 3 deliveries arrived after" in (failure.get("message") or "")
    assert "a -> c: m1. c delivered m3" in (failure.text or "")
    run = json.loads(sarif.read_text())["runs"][0]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("causal-order", "error")
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == str(log)
    assert f"::error file={log},title=Causal order::a -> c: m1. c delivered m3" in done.stdout
    call("audit", log, "--out", tmp_path / "p", "--max-violations", "1", *others)
    assert ET.parse(xml).getroot()[0].get("failures") == "0"
    assert json.loads(sarif.read_text())["runs"][0]["results"][0]["level"] == "note"


def test_violations_that_are_alike_are_one_line(tmp_path: Path) -> None:
    rows = []
    for n in range(12):
        rows += [
            {"process": "shop", "seq": 2 * n, "kind": "send", "message": f"order-{n}"},
            {"process": "shop", "seq": 2 * n + 1, "kind": "send", "message": f"paid-{n}"},
            {"process": "mail", "seq": 2 * n, "kind": "deliver", "message": f"paid-{n}"},
            {"process": "mail", "seq": 2 * n + 1, "kind": "deliver", "message": f"order-{n}"},
        ]
    log = tmp_path / "l.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = call("audit", log, "--out", tmp_path / "o", "--assume-complete")
    assert (
        "12x shop -> mail: order-# overtaken by paid-#; for example: mail delivered" in done.stdout
    )
    assert done.stdout.count("mail delivered") == 1


def test_every_so_often_what_came_is_audited(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program, address = listening("--every", "0.5", "--out", str(out))
    speak(address, reverse=True)
    until = time.monotonic() + 300
    while not (out / "summary.json").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert (out / "summary.json").exists()
    program.send_signal(signal.SIGINT)
    said, _ = program.communicate(timeout=600)
    assert "Causal order was broken" in said
