"""All engines give the same verdict, violations, missing messages and findings.

``python -m tests.audit.campaign --histories 20000`` compares the plain engine with the local one
on random histories; ``--spark`` also compares it with Spark, on logs that each combine many
histories with the same verdict. ``--completions N`` tries all completions of N small logs that
lack events: no completion of an ordered log may be broken.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from antecede.audit.api import Audit, audit_frame, audit_table
from antecede.audit.doubt import find_doubt
from antecede.audit.plain import Order
from antecede.audit.verdicts import Asked
from antecede.events.arrow_schemas import CLOCKS
from antecede.events.sources import table_of
from tests.support.completions import choices, hides
from tests.support.histories import BRIEF, CLOCKED, RELAYED, SHAPES, Shape, history
from tests.support.oracles import oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY = (*SHAPES, *RELAYED, *CLOCKED, *BRIEF)
#: Logs with more completions are not tried.
COMPLETIONS_MAX = 2000
#: How many histories Spark audits as one log.
BATCH = 200
#: The fields of a summary that do not depend on the engine.
ALIKE = (
    "events", "processes", "messages", "deliveries", "paired_sends", "paired_deliveries",
    "judged_deliveries", "violations", "missing", "findings", "rejected", "clocks",
    "beyond_messages", "lateness", "lateness_spread", "worst_pairs",
)  # fmt: skip


def damaged(seed: int) -> tuple[pa.Table, Asked]:
    """Return a history with lost or invalid events, and the request to audit it with."""
    rng = random.Random(seed)
    log = history(EVERY[seed % len(EVERY)], seed)
    if rng.random() < 0.3:
        log = [e for e in log if rng.random() > 0.05] or log
    kinds = [e.kind for e in log]
    if rng.random() < 0.2:
        kinds[rng.randrange(len(log))] = "delivered"
    table = table_of(log)
    table = table.set_column(2, "kind", pa.array(kinds))
    clocks = [getattr(event, "clock", None) for event in log]
    if any(clock is not None for clock in clocks):
        table = table.append_column("clock", pa.array(clocks, CLOCKS))
    complete = rng.choice([False, None, True])
    asked = Asked(assume_complete=rng.random() < 0.1, complete_until_end=complete)
    return table, asked


def side_by_side(tables: Sequence[pa.Table]) -> pa.Table:
    """Combine histories in one log, each with processes and messages of its own."""
    rows = []
    for number, table in enumerate(tables):
        for row in table.to_pylist():
            named = [name for name in ("process", "message") if row[name]]
            own: dict[str, Any] = {name: f"{number}:{row[name]}" for name in named}
            if row["dests"] is not None:
                own["dests"] = [f"{number}:{dest}" for dest in row["dests"]]
            if row.get("clock") is not None:
                own["clock"] = [(f"{number}:{name}", count) for name, count in row["clock"]]
            rows.append(row | own)
    schema = tables[0].schema
    if "clock" not in schema.names:
        schema = schema.append(pa.field("clock", CLOCKS))
    return pa.Table.from_pylist(rows, schema=schema)


def told(found: Audit) -> dict[str, Any]:
    """Return the results that engines must agree on."""
    return {
        "verdict": found.verdict,
        **{name: list(rows) for name, rows in found.records.items()},
        **{name: found.summary[name] for name in ALIKE},
    }


def differences(
    table: pa.Table, asked: Asked, spark: SparkSession | None = None
) -> tuple[str, list[str]]:
    """Return the verdict on a log, and the differences of another engine's results."""
    plain = told(audit_table(table, asked, engine="plain"))
    if spark is None:
        other = told(audit_table(table, asked, engine="local"))
    else:
        other = told(audit_frame(spark.createDataFrame(table), asked, windows=3))
    wrong = [
        f"{name}: plain {plain[name]!r}, other {other[name]!r}"
        for name in plain
        if plain[name] != other[name]
    ]
    return plain["verdict"], wrong


def completed(seed: int, *, until_end: bool) -> tuple[bool, bool] | None:
    """Return whether a completion of a small log is broken, and whether the audit has doubts.

    None if the log is broken itself, or has too many completions.
    """
    rng = random.Random(seed)
    shape = Shape(
        processes=rng.choice([2, 3]),
        sends=rng.choice([2, 3, 3, 4]),
        fan_out=rng.choice([1, 2]),
        delay=rng.choice([0.3, 2.0]),
        own=rng.choice([0, 0, 0.3]),
        dests=rng.random() < 0.7,
        unlogged=rng.choice([0.15, 0.3, 0.4]),
        clocks=rng.choice([0, 0, 0.5, 1.0]),
    )
    log = history(shape, seed)
    if not 0 < len(log) < 10:
        return None
    truth = oracle(log)
    if truth.violations or (until_end and truth.missing):
        return None
    if prod(map(len, choices(log, until_end=until_end))) > COMPLETIONS_MAX:
        return None
    clocks = [getattr(event, "clock", None) for event in log]
    has_clocks = any(clock is not None for clock in clocks)
    order = Order(log, [None if c is None else dict(c) for c in clocks] if has_clocks else ())
    doubts = find_doubt(order, until_end=until_end) is not None
    return hides(log, until_end=until_end), doubts


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--histories", type=int, default=20_000)
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--spark", action="store_true")
    words.add_argument("--completions", type=int, default=0)
    given = words.parse_args()
    for until_end in (False, True) if given.completions else ():
        seen = Counter(completed(seed, until_end=until_end) for seed in range(given.completions))
        print(f"until_end={until_end}: (a completion is broken, doubted): {dict(seen)}")
        if seen[True, False]:
            msg = "a completion of a log called ordered is broken"
            raise SystemExit(msg)
    verdicts: Counter[str] = Counter()
    alike: dict[object, list[int]] = defaultdict(list)
    for seed in range(given.first, given.first + given.histories):
        table, asked = damaged(seed)
        verdict, wrong = differences(table, asked)
        verdicts[verdict] += 1
        alike[verdict, asked.assume_complete, asked.complete_until_end].append(seed)
        if wrong:
            raise SystemExit(f"seed {seed}: " + "\n".join(wrong))
    print(f"{given.histories:,} histories, plain and local agree: {dict(verdicts)}", flush=True)
    if given.spark:
        on_spark(
            [seeds[k : k + BATCH] for seeds in alike.values() for k in range(0, len(seeds), BATCH)]
        )


def on_spark(batches: Sequence[Sequence[int]]) -> None:
    """Compare Spark with the plain engine on histories, many in one log."""
    from antecede.spark.session import session

    with session(None, app="campaign") as spark:
        verdicts: Counter[str] = Counter()
        for number, seeds in enumerate(batches, start=1):
            found = [damaged(seed) for seed in seeds]
            together = side_by_side([table for table, _ in found])
            verdict, wrong = differences(together, found[0][1], spark)
            if wrong:
                raise SystemExit(f"seeds {seeds} on Spark: " + "\n".join(wrong))
            verdicts[verdict] += 1
            print(f"{number:,} of {len(batches):,} logs agree", flush=True)
    count = sum(map(len, batches))
    print(f"{count:,} histories in {len(batches):,} logs, plain and Spark agree: {dict(verdicts)}")


if __name__ == "__main__":
    main()
