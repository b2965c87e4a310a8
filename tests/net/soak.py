"""Three nodes in three processes over TLS, killed at random under load.

``python -m tests.net.soak --seconds 600``. Every message whose send returned must be handled by
every destination, nothing may come again once ``done`` has returned, and the event log must pass
the audit. The folder with all files is kept if something fails. With ``--changes`` processes also
join and leave: see ``tests.net.soak_changes``. Several protocols share the time;
``--protocols optimal`` gives all of it to one.
"""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from antecede.errors import NodeClosedError, UsageError
from antecede.net import Node
from antecede.net.transports.certs import make_certificates
from tests.support.casts import ASKED, dests_among

NAMES = ("a", "b", "c")
SPARE = "d"
PATIENCE = 900.0
"""Seconds within which everything must arrive after the last kill."""


async def work(name: str, folder: Path, rate: float, protocol: str) -> None:
    """Send and consume until told to stop; record promised and handled messages."""
    addresses = dict(line.split() for line in (folder / "addresses").read_text().splitlines())
    is_new = (folder / f"{name}.joining").exists()
    with (folder / f"{name}.ledger").open("ab", buffering=0) as ledger:
        async with Node(
            name,
            listen=addresses[name],
            peers={name: addresses[name] for name in (addresses if is_new else NAMES)},
            tls=folder / "certs",
            store=folder / f"{name}.db",
            events=folder / "events.jsonl",
            joining=is_new,
            protocol=protocol,
        ) as node:
            ledger.write(f"up {label_of(node)}\n".encode())
            ended = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
            jobs = (
                send(node, folder, ledger.write, rate, protocol),
                consume(node, ledger.write),
                obey(node, folder, ledger.write),
            )
            tasks = [asyncio.create_task(job) for job in jobs]
            waiting = asyncio.create_task(ended.wait())
            await asyncio.wait([tasks[1], waiting], return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, waiting):
                task.cancel()


async def send(
    node: Node, folder: Path, write: Callable[[bytes], object], rate: float, protocol: str
) -> None:
    """Send to the members that this node knows."""
    chance = random.Random()
    while not (folder / "stop").exists():
        dests = dests_among(node.members, protocol, chance)
        try:
            message = await node.send(dests, chance.randbytes(256))
        except NodeClosedError:
            return
        except UsageError:  # one of them has just been removed
            continue
        write(f"sent {message} {','.join(dests)}\n".encode())
        await asyncio.sleep(chance.expovariate(rate))


async def consume(node: Node, write: Callable[[bytes], object]) -> None:
    """Handle deliveries one after the other; end if this process is removed."""
    label = label_of(node)
    with contextlib.suppress(NodeClosedError):
        async for delivery in node:
            write(f"handled {delivery.message} {label}\n".encode())
            await delivery.done()
            write(f"done {delivery.message} {label}\n".encode())


async def obey(node: Node, folder: Path, write: Callable[[bytes], object]) -> None:
    """Add and remove processes by the orders for this process, one per file."""
    path = folder / f"{node.process}.order"
    while True:
        await asyncio.sleep(0.2)
        if not path.exists():
            continue
        verb, name, address, view = path.read_text().split()
        if node.view < int(view):  # this node has not heard of the current members yet
            continue
        is_member = name in node.members
        with contextlib.suppress(UsageError):
            if verb == "add" and not is_member:
                await node.add(name, address)
            elif verb == "remove" and is_member:
                await node.remove(name)
        path.unlink(missing_ok=True)
        write(f"obeyed {verb} {name}\n".encode())


def label_of(node: Node) -> str:
    """Return this process's name, with the view in which it joined if it was no founder."""
    assert node._driver is not None
    joined = node._driver.machine.group.members[node.process].joined
    return f"{node.process}#{joined}" if joined else node.process


