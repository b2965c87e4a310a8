"""A world in memory: real endpoints, a network under full control, and the oracle.

After every step the world checks what can be checked at once (integrity, safety, over-blocking,
necessity, marks); ``check`` judges what shows only at the end (liveness, quiescence).

Processes may crash and packets may get lost. Then ``skip`` tells an endpoint which messages never
come, and ``settle`` lets everybody skip what was lost.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from antecede.check.history import History
from antecede.check.promises import BrokenPromiseError, Script, Step
from antecede.check.violations import causal_violations, undelivered, witness
from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.messages import Delivery, Effects, MessageId, Packet
from antecede.endpoint.registry import restored, rules_of, view_of
from antecede.endpoint.rules import Rules
from antecede.endpoint.view import View
from antecede.errors import HoldFullError, PeerError, UsageError
from antecede.wire import Codec

GONE: Final = 1 << 62
"""All messages of a process that is gone are lost: their numbers are at most this."""


class World:
    """Processes of one protocol on a network whose every step the caller chooses.

    ``rules`` replaces the protocol's own rules. With ``coded`` packets travel as bytes.
    """

    def __init__(
        self,
        protocol: str,
        members: Iterable[str],
        *,
        options: Mapping[str, object] | None = None,
        pull: bool = False,
        fifo: bool = False,
        coded: bool = False,
        held_max: int | None = None,
        promises: Iterable[str] | None = None,
        rules: type[Rules] | None = None,
    ) -> None:
        self.protocol = protocol
        self.options = dict(options or {})
        self.pull = pull
        self.fifo = fifo
        self.rules = rules
        self.view = view_for(protocol, tuple(members), self.options, rules)
        used = rules or rules_of(protocol).of(self.view)
        self.info = used.INFO
        self.promises = frozenset(self.info.promises if promises is None else promises)
        first = self.view.members
        self.history = History(first)
        self.in_flight: list[Packet] = []
        self.packets: list[Packet] = []
        self.steps: list[Step] = []
        self.crashed: set[str] = set()
        self.now = 0
        """The time, for protocols that use it."""
        self._times: dict[MessageId, int] = {}
        """When each message was sent, or just after the latest of its causes."""
        self.marked = 0
        """How many deliveries said that they depend on a lost message."""
        self._relays = used.RELAYS
        self._hears = used.has("arrived")
        self._has_gaps = used.has("gap")
        self._is_mixed = used.RELAYS or used.IS_JOINT
        """Whether a loss may affect messages that do not causally follow the lost one."""
        self._codec = Codec(self.view)
        self._is_coded = coded
        self._sends: dict[str, int] = {}
        self._began: dict[str, int] = {}
        self._payloads: dict[MessageId, bytes] = {}
        self._arrived: dict[str, dict[MessageId, None]] = {member: {} for member in first}
        self._limits: dict[str, dict[str, int]] = {member: {} for member in first}
        """By process and sender, the number up to which ``skip`` declared messages lost."""
        self._named: set[tuple[str, str, int | None]] = set()
        """The skips so far: process, sender, number."""
        self._lost: set[Packet] = set()
        """Packets that the network lost, and by destination the copies of messages among them."""
        self._losses: set[tuple[str, MessageId]] = set()
        limits = {} if held_max is None else {"held_max": held_max}
        self.endpoints = {
            member: Endpoint(self.view, member, used, pull=pull, **limits) for member in first
        }

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
        targets = self._targets(names)
        basis = after if self.info.orders_by_after and not self.info.groups_by_after else None
        is_part = self._is_part(process, targets, after, count)
        self.history.send(process, message, targets, basis, is_part=is_part)
        known = [self._times[cause] + 1 for cause in self.history.causes(message)]
        self._times[message] = max(self.now, *known, 1) if targets != (process,) else -1
        if effects.event != count + 1:
            self._broken(
                "integrity", f"the send of {message} is event {count + 1}, not {effects.event}"
            )
        self._carry_out(process, effects)
        return message

    def _is_part(
        self, process: str, targets: tuple[str, ...], after: int | None, count: int
    ) -> bool | None:
        """Return whether a send continues a non-atomic event; None if the protocol has none."""
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
        except HoldFullError:
            return False
        except PeerError:
            if not self._is_refused(packet):
                raise
            del self.in_flight[index]
            return True
        if self.fifo or not keep:
            del self.in_flight[index]
        message = packet.message
        is_due = message is not None and packet.dest in packet.dests
        if (
            message is not None
            and is_due
            and not self.is_lost(packet.dest, message)
            and not self._is_over(message)
        ):
            self._arrived[packet.dest][message] = None
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

    def tick(self, passed: int) -> None:
        """Let time pass; tell everybody at the end, and whenever a message's lifetime ends."""
        self.steps.append(("tick", passed))
        end = self.now + passed
        lifetime = self.view.options.get("lifetime", 0)
        assert isinstance(lifetime, int)
        ends = {time + lifetime + 1 for time in self._times.values()}
        for self.now in sorted({now for now in ends if self.now < now < end} | {end}):
            for process in self.endpoints if self.info.timed else ():
                self._carry_out(process, self.endpoints[process].tick(self.now))

    def _is_over(self, message: MessageId) -> bool:
        """Return whether a message's lifetime is over."""
        lifetime = self.view.options.get("lifetime")
        return isinstance(lifetime, int) and self.now > self._times[message] + lifetime

    def link(self, process: str, other: str) -> None:
        """Let ``process`` open a link to another process."""
        self.steps.append(("link", process, other))
        self._carry_out(process, self.endpoints[process].link(other))

    def restart(self, process: str) -> None:
        """Replace an endpoint by one restored from its snapshot; nothing may change."""
        self.steps.append(("restart", process))
        one = self.endpoints[process]
        if self.rules is None:
            saved = self._codec.snapshot(one)
            self.endpoints[process] = self._codec.restore(saved, resumed=True)
        else:
            self.endpoints[process] = restored(
                self.view, one.state(), resumed=True, rules=self.rules
            )

    def lose(self, index: int) -> None:
        """Lose a packet in flight."""
        packet = self.in_flight.pop(index)
        self.steps.append(("loss", packet.source, packet.dest, packet.n))
        self._note_loss(packet)

    def lose_packet(self, source: str, dest: str, n: int) -> None:
        """Lose the packet ``n`` of a channel, if it is in flight."""
        for index, packet in enumerate(self.in_flight):
            if (packet.source, packet.dest, packet.n) == (source, dest, n):
                self.lose(index)
                return

    def crash(self, process: str, lost: int = -1) -> None:
        """Stop a process for good, and lose all packets on their way to it.

        Of its own packets in flight, those whose bits (by age) are set in ``lost`` are lost too.
        """
        self.steps.append(("crash", process, lost))
        self.crashed.add(process)
        del self.endpoints[process]
        kept, number = [], 0
        for packet in self.in_flight:
            is_lost = packet.dest == process
            if packet.source == process:
                is_lost = is_lost or bool(lost >> number & 1)
                number += 1
            if is_lost:
                self._note_loss(packet)
            else:
                kept.append(packet)
        self.in_flight = kept

    def skip(self, process: str, source: str, upto: int | None = None) -> None:
        """Let ``process`` declare messages of ``source`` lost, up to a number or all of them."""
        self.steps.append(("skip", process, source, upto))
        self._named.add((process, source, upto))
        here = self.endpoints[process].waiting()
        self._arrived[process] |= {one: None for one in here if not self.is_lost(process, one)}
        limits = self._limits[process]
        limits[source] = max(limits.get(source, 0), GONE if upto is None else upto)
        self._carry_out(process, self.endpoints[process].skip(source, upto))

    def settle(self, order: Random | int = 0) -> bool:
        """Let everything arrive and everybody skip what was lost; return whether nothing waits.

        First the others skip the crashed processes. Then each skips what it waits for and what the
        network lost, in message numbers as ``waiting()`` shows them. Where messages have deadlines,
        these pass.
        """
        self.drain(order)
        for process in self.endpoints:
            for gone in sorted(self.crashed):
                if self._limits[process].get(gone) != GONE:
                    self.skip(process, gone)
        self.drain(order)
        while found := self._waited_in_vain():
            self.skip(*found)
            self.drain(order)
        if "deadlines" in self.promises:
            lifetime = self.view.options["lifetime"]
            assert isinstance(lifetime, int)
            self.tick(lifetime + len(self._times) + 1)
            self.drain(order)
        return not self.in_flight

    def _waited_in_vain(self) -> tuple[str, str, int] | None:
        """Return a process and a message that it waits for but that the network lost."""
        for process, one in self.endpoints.items():
            for needs in one.waiting().values():
                for need in needs:
                    if (
                        need.message is not None
                        and self._may_name(process, need.process, need.number)
                        and self._is_lost_before(process, need.process, need.number)
                    ):
                        return process, need.process, need.number
        return None

    def _may_name(self, process: str, sender: str, number: int) -> bool:
        """Return whether it can help to skip a message by its number.

        Where a relay may still bring messages of others, also if its sender was skipped whole.
        """
        is_new = (process, sender, number) not in self._named
        return number > self._limits[process].get(sender, 0) or (self._has_gaps and is_new)

    def _is_lost_before(self, process: str, sender: str, number: int) -> bool:
        """Return whether the network lost a sender's message, up to a number, to a process.

        If a relay crashed, every message that has not arrived by now is lost.
        """
        return any(
            dest == process and message.sender == sender and message.seq <= number
            for dest, message in self._losses
        ) or (self._relays and bool(self._losses))

    def _note_loss(self, packet: Packet) -> None:
        self._lost.add(packet)
        if packet.message is not None:
            self._losses.add((packet.dest, packet.message))

    def _is_refused(self, packet: Packet) -> bool:
        """Return whether the destination of a packet declared its message lost."""
        limits, sender = self._limits[packet.dest], packet.view.members[packet.content.sender]
        return limits.get(packet.source) == GONE or 0 < packet.content.seq <= limits.get(sender, 0)

    def is_lost(self, process: str, message: MessageId) -> bool:
        """Return whether a process declared a message lost before it arrived."""
        limit = self._limits[process].get(message.sender, 0)
        return message.seq <= limit and message not in self._arrived[process]

    @property
    def has_skips(self) -> bool:
        """Whether anything was declared lost."""
        return any(self._limits.values())

    def drain(self, order: Random | int = 0) -> bool:
        """Let everything arrive; return whether nothing was refused for good.

        ``order`` is a generator that chooses, or an index: 0 oldest first, -1 newest first. In pull
        mode everything that is ready is taken.
        """
        limit = 100 + 50 * len(self.endpoints) * (1 + len(self.history.messages))
        refused: set[int] = set()
        done = 0  # a refused packet sends nothing
        while done < limit:
            choices = [i for i, p in enumerate(self.in_flight) if id(p) not in refused]
            if choices:
                index = order.choice(choices) if isinstance(order, Random) else choices[order]
                packet = self.in_flight[index]
                if self.arrive(index):
                    refused.clear()
                    done += 1
                else:
                    refused.add(id(packet))
            elif self.pull and any(self.take(name) for name in self.endpoints):
                refused.clear()
                done += 1
            else:
                return not self.in_flight
        return self._broken("quiescence", f"packets are still sent after {limit} arrivals")

    # Judgement.

    @property
    def script(self) -> Script:
        """The steps so far, as a script."""
        groups = self.options.get("groups")
        return Script(
            self.view.members,
            tuple(self.steps),
            fifo=self.fifo,
            pull=self.pull,
            groups=groups if isinstance(groups, dict) else None,
        )

    def check(self) -> None:
        """Raise unless every promise holds; call this after ``drain`` or ``settle``."""
        if "safety" in self.promises and not self.has_skips:
            for violation in causal_violations(self.history):
                is_missed = violation.lateness is None and self._is_over(violation.message)
                if violation.process not in self.crashed and not is_missed:
                    self._broken("safety", violation.sentence)
        if self.in_flight:
            return
        if "liveness" in self.promises:
            for process, message in undelivered(self.history):
                if not self._may_miss(process, message):
                    waits = self.endpoints[process].waiting().get(message, ())
                    why = (
                        f"it waits for {', '.join(map(str, waits))}" if waits else "it is not held"
                    )
                    self._broken("liveness", f"{process} never delivers {message}; {why}")
        if "quiescence" in self.promises:
            self._check_quiescence()

    def _may_miss(self, process: str, message: MessageId) -> bool:
        """Return whether a process need not deliver a message: it was lost, or one end crashed."""
        if process in self.crashed or self.is_lost(process, message):
            return True
        if self.pull and "deadlines" in self.promises:
            return True  # nobody took it before its deadline
        if message in self._arrived[process]:
            return False
        if message.sender in self.crashed or (process, message) in self._losses:
            return True
        if "deadlines" in self.promises and self._is_over(message):
            return True
        return self._relays and bool(self._losses or self.crashed)

    def _check_quiescence(self) -> None:
        for name, one in self.endpoints.items():
            if one.queued or one.held:
                self._broken(
                    "quiescence",
                    f"{name} holds {one.held} and queues {one.queued} with nothing in flight",
                )
        for packet in self.packets:
            if packet in self._lost or packet.dest in self.crashed:
                continue
            try:
                effects = self.endpoints[packet.dest].receive(packet)
            except PeerError:
                if not self._is_refused(packet):
                    raise
                continue
            if effects.packets or effects.deliveries:
                self._broken(
                    "quiescence",
                    f"{packet.dest} answers a duplicate of packet {packet.n} from {packet.source}",
                )

    def _carry_out(self, process: str, effects: Effects) -> None:
        for delivery in effects.deliveries:
            self._deliver(process, delivery)
        packets = list(effects.packets)
        if left := self.endpoints[process].flush().packets:
            self._broken("quiescence", f"{process} has not sent {left[0]!r} with what caused it")
        if self._is_coded:
            packets = [self._recoded(packet) for packet in packets]
        self.packets.extend(packets)
        for packet in packets:
            if packet.dest in self.crashed:
                self._note_loss(packet)
            else:
                self.in_flight.append(packet)
        if "no_overblocking" in self.promises and not self._limits[process]:
            self._check_blocking(process)
        if "necessity" in self.promises and not self.has_skips:
            self._check_necessity(process)

    def _recoded(self, packet: Packet) -> Packet:
        data = self._codec.encode(packet)
        again = self._codec.decode(data)
        if again != packet or self._codec.encode(again) != data:
            self._broken("integrity", f"{packet!r} comes back from its bytes as {again!r}")
        return again

    def _deliver(self, process: str, delivery: Delivery) -> None:
        message = delivery.message
        missing = frozenset[MessageId]()
        if message in self._payloads:
            missing = self.history.missing_causes(process, message)
            if self.is_lost(process, message) and process != message.sender:
                self._broken("integrity", f"{process} delivers {message}, which it declared lost")
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
        if "deadlines" in self.promises and self._is_over(message) and process != message.sender:
            self._broken("deadlines", f"{process} delivers {message} after its lifetime")
        lost = {cause for cause in missing if self.is_lost(process, cause)}
        missing -= {cause for cause in missing if self._is_over(cause)}
        self._check_marks(process, delivery, lost)
        early = {cause for cause in missing - lost if not self._is_hidden(process, cause)}
        is_short = bool(lost or (self._is_mixed and self._limits[process]))
        if early and "safety" in self.promises and not (is_short and self.info.lost_by_skip):
            chain, _ = witness(self.history, min(early), message)
            first = next(v for v in causal_violations(self.history) if v.message == chain[0])
            self._broken("safety", first.sentence)

    def _is_hidden(self, process: str, cause: MessageId) -> bool:
        """Return whether only a lost message may have said that ``cause`` must come first.

        A process can wait for the cause only if it has arrived by the delivery of its effect.
        """
        return cause not in self._arrived[process] and any(
            self.is_lost(process, other) and cause in self._heard_before(other)
            for other in self.history.messages
        )

    def _heard_before(self, message: MessageId) -> set[MessageId]:
        """Return the causes of a message, and other messages that its sender may have known of.

        If rules process packets on arrival, a process knows of messages that it did not deliver.
        """
        found = set(self.history.causes(message))
        if self._hears:
            rest = [message]
            while rest:
                one = rest.pop()
                more = {*self.history.causes(one), *self._arrived[one.sender]} - found
                found |= more
                rest.extend(more)
        return found

    def _check_marks(self, process: str, delivery: Delivery, lost: set[MessageId]) -> None:
        """Check that a delivery names the lost messages that it depends on, and no others."""
        if lost and not delivery.unmet and not self.info.unmarked_by_skip:
            self._broken(
                "marks",
                f"{process} delivers {delivery.message} without a word on its cause {min(lost)}, "
                "which is lost",
            )
        self.marked += bool(delivery.unmet)
        for need in delivery.unmet:
            limit = self._limits[process].get(need.process, 0)
            is_named = need.message is not None and not self._relays  # relays had messages of all
            if is_named and need.number > limit:
                self._broken(
                    "marks", f"{process} delivers {delivery.message} and calls {need} lost"
                )

    def _check_blocking(self, process: str) -> None:
        waiting = self.endpoints[process].waiting() if self.pull else None
        for message in self._arrived[process]:
            if self.history.is_delivered(process, message):
                continue
            causes = self.history.missing_causes(process, message)
            if not all(map(self._is_over, causes)) or self._is_over(message):
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
        if kept != due:
            self._broken(
                "necessity",
                f"{process} keeps {shown(kept)}, but the Propagation Constraints require "
                f"{shown(due)}",
            )

    def _targets(self, names: str | tuple[str, ...]) -> tuple[str, ...]:
        if isinstance(names, str):
            groups = self.view.options["groups"]
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


def view_for(
    protocol: str,
    members: tuple[str, ...],
    options: Mapping[str, object],
    rules: type[Rules] | None,
) -> View:
    """Return the view for a world; rules other than the protocol's may have another wire form."""
    view = view_of(protocol, members, **dict(options))  # type: ignore[arg-type] # no number there
    if rules is None:
        return view
    own = View(view.number, view.members, view.protocol, view.options)
    own.forms = rules.forms(own)
    return own


def shown(information: Mapping[MessageId, Iterable[str]]) -> str:
    """Return explicit information as one line: ``a:1 -> b c, b:1 -> c``."""
    parts = [f"{message} -> {' '.join(sorted(names))}" for message, names in information.items()]
    return ", ".join(parts) or "nothing"


def _channel(packet: Packet) -> tuple[str, str]:
    return packet.source, packet.dest
