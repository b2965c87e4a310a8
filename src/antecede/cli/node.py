"""``antecede node``: run a node from a TOML file, make certificates, watch nodes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live

from antecede.cli.options import is_given, path_of
from antecede.cli.shown import fitted_table
from antecede.errors import AntecedeError, UsageError

if TYPE_CHECKING:
    from antecede.net import Node

Words = Annotated[
    list[str],
    typer.Argument(help="FILE.toml, or: certs FOLDER NAME..., or: top ADDRESS...", metavar="WHAT"),
]
#: The longest interval between refreshes, in seconds: a day.
INTERVAL_MAX = 86_400
COLUMNS = {
    "view": "view",
    "sent_total": "sent",
    "delivered_total": "delivered",
    "done_total": "done",
    "inbox": "not done",
    "held": "held",
    "held_seconds": "oldest held [s]",
    "outbox": "unacknowledged",
    "resent_total": "resent",
    "refused_total": "refused",
    "reconnects_total": "reconnects",
    "store_bytes": "store [bytes]",
}


#: The options of each use of the verb.
_USES = {
    "certs": ("days", "as_json"),
    "top": ("interval", "once", "as_json"),
    "FILE.toml": ("log",),
}
LOGS = ("text", "json")


def node(
    ctx: typer.Context,
    words: Words,
    *,
    days: Annotated[int, typer.Option(help="certs: how long the certificates are valid.")] = 365,
    interval: Annotated[float, typer.Option(help="top: seconds between refreshes.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="top: look once and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="top: print the figures as JSON; certs: the files.")
    ] = False,
    log: Annotated[
        str, typer.Option(help="FILE.toml: how to log on standard error, text or json.")
    ] = "text",
) -> int:
    """Run a node, make certificates for nodes, or watch nodes.

    `antecede node a.toml` runs the node that the file describes. It reads messages to send from
    standard input, one JSON object a line, such as `{"dests": ["b"], "text": "hello"}`, and prints
    what was sent and delivered in the same form. A delivery is marked done when it is printed.
    `{"add": "d", "address": "127.0.0.1:7004"}` and `{"remove": "c"}` change the group. It runs
    until it is terminated (exit status 0) or interrupted (130), and shuts down cleanly. `--log
    json` logs one JSON object a line.

    `antecede node certs certs a b c` makes a small certificate authority and certificates, with
    the packages of `antecede[net]`.

    `antecede node top 127.0.0.1:9101 127.0.0.1:9102` shows a live table of nodes with metrics.
    """
    what, rest = words[0], words[1:]
    _require_used(ctx, what)
    if what == "certs":
        return _certs(rest, days, as_json=as_json)
    if what == "top":
        return _top(rest, interval, is_once=once or as_json, as_json=as_json)
    if rest:
        msg = f"one file at a time: {what!r} is followed by {rest[0]!r}"
        raise UsageError(msg)
    _log_to_stderr(log)
    return _run(lambda: _serve(Path(what)))


def _log_to_stderr(form: str) -> None:
    if form not in LOGS:
        msg = f"--log {form!r} is not known; expected {' or '.join(LOGS)}"
        raise UsageError(msg)
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        from antecede.net.log import JsonFormatter

        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _require_used(ctx: typer.Context, what: str) -> None:
    """Refuse options that this use of the verb does not take."""
    use = what if what in _USES else "FILE.toml"
    for name in ("days", "interval", "once", "as_json", "log"):
        if is_given(ctx, name) and name not in _USES[use]:
            option = "--json" if name == "as_json" else f"--{name}"
            users = " and ".join(use for use, names in _USES.items() if name in names)
            msg = f"{option} is for {users}; leave it out: antecede node {what}"
            raise UsageError(msg)


def _certs(words: list[str], days: int, *, as_json: bool) -> int:
    if len(words) < 2:
        msg = "certs needs a folder and names: antecede node certs FOLDER NAME..."
        raise UsageError(msg)
    path_of(words[0])
    try:
        from antecede.net.transports.certs import make_certificates
    except ModuleNotFoundError as error:
        msg = f"certs needs {error.name}, which is not installed; run: pip install 'antecede[net]'"
        raise UsageError(msg) from None
    paths = [str(path) for path in make_certificates(words[0], words[1:], days=days)]
    typer.echo(json.dumps(paths, indent=2) if as_json else "\n".join(paths))
    return 0


def _run(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run in uvloop's event loop if it is installed."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main())


async def _serve(path: Path) -> int:
    from antecede.net.config import node_from

    made = node_from(path)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    signals: list[int] = []

    def end(number: int) -> None:
        signals.append(number)
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    async with made as running:
        _observe(running)
        jobs = _Jobs(running, ended)
        jobs.start(jobs.send_all())
        jobs.start(jobs.print_all()).add_done_callback(lambda _: ended.set())
        await ended.wait()
        errors = await jobs.stop()
    if errors:
        raise errors[0]
    if signal.SIGINT in signals[:1]:
        raise KeyboardInterrupt
    return 0


def _observe(running: Node) -> None:
    """Let OpenTelemetry read the node's figures, if it is installed."""
    with contextlib.suppress(UsageError):
        from antecede.net.telemetry import observe

        observe(running)


