"""The properties that the oracle judges, and the report of a broken one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PROPERTIES = {
    "safety": "no process delivers a message before a cause of it that is addressed to it too",
    "liveness": "when everything sent has arrived, everything is delivered",
    "quiescence": "when everything sent has arrived, no endpoint sends anything more",
    "no_overblocking": "a message waits only while a cause for the same process is missing",
    "deadlines": "no process delivers a message after its lifetime",
    "necessity": "the destinations kept are exactly those that the Propagation Constraints require",
}
"""Names as in ``ProtocolInfo.promises``. Every protocol must also keep ``integrity``, which is not
listed there: nothing invented, nothing delivered twice, payloads and event numbers right. After a
``skip`` it must also keep ``marks``: each delivery that depends on a lost message says so."""

Step = tuple[object, ...]


@dataclass(frozen=True)
class Script:
    """The steps of a run, as plain data: print it, save it, run it again.

    ``("send", process, dests, rank)``: the message depends on local events up to the ``rank``-th
    latest (1 is the latest); None means everything so far, 0 nothing.
    ``("arrive", choice, keep)``: the packet in flight numbered ``choice`` (modulo their number)
    arrives; with ``keep`` a duplicate stays in flight. ``("packet", source, dest, n, keep)``: the
    same for the packet ``n`` of that channel, if it is in flight; worlds record this form.
    ``("lose", choice)`` loses the data packet with that number; ``("loss", source, dest, n)`` is
    its recorded form. ``("crash", process, lost)`` stops a process and loses some of its packets.
    ``("tick", passed)``, ``("link", process, other)``, ``("take", process, source)``,
    ``("skip", process, source, upto)``, ``("settle",)`` and ``("restart", process)`` call the
    methods of a world.
    """

    members: tuple[str, ...]
    steps: tuple[Step, ...]
    fifo: bool = False
    pull: bool = False
    groups: Mapping[str, tuple[str, ...]] | None = field(default=None)


class BrokenPromiseError(AssertionError):
    """A protocol broke a property. The text says which one, why, and how to reproduce it."""

    def __init__(
        self, *, protocol: str, promise: str, sentence: str, script: Script, options: object
    ) -> None:
        self.protocol = protocol
        self.promise = promise
        self.sentence = sentence
        self.script = script
        super().__init__(
            f"{protocol} broke {promise}: {sentence}\n"
            f"to reproduce: run_script({script!r}, {protocol!r}, options={options!r})"
        )
