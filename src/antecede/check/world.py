"""A world in memory: real endpoints, a network under full control, and the oracle.

After every step the world checks what can be checked at once (integrity, safety, over-blocking,
necessity); ``check`` judges what shows only at the end (liveness, quiescence).
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from antecede.check.history import History
from antecede.check.promises import BrokenPromiseError, Script, Step
from antecede.check.violations import causal_violations, undelivered, witness
from antecede.core.endpoint import Endpoint
from antecede.core.messages import Delivery, Effects, MessageId, Packet
from antecede.core.registry import endpoint, protocol_class, restore
from antecede.errors import HoldFullError, UnknownProcessError, UsageError


class World:
    """Processes of one protocol on a network whose every step the caller chooses."""

    def __init__(
        self,
        protocol: str,
        members: Iterable[str],
        *,
        options: Mapping[str, object] | None = None,
        per_process: Mapping[str, Mapping[str, object]] | None = None,
        pull: bool = False,
        fifo: bool = False,
        held_max: int | None = None,
        promises: Iterable[str] | None = None,
        endpoint_class: type[Endpoint] | None = None,
    ) -> None:
        self.protocol = protocol
        self.options = dict(options or {})
        self.per_process = per_process or {}
        self.pull = pull
        self.fifo = fifo
        self.held_max = held_max
        self.endpoint_class = endpoint_class
        self.info = protocol_class(protocol).INFO
        self.promises = frozenset(self.info.promises if promises is None else promises)
        first = tuple(members)
        self._first_members = first
        self.history = History(first)
        self.in_flight: list[Packet] = []
        self.packets: list[Packet] = []
        self.steps: list[Step] = []
        self.removed: set[str] = set()
        self._sends: dict[str, int] = {}
        self._began: dict[str, int] = {}
        self._payloads: dict[MessageId, bytes] = {}
        self._arrived: dict[str, dict[MessageId, None]] = {member: {} for member in first}
        self.endpoints = {member: self._endpoint(member, first) for member in first}

    def _endpoint(self, process: str, members: tuple[str, ...]) -> Endpoint:
        options = {**self.options, **self.per_process.get(process, {})}
        if self.held_max is not None:
            options["held_max"] = self.held_max
        options |= {"process": process, "members": members, "pull": self.pull}
        return made(self.endpoint_class, self.protocol, options)

    # Steps.

    def send(
        self,
        process: str,
        dests: Iterable[str] | str,
        payload: bytes = b"",
        after: int | None = None,
    ) -> MessageId:
        """Let the application of ``process`` send; return the message's id."""
        count = self.history.local_count(process)
        names = dests if isinstance(dests, str) else tuple(dests)
        effects = self.endpoints[process].send(names, payload, after=after)
        self.steps.append(("send", process, names, after and count - after + 1))
        message = MessageId(process, self._sends.get(process, 0) + 1)
        self._sends[process] = message.seq
        self._payloads[message] = payload
        targets = self._targets(process, names)
        basis = after if self.info.orders_by_after and not self.info.groups_by_after else None
        is_part = self._is_part(process, targets, after, count)
        self.history.send(process, message, targets, basis, is_part=is_part)
        if effects.event != count + 1:
            self._broken(
                "integrity", f"the send of {message} is event {count + 1}, not {effects.event}"
            )
        self._carry_out(process, effects)
        return message

    def _is_part(
        self, process: str, targets: tuple[str, ...], after: int | None, count: int
    ) -> bool | None:
        """Tell whether a send continues a non-atomic event; None if the protocol has none."""
        if not self.info.groups_by_after:
            return None
        if after is not None and after <= self._began.get(process, -1):
            return True
        if targets != (process,):
            self._began[process] = count
        return False

    def arrive(self, index: int, *, keep: bool = False) -> bool:
        """Let a packet in flight arrive; return False if it was refused and stays in flight.

        With ``keep`` a duplicate stays in flight. A FIFO network takes the oldest packet of that
        packet's channel and never duplicates.
        """
        if self.fifo:
            chosen = self.in_flight[index]
            index = min(
                (i for i, p in enumerate(self.in_flight) if _channel(p) == _channel(chosen)),
                key=lambda i: self.in_flight[i].n,
            )
        packet = self.in_flight[index]
        self.steps.append(("packet", packet.source, packet.dest, packet.n, keep))
        try:
            effects = self.endpoints[packet.dest].receive(packet)
        except (HoldFullError, UnknownProcessError):
            return False
        if self.fifo or not keep:
            del self.in_flight[index]
        if packet.message is not None and packet.dest in packet.dests:
            self._arrived[packet.dest][packet.message] = None
        self._carry_out(packet.dest, effects)
        return True

    def arrive_packet(
        self, source: str, dest: str, n: int | None = None, *, keep: bool = False
    ) -> bool:
        """Let the packet ``n`` (by default the oldest) of a channel arrive, if it is in flight."""
        fitting = [
            (packet.n, index)
            for index, packet in enumerate(self.in_flight)
            if _channel(packet) == (source, dest) and n in (None, packet.n)
        ]
        return bool(fitting) and self.arrive(min(fitting)[1], keep=keep)

    def take(self, process: str, source: str | None = None) -> Delivery | None:
        """In pull mode, let the application of ``process`` take a message."""
        self.steps.append(("take", process, source))
        effects = self.endpoints[process].take(source)
        self._carry_out(process, effects)
        return effects.deliveries[0] if effects.deliveries else None

    def add(self, process: str, at: Iterable[str] | None = None) -> None:
        """Let a process join; ``at`` names the members that learn of it now (default: all)."""
        if process not in self.endpoints:
            members = next(iter(self.endpoints.values())).members
            known = members if process in members else (*members, process)
            self.history.members = (*self.history.members, process)
            self._arrived[process] = {}
            self.endpoints[process] = self._endpoint(process, known)
        names = [name for name in self.endpoints if name != process] if at is None else list(at)
        self.steps.append(("add", process, tuple(names)))
        for name in names:
            if process not in self.endpoints[name].members:
                self._carry_out(name, self.endpoints[name].add(process))

    def remove(self, process: str) -> None:
        """Remove a process everywhere at once; its packets in flight are lost."""
        self.steps.append(("remove", process))
        self.removed.add(process)
        del self.endpoints[process]
        self.in_flight = [p for p in self.in_flight if process not in _channel(p)]
        for name, one in self.endpoints.items():
            self._carry_out(name, one.remove(process))

    def restart(self, process: str) -> None:
        """Replace an endpoint by one restored from its state; nothing may change."""
        self.steps.append(("restart", process))
        state = self.endpoints[process].state()
        if self.endpoint_class is None:
            self.endpoints[process] = restore(state)
        else:
            self.endpoints[process] = self._endpoint(process, self.endpoints[process].members)
            self.endpoints[process].load(state)

    def drain(self, order: Random | int = 0) -> bool:
        """Let everything arrive; return whether nothing was refused for good.

        ``order`` is a generator that chooses, or an index: 0 oldest first, -1 newest first. In pull
        mode everything that is ready is taken.
        """
        limit = 100 + 50 * len(self.endpoints) * (1 + len(self.history.messages))
        refused: set[int] = set()
        for _ in range(limit):
            choices = [i for i, p in enumerate(self.in_flight) if id(p) not in refused]
            if choices:
                index = order.choice(choices) if isinstance(order, Random) else choices[order]
                packet = self.in_flight[index]
                if self.arrive(index):
                    refused.clear()
                else:
                    refused.add(id(packet))
            elif self.pull and any(self.take(name) for name in self.endpoints):
                refused.clear()
            else:
                return not self.in_flight
        return self._broken("quiescence", f"packets are still sent after {limit} arrivals")

    # Judgement.

    @property
    def script(self) -> Script:
        """What was done so far, as a script."""
        groups = self.options.get("groups")
        return Script(
            self._first_members,
            tuple(self.steps),
            fifo=self.fifo,
            pull=self.pull,
            groups=groups if isinstance(groups, dict) else None,
        )

    def check(self) -> None:
        """Raise unless every promise holds; call this after ``drain``."""
        if "safety" in self.promises and not self.removed:
            for violation in causal_violations(self.history):
                self._broken("safety", violation.sentence)
        if self.in_flight:
            return
        if "liveness" in self.promises:
            for process, message in undelivered(self.history):
                if not self.removed.intersection((process, message.sender)):
                    waits = self.endpoints[process].waiting().get(message, ())
                    why = (
                        f"it waits for {', '.join(map(str, waits))}" if waits else "it is not held"
                    )
                    self._broken("liveness", f"{process} never delivers {message}; {why}")
        if "quiescence" in self.promises:
            self._check_quiescence()

    def _check_quiescence(self) -> None:
        for name, one in self.endpoints.items():
            if one.queued or one.held:
                self._broken(
                    "quiescence",
                    f"{name} holds {one.held} and queues {one.queued} with nothing in flight",
                )
        for packet in self.packets:
            if packet.dest not in self.endpoints or packet.source in self.removed:
                continue
            effects = self.endpoints[packet.dest].receive(packet)
            if effects.packets or effects.deliveries:
                self._broken(
                    "quiescence",
                    f"{packet.dest} answers a duplicate of packet {packet.n} from {packet.source}",
                )

    def _carry_out(self, process: str, effects: Effects) -> None:
        for delivery in effects.deliveries:
            self._deliver(process, delivery)
        self.packets.extend(effects.packets)
        self.in_flight.extend(effects.packets)
        if "no_overblocking" in self.promises:
            self._check_blocking(process)
        if "necessity" in self.promises:
            self._check_necessity(process)

    def _deliver(self, process: str, delivery: Delivery) -> None:
        message = delivery.message
        missing = (
            self.history.missing_causes(process, message) if message in self._payloads else set()
        )
        try:
            self.history.deliver(process, message)
        except UsageError as error:
            self._broken("integrity", str(error))
        if delivery.payload != self._payloads[message]:
            self._broken("integrity", f"{process} delivers {message} with another payload")
        if delivery.event != self.history.local_count(process):
            self._broken(
                "integrity",
                f"{process} delivers {message} as event {delivery.event}, "
                f"but it is event {self.history.local_count(process)}",
            )
        missing = {cause for cause in missing if cause.sender not in self.removed}
        if missing and "safety" in self.promises:
            chain, _ = witness(self.history, min(missing), message)
            first = next(v for v in causal_violations(self.history) if v.message == chain[0])
            self._broken("safety", first.sentence)

    def _check_blocking(self, process: str) -> None:
        waiting = self.endpoints[process].waiting() if self.pull else None
        for message in self._arrived[process]:
            if self.history.is_delivered(process, message):
                continue
            missing = self.history.missing_causes(process, message)
            if any(cause.sender not in self.removed for cause in missing):
                continue
            if waiting is None or waiting.get(message):
                self._broken(
                    "no_overblocking",
                    f"{process} holds {message}, although every cause of it that is addressed to "
                    f"{process} is delivered there",
                )

    def _check_necessity(self, process: str) -> None:
        kept = self.endpoints[process].dependencies()
        due = self.history.required(process)
        if self.removed:  # what they sent is kept until all have forgotten them
            kept = {m: names for m, names in kept.items() if m.sender not in self.removed}
            due = {
                m: names - self.removed
                for m, names in due.items()
                if names - self.removed and m.sender not in self.removed
            }
        if kept != due:
            self._broken(
                "necessity",
                f"{process} keeps {shown(kept)}, but the Propagation Constraints require "
                f"{shown(due)}",
            )

    def _targets(self, process: str, names: str | tuple[str, ...]) -> tuple[str, ...]:
        if isinstance(names, str):
            groups = self.endpoints[process].options["groups"]
            assert isinstance(groups, dict)
            names = groups[names]
        return tuple(sorted(set(names)))

    def _broken(self, promise: str, sentence: str) -> bool:
        raise BrokenPromiseError(
            protocol=self.protocol,
            promise=promise,
            sentence=sentence,
            script=self.script,
            options=self.options,
        )


def made(cls: type[Endpoint] | None, protocol: str, arguments: Mapping[str, Any]) -> Endpoint:
    """Make an endpoint; with ``cls``, of that class instead of the protocol's own."""
    one = endpoint(protocol, **arguments)
    if cls is None:
        return one
    names = ("process", "members", "options", "pull", "held_max", "held_bytes_max", "queue_max")
    return cls(**{name: getattr(one, name) for name in names})


def shown(information: Mapping[MessageId, Iterable[str]]) -> str:
    """Return explicit information on one line: ``a:1 -> b c, b:1 -> c``."""
    parts = [f"{message} -> {' '.join(sorted(names))}" for message, names in information.items()]
    return ", ".join(parts) or "nothing"


def _channel(packet: Packet) -> tuple[str, str]:
    return packet.source, packet.dest
