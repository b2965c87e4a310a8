"""Damaged or impossible notes, records and parcels are refused with the reason."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

import antecede
from antecede import MessageId
from antecede.endpoint.messages import Need
from antecede.errors import PeerError, StoreError
from antecede.net import journal
from antecede.net.fields import Fields
from antecede.net.group.flush import COUNTING, Answer, Report
from antecede.net.group.paxos import DECIDED, PREPARE, Vote
from antecede.net.group.views import Ballot, Change, Member, Welcome, founding
from antecede.net.journal import Input
from antecede.net.machine import FORMAT, Delivery, Known, Machine, Met
from antecede.net.parcels import ALONE, copy_for, heading
from antecede.net.settings import Setup
from tests.net.test_node import NAMES

SETUP = Setup("a", NAMES, "optimal", {})
VOTE = Vote(PREPARE, 1, Ballot(1, "b"))
START = founding(SETUP)
REPORT = Report(1, 2, COUNTING, {"a": 3}, {"a": 4}, {"c": (5, [7, 9])})
ANSWER = Answer(1, 2, is_whole=True, copies=[("c", 3, b"parcel")])


def machine(setup: Setup = SETUP) -> Machine:
    return Machine(setup, b"identity")


def test_notes_are_read_as_they_were_written() -> None:
    change = Change(1, (("d", "somewhere"), ("e", "")), ("a", "b"))
    assert Change.decoded(change.encoded()) == change
    assert str(change) == "add 'd' and add 'e' and remove 'a' and remove 'b'"
    assert Vote.decoded(VOTE.encoded()) == VOTE
    assert Report.decoded(REPORT.encoded()) == REPORT
    assert Answer.decoded(ANSWER.encoded()) == ANSWER
    assert Welcome.read(Fields(START.encoded())) == START


@pytest.mark.parametrize(
    ("decode", "whole", "reason"),
    [
        (Vote.decoded, VOTE.encoded() + b"x", "are not a vote"),
        (Vote.decoded, b"?" + VOTE.encoded()[1:], "are not a vote"),
        (Vote.decoded, Vote(DECIDED, 1).encoded(), "are not a vote"),
        (Report.decoded, REPORT.encoded() + b"x", "a report"),
        (Report.decoded, Report(1, 2, 4).encoded(), "a report"),
        (Answer.decoded, ANSWER.encoded() + b"x", "an answer"),
        (Change.decoded, Change(1, (("d", ""),)).encoded() + b"x", "not a change of members"),
        (Change.decoded, Change(0, (("d", ""),)).encoded(), "not a change of members"),
        (Change.decoded, Change(1).encoded(), "not a change of members"),
        (Change.decoded, b"\x01\x01\x01d\x00", "not a change of members"),
    ],
)
def test_notes_that_go_on_or_are_none_are_refused(
    decode: Callable[[bytes], object], whole: bytes, reason: str
) -> None:
    with pytest.raises(PeerError, match=reason):
        decode(whole)


@pytest.mark.parametrize(
    "wrong",
    [
        START._replace(members={"a": Member("a", 1)}),
        START._replace(members={"a": Member("a"), "b": Member("a")}),
        START._replace(members={"": Member("")}),
    ],
    ids=["joined later", "named twice", "without a name"],
)
def test_a_welcome_that_contradicts_itself_is_refused(wrong: Welcome) -> None:
    with pytest.raises(PeerError, match="name a member"):
        Welcome.read(Fields(wrong.encoded()))


def test_the_other_copies_can_be_made_of_one() -> None:
    end = antecede.endpoint("optimal", process="c", members=NAMES)
    end.send(["a"], b"so that the copies differ")
    packets = end.send(["a", "b"], b"x").packets
    codec = antecede.Codec(end)
    before = heading(end.view, 7, packets)
    made = copy_for(codec, before + codec.encode(packets[0]), "b")
    assert made == (packets[1].n, before + codec.encode(packets[1]))
    assert copy_for(codec, before + codec.encode(packets[0]), "c") is None
    with pytest.raises(PeerError):
        copy_for(codec, ALONE + codec.encode(packets[0]), "b")


def test_a_delivery_is_saved_with_what_it_should_have_waited_for() -> None:
    one = machine()
    unmet = (Need("c", 3), Need("b", 1, "ack"))
    delivery = Delivery(Known(MessageId("a", 1), ("b",), unmet), 7, b"x")
    one.inbox[7] = delivery
    one.met["b"] = Met(b"identity", 3, 5)
    again, _ = Machine.restored(SETUP, one.checkpoint(), [])
    (found,) = again.inbox.values()
    assert (found.message, found.dests, found.unmet) == (MessageId("a", 1), ("b",), unmet)
    assert (found.event, found.payload, found.source) == (7, b"x", "a")
    assert repr(found) == "Delivery(a:1, 1 bytes)"
    assert again.met == one.met


def test_a_journal_with_a_record_of_another_version_is_refused() -> None:
    before = machine().checkpoint()
    good = journal.sealed(journal.done_record(1), before)
    assert list(journal.records(good, before)) == [(journal.DONE, (1,))]
    with pytest.raises(StoreError, match=r"a record of kind 63 .* made by another version"):
        list(journal.records(journal.sealed(b"?", before), before))


def saved(change: Callable[[bytearray], None]) -> bytes:
    """Return a checkpoint as another version would write it, with a correct checksum."""
    body = bytearray(machine().checkpoint()[: -journal.CHECKSUM_BYTES])
    change(body)
    return bytes(body) + hashlib.blake2b(body, digest_size=journal.CHECKSUM_BYTES).digest()


def test_a_checkpoint_of_another_version_is_refused() -> None:
    def renumber(body: bytearray) -> None:
        body[0] = FORMAT - 1

    def cut(body: bytearray) -> None:
        del body[-3:]

    with pytest.raises(
        StoreError, match=r"in format 5, .* start all nodes with new stores"
    ) as told:
        Machine.restored(SETUP, saved(renumber), [])
    assert "\n" not in str(told.value)
    with pytest.raises(StoreError, match="the store cannot be read"):
        Machine.restored(SETUP, saved(cut), [])


def test_a_process_that_was_removed_cannot_go_on_from_its_checkpoint() -> None:
    gone = machine()
    gone.change(Input(journal.LEARN, data=Change(1, leaves=("a",)).encoded()))
    with pytest.raises(StoreError, match="was removed from its group"):
        Machine.restored(SETUP, gone.checkpoint(), [])


def test_a_change_that_cannot_follow_is_refused_and_an_old_one_ignored() -> None:
    one = machine()
    data = Change(1, (("d", ""),)).encoded()
    for change, reason in (
        (Change(1, (("a", ""),)), "'a' is a member already"),
        (Change(1, leaves=("z",)), "'z' is not a member"),
        (Change(1, leaves=NAMES), "nobody would stay"),
        (Change(2, leaves=("b",)), "it leads to view 2"),
        (Change(1, (("d", ""), ("d", "x"))), "it names a process twice"),
    ):
        with pytest.raises(PeerError, match=reason):
            one.group.check(change)
    one.change(Input(journal.LEARN, data=data))
    one.change(Input(journal.LEARN, data=data))
    assert one.group.names == ("a", "b", "c", "d")
    assert [side.number for side in one.sides] == [0, 1]


def test_a_change_that_the_options_do_not_allow_is_refused() -> None:
    setup = Setup("a", NAMES, "broadcast", {"groups": {"g": ("a", "b")}})
    with pytest.raises(PeerError, match="under broadcast"):
        machine(setup).group.check(Change(1, leaves=("b",)))
    machine(setup).group.check(Change(1, leaves=("c",)))


def test_inputs_that_come_again_or_concern_nobody_change_nothing() -> None:
    one = machine()
    one.send(("a",), b"x", None)
    (event,) = one.inbox
    assert one.done(event) is not None
    assert one.done(event) is None
    before = one.checkpoint()
    one.change(Input(journal.REPORT, "b", data=REPORT.encoded()))
    one.change(Input(journal.ANSWERED, "b", 1))
    one.change(Input(journal.RELAY, "b", 1, 0, b"parcel"))
    one.drop(7, "b", [1])
    assert one.checkpoint() == before


def test_a_copy_that_is_passed_on_twice_is_delivered_once() -> None:
    one = machine()
    end = antecede.endpoint("optimal", process="c", members=NAMES)
    parcel = ALONE + antecede.Codec(end).encode(end.send(["a"], b"from c").packets[0])
    one.change(Input(journal.LEARN, data=Change(1, leaves=("c",)).encoded()))
    for _ in range(2):
        one.change(Input(journal.RELAY, "c", 1, 0, parcel))
    assert [delivery.payload for delivery in one.inbox.values()] == [b"from c"]
