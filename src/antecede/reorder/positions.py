"""``reorder`` by positions: Kafka records in causal order, as a consumer group reads them.

A record waits until its destination has delivered every log it reads up to the record's positions,
as in :mod:`antecede.logs`; the records of a log keep their order. Offsets without a record are
skipped once the next record of their log has arrived. The state of a destination is one value.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, StructType

from antecede.errors import HeaderError, UsageError
from antecede.logs.positions import HEADER, Positions
from antecede.reorder.columns import require_columns, result_schema
from antecede.reorder.spark_state import set_timer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

#: The columns that locate a record, as Spark's Kafka source calls them.
PLACE = ("topic", "partition", "offset")
#: The column used as the destination where rows have none.
ALL = "__antecede_all"
STATE_VERSION = 1
_VALUE = StructType().add("value", BinaryType())
Place = tuple[str, int]


class Plan(NamedTuple):
    """The options of a query; a checkpoint fixes all but the timeout."""

    positions: str
    topics: tuple[str, ...]
    dest: str
    timeout: int | None
    keeps_rejected: bool


@dataclass(slots=True)
class Held:
    """A record that waits: its offset, the positions it needs, its row, and when it arrived."""

    offset: int
    needs: dict[Place, int]
    row: dict[str, Any]
    came: int


@dataclass(slots=True)
class Destination:
    """What one destination has delivered and holds."""

    position: int = 0
    #: Per log: every record below this offset is delivered.
    progress: dict[Place, int] = field(default_factory=dict)
    #: Per log: the offset after the last record that has arrived.
    ends: dict[Place, int] = field(default_factory=dict)
    queues: dict[Place, deque[Held]] = field(default_factory=dict)

    def take(self, rows: Iterable[Mapping[str, Any]], plan: Plan, now: int) -> Iterator[Row]:
        """Take rows; yield what may be delivered, in causal order, and what is not a record."""
        for row in sorted(map(dict, rows), key=_place_of):
            reason = _fault(row)
            place, offset = (row["topic"], row["partition"]), row["offset"]
            if reason:
                if plan.keeps_rejected:
                    yield _out(row, plan, rejected=reason)
                continue
            if offset < self.ends.get(place, 0):
                continue  # a duplicate
            try:
                needs = _needs(row[plan.positions], plan.topics, place)
            except HeaderError as error:  # deliver it at once rather than lose it
                needs = {}
                if plan.keeps_rejected:
                    yield _out(row, plan, rejected=str(error))
                    self.ends[place] = offset + 1
                    continue
            self.ends[place] = offset + 1
            self.queues.setdefault(place, deque()).append(Held(offset, needs, row, now))
        yield from self.advance(plan, now)

    def advance(self, plan: Plan, now: int, *, releases: bool = False) -> Iterator[Row]:
        """Yield what can be delivered now and, if ``releases``, what waited for the timeout."""
        moved = True
        while moved:
            moved = False
            for place in sorted(self.queues):
                queue = self.queues[place]
                while queue:
                    head = queue[0]
                    self.progress[place] = max(head.offset, self.progress.get(place, 0))
                    missing = any(self.progress.get(k, 0) < n for k, n in head.needs.items())
                    is_late = plan.timeout is not None and now - head.came >= plan.timeout
                    if missing and not (releases and (plan.timeout is None or is_late)):
                        break
                    queue.popleft()
                    self.progress[place] = head.offset + 1
                    self.position += 1
                    held = (now - head.came) / 1e6
                    yield _out(head.row, plan, self.position, held, released=missing)
                    moved = True
            if moved and releases:
                releases = plan.timeout is not None  # releasing one may have freed others
        for place in [place for place, queue in self.queues.items() if not queue]:
            del self.queues[place]

    def deadline(self, plan: Plan) -> int | None:
        """Return when the first record is to be released."""
        heads = [queue[0].came for queue in self.queues.values() if queue]
        return None if plan.timeout is None or not heads else min(heads) + plan.timeout


def _place_of(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["topic"] or "", row["partition"] or 0, row["offset"] or 0


def _fault(row: Mapping[str, Any]) -> str:
    missing = [name for name in PLACE if row[name] is None]
    return f"{missing[0]} is missing" if missing else ""


def _needs(found: Any, topics: Sequence[str], own: Place) -> dict[Place, int]:
    """Return a row's positions in the topics that are read, except its own log."""
    if isinstance(found, list):
        named = [pair["value"] for pair in found if pair["key"] == HEADER]
        found = named[-1] if named else None
    positions = Positions.decode(None if found is None else bytes(found))
    needs: dict[Place, int] = {}
    for log, offset in positions.items():
        place = (log.topic, log.partition)
        if log.topic in topics and place != own:
            needs[place] = max(offset, needs.get(place, 0))
    return needs


