"""Three nodes in three processes over NATS; nodes and the server are killed at random under load.

``python -m tests.net.nats_soak --seconds 600``. It checks the same as ``tests.net.soak``, and that
a reader's stream has every message that was sent to it, once. Protocols that wait for answers have
no readers, since a reader never answers.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from antecede import PROTOCOLS
from antecede.net import Node
from antecede.net.transports.nats import PACKET_SECONDS
from antecede.reorder.nats_client import Place, read, state_of
from tests.net.soak import (
    NAMES,
    audit,
    check_once,
    consume,
    counted,
    ledgers,
    owed,
    parser_of,
    tell,
)
from tests.support.casts import dests_among
from tests.support.nats_server import NatsServer

READER = "archive"
PATIENCE = 300.0


def readers_of(protocol: str) -> tuple[str, ...]:
    """Return the reader, if there can be one."""
    return () if PROTOCOLS[protocol].queueing else (READER,)


async def work(name: str, folder: Path, rate: float, protocol: str) -> None:
    """Send and consume until told to stop; every message goes to the reader too."""
    url, readers = (folder / "url").read_text(), readers_of(protocol)
    chance = random.Random()
    with (folder / f"{name}.ledger").open("ab", buffering=0) as ledger:
        async with Node(
            name,
            peers=(*NAMES, *readers),
            transport=f"{url}?reader={READER}" if readers else url,
            protocol=protocol,
            store=folder / f"{name}.db",
            events=folder / "events.jsonl",
        ) as node:

            async def send() -> None:
                while not (folder / "stop").exists():
                    dests = dests_among(NAMES, protocol, chance)
                    message = await node.send([*dests, *readers], chance.randbytes(256))
                    ledger.write(f"sent {message} {','.join(dests)}\n".encode())
                    await asyncio.sleep(chance.expovariate(rate))
                await node.flush()
                (folder / f"{name}.flushed").write_text("all")

            ended = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
            tasks = [asyncio.create_task(job) for job in (send(), consume(node, ledger.write))]
            await ended.wait()
            for task in tasks:
                task.cancel()


class Group:
    """Three processes and a server, all of which can be killed and started."""

    def __init__(self, folder: Path, rate: float, protocol: str) -> None:
        self.folder, self.rate, self.protocol = folder, rate, protocol
        self.server = NatsServer(folder / "nats")
        (folder / "url").write_text(self.server.url("soak"))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        words = [sys.executable, "-m", "tests.net.nats_soak", "--work", name]
        words += ["--folder", str(self.folder), "--rate", str(self.rate)]
        words += ["--protocols", self.protocol]
        with (self.folder / f"{name}.stderr").open("ab") as errors:
            self.running[name] = subprocess.Popen(words, stdout=errors, stderr=errors)

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait()

    def await_all(self, suffix: str) -> None:
        """Wait until each process has written something into its file."""
        end = time.monotonic() + PATIENCE
        paths = [self.folder / f"{name}.{suffix}" for name in NAMES]
        while not all(path.exists() and path.stat().st_size for path in paths):
            self.check_alive()
            assert time.monotonic() < end, f"not every process wrote a {suffix}"
            time.sleep(0.1)

    def check_alive(self) -> None:
        for name, process in self.running.items():
            if process.poll() is not None:
                told = (self.folder / f"{name}.stderr").read_text()[-2000:]
                msg = f"process {name} ended by itself with {process.returncode}: {told}"
                raise AssertionError(msg)


def check_reader(folder: Path, url: str) -> int:
    """Check that the reader's stream has every message whose send returned, and none twice.

    JetStream recognises a repeated packet only for a limited time.
    """
    place = Place((url.rpartition("/")[0],), "soak-packets", url, PATIENCE)
    found = dict[str, dt.datetime]()
    for page in read(place, None, 1, state_of(place).last):
        for message in page:
            name = message.headers["Antecede-Message"]
            since = message.time - found.setdefault(name, message.time)
            is_late = since.total_seconds() > PACKET_SECONDS
            assert not since or is_late, f"{name} again after {since}"
    promised = {words[1] for _, words in ledgers(folder) if words[0] == "sent"}
    assert promised <= set(found), sorted(promised - set(found))[:3]
    return len(found)


def soak(seconds: float, seed: int, rate: float, folder: Path, protocol: str = "optimal") -> str:
    """Kill nodes and the server for ``seconds`` seconds; return a summary."""
    chance, group = random.Random(seed), Group(folder, rate, protocol)
    kills = {"nodes": 0, "server": 0}
    group.server.start()
    for name in NAMES:
        group.start(name)
    try:
        group.await_all("ledger")  # a busy machine takes long to start them
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.5, 4))
            group.check_alive()
            names = chance.sample(NAMES, chance.choice((0, 0, 1, 1, 2)))
            for name in names:
                group.kill(name)
            if not names or chance.random() < 0.5:
                group.server.kill()
                time.sleep(chance.uniform(0, 1))
                group.server.start()
                kills["server"] += 1
            for name in names:
                group.start(name)
            kills["nodes"] += len(names)
        (folder / "stop").touch()
        group.await_all("flushed")
        end = time.monotonic() + PATIENCE
        while missing := owed(folder):
            group.check_alive()
            assert time.monotonic() < end, f"{len(missing)} missing, such as {min(missing)}"
            time.sleep(0.2)
        stored = check_reader(folder, group.server.url("soak")) if readers_of(protocol) else 0
        for process in group.running.values():
            process.terminate()
        statuses = [process.wait(timeout=PATIENCE) for process in group.running.values()]
    finally:
        for process in group.running.values():
            process.kill()
            process.wait()
        group.server.kill()
    assert statuses == [0, 0, 0], statuses
    check_once(folder)
    audit(folder)
    counts = counted(folder)
    return (
        f"{kills['nodes']} kills of nodes, {kills['server']} of the server; {counts['sent']} sends "
        f"returned, {counts['handled']} handled, {counts['done']} done, {stored} in the reader's "
        "stream; the event log is causally ordered"
    )


def main() -> int:
    """Run the soak, or one of its workers."""
    asked = parser_of(__doc__, NAMES).parse_args()
    if asked.work:
        asyncio.run(work(asked.work, asked.folder, asked.rate, *asked.protocols))
        return 0
    return tell(soak, asked)


if __name__ == "__main__":
    sys.exit(main())
