"""Figures of nodes as OpenTelemetry instruments: the same as for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary, ref

from antecede.errors import AntecedeError, UsageError
from antecede.net.metrics import Figure
from antecede.net.node import Node

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

_UNITS: Final = {"bytes": "By", "seconds": "s"}


def observe(node: Node, meter: Meter | None = None) -> None:
    """Let a meter read the figures of an open node, until the node is closed.

    The default is the meter ``antecede`` of the global meter provider. Names begin with
    ``antecede.``, and the attributes are ``process`` and, for figures of a peer, ``peer``.
    """
    try:
        from opentelemetry.metrics import get_meter
    except ModuleNotFoundError as error:
        msg = f"meters need {error.name}, which is not installed; run: pip install 'antecede[otel]'"
        raise UsageError(msg) from error
    meter = meter or get_meter("antecede")
    watched = _WATCHED.setdefault(meter, _Watched(meter))
    watched.add(node)


class _Watched:
    """The nodes that one meter reads, because it may make each instrument only once."""

    def __init__(self, meter: Meter) -> None:
        self._meter = ref(meter)
        self._names: set[str] = set()
        self._nodes: list[ref[Node]] = []

    def add(self, node: Node) -> None:
        figures, meter = node.figures(), self._meter()
        self._nodes = [one for one in self._nodes if one() is not None]
        self._nodes.append(ref(node))
        for figure in figures:
            if meter is None or figure.name in self._names:
                continue
            self._names.add(figure.name)
            is_counter = figure.kind == "counter"
            make = meter.create_observable_counter if is_counter else meter.create_observable_gauge
            short = figure.name.removesuffix("_total")
            make(
                f"antecede.{short}",
                callbacks=[self._reader(figure.name)],
                unit=_UNITS.get(short.rpartition("_")[2], "1"),
                description=figure.help,
            )

    def _reader(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        from opentelemetry.metrics import Observation

        def read(_: CallbackOptions) -> Iterable[Observation]:
            for node in filter(None, [one() for one in self._nodes]):
                for peer, value in _values(node, name).items():
                    about = {"process": node.process} | ({"peer": peer} if peer else {})
                    yield Observation(value, about)

        return read


def _values(node: Node, name: str) -> dict[str, float]:
    """Return one figure of a node by peer; empty once the node is closed."""
    try:
        found: list[Figure] = node.figures() if node.is_open else []
    except AntecedeError:
        return {}
    return {key: value for one in found if one.name == name for key, value in one.values.items()}


_WATCHED: Final[WeakKeyDictionary[Meter, _Watched]] = WeakKeyDictionary()
