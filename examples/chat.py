"""A chat in several terminals, in causal order: an answer never comes before its question.

Open three terminals and start one of these in each, in any order::

    python examples/chat.py cat
    python examples/chat.py bob
    python examples/chat.py ann --slow cat=5

Type a line at ann, answer it at bob within five seconds, and look at cat: ann's line to cat takes
its time, bob's answer does not. With ``--protocol none`` everywhere cat sees the answer first; with
any protocol of ``antecede protocols`` that promises order it sees the question first. ``@cat hello``
writes to cat alone. ``--log chat.jsonl`` writes what ``antecede audit chat.jsonl`` reads. A protocol
that only unicasts (buffered) sends a line to one after the other, in the order of the roster.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Callable

import antecede

HOST = "127.0.0.1"
ROSTER = {"cat": 7003, "bob": 7002, "ann": 7001}
FRAME_BYTES_MAX = 1 << 20


class Chat:
    """One person's side: an endpoint, a TCP link to everyone else, and what is shown."""

    def __init__(
        self,
        me: str,
        roster: dict[str, int],
        *,
        protocol: str = "optimal",
        slow: dict[str, float] | None = None,
        log: str | None = None,
        show: Callable[[str, str], None] = lambda who, text: print(f"{who}: {text}"),
    ) -> None:
        # Without order the packets are the same; only nobody holds them back.
        self.is_ordered = protocol != "none"
        name = protocol if self.is_ordered else "matrix"
        self.endpoint = antecede.endpoint(name, process=me, members=tuple(roster))
        self.codec = antecede.Codec(tuple(roster))
        self.me, self.roster, self.slow, self.show = me, roster, slow or {}, show
        self.links: dict[str, asyncio.Queue[bytes]] = {
            peer: asyncio.Queue() for peer in roster if peer != me
        }
        self.log = antecede.EventLog(log, process=me) if log else None
        self.sends = 0

    def say(self, line: str) -> None:
        """Send a line to all, or to one with ``@name``."""
        head, _, rest = line.partition(" ")
        dests = [head[1:]] if head.startswith("@") else list(self.links)
        text = rest if head.startswith("@") else line
        can_multicast = "broadcast" in self.endpoint.INFO.casts
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
        """Do what the endpoint wants done: packets to the links, deliveries to the screen."""
        for packet in effects.packets:
            self.links[packet.dest].put_nowait(self.codec.encode(packet))
        for delivery in effects.deliveries:
            self.deliver(delivery.message, delivery.payload)

    def deliver(self, message: antecede.MessageId, payload: bytes) -> None:
        """Show a message, and log that."""
        if self.log:
            self.log.deliver(message)
        self.show(message.sender, payload.decode(errors="replace"))

    async def run(self, chatting: Callable[[], "asyncio.Future[None]"]) -> None:
        """Serve and link until ``chatting`` is over and everything said is on its way."""
        server = await asyncio.start_server(self._serve, HOST, self.roster[self.me])
        async with server:
            links = [asyncio.create_task(self._link(peer)) for peer in self.links]
            await chatting()
            await asyncio.gather(*(queue.join() for queue in self.links.values()))
            for link in links:
                link.cancel()
            await asyncio.gather(*links, return_exceptions=True)

    async def _link(self, peer: str) -> None:
        while True:  # the peer may not be there yet
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(HOST, self.roster[peer])
                break
            await asyncio.sleep(0.2)
        with contextlib.closing(writer):
            while True:
                frame = await self.links[peer].get()
                await asyncio.sleep(self.slow.get(peer, 0))
                writer.write(len(frame).to_bytes(4, "big") + frame)
                await writer.drain()
                self.links[peer].task_done()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while (size := int.from_bytes(await reader.readexactly(4), "big")) <= FRAME_BYTES_MAX:
                try:
                    self.hear(await reader.readexactly(size))
                except antecede.AntecedeError as error:
                    print(f"dropped a packet: {error}", file=sys.stderr)


def pairs(words: list[str], value: Callable[[str], object]) -> dict[str, object]:
    """Return ``name=value`` words as a dictionary."""
    return {name: value(text) for name, _, text in (word.partition("=") for word in words)}


def main() -> int:
    """Chat from a terminal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("me", help="your name, one of the roster")
    parser.add_argument("--protocol", default="optimal", help="any protocol, or none")
    parser.add_argument("--roster", nargs="+", default=[f"{k}={v}" for k, v in ROSTER.items()])
    parser.add_argument(
        "--slow", nargs="*", default=[], help="name=seconds: delay your link to name"
    )
    parser.add_argument("--log", help="write the event log to this file")
    given = parser.parse_args()
    try:
        chat = Chat(
            given.me,
            pairs(given.roster, int),  # type: ignore[arg-type]
            protocol=given.protocol,
            slow=pairs(given.slow, float),  # type: ignore[arg-type]
            log=given.log,
        )
    except (antecede.AntecedeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2

    async def chatting() -> None:
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                chat.say(line.rstrip("\n"))
            except antecede.AntecedeError as error:
                print(f"not sent: {error}", file=sys.stderr)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(chat.run(chatting))  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main())
