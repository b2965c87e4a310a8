"""A node's figures in the text format of Prometheus, and a small server for them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from antecede.errors import AntecedeError, UsageError
from antecede.net.driver import Driver
from antecede.net.group.views import is_quorum
from antecede.net.journal import Store
from antecede.net.transports.addresses import parsed

REQUEST_BYTES_MAX: Final = 8192
REQUEST_SECONDS_MAX: Final = 5.0
CONNECTIONS_MAX: Final = 16
ANSWER_BYTES_MAX: Final = 1 << 20
_LINE: Final = re.compile(
    r'antecede_(?P<name>\w+)\{process="(?P<process>(?:[^"\\]|\\.)*)".*\} (?P<value>[-+.\w]+)$'
)


class Figure(NamedTuple):
    """A figure of a node: its name, ``counter`` or ``gauge``, its meaning, and its values."""

    name: str
    kind: str
    help: str
    values: Mapping[str, float]
    """By peer; a figure of the whole node has one value, under the empty name."""


def metrics_text(process: str, found: Iterable[Figure]) -> str:
    """Return the figures of a node in the text format of Prometheus."""
    lines: list[str] = []
    for name, kind, help_text, values in found:
        lines += [f"# HELP antecede_{name} {help_text}", f"# TYPE antecede_{name} {kind}"]
        for peer, value in values.items():
            labels = {"process": process} | ({"peer": peer} if peer else {})
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"antecede_{name}{{{shown}}} {value:.10g}")
    return "\n".join(lines) + "\n"


def figures(driver: Driver, transport: Mapping[str, int], store: Store | None) -> Iterator[Figure]:
    """Yield the figures of a node."""
    counts, machine = driver.counts, driver.machine

    def counter(name: str, help_text: str, value: float) -> Figure:
        return Figure(f"{name}_total", "counter", help_text, {"": value})

    def gauge(name: str, help_text: str, value: float) -> Figure:
        return Figure(name, "gauge", help_text, {"": value})

    yield counter("sent", "Messages sent by the application.", driver.sent_count)
    yield counter("delivered", "Messages delivered.", counts["delivered"])
    yield counter("done", "Deliveries marked done.", driver.done_count)
    yield counter("control_bytes", "Bytes of packets without payloads.", counts["control_bytes"])
    yield counter("packet_bytes", "Bytes of packets.", counts["packet_bytes"])
    yield counter("frames", "Frames given to the transport.", driver.outgoing.frames)
    yield counter("resent", "Packets sent again.", driver.outgoing.resent)
    yield counter("duplicates", "Packets that arrived again.", counts["duplicates"])
    yield counter("refused", "Packets or frames turned away.", counts["refused"])
    yield counter("commits", "Transactions of the store.", driver.saving.commits)
    group = machine.group
    yield gauge("view", "How often the members have changed.", group.number)
    is_ending = machine.flush is not None
    yield gauge("changing", "1 while a view waits for its end.", is_ending)
    held = machine.sides[0].endpoint.held
    yield gauge("held", "Messages that wait for their causes.", held)
    yield gauge("held_seconds", "Age of the oldest held message.", driver.watch.oldest())
    yield gauge("inbox", "Deliveries not marked done.", len(machine.inbox))
    yield gauge("inbox_bytes", "Their payloads.", machine.inbox_bytes)
    if store is not None:
        yield gauge("store_bytes", "Size of the store.", store.size())
    for name, value in transport.items():
        yield counter(name, "Counted by the transport.", value)
    outbox, size = dict.fromkeys(driver.peers, 0), dict.fromkeys(driver.peers, 0)
    for link in list(driver.links.values()):  # the node's thread may change them
        if link.name not in outbox:
            continue
        outbox[link.name] += len(link.channel.outbox)
        size[link.name] += link.channel.outbox_bytes
    yield Figure("outbox", "gauge", "Packets that the peer has not acknowledged.", outbox)
    yield Figure("outbox_bytes", "gauge", "Their bytes.", size)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def why_not_ready(driver: Driver) -> str:
    """Return why a node cannot work, or "": it must have heard from most members."""
    names, me = driver.machine.group.names, driver.machine.setup.process
    missing = [
        name
        for name in names
        if name != me and (name not in driver.peers or driver.peers[name].view < 0)
    ]
    if is_quorum([name for name in names if name not in missing], names):
        return ""
    return f"waits for {', '.join(missing)}"


class MetricsServer:
    """Answers HTTP requests.

    ``pages`` has, by path, the function that makes each page; its error says why it cannot.
    """

    def __init__(self, address: str, pages: Mapping[str, Callable[[], str]]) -> None:
        self.address = parsed(address)
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Start to answer."""
        try:
            self._server = await asyncio.start_server(
                self._accept,
                self.address.host,
                self.address.port,
                limit=REQUEST_BYTES_MAX,
                start_serving=False,  # if cancelled here, nobody could close it
            )
            await self._server.start_serving()
        except OSError as error:
            msg = f"cannot serve metrics on {self.address}: {error.strerror}; use another port"
            raise UsageError(msg) from error

    async def close(self) -> None:
        """Stop answering."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= CONNECTIONS_MAX:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._answer(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                request = await reader.readuntil(b"\r\n\r\n")
                asked = request.partition(b" ")[2].partition(b" ")[0].partition(b"?")[0]
                page = self._pages.get(asked.decode(errors="replace").rstrip("/"))
                try:
                    status, body = "404 Not Found", b"there is /metrics, /healthz and /readyz\n"
                    if page is not None:
                        status, body = "200 OK", page().encode(errors="backslashreplace")
                except AntecedeError as error:
                    status = "503 Service Unavailable"
                    body = f"{error}\n".encode(errors="backslashreplace")
                head = (
                    f"HTTP/1.1 {status}\r\n"
                    "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
            return
        finally:
            writer.close()


async def fetch_metrics(address: str, seconds: float = REQUEST_SECONDS_MAX) -> str:
    """Return the metrics that a node serves on ``address``."""
    target = parsed(address)
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(target.host, target.port)
            try:
                writer.write(f"GET /metrics HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
                answer = await reader.read(ANSWER_BYTES_MAX)
                while not reader.at_eof() and len(answer) < ANSWER_BYTES_MAX:
                    answer += await reader.read(ANSWER_BYTES_MAX)
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        reason = getattr(error, "strerror", None) or "no answer"
        msg = f"no node serves metrics on {address}: {reason}; start it with metrics={address!r}"
        raise UsageError(msg) from error
    return answer.partition(b"\r\n\r\n")[2].decode(errors="replace")


def parse_metrics(text: str) -> tuple[str, dict[str, float]]:
    """Return a node's name and its figures without their prefix, summed over peers."""
    process, figures = "", dict[str, float]()
    for line in text.splitlines():
        found = _LINE.match(line)
        if found:
            process = found["process"]
            figures[found["name"]] = figures.get(found["name"], 0.0) + float(found["value"])
    if not process:
        msg = "the answer holds no metrics of a node; give the address of a node's metrics"
        raise UsageError(msg)
    return process, figures
