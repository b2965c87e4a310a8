"""Random runs of endpoints of any protocol: the source of the tests' packets and states."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import antecede
from antecede import Delivery, Endpoint, Packet, QueueFullError, UsageError
from antecede.endpoint.info import Members, Options, Variant

Swap = Callable[[Endpoint], Endpoint]


def names(count: int) -> tuple[str, ...]:
    """Return member names that sort differently by name and by number."""
    return tuple(f"p{(7 * number + 3) % 100:02}" for number in range(count))


def overlapping(members: Members) -> dict[str, Members]:
    """Return groups that share members."""
    middle = len(members) // 2
    return {"left": members[: middle + 1], "right": members[middle:], "all": members}


def made_for(variant: Variant, option: str) -> Callable[[Members], object]:
    """Return a function that computes an option of a variant from the members."""
    return lambda members: variant.options(members)[option]


def variants() -> list[tuple[str, Options]]:
    """Return every protocol with its defaults, with each switch turned, with groups, and variants.

    A value that is a function computes the option from the members of a run.
    """
    result: list[tuple[str, Options]] = []
    for name, info in antecede.PROTOCOLS.items():
        found: list[Options] = [{}]
        for option, spec in info.options.items():
            if type(spec.default) is bool:
                found.append({option: not spec.default})
        if "groups" in info.casts:
            found.append({"groups": overlapping})
        for variant in info.variants:
            options = variant.options(names(3))
            if options and options not in found:
                found.append({option: made_for(variant, option) for option in options})
        result.extend((name, options) for options in found)
    return result


@dataclass
class Run:
    """Endpoints on a network that reorders and duplicates, driven by a seed."""

    protocol: str
    members: tuple[str, ...]
    seed: int
    options: dict[str, object] = field(default_factory=dict)
    swap: Swap | None = None
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    packets: list[Packet] = field(default_factory=list)
    deliveries: list[tuple[str, Delivery]] = field(default_factory=list)
    in_flight: list[Packet] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.options = {
            key: value(self.members) if callable(value) else value
            for key, value in self.options.items()
        }
        self.endpoints = {
            name: antecede.endpoint(
                self.protocol,
                process=name,
                members=self.members,
                **self.options,  # type: ignore[arg-type]
            )
            for name in self.members
        }

    def go(self, steps: int) -> "Run":
        """Take ``steps`` steps; ``swap`` may replace an endpoint before each of its calls."""
        chance = random.Random(self.seed)
        for step in range(steps):
            if self.in_flight and chance.random() < 0.6:
                place = chance.randrange(len(self.in_flight))
                twice = chance.random() < 0.1
                packet = self.in_flight[place] if twice else self.in_flight.pop(place)
                self.take(packet.dest, self.at(packet.dest).receive(packet))
                self.pull(packet.dest)
            else:
                name = chance.choice(self.members)
                self.try_send(chance, name, b"%d" % step)
        return self

    def pull(self, name: str) -> None:
        """Take one message, if in pull mode."""
        if self.options.get("pull"):
            self.take(name, self.at(name).take())

    def at(self, name: str) -> Endpoint:
        if self.swap is not None:
            self.endpoints[name] = self.swap(self.endpoints[name])
        return self.endpoints[name]

    def try_send(self, chance: random.Random, name: str, payload: bytes) -> None:
        """Send in some cast that the protocol offers; ignore refused calls."""
        others = [other for other in self.members if other != name]
        casts = antecede.PROTOCOLS[self.protocol].casts
        choices: list[Iterable[str] | str] = [others]
        if isinstance(groups := self.options.get("groups"), dict):
            choices.extend(groups)
        if "multicast" in casts:
            choices.append(chance.sample(others, chance.randint(1, len(others))))
        if "unicast" in casts:
            choices.extend([[chance.choice(others)], [self.members[0]]])
        dests = chance.choice(choices)
        try:
            effects = self.at(name).send(dests, payload)
        except (UsageError, QueueFullError):
            return
        self.take(name, effects)

    def take(self, name: str, effects: antecede.Effects) -> None:
        self.packets.extend(effects.packets)
        self.in_flight.extend(effects.packets)
        self.deliveries.extend((name, delivery) for delivery in effects.deliveries)