class _Jobs:
    """The jobs beside a running node; if one dies, the node ends too, with the job's error."""

    def __init__(self, running: Node, ended: asyncio.Event) -> None:
        self._running = running
        self._ended = ended
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, job: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(job)
        task.add_done_callback(self._end_if_died)
        self._tasks.append(task)
        return task

    async def stop(self) -> list[Exception]:
        """Cancel the jobs; return the errors of those that had died."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        return [result for result in results if isinstance(result, Exception)]

    async def send_all(self) -> None:
        lines: asyncio.Queue[bytes] = asyncio.Queue(maxsize=16)
        loop = asyncio.get_running_loop()
        Thread(target=_read_lines, args=(lines, loop), daemon=True).start()
        while line := await lines.get():
            if b'"add"' in line or b'"remove"' in line:  # these may wait for a long time
                self.start(self._obey(line))
            else:
                await self._obey(line)

    async def print_all(self) -> None:
        async for delivery in self._running:
            row = {"kind": "delivered", "message": str(delivery.message)}
            row |= {"source": delivery.source, **_shown(delivery.payload)}
            typer.echo(json.dumps(row))
            await delivery.done()

    async def _obey(self, line: bytes) -> None:
        try:
            done = await _obey(self._running, line)
        except AntecedeError as error:
            done = {"kind": "refused", "reason": str(error)}
        typer.echo(json.dumps(done))

    def _end_if_died(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._ended.set()


def _read_lines(lines: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Read standard input in a thread of its own: it may be a file, a pipe or a terminal."""
    with contextlib.suppress(RuntimeError, CancelledError):  # the loop has ended
        rest = b""
        while data := _read_some():
            *whole, rest = (rest + data).split(b"\n")
            for line in filter(None, whole):
                asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()
        asyncio.run_coroutine_threadsafe(lines.put(rest), loop).result()
        asyncio.run_coroutine_threadsafe(lines.put(b""), loop).result()


def _read_some() -> bytes:
    """Return some input; empty at its end, or if there is none, as in a service."""
    if sys.stdin is None:
        return b""
    try:
        return os.read(sys.stdin.fileno(), 1 << 16)
    except OSError as error:  # such as a closed terminal: deliveries continue
        logging.getLogger(__name__).warning("cannot read standard input: %s", error.strerror)
        return b""


async def _obey(running: Node, line: bytes) -> dict[str, str]:
    """Carry out a line of input; return the answer to print."""
    try:
        row = json.loads(line)
        if "add" in row:
            await running.add(row["add"], row.get("address", ""))
            return {"kind": "added", "process": row["add"]}
        if "remove" in row:
            await running.remove(row["remove"])
            return {"kind": "removed", "process": row["remove"]}
        dests, payload = _dests(row), _payload(row)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        msg = f'expected {{"dests": ["b"], "text": "hello"}} or base64 in place of text; {error!r}'
        raise UsageError(msg) from error
    return {"kind": "sent", "message": str(await running.send(dests, payload))}


def _dests(row: dict[str, Any]) -> list[str] | str:
    """Return the destinations: a list of names, or the name of a group."""
    dests: list[str] | str = row["dests"]
    names = dests if isinstance(dests, list) else [dests]
    if not all(isinstance(name, str) for name in names):
        msg = "dests is neither a list of names nor the name of a group"
        raise TypeError(msg)
    return dests


def _payload(row: dict[str, Any]) -> bytes:
    if "base64" in row:
        return base64.b64decode(row["base64"], validate=True)
    text: str = row["text"]
    return text.encode()


def _shown(payload: bytes) -> dict[str, str]:
    try:
        return {"text": payload.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(payload).decode()}


def _top(addresses: list[str], interval: float, *, is_once: bool, as_json: bool) -> int:
    if not addresses:
        msg = "top needs addresses of metrics: antecede node top 127.0.0.1:9101"
        raise UsageError(msg)
    if not 0 < interval <= INTERVAL_MAX:
        msg = f"--interval {interval:g} is not possible; give seconds, up to {INTERVAL_MAX:,}"
        raise UsageError(msg)
    console = Console(markup=False, emoji=False)
    if not console.is_terminal:
        console = Console(width=250, markup=False, emoji=False)
    if as_json:
        found = asyncio.run(_look(addresses, is_strict=True))
        typer.echo(json.dumps(found))
    elif is_once or not console.is_terminal:
        console.print(_table(console, asyncio.run(_look(addresses, is_strict=True))))
    else:
        with Live(console=console, auto_refresh=False) as live:
            asyncio.run(_watch(addresses, interval, console, live.update))
    return 0


async def _watch(
    addresses: list[str], interval: float, console: Console, update: Callable[..., None]
) -> None:
    while True:
        update(_table(console, await _look(addresses, is_strict=False)), refresh=True)
        await asyncio.sleep(interval)


async def _look(addresses: list[str], *, is_strict: bool) -> dict[str, dict[str, float]]:
    """Return the figures of each node; unless ``is_strict``, a silent node has none."""
    from antecede.net.metrics import fetch_metrics, parse_metrics

    found: dict[str, dict[str, float]] = {}
    texts = await asyncio.gather(*map(fetch_metrics, addresses), return_exceptions=True)
    for address, text in zip(addresses, texts, strict=True):
        if isinstance(text, str):
            process, figures = parse_metrics(text)
            found[process] = figures
        elif is_strict or not isinstance(text, UsageError):
            raise text
        else:
            found[address] = {}
    return found


def _table(console: Console, found: dict[str, dict[str, float]]) -> Group:
    """Return a table with a row per node, in as many parts as the terminal needs."""
    rows = [
        [process, *(f"{figures[name]:,.10g}" if name in figures else "-" for name in COLUMNS)]
        for process, figures in found.items()
    ]
    return fitted_table(console, ["node", *COLUMNS.values()], rows)
