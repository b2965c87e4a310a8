"""The search behind the explorer: every interleaving of a small computation, judged by the oracle.

It enumerates all computations of a given number of processes and sends: who sends what to whom and
when, and in which order everything arrives. Three reductions keep it small without losing any
behaviour:

* *Renaming.* If no process has a special role, one process that has done nothing yet represents
  all such processes.
* *Partial order.* Steps of different processes commute. An arrival that sends nothing is *silent*:
  other processes cannot notice it, so it is postponed until just before the next step of that
  process that they can notice (a send, or an arrival that sends), or to the end. A computation is
  then a sequence of *blocks*: silent arrivals and one noticeable step of one process. The orders of
  arrivals left at the end are examined process by process, not in every combination.
* *State hashing.* Situations are identified by the endpoints' whole states, the oracle's knowledge
  and the packets in flight; each is visited once.

Duplicates need no steps of their own: after every arrival the packet is offered again, which must
have no effect. Situations are visited in order of the number of steps that lead there, so the
failing script that is reported is a shortest one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from antecede.check.machine import Machine
from antecede.check.world import World
from antecede.endpoint.info import Cast
from antecede.endpoint.rules import Rules

Action = tuple[object, ...]


class Situation(NamedTuple):
    """The local states, what is in flight, how many sends are left, how many processes acted."""

    locals: tuple[int, ...]
    flying: frozenset[int]
    left: int
    used: int


class Rest(NamedTuple):
    """A process after some silent arrivals: its state, packets still to arrive, packets arrived."""

    local: int
    waiting: frozenset[int]
    arrived: tuple[int, ...]


class Reach(NamedTuple):
    """What one process can do from its state before others notice."""

    rests: tuple[Rest, ...]
    loud: tuple[tuple[Rest, int], ...]
    """Arrivals that send something: the process before the arrival, and the packet."""
    broken: tuple[Rest, int, tuple[str, str]] | None
    """The shortest way to a broken promise by an arrival, if there is one."""


class Explorer:
    """One exploration: a search in the order of the number of steps."""

    def __init__(
        self,
        protocol: str,
        members: tuple[str, ...],
        messages: int,
        *,
        options: Mapping[str, object],
        casts: Sequence[Cast],
        promises: frozenset[str],
        rules: type[Rules] | None,
        symmetric: bool,
        selves: bool = False,
    ) -> None:
        self.machine = Machine(protocol, members, options=options, promises=promises, rules=rules)
        self.protocol = protocol
        self.members = members
        self.messages = messages
        self.options = options
        self.promises = promises
        self.rules = rules
        self.symmetric = symmetric
        self.choices = {
            member: tuple(destination_sets(member, members, casts, options, selves=selves))
            for member in members
        }
        self._reach: dict[tuple[int, frozenset[int]], Reach] = {}
        start = Situation(self.machine.starts, frozenset(), messages, 0)
        self._costs: dict[Situation, int] = {start: 0}
        self._origins: dict[Situation, tuple[Situation, tuple[Action, ...]]] = {}
        self._levels: list[list[Situation]] = [[start]]
        self._failure: tuple[int, Situation, tuple[Action, ...], tuple[str, str]] | None = None
        self._is_endless = False
        self.blocks = 0
        self.situations = 0
        self.steps_max = 100 * messages

    def run(self, is_time_up: Callable[[int, int], bool]) -> bool:
        """Search; return whether everything was visited."""
        cost = 0
        while cost < len(self._levels):
            for situation in self._levels[cost]:
                if self._costs[situation] != cost:
                    continue
                if self._failure is not None and self._failure[0] <= cost:
                    return True
                self._expand(situation, cost)
                self.situations += 1
                if self._is_endless:
                    return True
                if self.situations % 256 == 0 and is_time_up(self.situations, cost):
                    return False
            self._levels[cost] = []
            cost += 1
        return True

    def _expand(self, situation: Situation, cost: int) -> None:
        bound: dict[str, set[int]] = {member: set() for member in self.members}
        for packet in situation.flying:
            bound[self.machine.packets[packet].dest].add(packet)
        reaches = []
        for place, member in enumerate(self.members):
            waiting = frozenset(bound[member])
            reach = self._reach_of(situation.locals[place], waiting)
            reaches.append(reach)
            others = situation.flying - waiting
            if reach.broken is not None:
                rest, packet, broken = reach.broken
                self._fail(situation, cost, [*rest.arrived, packet], broken)
            for rest, packet in reach.loud:
                outcome = self.machine.receive(rest.local, packet)
                after = Rest(
                    outcome.local,
                    others | (rest.waiting - {packet}) | frozenset(outcome.packets),
                    (*rest.arrived, packet),
                )
                self._enter(situation, cost, place, after)
            if situation.left:
                self._expand_sends(situation, cost, place, reach, others)
        self._check_end(situation, cost, reaches)
        self._check_quiet(situation, cost)

    def _expand_sends(
        self, situation: Situation, cost: int, place: int, reach: Reach, others: frozenset[int]
    ) -> None:
        machine = self.machine
        for dests in self.choices[self.members[place]]:
            used = self._used_after(situation.used, place, dests)
            if used is None:
                continue
            for rest in reach.rests:
                for after in self._afters(rest.local):
                    outcome = machine.send(rest.local, dests, after)
                    if outcome is None:
                        continue
                    action = ("send", self.members[place], dests, after)
                    if outcome.broken is not None:
                        self._fail(situation, cost, rest.arrived, outcome.broken, action)
                        continue
                    flying = others | rest.waiting | frozenset(outcome.packets)
                    entered = Rest(outcome.local, flying, rest.arrived)
                    self._enter(situation, cost, place, entered, (action, used))

    def _enter(
        self,
        situation: Situation,
        cost: int,
        place: int,
        after: Rest,
        send: tuple[Action, int] | None = None,
    ) -> None:
        """Record where a block leads; ``after.waiting`` is everything in flight then."""
        self.blocks += 1
        places = (*situation.locals[:place], after.local, *situation.locals[place + 1 :])
        actions: tuple[Action, ...] = tuple(("arrive", packet) for packet in after.arrived)
        left, used = situation.left, situation.used
        if send is not None:
            actions = (*actions, send[0])
            left, used = left - 1, send[1]
        entered = Situation(places, after.waiting, left, used)
        total = cost + len(actions)
        if total >= self._costs.get(entered, total + 1):
            return
        self._costs[entered] = total
        self._origins[entered] = (situation, actions)
        while len(self._levels) <= total:
            self._levels.append([])
        self._levels[total].append(entered)

    def _reach_of(self, local: int, waiting: frozenset[int]) -> Reach:
        """Return what a process can do after silent arrivals, fewest arrivals first."""
        key = (local, waiting)
        if key in self._reach:
            return self._reach[key]
        rests = [Rest(local, waiting, ())]
        loud: list[tuple[Rest, int]] = []
        broken: tuple[Rest, int, tuple[str, str]] | None = None
        seen = {(local, waiting)}
        for rest in rests:
            for packet in sorted(rest.waiting):
                outcome = self.machine.receive(rest.local, packet)
                if outcome.broken is not None:
                    broken = broken or (rest, packet, outcome.broken)
                elif outcome.packets:
                    loud.append((rest, packet))
                else:
                    less = rest.waiting - {packet}
                    if (outcome.local, less) not in seen:
                        seen.add((outcome.local, less))
                        rests.append(Rest(outcome.local, less, (*rest.arrived, packet)))
        self._reach[key] = Reach(tuple(rests), tuple(loud), broken)
        return self._reach[key]

    def _check_end(self, situation: Situation, cost: int, reaches: list[Reach]) -> None:
        """If everything can arrive silently, check that it is delivered and nothing is left."""
        ends = [[rest for rest in reach.rests if not rest.waiting] for reach in reaches]
        if not all(ends):
            return
        machine = self.machine
        sent = {
            node
            for local, member in zip(situation.locals, self.members, strict=True)
            for node in machine.views[local].known
            if machine.nodes[node].message.sender == member
        }
        for member, rests in zip(self.members, ends, strict=True):
            due = {(node, member) for node in sent if member in machine.nodes[node].dests}
            for rest in rests:
                late = due - machine.views[rest.local].delivered
                broken = None
                if late and "liveness" in self.promises:
                    message = machine.nodes[min(late)[0]].message
                    broken = ("liveness", f"{member} never delivers {message}")
                elif not machine.is_idle[rest.local] and "quiescence" in self.promises:
                    broken = ("quiescence", f"{member} holds or queues something forever")
                if broken is not None:
                    rest_of_all = [
                        packet
                        for other, its in zip(self.members, ends, strict=True)
                        for packet in (rest if other == member else its[0]).arrived
                    ]
                    self._fail(situation, cost, rest_of_all, broken)
                    return

    def _check_quiet(self, situation: Situation, cost: int) -> None:
        """Let everything arrive, oldest first, and check that this comes to an end."""
        if "quiescence" not in self.promises:
            return
        machine = self.machine
        places = dict(zip(self.members, situation.locals, strict=True))
        queue = sorted(situation.flying, key=lambda number: machine.packets[number].n)
        for arrivals, packet in enumerate(queue):
            if arrivals > self.steps_max:
                broken = ("quiescence", f"packets are still sent after {arrivals} arrivals")
                self._fail(situation, cost, queue[:arrivals], broken)
                self._is_endless = True  # a search for a shorter script would not end
                return
            dest = machine.packets[packet].dest
            outcome = machine.receive(places[dest], packet)
            places[dest] = outcome.local
            queue.extend(outcome.packets)

    def _fail(
        self,
        situation: Situation,
        cost: int,
        arrived: Iterable[int],
        broken: tuple[str, str],
        *last: Action,
    ) -> None:
        actions = (*(("arrive", packet) for packet in arrived), *last)
        total = cost + len(actions)
        if self._failure is None or total < self._failure[0]:
            self._failure = (total, situation, actions, broken)

    def _afters(self, local: int) -> tuple[int | None, ...]:
        if not self.machine.info.orders_by_after:
            return (None,)
        if self.machine.info.groups_by_after:
            return (None, 0)
        return tuple(range(self.machine.event_counts[local] + 1))

    def _used_after(self, used: int, place: int, dests: tuple[str, ...]) -> int | None:
        """Return how many processes have acted or been addressed; None if renaming covers this."""
        if not self.symmetric:
            return used
        if place > used:
            return None
        used = max(used, place + 1)
        places = [self.members.index(dest) for dest in dests]
        fresh = sorted(p for p in places if p >= used)
        if fresh != list(range(used, used + len(fresh))):
            return None
        return used + len(fresh)

    def failure(self) -> tuple[tuple[Action, ...], tuple[str, str]] | None:
        """Return the steps of a shortest failing script, and the promise it breaks."""
        if self._failure is None:
            return None
        _, situation, actions, broken = self._failure
        while situation in self._origins:
            situation, earlier = self._origins[situation]
            actions = (*earlier, *actions)
        return actions, broken

    def replay(self, actions: Iterable[Action]) -> World:
        """Run the steps in a world, which raises when the promise breaks."""
        world = World(
            self.protocol,
            self.members,
            options=self.options,
            promises=self.promises,
            rules=self.rules,
        )
        for action in actions:
            match action:
                case ("send", str(process), tuple(dests), None | int() as after):
                    world.send(process, dests, after=after)
                case ("arrive", int(number)):
                    packet = self.machine.packets[number]
                    world.arrive_packet(packet.source, packet.dest, packet.n)
                case _:
                    msg = f"unknown step {action!r}"
                    raise ValueError(msg)
        world.check()
        return world


def destination_sets(
    member: str,
    members: tuple[str, ...],
    casts: Sequence[Cast],
    options: Mapping[str, object],
    *,
    selves: bool = False,
) -> Iterator[tuple[str, ...]]:
    """Yield each set of destinations that ``member`` may send to; ``selves`` includes itself."""
    others = tuple(name for name in members if name != member)
    sizes = {1} if "unicast" in casts else set()
    if "multicast" in casts:
        sizes.update(range(1, len(others) + 1))
    if "broadcast" in casts:
        sizes.add(len(others))
    for size in sorted(sizes):
        for dests in combinations(others, size):
            yield dests
            if selves:
                yield tuple(sorted((*dests, member)))
    if selves:
        yield (member,)
    groups = options.get("groups")
    if "groups" in casts and isinstance(groups, dict):
        yield from sorted({tuple(sorted(group)) for group in groups.values() if member in group})
