"""Random runs of real endpoints, for any protocol: the source of the tests' packets and states."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import antecede
from antecede import Delivery, Endpoint, Packet, QueueFullError, UsageError

Swap = Callable[[Endpoint], Endpoint]


def names(count: int) -> tuple[str, ...]:
    """Return member names whose order by name is not their order by number."""
    return tuple(f"p{(7 * number + 3) % 100:02}" for number in range(count))


OVERLAP = "overlap"
"""For the options groups, zones and clusters: several of them, made from the members."""


def variants() -> list[tuple[str, dict[str, object]]]:
    """Return every protocol as it comes, with each of its switches turned, and with groups."""
    result: list[tuple[str, dict[str, object]]] = []
    for name, info in antecede.PROTOCOLS.items():
        result.append((name, {}))
        for option, spec in info.options.items():
            if type(spec.default) is bool:
                result.append((name, {option: not spec.default}))
            elif option in ("groups", "zones", "clusters"):
                result.append((name, {option: OVERLAP}))
    return result


def with_groups(options: dict[str, object], members: tuple[str, ...]) -> dict[str, object]:
    """Return ``options`` with the groups filled in."""
    middle = len(members) // 2
    made: dict[str, object] = {
        "groups": {"left": members[: middle + 1], "right": members[middle:], "all": members},
        "zones": (members[: middle + 1], members[middle:]),
        "clusters": (members[:middle], members[middle:]),
    }
    return {key: made[key] if value == OVERLAP else value for key, value in options.items()}


@dataclass
class Run:
    """Endpoints joined by a network that reorders and duplicates, driven by a seed."""

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
        self.options = with_groups(self.options, self.members)
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
        """In pull mode, take one message."""
        if self.options.get("pull"):
            self.take(name, self.at(name).take())

    def at(self, name: str) -> Endpoint:
        if self.swap is not None:
            self.endpoints[name] = self.swap(self.endpoints[name])
        return self.endpoints[name]

    def try_send(self, chance: random.Random, name: str, payload: bytes) -> None:
        """Send in some cast that the protocol offers; a refused call is no step."""
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
