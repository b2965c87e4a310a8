"""Rows with encoded packets: every protocol, with an oracle that uses no clock."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import antecede
from antecede.errors import UsageError
from antecede.pipeline import reorder
from antecede.reorder import bucket as buckets
from antecede.reorder.bucket import Bucket, Policy
from antecede.reorder.packets import (
    CONTROL,
    UNFIT,
    Routed,
    make_plan,
)
from antecede.reorder.store import DictStore
from tests.support.streams import Oracle, Sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMBERS = ("a", "b", "c", "reader")
OPTIONS: dict[str, dict[str, Any]] = {
    "zones": {"zones": (MEMBERS,)},
    "hierarchy": {"clusters": (("a", "b"), ("c", "reader"))},
}
#: Protocols that never hold a message whose causes are all delivered.
PROMPT = ("matrix", "vectors", "direct", "pruned", "optimal", "broadcast", "context")
FIT = sorted(set(antecede.PROTOCOLS) - set(UNFIT))


@dataclass
class Run:
    """What processes sent each other, and what each message's sender knew."""

    packets: list[antecede.Packet] = field(default_factory=list)
    past: dict[str, set[str]] = field(default_factory=dict)
    dests: dict[str, list[str]] = field(default_factory=dict)
    delivered: dict[str, set[str]] = field(default_factory=dict)

    def copy(self, packet: antecede.Packet) -> Sent:
        """Return what a packet brings, with all that its destination must get before it."""
        name = str(packet.message)
        before = sorted(known for known in self.past[name] if packet.dest in self.dests[known])
        return Sent(name, packet.dest, packet.source, packet.n, tuple(before))


def make_run(protocol: str, seed: int, messages: int = 40) -> Run:
    rng, run = random.Random(seed), Run(delivered={name: set() for name in MEMBERS})
    options = OPTIONS.get(protocol, {})
    ends = {
        name: antecede.endpoint(protocol, process=name, members=MEMBERS, **options)
        for name in MEMBERS
    }
    knows: dict[str, set[str]] = {name: set() for name in MEMBERS}
    network: list[antecede.Packet] = []

    def carry(name: str, effects: antecede.Effects) -> None:
        for delivery in effects.deliveries:
            run.delivered[name].add(str(delivery.message))
            knows[name] |= {str(delivery.message), *run.past[str(delivery.message)]}
        network.extend(effects.packets)
        run.packets.extend(effects.packets)

    casts = antecede.PROTOCOLS[protocol].casts
    while len(run.past) < messages or network:
        if network and (len(run.past) == messages or rng.random() < 0.6):
            packet = network.pop(rng.randrange(len(network)))
            carry(packet.dest, ends[packet.dest].receive(packet))
            continue
        name = rng.choice([name for name in MEMBERS if name != "reader"])
        others = [other for other in MEMBERS if other != name]
        dests = rng.sample(others, rng.randint(1, 3)) if "multicast" in casts else others
        message = f"{name}:{sum(known.startswith(f'{name}:') for known in run.past) + 1}"
        run.past[message], run.dests[message] = set(knows[name]), dests
        knows[name].add(message)
        carry(name, ends[name].send(dests, message.encode()))
    return run


def test_every_protocol_is_fit_or_not_for_a_stated_reason() -> None:
    assert set(UNFIT) < set(antecede.PROTOCOLS)
    assert len(FIT) == len(antecede.PROTOCOLS) - len(UNFIT)


@pytest.mark.parametrize(("protocol", "seed"), [("acknowledged", 20), ("permits", 20)])
def test_packets_that_rely_on_acknowledgements_are_refused(protocol: str, seed: int) -> None:
    """Read back in another order, they would leave in the wrong one."""
    with pytest.raises(UsageError, match=f"packets of {protocol} cannot be reordered"):
        make_plan("packet", MEMBERS, protocol, ("reader",), None)
    packet = make_run(protocol, seed, messages=3).packets[0]
    refusal = make_plan("packet", MEMBERS, None, ("reader",), None).refusal(packet)
    assert refusal == f"a packet of {protocol}: {UNFIT[protocol]}"


CASES = [(protocol, 7) for protocol in FIT]
CASES += [(protocol, seed) for protocol in sorted(PROMPT) for seed in (8, 9)]


