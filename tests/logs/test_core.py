"""Positions, contexts and the gate by themselves, and the model of all rules."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecede.errors import CauseMissingError, ContextEndedError, HeaderError, UsageError
from antecede.logs import Context, Gate, Log, Positions, context, current, handling
from antecede.logs.positions import BYTES_MAX, ENTRIES_MAX, as_text, tag_of
from antecede.logs.reader import Order, Reader, Record, checked
from tests.logs.model import VARIANTS, Rules, campaign

A, B, C = Log("a"), Log("b"), Log("c")

printable = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
logs = st.builds(
    Log,
    st.text(printable, min_size=1, max_size=12),
    st.integers(0, 2**31 - 1),
    st.sampled_from([b"", b"\x01\x02\x03", b"zzz"]),
)


@given(st.dictionaries(logs, st.integers(1, 2**63 - 1), max_size=30))
def test_a_header_reads_back(found: dict[Log, int]) -> None:
    positions = Positions(found)
    assert Positions.decode(positions.encode()) == positions


@given(st.dictionaries(logs, st.tuples(st.integers(1, 2**40), st.integers(0, 10**6)), max_size=9))
def test_ages_read_back(found: dict[Log, tuple[int, int]]) -> None:
    positions = Positions({log: offset for log, (offset, _) in found.items()})
    positions.ages = {log: age for log, (_, age) in found.items()}
    back = Positions.decode(positions.encode())
    assert back == positions
    assert back.ages == positions.ages


def test_any_bytes_are_read_or_refused_and_there_is_one_form() -> None:
    source = random.Random(7)
    good = Positions(
        {Log(f"shop.{n}", p, t): 9**n + p for n in range(4) for p in (0, 5) for t in (b"", b"abc")}
    ).encode()
    for _ in range(5_000):
        data = bytearray(good)
        for _ in range(source.randrange(4)):
            data[source.randrange(len(data))] = source.randrange(256)
        damaged = bytes(data[: source.randrange(len(data) + 1)])
        with suppress(HeaderError):
            found = Positions.decode(damaged)
            assert damaged[0] in b"AE" or found.encode() == damaged


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (b"\xff\x00", "its first byte is 0xff, which no version begins with"),
        (b"\x12", "version is 2, not 1"),
        (b"\x02", "version is 2, not 1"),
        (b"\x01\x00\x02a", "torn"),
        (b"\x01\x00\x02a\x01\x00\x00", "offset 0"),
        (b"\x01\x00\x02\xff\x01\x00\x05", "not UTF-8"),
        (b"\x01\x00\x02a\x00", "no positions"),
        (b"\x01\x00\x02a\x01\x80\x00\x05", "longer than it needs to be"),
        (b"\x01\x00\x02b\x01\x00\x05\x00\x02a\x01\x00\x05", "not in order"),
        (b"\x01\x00\x02a\x01\x00\x05\x00\x04ab\x01\x00\x05", "share more"),
        (b"\x01" + bytes(BYTES_MAX), "more than 65,536 bytes"),
        (b"A" * 3 * BYTES_MAX, "more than 65,536 bytes"),
        (b"\x01\x00\x02a\xff\xff\x7f" + b"\x00\x05" * 9000, "more than 4,096"),
        (b"\x01\x00\x02a\x01\x00" + b"\xff" * 11, "longer than it needs to be"),
    ],
)
def test_what_is_wrong_with_a_header_is_said_in_one_line(data: bytes, words: str) -> None:
    with pytest.raises(HeaderError, match=words) as caught:
        Positions.decode(data)
    assert "\n" not in str(caught.value)


def test_a_million_positions_do_not_become_a_header() -> None:
    many = Positions({Log("t", number): 1 for number in range(1_000_000)})
    with pytest.raises(UsageError, match="1,000,000 positions do not fit"):
        many.encode()
    most = Positions({Log("t", number): 1 for number in range(ENTRIES_MAX)})
    assert len(Positions.decode(most.encode())) == ENTRIES_MAX


def test_a_header_may_be_text() -> None:
    for count in range(9):
        positions = Positions({Log("shop", number): 10**number for number in range(count)})
        assert Positions.decode(as_text(positions.encode()).encode()) == positions
    with pytest.raises(HeaderError, match="torn"):
        Positions.decode(b"AQAI!")


def test_no_header_has_no_past() -> None:
    assert Positions.decode(None) == {}


def test_rule_w_other_logs_wait_for_acknowledgements() -> None:
    one = Context()
    one.begin(A)
    assert one.must_wait(B)
    assert one.must_wait(None)
    assert not one.must_wait(A)
    with pytest.raises(UsageError, match="would overtake"):
        one.begin(B)
    one.report(A, 4, time=0.0)
    assert Positions.decode(one.begin(B)) == {A: 5}


def test_a_write_to_a_log_that_is_not_known_yet_waits_for_all() -> None:
    one, unknown = Context(), Log("a", -1)
    one.begin(unknown)
    assert one.must_wait(unknown)
    assert one.must_wait(A)
    one.report(unknown, 7, 0.0, at=Log("a", 3))
    assert not one.must_wait(A)
    assert one.seen == {Log("a", 3): 8}


def test_rule_t_what_was_read_brings_its_own_past() -> None:
    one = Context()
    one.read(B, 3, Positions({A: 9}))
    assert Positions.decode(one.begin(C)) == {A: 9, B: 4}
    one.report(C, 0, 0.0)
    assert Positions.decode(one.begin(C)) == {A: 9, B: 4}  # its own log follows from its order
    one.report(C, 1, 0.0)
    assert Positions.decode(one.begin(C, own=True)) == {A: 9, B: 4, C: 2}


def test_a_write_of_unknown_outcome_ends_the_context() -> None:
    one = Context()
    one.begin(A)
    one.report(A, None, 0.0, "timed out")
    with pytest.raises(ContextEndedError, match="a/0: timed out"):
        one.begin(A)
    with pytest.raises(ContextEndedError, match="not completed"):
        one.settle()


def test_a_horizon_forgets_by_age_over_several_hops() -> None:
    one = Context()
    one.read(A, 0, Positions(), time=100.0)
    header = Positions.decode(one.begin(B, horizon=60, now=130.0))
    assert header == {A: 1}
    assert header.ages == {A: 30}
    two = Context()
    two.read(B, 0, header, time=130.0)
    kept = Positions.decode(two.begin(C, horizon=60, now=165.0))
    assert kept == {B: 1}, "what is 65 s old is forgotten, although it came in a young header"
    three = Context()
    three.read(B, 0, Positions({A: 1}), time=130.0)  # of a sender that tells no ages
    assert Positions.decode(three.begin(C, horizon=60, now=165.0)) == {A: 1, B: 1}


def test_contexts_are_separate() -> None:
    with context() as one:
        one.begin(A)
        one.report(A, 0, 0.0)
        with context() as other:
            assert current() is other
            assert other.seen == {}
        assert current() is one


def make(header: bytes | None = None, offset: int = 0, log: Log = A) -> tuple[Record, list[bool]]:
    ended: list[bool] = []
    return Record(log, offset, None, header, None, lambda _, done: ended.append(done)), ended


def test_a_record_is_the_context_of_its_handler() -> None:
    record, ended = make(Positions({B: 7}).encode(), 3)
    with record:
        assert current().seen == {A: 4, B: 7}
    assert ended == [True]
    with pytest.raises(ZeroDivisionError), record:
        _ = 1 / 0
    assert ended == [True, False]


def test_state_that_is_shared_brings_its_positions() -> None:
    record, ended = make(offset=3)
    with handling(record, store=Positions({B: 7}).encode()) as found:
        assert found.seen == {A: 4, B: 7}
        kept = found.encode()
    assert ended == [True]
    again, ended = make(offset=9, log=C)
    with again, handling(again, store=kept) as found:
        assert Positions.decode(found.begin(Log("d"))) == {A: 4, B: 7, C: 10}
        found.report(Log("d"), 1, 0.0)
    assert ended == [True]


def test_the_gate_waits_for_what_the_group_has_not_processed() -> None:
    gate = Gate({"a", "b"})
    gate.assign(B, None)
    assert gate.offer(B, 7, Positions({A: 3}), now=0) == {A: 3}
    assert gate.ask() == {A}
    gate.learn({A: 2})
    assert gate.ready(0) == []
    gate.learn({A: 3})
    assert [key for key, _, _ in gate.ready(1.5)] == [B]
    assert gate.ready(2) == []
    assert gate.metrics.waited == 1.5
    assert gate.publish() == {B: 7}, "rule G: it says where it is"
    gate.done(B, 7)
    assert gate.offer(B, 8, Positions({C: 99}), now=0) is None, "a topic that the group reads not"
    assert gate.publish() == {B: 8}


def test_a_limit_ends_waiting_and_is_counted() -> None:
    gate = Gate({"a", "b"}, limit=5)
    gate.offer(B, 9, Positions({A: 5}), now=0)
    assert gate.ready(4.9) == []
    assert gate.ready(5) == [(B, {A: 5}, True)]
    assert gate.metrics.gave_up == gate.metrics["gave_up"] == 1


def test_a_position_beyond_the_end_is_not_waited_for() -> None:
    gate = Gate({"a", "b"})
    gate.offer(B, 9, Positions({A: 5}), now=10)
    assert gate.doubts(10.5) == set()
    assert gate.doubts(11) == {A}
    gate.ends({A: 4}, asked=9.0)  # asked before the record was there: says nothing about it
    assert gate.ready(11) == []
    gate.ends({A: 5}, asked=11.0)
    assert gate.ready(11) == []
    gate.ends({A: 4}, asked=11.0)
    assert gate.ready(11) == [(B, {A: 5}, False)]
    assert gate.metrics.lost == 1


def test_a_shadow_counts_and_waits_for_nothing() -> None:
    gate = Gate({"a"}, shadow=True)
    assert gate.offer(B, 0, Positions({A: 1}), now=0) == {A: 1}
    assert gate.offer(B, 1, Positions({A: 2}), now=0) == {A: 2}
    assert (gate.metrics.early, gate.ask(), gate.heads) == (0, {A}, {})
    assert gate.offer(B, 2, Positions({A: 3}), now=2) == {A: 3}
    gate.learn({A: 1})
    gate.count(asked=1)  # before the last record came
    assert (gate.metrics.early, gate.has_uncounted) == (1, True)
    gate.count(asked=2)
    assert (gate.metrics.early, gate.has_uncounted) == (2, False)
    gate.assign(A, 1)
    assert gate.offer(B, 3, Positions({A: 4}), now=3) == {A: 4}
    assert (gate.metrics.early, gate.has_uncounted) == (3, False), "its own: nobody else knows more"


def test_a_topic_that_was_made_anew_is_another_log() -> None:
    old, new = tag_of("first"), tag_of("second")
    gate = Gate({"a", "b"})
    gate.identify({"a": old}, asked=0)
    gate.learn({Log("a", 0, old): 1000})
    assert gate.offer(B, 0, Positions({Log("a", 0, old): 900}), now=0) is None
    assert gate.offer(B, 1, Positions({Log("a", 0, new): 5}), now=0), "900 of the old says nothing"
    assert gate.strangers() == {"a"}
    gate.identify({"a": new}, asked=1)
    assert gate.ready(1) == []
    gate.learn({Log("a", 0, new): 5})
    assert [key for key, _, _ in gate.ready(1)] == [B]
    assert gate.offer(B, 2, Positions({Log("a", 0, old): 2000}), now=2), "it may be newer still"
    gate.identify({"a": new}, asked=2)
    assert [key for key, _, _ in gate.ready(2)] == [B]
    assert gate.metrics.lost == 1


def test_names_decide_where_one_side_knows_no_id() -> None:
    gate = Gate({"a", "b"})
    gate.identify({"a": tag_of("id")}, asked=0)
    gate.learn({Log("a", 0, tag_of("id")): 4})
    assert gate.offer(B, 0, Positions({A: 4}), now=0) is None
    assert gate.offer(B, 1, Positions({A: 5}), now=0)
    gate = Gate({"a", "b"})
    gate.learn({A: 4})
    assert gate.offer(B, 0, Positions({Log("a", 0, tag_of("id")): 4}), now=0) is None


@pytest.mark.parametrize("order", ["enforce", "shadow", "off"])
def test_an_unreadable_header_is_counted_and_marked_and_stops_nothing(order: Order) -> None:
    reader: Reader[Record] = Reader(Gate(["a"], shadow=order != "enforce"), order)
    reader.assign("a", 0, None)
    reader.put(("a", 0), Record(A, 0, None, b"\x07junk", None, reader.finish))
    record = reader.take(0)
    assert record is not None
    assert "version is 7" in record.fault
    assert reader.gate.metrics.refused == 1


def test_a_record_that_failed_is_handed_out_again_and_blocks_its_log() -> None:
    reader: Reader[Record] = Reader(Gate(["a"]))
    reader.assign("a", 0, None)
    for offset in range(2):
        reader.put(("a", 0), Record(A, offset, None, None, None, reader.finish))
    first = reader.take(0)
    assert first is not None
    with pytest.raises(ZeroDivisionError), first:
        _ = 1 / 0
    again = reader.take(0)
    assert again is first
    assert again.attempts == 1
    with again:
        assert reader.take(0) is None, "one record of a log at a time"
    second = reader.take(0)
    assert second is not None
    assert second.offset == 1
    assert reader.gate.publish() == {A: 1}


def test_a_record_that_is_completed_after_it_failed_is_not_handed_out_again() -> None:
    reader: Reader[Record] = Reader(Gate(["a"]))
    reader.assign("a", 0, None)
    reader.put(("a", 0), Record(A, 0, None, None, None, reader.finish))
    record = reader.take(0)
    assert record is not None
    with pytest.raises(ZeroDivisionError), record:
        _ = 1 / 0
    record.complete()
    assert reader.take(0) is None
    assert reader.gate.publish() == {A: 1}


def test_every_record_whose_limit_is_over_comes_although_one_raises() -> None:
    reader: Reader[Record] = Reader(Gate(["a", "b", "c"], limit=5), on_limit="raise")
    for log in (B, C):
        reader.assign(log.topic, 0, 0)
        header = Positions({A: 5}).encode()
        reader.put((log.topic, 0), Record(log, 0, None, header, None, reader.finish))
    assert reader.take(0) is None
    with pytest.raises(CauseMissingError):
        reader.take(6)
    assert [record and record.log for record in (reader.take(6), reader.take(6))] == [B, C]


def test_a_handler_that_is_called_again_at_once_gets_its_record_once() -> None:
    reader: Reader[Record] = Reader(Gate(["a"]))
    reader.assign("a", 0, None)
    for offset in range(2):
        reader.put(("a", 0), Record(A, offset, None, None, None, reader.finish))
    record = reader.take(0)
    assert record is not None
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), record:
            _ = 1 / 0
    with record:
        pass
    following = reader.take(0)
    assert following is not None
    assert following.offset == 1
    assert reader.take(0) is None


def test_a_record_that_is_completed_by_hand_waits_for_its_writes() -> None:
    record, ended = make()
    record.context.begin(B)
    record.context.report(B, None, 0.0, "timed out")
    with pytest.raises(ContextEndedError):
        record.complete()
    assert ended == []


def test_what_is_written_but_not_acknowledged_is_not_left_behind() -> None:
    record, ended = make()
    with pytest.raises(UsageError, match="a write to b is not acknowledged; await it"), record:
        current().begin(B)
    assert ended == [False]


def test_stored_positions_have_what_was_written_before() -> None:
    one = Context()

    def settle(context: Context) -> None:
        context.report(A, 4, 0.0)

    one.settled_by(settle)
    one.begin(A)
    assert Positions.decode(one.encode()) == {A: 5}
    one.begin(B)
    one.report(B, None, 0.0, "timed out")
    with pytest.raises(ContextEndedError):
        one.encode()


def test_producers_that_share_a_context_wait_for_each_other() -> None:
    """Two producers keep no order between them, not even in one log."""
    one = Context()
    calls: list[str] = []

    def first(context: Context) -> None:
        calls.append("first")
        context.report(A, 0, 0.0)

    def second(context: Context) -> None:
        calls.append("second")
        context.report(A, 1, 0.0)

    for settle in (first, first, second):
        one.settled_by(settle)
        if not one.must_wait(None):
            one.begin(A)
    assert calls == ["first"]
    one.settle()
    assert calls == ["first", "second"]


def test_a_need_in_a_topic_stays_when_one_in_its_predecessor_is_lost() -> None:
    old, new = Log("a", 0, tag_of("first")), Log("a", 0, tag_of("second"))
    gate = Gate({"a", "b"})
    gate.identify({"a": new.tag}, asked=0)
    gate.offer(B, 0, Positions({old: 5, new: 5}), now=1)
    gate.identify({"a": new.tag}, asked=2)
    assert gate.ready(2) == []
    gate.learn({new: 5})
    assert gate.ready(3) == [(B, {old: 5}, False)]


def test_progress_remains_when_the_id_of_a_topic_is_known_at_last() -> None:
    gate = Gate({"a", "b"})
    gate.assign(A, 0)
    gate.reached(A, 7)
    gate.identify({"a": tag_of("id")}, asked=1)
    assert gate.offer(B, 0, Positions({Log("a", 0, tag_of("id")): 7}), now=2) is None


def test_a_commit_that_failed_for_a_topic_made_anew_is_not_repeated() -> None:
    gate = Gate({"a"})
    gate.identify({"a": tag_of("first")}, asked=0)
    gate.assign(gate.log("a", 0), 5)
    gate.identify({"a": tag_of("second")}, asked=1)
    gate.not_published([gate.log("a", 0)])
    assert gate.publish() == {}


def test_headers_of_strangers_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[tuple[bytes, bytes], dict[int, Log]] = {}
    monkeypatch.setattr("antecede.logs.positions._known", known)
    header = Positions({Log("many", number): 1 for number in range(ENTRIES_MAX)}).encode()
    for number in range(40):
        found = Positions.decode(header.replace(b"many", f"{number:04}".encode()))
        assert len(found) == ENTRIES_MAX
    assert sum(map(len, known.values())) <= 1 << 16


@pytest.mark.parametrize("stored", [bytearray, memoryview])
def test_stored_positions_may_come_as_databases_give_bytes(stored: type) -> None:
    one = Context()
    one.merge(stored(Positions({A: 4}).encode()))
    assert one.seen == {A: 4}
    with pytest.raises(UsageError, match="positions are of type str; give them as bytes"):
        one.merge("AQ")  # type: ignore[arg-type] # that is the point


@pytest.mark.parametrize(
    ("order", "limit", "on_limit", "topics", "words"),
    [
        ("off", "30", "mark", ["a"], "limit is '30'"),
        ("on", None, "mark", ["a"], "order is 'on'"),
        ("off", 0, "mark", ["a"], "limit is 0"),
        ("off", None, "skip", ["a"], "on_limit is 'skip'"),
        ("off", None, "mark", "a", "give a list of names"),
        ("off", None, "mark", [], "one topic or more"),
        ("off", None, "mark", ["^shop"], "is a pattern"),
    ],
)
def test_wrong_options_are_refused(
    order: str, limit: float | None, on_limit: str, topics: object, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        checked(order, limit, on_limit, topics)


def test_all_rules_together_are_safe_and_live() -> None:
    found = campaign(Rules(), range(200))
    assert (found["unsafe"], found["stuck"]) == (0, 0), found
    assert found["records"] > 8_000


@pytest.mark.parametrize("name", [name for name, rules in VARIANTS.items() if rules != Rules()])
def test_each_rule_is_needed(name: str) -> None:
    found = campaign(VARIANTS[name], range(60))
    assert found["unsafe"] + found["stuck"] > 0, found