def ledgers(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each line that a process wrote: the process, and the words. Skip torn last lines."""
    for path in sorted(folder.glob("*.ledger")):
        for line in path.read_text().splitlines():
            yield path.stem, line.split()


def owed(folder: Path) -> set[tuple[str, str]]:
    """Return the promised messages, with their destinations, that have not been handled."""
    promised, handled = set[tuple[str, str]](), set[tuple[str, str]]()
    for name, words in ledgers(folder):
        if words[0] == "sent":
            promised |= {(dest, words[1]) for dest in words[2].split(",")}
        elif words[0] == "handled":
            handled.add((name, words[1]))
    return promised - handled


def check_once(folder: Path) -> None:
    """Check that no message came again after ``done`` had returned for it."""
    done = set[tuple[str, str]]()
    for name, words in ledgers(folder):
        if words[0] in ("handled", "done"):
            assert (name, words[1]) not in done, f"{name}: {words[1]} came again after it was done"
        if words[0] == "done":
            done.add((name, words[1]))


class Group:
    """Three processes that can be killed and started."""

    def __init__(self, folder: Path, rate: float, protocol: str) -> None:
        self.folder, self.rate, self.protocol = folder, rate, protocol
        names = (*NAMES, SPARE)
        make_certificates(folder / "certs", names)
        with contextlib.ExitStack() as stack:
            held = [stack.enter_context(socket.socket()) for _ in names]
            for sock in held:
                sock.bind(("127.0.0.1", 0))
            ports = [sock.getsockname()[1] for sock in held]
        lines = [f"{name} 127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)]
        (folder / "addresses").write_text("\n".join(lines))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.starts: dict[str, int] = {}

    def start(self, name: str) -> None:
        ledger = self.folder / f"{name}.ledger"
        self.starts[name] = ledger.stat().st_size if ledger.exists() else 0
        words = [sys.executable, "-m", "tests.net.soak", "--work", name]
        words += ["--folder", str(self.folder), "--rate", str(self.rate)]
        words += ["--protocols", self.protocol]
        errors = (self.folder / f"{name}.stderr").open("ab")
        with errors:
            self.running[name] = subprocess.Popen(words, stdout=errors, stderr=errors)

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait()

    def is_up(self, names: Iterable[str] = ()) -> bool:
        """Return whether all nodes are open: one that is still starting cannot end gracefully."""
        return all(
            (self.folder / f"{name}.ledger").exists()
            and b"up " in (self.folder / f"{name}.ledger").read_bytes()[self.starts[name] :]
            for name in names or self.running
        )

    def wait_mostly(self, chance: random.Random, names: Collection[str] = ()) -> None:
        """Usually wait until all nodes are open; otherwise some die while they start."""
        end = time.monotonic() + (PATIENCE if chance.random() < 0.8 else 0)
        while not self.is_up(names) and time.monotonic() < end:
            time.sleep(0.1)

    def stop(self) -> list[int]:
        """End all processes gracefully; return their exit statuses."""
        for process in self.running.values():
            process.terminate()
        return [process.wait(timeout=PATIENCE) for process in self.running.values()]

    def check_alive(self) -> None:
        for name, process in self.running.items():
            if process.poll() is not None:
                told = (self.folder / f"{name}.stderr").read_text()[-2000:]
                msg = f"process {name} ended by itself with {process.returncode}: {told}"
                raise AssertionError(msg)


def audit(folder: Path) -> None:
    """Audit the event log; it must be clean."""
    done = run_audit(folder)
    assert done.returncode == 0, done.stdout + done.stderr


def run_audit(folder: Path) -> subprocess.CompletedProcess[str]:
    """Audit the event log."""
    words = [sys.executable, "-c", "from antecede.cli.main import app; app()", "audit"]
    words += [str(folder / "events.jsonl"), "--local", "--out", str(folder / "audit")]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=3000)


def soak(
    seconds: float,
    seed: int,
    rate: float,
    folder: Path,
    protocol: str = "optimal",
    pause: tuple[float, float] = (0.5, 3.0),
) -> str:
    """Kill nodes for ``seconds`` seconds, with pauses; return a summary."""
    chance, group, kills = random.Random(seed), Group(folder, rate, protocol), 0
    for name in NAMES:
        group.start(name)
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            group.wait_mostly(chance)
            time.sleep(chance.uniform(*pause))
            group.check_alive()
            for name in chance.sample(NAMES, chance.choice((1, 1, 1, 2, 3))):
                group.kill(name)
                group.start(name)
                kills += 1
        (folder / "stop").touch()
        end = time.monotonic() + PATIENCE
        while (missing := owed(folder)) or not group.is_up():
            group.check_alive()
            assert time.monotonic() < end, f"{len(missing)} missing, such as {sorted(missing)[:1]}"
            time.sleep(1)
        time.sleep(2)
        statuses = group.stop()
    finally:
        for process in group.running.values():
            process.kill()
            process.wait()
    assert statuses == [0, 0, 0], statuses
    check_once(folder)
    audit(folder)
    counts = counted(folder)
    return (
        f"{kills} kills; {counts['sent']} sends returned, {counts['handled']} handled, "
        f"{counts['done']} done; the event log is causally ordered"
    )


def counted(folder: Path) -> dict[str, int]:
    """Count the sent, handled and done messages in the ledgers."""
    words = [words[0] for _, words in ledgers(folder)]
    return {word: words.count(word) for word in ("sent", "handled", "done")}


def main() -> int:
    """Run the soak, or one of its workers."""
    parser = parser_of(__doc__, (*NAMES, SPARE))
    parser.add_argument("--changes", action="store_true", help="processes also join and leave")
    asked = parser.parse_args()
    if asked.work:
        asyncio.run(work(asked.work, asked.folder, asked.rate, *asked.protocols))
        return 0
    if asked.changes:
        from tests.net.soak_changes import soak_changes as chosen
    else:
        chosen = soak
    return tell(chosen, asked)


def tell(chosen: Callable[[float, int, float, Path, str], str], asked: argparse.Namespace) -> int:
    """Run a soak for each protocol and print summaries; a folder stays only if it fails."""
    for protocol in asked.protocols:
        folder = Path(tempfile.mkdtemp(prefix=f"antecede-soak-{protocol}-", dir=asked.folder))
        seconds = asked.seconds / len(asked.protocols)
        try:
            told = chosen(seconds, asked.seed, asked.rate, folder, protocol)
        except BaseException:
            words = f"{protocol}: seed {asked.seed} failed; see {folder}"
            print(words, file=sys.stderr, flush=True)
            raise
        print(f"{protocol}: {told}", flush=True)
        shutil.rmtree(folder)
    return 0


def parser_of(about: str | None, names: tuple[str, ...]) -> argparse.ArgumentParser:
    """Return a parser of the options that all soaks share."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=20.0, help="sends per second and process")
    parser.add_argument("--folder", type=Path, help="where to keep the files")
    parser.add_argument("--protocols", nargs="+", default=ASKED, help="they share the time")
    parser.add_argument("--work", choices=names, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
