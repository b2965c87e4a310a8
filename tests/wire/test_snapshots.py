"""Snapshots: a restored endpoint behaves as if never stopped; impossible ones are refused."""

import json

import pytest

import antecede
from antecede import Codec, SnapshotError, UsageError
from tests.support.rounds import some
from tests.support.wire_runs import Run, names, variants

VARIANTS = variants()
LABELS = [f"{name} {' '.join(options)}".strip() for name, options in VARIANTS]


@pytest.mark.parametrize("pull", [False, True], ids=["push", "pull"])
@pytest.mark.parametrize(("protocol", "options"), VARIANTS, ids=LABELS)
def test_restoring_before_every_call_changes_nothing(
    protocol: str, options: dict[str, object], pull: bool
) -> None:
    def saved(end: antecede.Endpoint) -> antecede.Endpoint:
        codec = Codec(end)
        data = codec.snapshot(end)
        made = codec.restore(data, resumed=True)
        assert codec.snapshot(made) == data
        return made

    plain = Run(protocol, names(4), 3, options | {"pull": pull}).go(some(150))
    restored = Run(protocol, names(4), 3, options | {"pull": pull}, swap=saved).go(some(150))
    assert restored.packets == plain.packets
    assert restored.deliveries == plain.deliveries
    assert plain.deliveries


def test_fields_have_names_that_a_reader_understands() -> None:
    run = Run("optimal", names(3), 3).go(30)
    end = run.endpoints[names(3)[0]]
    record = json.loads(Codec(end).snapshot(end))
    assert record.pop("endpoint").keys() == {
        "process", "pull", "held_max", "held_bytes_max", "queue_max", "seq", "events", "sent",
        "prefix", "ahead", "arrivals", "held", "taken", "reached", "skips", "rules",
    }  # fmt: skip
    assert record == {
        "format": "antecede snapshot",
        "version": 3,
        "view": 0,
        "members": list(names(3)),
        "protocol": "optimal",
        "options": {"hardware_multicast": False, "lookahead": False, "differential": False},
    }


def changed(data: bytes, **changes: object) -> bytes:
    record = json.loads(data)
    for path, value in changes.items():
        owner, *names_ = [record, *path.split("__")]
        for name in names_[:-1]:
            owner = owner[name]
        owner[names_[-1]] = value
    return json.dumps(record).encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "not a snapshot of version 3"),
        ({"format": "other"}, "not a snapshot of version 3"),
        ({"members": ["a", "c"]}, "other members"),
        ({"protocol": "magic"}, "unknown protocol"),
        ({"options": {"lookahead": 3}}, "neither True nor False"),
        ({"view": 9}, "use the Codec of its view"),
        ({"endpoint__process": "z"}, "expected one of a, b"),
        ({"endpoint__seq": -1}, "seq is -1"),
        ({"endpoint__seq": True}, "seq is True"),
        ({"endpoint__events": 0}, "events is 0; expected a number from 1"),
        ({"endpoint__prefix": [0]}, "prefix"),
        ({"endpoint__prefix": [5, 0]}, "no packets of 'a' to itself"),
        ({"endpoint__ahead": [[], [1]]}, "ahead"),
        ({"endpoint__held": [[1, 7]]}, "held"),
        ({"endpoint__pull": 1}, "pull"),
        ({"endpoint__unknown": 1}, "unknown fields unknown"),
        ({"endpoint__reached": [1, 1]}, "a key for each place"),
        ({"endpoint__rules__tops": [8, 1]}, "at most 1 messages of its own"),
        ({"endpoint__rules__log": [[7, "3"]]}, "messages that are known of"),
        ({"endpoint__rules__log": [[2, "f"]]}, "a set of 2 members"),
        ({"endpoint__rules": {}}, "lacks the field tops"),
    ],
)
def test_impossible_fields_are_named(change: dict[str, object], said: str) -> None:
    end = antecede.endpoint("optimal", process="a", members=("a", "b"))
    end.send(["b"])
    codec = Codec(end)
    with pytest.raises(SnapshotError, match=said) as caught:
        codec.restore(changed(codec.snapshot(end), **change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["open", "owed"])
def test_acknowledged_waits_for_no_message_twice(field: str) -> None:
    end = antecede.endpoint("acknowledged", process="a", members=("a", "b", "c"))
    end.send(["b", "c"])
    codec = Codec(end)
    data = codec.snapshot(end)
    codec.restore(changed(data, **{f"endpoint__rules__{field}": [[], [1], [1]]}))
    with pytest.raises(SnapshotError, match=rf"{field} is \[1, 1\]; expected ascending"):
        codec.restore(changed(data, **{f"endpoint__rules__{field}": [[], [1, 1], [1]]}))


@pytest.mark.parametrize("data", [b"", b"\x02old bytes", b"{", b"{}", b"[]", b"null", b'"x"'])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError) as caught:
        Codec(("a", "b")).restore(data)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="expected bytes"):
        Codec(("a", "b")).restore(7)  # type: ignore[arg-type]


def test_deeply_nested_data_is_refused() -> None:
    with pytest.raises(SnapshotError):
        Codec(("a", "b")).restore(b'{"format":' + b"[" * 100_000)
