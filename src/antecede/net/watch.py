"""What waits, for how long and for what, and a log line when something has waited long."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from antecede.core.messages import MessageId, Need
from antecede.net.machine import Machine
from antecede.net.outcomes import Outcome

LOG: Final = logging.getLogger("antecede.net")


class Waiting(NamedTuple):
    """A message that arrived and is held: for how many seconds, and what it waits for."""

    message: MessageId
    seconds: float
    needs: tuple[Need, ...]

    def __str__(self) -> str:
        needs = " and ".join(map(str, self.needs)) or "its turn"
        return f"message {self.message} has waited {self.seconds:.0f} s for {needs}"


class Watch:
    """Keeps the time at which each held message arrived."""

    def __init__(self, machine: Machine, seconds: float) -> None:
        self.machine = machine
        self.seconds = seconds
        self.loop = asyncio.get_running_loop()
        self.since = dict.fromkeys(machine.endpoint.waiting(), self.loop.time())
        self._told: set[tuple[str, str]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._set_timer()

    def note(self, outcome: Outcome) -> None:
        """Note what arrived and was held, and what was delivered."""
        now = self.loop.time()
        for message in outcome.held:
            self.since[message] = now
        for delivery in outcome.deliveries:
            self.since.pop(delivery.message, None)
        self._set_timer()

    def waiting(self) -> list[Waiting]:
        """Return what is held, the longest first."""
        now, needs = self.loop.time(), self.machine.endpoint.waiting()
        return [
            Waiting(message, now - since, needs[message])
            for message, since in self.since.items()
            if message in needs
        ]

    def oldest(self) -> float:
        """Return for how many seconds the oldest held message has waited."""
        first = next(iter(self.since.values()), None)
        return 0.0 if first is None else self.loop.time() - first

    def tell_once(self, who: str, what: str, sentence: str) -> None:
        """Log a warning about a peer, the first time only."""
        if (who, what) not in self._told:
            self._told.add((who, what))
            LOG.warning("%s: %s", self.machine.setup.process, sentence)

    def stop(self) -> None:
        """Log nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if self._timer is None and self.since:
            self._timer = self.loop.call_later(self.seconds, self._check)

    def _check(self) -> None:
        self._timer = None
        if self.oldest() >= self.seconds and (found := self.waiting()):
            more = f" ({len(found) - 1} more wait)" if len(found) > 1 else ""
            LOG.warning("%s: %s%s", self.machine.setup.process, found[0], more)
        self._set_timer()
