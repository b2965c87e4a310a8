"""buffered after a removal: what is held, and how long the name is kept."""

import pytest

from antecede import Codec, Endpoint, UsageError, endpoint

MEMBERS = ("a", "b", "c")


def group(**options: bool) -> list[Endpoint]:
    return [endpoint("buffered", process=name, members=MEMBERS, **options) for name in MEMBERS]


def test_what_is_held_of_a_removed_process_survives_a_snapshot() -> None:
    a, b, c = group(pull=True)
    a.receive(b.send(["a"], b"x").packets[0])
    a.remove("b")
    a.receive(c.send(["a"], b"y").packets[0])  # everyone is heard, but b's message is held
    codec = Codec(MEMBERS)
    a = codec.restore(codec.snapshot(a), resumed=True)
    assert [*a.departed] == ["b"]
    assert [one.payload for one in a.take().deliveries] == [b"x"]
    assert [*a.departed] == []


def test_a_removed_name_does_not_come_back_after_a_snapshot() -> None:
    a, b, c = group()
    duplicate = b.send(["a"], b"x").packets[0]
    a.receive(duplicate)
    a.remove("b")
    codec = Codec(MEMBERS)
    a = codec.restore(codec.snapshot(a), resumed=True)
    with pytest.raises(UsageError, match="cannot come back"):
        a.add("b")
    assert not a.receive(duplicate).deliveries
    assert [*a.departed] == ["b"]
    a.receive(c.send(["a"]).packets[0])
    assert [*a.departed] == []
    with pytest.raises(UsageError, match="cannot come back"):
        a.add("b")


def test_the_silent_who_leave_keep_nobody_from_being_forgotten() -> None:
    a, _, c = group()
    a.add("d")
    a.remove("b")
    a.remove("d")
    assert [*a.departed] == ["b", "d"]
    (posted,) = a.send(["c"]).packets
    a.receive(c.receive(posted).packets[0])
    assert [*a.departed] == []