@pytest.mark.parametrize(("protocol", "seed"), CASES)
def test_rows_leave_in_causal_order_whatever_the_protocol(protocol: str, seed: int) -> None:
    run = make_run(protocol, seed)
    rng, readers, oracle = random.Random(seed), ("reader",), Oracle()
    plan = make_plan("packet", MEMBERS, protocol, readers, OPTIONS.get(protocol))
    rows = [packet for packet in run.packets if packet.dest in readers]
    rows += rng.sample(rows, len(rows) // 5)
    rng.shuffle(rows)
    policy = Policy(None, 10**9, "{}", keeps_rejected=True, plan=plan)
    bucket, store, found = Bucket(policy), DictStore(), list[dict[str, Any]]()
    codec = antecede.Codec(rows[0].view)
    for start in range(0, len(rows), 25):
        data = [codec.encode(packet) for packet in rows[start : start + 25]]
        batch = pa.record_batch(
            {
                "name": [str(packet.message) for packet in rows[start : start + 25]],
                "dest": [packet.dest for packet in rows[start : start + 25]],
                "packet": pa.array(data, pa.binary()),
            }
        )
        table = Routed(plan, 1)(pa.Table.from_batches([batch]))
        out = bucket.offer(table, start).to_pylist()
        if protocol in PROMPT:
            batch_rows = [run.copy(packet) for packet in rows[start : start + 25]]
            expected = {name for _, name in oracle.take(batch_rows)}
            assert {row["name"] for row in out} == expected
        found += out
        bucket.save(store)
        if rng.random() < 0.5:
            bucket = Bucket.load(policy, store)
    assert not bucket.machine.held
    assert {row["rejected"] for row in found} <= {None, CONTROL}
    for dest in readers:
        out = [row for row in found if row["dest"] == dest and row["rejected"] is None]
        assert [row["position"] for row in out] == list(range(1, len(out) + 1))
        seen: set[str] = set()
        for row in out:
            before = {m for m in run.past[row["name"]] if dest in run.dests[m]}
            assert before <= seen, (dest, row["name"], before - seen)
            seen.add(row["name"])
        assert seen == run.delivered[dest]
        assert len(out) == len(seen)


def test_a_packet_later_than_the_horizon_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of 200 packets come after a thousand horizons; nobody's packets wait for ever."""
    monkeypatch.setattr(buckets, "LOG_ENTRIES", 2)
    plan = make_plan("packet", MEMBERS, "optimal", ("reader",), None)
    policy = Policy(None, 10, "{}", keeps_rejected=True, plan=plan)
    sender = antecede.endpoint("optimal", process="a", members=MEMBERS)
    codec = antecede.Codec(sender)
    rows = [codec.encode(sender.send(["reader"], b"").packets[0]) for _ in range(200)]
    late, store, out = [rows.pop(105), rows.pop(41)], DictStore(), 0
    bucket = Bucket(policy)
    for number, data in enumerate([*(rows[n : n + 9] for n in range(0, 198, 9)), late, rows[:50]]):
        table = Routed(plan, 1)(pa.table({"packet": pa.array(data, pa.binary())}))
        live = bucket.offer(table, number * 1000)
        loaded = Bucket.load(policy, DictStore(store.parts()))
        assert loaded.offer(table, number * 1000).equals(live)
        bucket.save(store)
        assert live.column("position").to_pylist() == list(range(out + 1, out + 1 + len(live)))
        out += len(live)
        if data is late:
            assert out == 200
    assert (bucket.machine.held, bucket.machine.duplicates) == ({}, 50)


@pytest.mark.spark
def test_a_table_of_packets_on_spark(spark: SparkSession) -> None:
    run = make_run("optimal", 5)
    codec = antecede.Codec(MEMBERS)
    rows = [(str(p.message), codec.encode(p)) for p in run.packets if p.dest == "reader"]
    random.Random(1).shuffle(rows)
    broken = [("damaged", b"\xff\x00"), ("none", None)]
    elsewhere = next(packet for packet in run.packets if packet.dest == "a")
    broken.append(("elsewhere", codec.encode(elsewhere)))
    frame = spark.createDataFrame(rows + broken, "name string, data binary")
    found = reorder(
        frame, packet="data", members=MEMBERS, readers=["reader"], keep_rejected=True
    ).collect()
    out = sorted((row.position, row.name) for row in found if row.rejected is None)
    assert [position for position, _ in out] == list(range(1, len(rows) + 1))
    seen: set[str] = set()
    for _, name in out:
        assert {m for m in run.past[name] if "reader" in run.dests[m]} <= seen
        seen.add(name)
    reasons = {row.name: row.rejected for row in found if row.rejected}
    assert set(reasons) == {"damaged", "none", "elsewhere"}
    assert reasons["none"] == "data is missing"
    assert "is not among the readers" in reasons["elsewhere"]

    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "needs members="),
        ({"members": MEMBERS}, "needs readers="),
        ({"members": MEMBERS, "readers": ["x"]}, "reader 'x' is not among the members"),
        ({"members": MEMBERS, "protocol": "buffered"}, "cannot be reordered"),
        ({"members": MEMBERS, "readers": ["reader"], "causes": "c"}, "not both"),
        (
            {"members": MEMBERS, "readers": ["reader"], "on_missing": "release", "timeout": 1},
            "packets wait",
        ),
    ]
    for options, reason in wrong:
        with pytest.raises(UsageError, match=reason):
            reorder(frame, packet="data", **options)
