"""A chat in several terminals, in causal order: an answer never comes before its question.

Open three terminals and start one of these in each, in any order::

    python examples/chat.py cat
    python examples/chat.py bob
    python examples/chat.py ann --slow cat=10

Type a line at ann, answer it at bob within ten seconds, and look at cat: ann's line to cat is
slow, bob's answer is not. With ``--protocol none`` everywhere, cat sees the answer first; with any
protocol that promises causal order (see ``antecede protocols``), it sees the question first.
``@cat hello`` writes only to cat. ``--log chat.jsonl`` writes a log for ``antecede audit``; each
chat needs a log of its own, because its messages are numbered from 1. A protocol that only unicasts
(buffered) sends a line to one after the other, in the order of the roster. Ctrl-D leaves; the exit
status is 1 if a line could not be sent.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import antecede

HOST = "127.0.0.1"
ROSTER = {"cat": 7003, "bob": 7002, "ann": 7001}
FRAME_BYTES_MAX = 1 << 20
PATIENCE = 3.0  # seconds to wait at the end for peers that are not connected


def tell(text: str) -> None:
    """Print a remark about the chat itself."""
    print(text, file=sys.stderr, flush=True)


class Chat:
    """One person's side: an endpoint, a TCP link to everyone else, and what is shown."""

    def __init__(
        self,
        me: str,
        roster: dict[str, int],
        *,
        protocol: str = "optimal",
        slow: dict[str, float] | None = None,
        patience: float = PATIENCE,
        log: str | None = None,
        show: Callable[[str, str], None] = lambda who, text: print(f"{who}: {text}"),
    ) -> None:
        # Without order the packets are the same, but nobody holds them back.
        self.is_ordered = protocol != "none"
        name = protocol if self.is_ordered else "matrix"
        self.endpoint = antecede.endpoint(name, process=me, members=tuple(roster))
        self.codec = antecede.Codec(self.endpoint)
        self.me, self.roster, self.slow, self.show = me, roster, slow or {}, show
        self.links: dict[str, asyncio.Queue[tuple[bytes, bool]]] = {
            peer: asyncio.Queue() for peer in roster if peer != me
        }
        self.patience = patience
        self.unsent: Counter[str] = Counter()  # data packets still here, by destination
        self.log = antecede.EventLog(log, process=me) if log else None
        if self.log and self.log.last_seq:  # Two messages with one id would be one to the audit.
            msg = f"{log} holds an earlier chat of {me}: remove the file, or name another"
            raise antecede.UsageError(msg)
        self.sends = 0

    def say(self, line: str) -> None:
        """Send a line to all, or to one with ``@name``."""
        head, _, rest = line.partition(" ")
        dests = [head[1:]] if head.startswith("@") else list(self.links)
        text = rest if head.startswith("@") else line
        if self.endpoint.info.blocking and len(dests) > 1:
            name = self.endpoint.info.name
            msg = f"{name} sends to one and waits; write to one (@name), or use buffered"
            raise antecede.UsageError(msg)
        can_multicast = "broadcast" in self.endpoint.info.casts
        for targets in [dests] if can_multicast else [[dest] for dest in dests]:
            effects = self.endpoint.send(targets, text.encode())
            self.sends += 1
            if self.log:
                self.log.send(antecede.MessageId(self.me, self.sends), targets)
            self.carry_out(effects)

    def hear(self, frame: bytes) -> None:
        """Take a frame from the network."""
        packet = self.codec.decode(frame)
        if self.is_ordered:
            self.carry_out(self.endpoint.receive(packet))
        elif packet.message is not None:
            self.deliver(packet.message, packet.payload)

    def carry_out(self, effects: antecede.Effects) -> None:
        """Hand packets to the links, and show deliveries."""
        for packet in effects.packets:
            is_data = packet.kind == "data"
            self.links[packet.dest].put_nowait((self.codec.encode(packet), is_data))
            self.unsent[packet.dest] += is_data
        for delivery in effects.deliveries:
            self.deliver(delivery.message, delivery.payload)

    def deliver(self, message: antecede.MessageId, payload: bytes) -> None:
        """Show a message, and log its delivery."""
        if self.log:
            self.log.deliver(message)
        self.show(message.sender, payload.decode(errors="replace"))

    async def run(self, chatting: Callable[[], Awaitable[None]]) -> bool:
        """Serve and link until ``chatting`` is over; return whether everything said has left."""
        tasks: list[asyncio.Task[None]] = []
        server = await asyncio.start_server(
            lambda *ends: tasks.append(asyncio.create_task(self._serve(*ends))),
            HOST,
            self.roster[self.me],
        )
        tasks += [asyncio.create_task(self._link(peer)) for peer in self.links]
        try:
            await chatting()
            return await self._is_sent()
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def left(self) -> int:
        """Return how many messages are still here."""
        return self.unsent.total() + self.endpoint.queued

    async def _is_sent(self) -> bool:
        """Give the last messages time to leave; return whether they did."""
        end = time.monotonic() + self.patience + self.left() * max(self.slow.values(), default=0)
        while self.left() and time.monotonic() < end:  # noqa: ASYNC110 - many things end it
            await asyncio.sleep(0.05)
        if self.left():
            whom = ", ".join(sorted(+self.unsent)) or "an acknowledgement"
            tell(f"gave up on {whom}: {self.left()} message(s) not sent")
        return not self.left()

    async def _connect(self, peer: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        has_told = False
        while True:
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(HOST, self.roster[peer])
            if not has_told:
                has_told = True
                tell(f"waiting for {peer} ...")
            await asyncio.sleep(0.2)

    async def _link(self, peer: str) -> None:
        reader, writer = await self._connect(peer)
        writer.transport.set_write_buffer_limits(0)  # so that drained means sent
        with contextlib.closing(writer), contextlib.suppress(OSError):
            while True:
                frame, is_data = await self.links[peer].get()
                await asyncio.sleep(self.slow.get(peer, 0))
                if reader.at_eof():
                    break
                writer.write(len(frame).to_bytes(4, "big") + frame)
                await writer.drain()
                self.unsent[peer] -= is_data
        tell(f"{peer} has left")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while (size := int.from_bytes(await reader.readexactly(4), "big")) <= FRAME_BYTES_MAX:
                try:
                    self.hear(await reader.readexactly(size))
                except antecede.AntecedeError as error:
                    tell(f"dropped a packet: {error}")


def pairs(option: str, words: list[str], form: str, most: int) -> dict[str, float]:
    """Return ``name=number`` words as a dictionary."""
    found = {}
    for word in words:
        name, _, text = word.partition("=")
        with contextlib.suppress(ValueError):
            found[name] = float(text)
        if not 0 <= found.get(name, -1) <= most:
            msg = f"{option} {word}: expected {form} with a number up to {most}"
            raise antecede.UsageError(msg)
    return found


async def talk(given: argparse.Namespace) -> int:
    """Send what is typed until the input ends; return the exit status."""
    ports = pairs("--roster", given.roster, "NAME=PORT", 65535)
    slow = pairs("--slow", given.slow, "PEER=SECONDS", 3600)
    if unknown := set(slow) - set(ports):
        msg = f"--slow {unknown.pop()}: not in the roster {', '.join(ports)}"
        raise antecede.UsageError(msg)
    roster = {name: int(port) for name, port in ports.items()}
    chat = Chat(
        given.me,
        roster,
        protocol=given.protocol,
        slow=slow,
        patience=given.patience,
        log=given.log,
    )
    refused = []
    if sys.stdin.isatty():
        tell(f"You are {given.me}. Type a line, or @name and a line; Ctrl-D leaves.")

    async def chatting() -> None:
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                chat.say(line.rstrip("\n"))
            except antecede.AntecedeError as error:
                tell(f"not sent: {error}")
                refused.append(line)

    return 0 if await chat.run(chatting) and not refused else 1


def main() -> int:
    """Chat from a terminal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("me", help="your name, one of the roster")
    parser.add_argument("--protocol", default="optimal", help="any protocol, or none")
    parser.add_argument("--roster", nargs="+", default=[f"{k}={v}" for k, v in ROSTER.items()])
    parser.add_argument("--slow", nargs="*", default=[], help="PEER=SECONDS: delay that link")
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE,
        help="seconds to wait at the end for absent peers",
    )
    parser.add_argument("--log", help="write the event log to this file")
    try:
        return asyncio.run(talk(parser.parse_args()))
    except KeyboardInterrupt:
        return 0
    except (antecede.AntecedeError, OSError) as error:
        tell(str(error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
