"""What a query holds, read from its checkpoint, and commands to release or drop messages.

The query may be running; reading changes nothing. Commands are files beside the checkpoint that the
query reads as a stream. So a command belongs to a batch like any row, and a repeated batch obeys it
again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from antecede.errors import UsageError
from antecede.reorder.bucket import Bucket, Policy, other_version
from antecede.reorder.columns import CAUSES, PREFIX
from antecede.reorder.packets import PacketMachine, Plan
from antecede.reorder.source_and_sink import require_checkpoint
from antecede.reorder.store import PACKET_STATE_VERSION, STATE, STATE_VERSION, DictStore, read_head

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Held(NamedTuple):
    """A row that is held: its destination and id, its missing causes, and since when."""

    dest: str
    id: str
    lacks: tuple[str, ...]
    since: float
    seconds: float
    row: dict[str, Any]


#: The columns of :func:`waiting`.
SCHEMA = "dest string, id string, lacks array<string>, since timestamp, seconds double"


def waiting(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Return what a query holds, for which causes and since when, as a table, oldest first.

    The query may be running: the table shows the state after its last finished batch.
    """
    rows = [
        (h.dest, h.id, list(h.lacks), datetime.fromtimestamp(h.since, UTC), h.seconds)
        for h in held_rows(spark, checkpoint)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def held_rows(spark: SparkSession, checkpoint: str) -> list[Held]:
    """Return the rows that a query holds, the oldest first."""
    now = time.time()
    found = [held for store in _stores(spark, checkpoint).values() for held in _held_in(store, now)]
    return sorted(found, key=lambda held: (-held.seconds, held.dest, held.id))


def _stores(spark: SparkSession, checkpoint: str) -> dict[int, DictStore]:
    """Return the state of every bucket."""
    path = Path(checkpoint)
    require_checkpoint(path)
    stores: dict[int, DictStore] = {}
    try:
        reader = spark.read.format("statestore").option("path", str(path.resolve()))
        found = reader.option("stateVarName", STATE).load()
        _require_layout(found.columns)
        for row in found.collect():
            part, number = row.user_map_key
            value = bytes(row.user_map_value[0])
            stores.setdefault(row.key[0], DictStore()).put(part, number, value)
    except UsageError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise UsageError(
            f"{checkpoint} has no state of reorder that can be read: {reason}"
        ) from error
    return stores


def _require_layout(columns: list[str]) -> None:
    """Refuse the state of the first layout, which is another kind of variable."""
    if "user_map_key" not in columns:
        raise UsageError(other_version(1, STATE_VERSION))


def _held_in(store: DictStore, now: float) -> Iterator[Held]:
    head = read_head(store)
    if not head:
        return
    names, fixed = head["columns"], head["fixed"]
    plan, version = None, STATE_VERSION
    if fixed.get("form") == "packets":
        version = PACKET_STATE_VERSION
        if head["version"] == version:
            plan = Plan.of(names["packet"], fixed)
    bucket = Bucket.load(Policy(None, 1, json.dumps(fixed), version=version, plan=plan), store)
    for message in bucket.machine.held.values():
        row = bucket.chunks[message.chunk].table.slice(message.row, 1).to_pylist()[0]
        since = message.arrived / 1e6
        seconds = max(0.0, now - since)
        own = {name: value for name, value in row.items() if not name.startswith(PREFIX)}
        if isinstance(bucket.machine, PacketMachine):
            yield _held_packet(bucket.machine, own, message.dest, (since, seconds))
        else:
            causes = row[names["causes"]]
            pairs = zip(causes if isinstance(causes, list) else [causes], row[CAUSES], strict=True)
            lacks = tuple(str(cause) for cause, key in pairs if key in message.lacking)
            dest = "" if names["dest"] is None else str(row[names["dest"]])
            yield Held(dest, str(row[names["id"]]), lacks, since, seconds, own)


def _held_packet(
    machine: PacketMachine, row: dict[str, Any], dest: int, times: tuple[float, float]
) -> Held:
    plan = machine.plan
    packet = plan.decode(bytes(row[plan.column]))
    endpoint = plan.restore(machine.snapshots[dest][1])
    needs = endpoint.waiting().get(packet.content.id, ())
    lacks = tuple(str(need) for need in needs)
    return Held(packet.dest, str(packet.content.id), lacks, *times, row)


#: The folder of commands inside a checkpoint.
FOLDER = "commands"
_COMMAND = "action string, id string, dest string"
#: Lines of a file of offsets before the first source: its version and the settings.
_BEFORE_SOURCES = 2


def read_commands(spark: SparkSession, checkpoint: Path) -> DataFrame | None:
    """Return the commands for a query, or None if its checkpoint was begun without any."""
    if _sources_in(checkpoint) == 1:
        return None
    folder = checkpoint.resolve() / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema(_COMMAND).json(str(folder))


def leave_commands(checkpoint: Path, commands: Iterable[tuple[str, str]], dest: str | None) -> None:
    """Write commands, each an action and an id, to where the query of a checkpoint reads them."""
    folder = checkpoint / FOLDER
    if not folder.is_dir():
        raise UsageError(
            f"the query of {checkpoint} reads no commands: it was begun without, or has packets; "
            "for rows with declared causes, begin a new checkpoint"
        )
    name = f"{time.time_ns()}-{os.getpid()}.json"
    # Rows without a destination have an empty one.
    lines = [{"action": action, "id": key, "dest": dest or ""} for action, key in commands]
    aside = folder / f".{name}"
    aside.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    aside.rename(folder / name)


def _sources_in(checkpoint: Path) -> int | None:
    """Return how many sources the query of a checkpoint reads, or None if it has not begun."""
    batches = [path for path in (checkpoint / "offsets").glob("[0-9]*") if path.name.isdigit()]
    if not batches:
        return None
    last = max(batches, key=lambda path: int(path.name))
    # Spark refuses a file that is damaged.
    return len(last.read_text(encoding="utf-8", errors="replace").splitlines()) - _BEFORE_SOURCES