def _out(
    row: Mapping[str, Any],
    plan: Plan,
    position: int | None = None,
    held: float | None = None,
    *,
    released: bool | None = None,
    rejected: str | None = None,
) -> Row:
    added: dict[str, Any] = {"position": position, "held_seconds": held, "released": released}
    added["late"] = None if position is None else False
    if plan.keeps_rejected:
        added["rejected"] = rejected
    return Row(**{k: v for k, v in row.items() if k != ALL}, **added)


class ByPositions(StatefulProcessor):
    """Orders the rows of each destination; its state is one pickled value."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.handle = handle
        self.state = handle.getValueState("destination", _VALUE)

    def _load(self) -> Destination:
        stored = self.state.get()
        if stored is None:
            return Destination()
        version, asked, found = pickle.loads(stored[0])
        if version != STATE_VERSION or asked != (self.plan.positions, self.plan.topics):
            raise UsageError(
                f"the checkpoint is of version {version} and of a query by {asked}; this is "
                f"version {STATE_VERSION} by {self.plan.positions, self.plan.topics}: use a new one"
            )
        assert isinstance(found, Destination)
        return found

    def _save(self, found: Destination, before: int | None) -> None:
        asked = (self.plan.positions, self.plan.topics)
        self.state.update((pickle.dumps((STATE_VERSION, asked, found)),))
        set_timer(self.handle, before, found.deadline(self.plan))

    def handleInputRows(
        self, key: Any, rows: Iterator[Row], timerValues: TimerValues
    ) -> Iterator[Row]:
        """Take a batch's rows of one destination."""
        found = self._load()
        before = found.deadline(self.plan)
        now = 1000 * timerValues.getCurrentProcessingTimeInMs()
        plain = (row.asDict(recursive=True) for row in rows)
        yield from list(found.take(plain, self.plan, now))
        self._save(found, before)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """Release what has waited too long."""
        found = self._load()
        now = 1000 * timerValues.getCurrentProcessingTimeInMs()
        yield from list(found.advance(self.plan, now, releases=True))
        self._save(found, None)

    def close(self) -> None:
        """Spark closes the state itself."""


def reorder_by_positions(
    stream: DataFrame,
    positions: str,
    topics: Iterable[str] | None,
    dest: str,
    timeout: int | None,
    *,
    releases: bool,
    keeps_rejected: bool,
) -> DataFrame:
    """Return each destination's rows in causal order; without a column ``dest``, those of all."""
    from pyspark.sql import functions as F

    names = tuple(sorted(topics)) if topics is not None and not isinstance(topics, str) else ()
    if not names:
        raise UsageError(
            "positions= needs topics=, the topics that the stream reads: others do not count"
        )
    require_columns(stream, (*PLACE, positions))
    kind = dict(stream.dtypes)[positions]
    if kind != "binary" and not kind.startswith("array<struct<key:string,value:binary"):
        raise UsageError(
            f"column {positions!r} has type {kind}; positions are binary, or the headers of "
            "Spark's Kafka source: read it with option('includeHeaders', True)"
        )
    schema = result_schema(stream, keeps_rejected=keeps_rejected)
    key = dest if dest in stream.columns else ALL
    rows = stream if key == dest else stream.withColumn(ALL, F.lit(""))
    plan = Plan(positions, names, key, timeout, keeps_rejected)
    if stream.isStreaming:
        mode = "none" if timeout is None else "processingTime"
        return rows.groupBy(key).transformWithState(ByPositions(plan), schema, "append", mode)

    def order(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        found = Destination()
        out = list(found.take(table.to_pylist(), plan, 0))
        if releases:
            out += found.advance(plan._replace(timeout=None), 0, releases=True)
        plain = [row.asDict() for row in out]
        wanted = table.schema
        if ALL in wanted.names:
            wanted = wanted.remove(wanted.get_field_index(ALL))
        for name, type_ in (
            ("position", pa.int64()),
            ("held_seconds", pa.float64()),
            ("released", pa.bool_()),
            ("late", pa.bool_()),
            *([("rejected", pa.string())] if keeps_rejected else []),
        ):
            wanted = wanted.append(pa.field(name, type_))
        return pa.Table.from_pylist(plain, schema=wanted)

    return rows.groupBy(key).applyInArrow(order, schema)
