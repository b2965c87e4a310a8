"""A node's life in production: probes, metrics for others, certificates that expire and change."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import sys
import threading
import time
from pathlib import Path

import pytest

from antecede.errors import NodeClosedError, UsageError
from antecede.net import Limits, Node, sync
from antecede.net.log import JsonFormatter
from antecede.net.telemetry import observe
from antecede.net.transports import tcp as tcp_module
from antecede.net.transports.tls import Tls, validity
from tests.net.test_tcp import SECONDS, Group, expect, free_ports, until

LIMITS = Limits(linger_seconds=0)


async def asked(port: int, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await asyncio.wait_for(reader.read(), SECONDS)).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


def test_probes_tell_whether_a_node_lives_and_can_reach_others() -> None:
    async def main() -> None:
        group, (port,) = Group("abc", limits=LIMITS), free_ports(1)
        async with group.node("a", metrics=f"0.0.0.0:{port}") as a:
            assert await asked(port, "/healthz") == (200, "ok\n")
            assert await asked(port, "/readyz") == (503, "waits for b, c\n")
            assert (await asked(port, "/metrics"))[0] == 200
            async with group.node("b") as b:
                await a.send(["b"], b"x")
                await expect(b, 1)
                await a.flush()
                for path in ("/readyz", "/readyz/", "/readyz?verbose"):
                    assert await asked(port, path) == (200, "ok\n")
                assert (await asked(port, "/ready"))[0] == 404
            assert a._driver is not None
            a._driver.fail(NodeClosedError("the disk is gone"))
            status, body = await asked(port, "/healthz")
            assert (status, body) == (503, "the node has stopped: the disk is gone\n")

    with pytest.raises(NodeClosedError):
        asyncio.run(main())


def test_a_newcomer_that_waits_is_alive_and_not_ready() -> None:
    async def main() -> None:
        group, (port,) = Group("ab", limits=LIMITS), free_ports(1)

        async def join() -> None:
            async with group.node("a", metrics=f"127.0.0.1:{port}", joining=True):
                pass

        task = asyncio.create_task(join())
        await asyncio.sleep(0.5)
        assert await asked(port, "/healthz") == (200, "ok\n")
        assert await asked(port, "/readyz") == (503, "the node is not open yet\n")
        assert (await asked(port, "/metrics"))[0] == 503
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


@pytest.mark.parametrize("steps", range(8))
def test_a_start_that_is_cancelled_leaves_the_address_of_the_metrics_free(steps: int) -> None:
    async def main() -> None:
        (port,) = free_ports(1)
        task = asyncio.create_task(Node("a", metrics=f"127.0.0.1:{port}").__aenter__())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        (found,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(found, Node):
            await found.__aexit__(None, None, None)
        async with Node("a", metrics=f"127.0.0.1:{port}"):
            assert await asked(port, "/healthz") == (200, "ok\n")

    asyncio.run(main())


def certificates(folder: Path, *names: str, days: int = 365, ago: int = 0) -> None:
    """Make certificates dated some days ago; replace existing ones."""
    certs = pytest.importorskip("antecede.net.transports.certs", reason="needs cryptography")

    class Then(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
            return dt.datetime.now(tz) - dt.timedelta(days=ago)

    for name in names:
        for path in (folder / f"{name}.pem", folder / f"{name}-key.pem"):
            path.unlink(missing_ok=True)
    before, certs.dt = certs.dt, type("Times", (), {**vars(dt), "datetime": Then})
    try:
        certs.make_certificates(folder, names, days=days)
    finally:
        certs.dt = before


def test_ones_own_expired_certificate_is_named_at_the_start(tmp_path: Path) -> None:
    certificates(tmp_path, "a", days=300)
    certificates(tmp_path, "a", days=30, ago=100)
    day = (dt.datetime.now(dt.UTC) - dt.timedelta(days=70)).date()
    with pytest.raises(UsageError, match=rf"a\.pem expired on {day}.*; renew it"):
        Node("a", listen="127.0.0.1:0", tls=tmp_path)
    certificates(tmp_path, "a", days=30, ago=-10)
    with pytest.raises(UsageError, match=r"a\.pem is not valid before .*clock"):
        Node("a", listen="127.0.0.1:0", tls=tmp_path)


def test_the_time_of_validity_is_read_from_any_certificate(tmp_path: Path) -> None:
    certificates(tmp_path, "a", days=36_500)  # beyond 2049 dates are written otherwise
    begin, end = validity(tmp_path / "a.pem")
    assert round((end - begin).total_seconds() / 86400) == 36_501
    (tmp_path / "a.pem").write_text("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----")
    with pytest.raises(ValueError, match="not a certificate"):
        validity(tmp_path / "a.pem")


def test_certificates_are_renewed_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tcp_module, "SWEEP_SECONDS", 0.05)
    caplog.set_level("INFO", "antecede.net")
    certificates(tmp_path, "a", "b")

    async def main() -> None:
        group = Group("ab", tls=tmp_path, limits=LIMITS)
        async with group.node("a") as a:
            async with group.node("b", store=tmp_path / "b.db") as b:
                await a.send(["b"], b"old")
                assert await expect(b, 1) == [b"old"]
            for path in ("ca.pem", "ca-key.pem"):
                (tmp_path / path).unlink()
            (tmp_path / "a.pem").write_text("half a file")
            await asyncio.sleep(0.3)
            certificates(tmp_path, "a", "b")  # of another authority
            await until(lambda: any("reads new certificates" in text for text in caplog.messages))
            async with group.node("b", store=tmp_path / "b.db") as b:
                await b.send(["a"], b"new")
                assert await expect(a, 1) == [b"new"]

    asyncio.run(main())
    assert any("cannot use the certificates" in text for text in caplog.messages)


def test_the_log_says_when_a_connection_stands_after_all_and_why_it_did_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates(tmp_path, "a", "b")

    async def main() -> None:
        group = Group("ab", tls=tmp_path, limits=LIMITS)
        async with group.node("a") as a:
            await asyncio.sleep(0.3)
            assert any("cannot connect to b" in text for text in caplog.messages)
            async with group.node("b"):
                await until(lambda: "a: connected to b" in caplog.messages)
            caplog.clear()
            certificates(tmp_path, "b", days=1)
            late = group.node("b")
            certificates(tmp_path, "b", days=30, ago=100)
            tls = Tls.of(tmp_path, "b")
            assert tls is not None
            assert isinstance(late._transport, tcp_module.TcpTransport)
            late._transport._server_context = tls.context(is_server=True, checks_time=False)
            async with late:
                await until(lambda: any("expired on" in text for text in caplog.messages))
            del a

    asyncio.run(main())


def test_programs_without_asyncio_have_a_node_too(tmp_path: Path) -> None:
    group = Group("ab", limits=LIMITS)

    def node(name: str) -> sync.Node:
        peers, listen = group.addresses, group.addresses[name]
        store = tmp_path / f"{name}.db"
        return sync.Node(name, listen=listen, peers=peers, limits=LIMITS, store=store)

    threads = threading.active_count()
    with node("a") as a, node("b") as b:
        assert (a.process, a.members, a.view) == ("a", ("a", "b"), 0)
        assert a.receive(timeout=0.1) is None
        message = a.send(["b"], b"question")
        for delivery in b:
            assert (delivery.message, delivery.source, delivery.payload) == (
                message,
                "a",
                b"question",
            )
            with delivery as transaction:
                transaction.send(["a"], b"answer")
            assert len(transaction.sent) == 1
            break
        answer = a.receive(timeout=SECONDS)
        assert answer is not None
        answer.done()
        a.flush(timeout=SECONDS)
        assert a.waiting() == []
        assert "antecede_sent_total" in a.metrics()
        with pytest.raises(UsageError):
            a.send(["nobody"], b"")
        with pytest.raises(TimeoutError):
            b.call(asyncio.sleep(60), timeout=0.1)
    with pytest.raises(UsageError, match="not open"):
        a.send(["b"], b"")
    with pytest.raises(UsageError, match="host:port"), sync.Node("a", listen="nowhere"):
        pass
    assert threading.active_count() <= threads


def test_a_loop_over_deliveries_ends_when_another_thread_closes_the_node() -> None:
    ended = []
    with sync.Node("a", listen="127.0.0.1:0") as node:
        thread = threading.Thread(target=lambda: ended.append(list(node)))
        thread.start()
        time.sleep(0.1)
    thread.join(SECONDS)
    assert ended == [[]]


def test_the_log_has_fields_for_programs(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    certificates(tmp_path, "a", "b")

    async def main() -> None:
        group = Group("ab", tls=tmp_path, limits=LIMITS)
        async with group.node("a"):
            await asyncio.sleep(0.3)

    asyncio.run(main())
    (record,) = [one for one in caplog.records if "cannot connect to b" in one.getMessage()]
    row = json.loads(JsonFormatter().format(record))
    assert {key: row[key] for key in ("level", "logger", "node", "event", "peer")} == {
        "level": "warning",
        "logger": "antecede.net",
        "node": "a",
        "event": "cannot connect",
        "peer": "b",
    }
    assert row["message"] == record.getMessage()
    assert dt.datetime.fromisoformat(row["time"]).tzinfo is not None
    assert not {"args", "msg", "lineno", "process"} & set(row)


def test_an_error_in_the_log_is_one_line_of_json() -> None:
    error = ValueError("broken\nin two")
    about = (ValueError, error, None)
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "oh %s", ("no",), about)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert "ValueError: broken" in json.loads(line)["error"]


def test_meters_of_opentelemetry_show_what_prometheus_gets() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics", reason="needs opentelemetry-sdk")
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    reader = export.InMemoryMetricReader()
    provider = sdk.MeterProvider(metric_readers=[reader])
    meter = provider.get_meter("test")

    def read() -> dict[tuple[str, str, str], float]:
        data = reader.get_metrics_data()
        return {
            (metric.name, point.attributes["process"], point.attributes.get("peer", "")): (
                point.value
            )
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }

    async def main() -> None:
        group = Group("ab", limits=LIMITS)
        async with group.node("a") as a, group.node("b") as b:
            observe(a, meter)
            observe(b, meter)
            await a.send(["b"], b"hello")
            assert await expect(b, 1) == [b"hello"]
            await a.flush()
            found = await asyncio.to_thread(read)
            assert found["antecede.sent", "a", ""] == 1
            assert found["antecede.delivered", "b", ""] == 1
            assert found["antecede.outbox", "a", "b"] == 0
            texts = {f"antecede.{one.name.removesuffix('_total')}" for one in a.figures()}
            assert {name for name, process, _ in found if process == "a"} == texts
        assert read() == {}

    asyncio.run(main())
    provider.shutdown()


def test_meters_need_their_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(UsageError, match=r"pip install 'antecede\[otel\]'"):
        observe(Node("a", listen="127.0.0.1:0"))


def test_an_expired_certificate_of_a_peer_is_named_with_its_date(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both sides say it: a of the certificate that b shows, and b of its own."""
    certificates(tmp_path, "a", "b")
    group = Group("ab", tls=tmp_path, limits=LIMITS)

    async def main() -> None:
        late = group.node("b")
        certificates(tmp_path, "b", days=30, ago=100)
        tls = Tls.of(tmp_path, "b")
        assert tls is not None
        assert isinstance(late._transport, tcp_module.TcpTransport)
        late._transport._server_context = tls.context(is_server=True, checks_time=False)
        late._transport._client_context = tls.context(is_server=False, checks_time=False)
        late._transport._files = tls.stamp()
        async with late, group.node("a"):
            await until(lambda: len(said()) == 2)

    def said() -> set[str]:
        return {text[0] for text in caplog.messages if "connect" in text and f"on {day}" in text}

    day = (dt.datetime.now(dt.UTC) - dt.timedelta(days=70)).date()
    asyncio.run(main())
    assert any(f"its certificate expired on {day}" in text for text in caplog.messages)
    assert any(f"b.pem expired on {day}" in text for text in caplog.messages)
