"""Notes, records and parcels that are damaged, or say what cannot be: refused, with the reason."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from antecede.core.messages import Delivery, MessageId, Need
from antecede.net.agreement import PREPARE, Ballot, Vote
from antecede.net.changing import Changing
from antecede.net.flushes import Answer, Report
from antecede.net.groups import Welcome, founding
from antecede.net.records import Input
from antecede.net.runs import NEXT, packet_of
from antecede.net.views import Change, Member, get_members

import antecede
from antecede.errors import PeerError, StoreError
from antecede.net import deliveries, records
from antecede.net.fields import Fields, put_names, put_number
from antecede.net.machine import FORMAT
from antecede.net.parcels import ALONE, copy_for, heading
from antecede.net.settings import Setup
from tests.net.test_node import NAMES

SETUP = Setup("a", NAMES, "optimal", {})
VOTE = Vote(PREPARE, 1, Ballot(1, "b"))
START = founding(b"digest", b"rules", NAMES)


def machine(setup: Setup = SETUP) -> Changing:
    return Changing(setup, b"identity")


def listed(*names: str) -> bytes:
    out = bytearray((1,))
    put_names(out, names)
    put_number(out, 0)
    return bytes(out)


@pytest.mark.parametrize(
    ("decode", "whole", "reason"),
    [
        (Vote.decoded, VOTE.encoded() + b"x", "are not a vote"),
        (Vote.decoded, b"?" + VOTE.encoded()[1:], "are not a vote"),
        (Report.decoded, Report(1, 2, is_done=False, has={}).encoded(70) + b"x", "a report"),
        (Answer.decoded, Answer(1, is_whole=True, copies=[]).encoded(78) + b"x", "an answer"),
        (Change.decoded, Change(1, True, "d", "d").encoded() + b"x", "not a change of members"),
        (Change.decoded, Change(0, True, "d", "d").encoded(), "not a change of members"),
        (lambda data: get_members(Fields(data)), listed("d", "d"), "name a member wrongly"),
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
        START._replace(labels=("a", "b")),
        START._replace(labels=("a", "b", "c", "c")),
        START._replace(members={"a": Member("a", "z")}),
    ],
    ids=["a member without a number", "a number for two", "another label"],
)
def test_a_welcome_that_contradicts_itself_is_refused(wrong: Welcome) -> None:
    assert Welcome.read(Fields(START.encoded())) == START
    with pytest.raises(PeerError, match="contradict themselves about the members"):
        Welcome.read(Fields(wrong.encoded()))


def test_the_other_copies_can_be_made_only_of_a_parcel_that_names_members() -> None:
    codec = antecede.Codec(NAMES)
    packets = (
        antecede.endpoint("optimal", process="c", members=NAMES).send(["a", "b"], b"x").packets
    )
    numbers = {name: number for number, name in enumerate(NAMES)}
    before = heading(codec, packets, numbers)
    made = copy_for(codec, before + codec.encode(packets[0]), "b")
    assert made is not None
    assert made[1] == before + codec.encode(packets[1])
    assert copy_for(codec, ALONE + codec.encode(packets[0]), "b") is None
    wrong = heading(codec, packets, numbers | {"b": 7})
    with pytest.raises(PeerError, match="name a process that is not a member"):
        copy_for(codec, wrong + codec.encode(packets[0]), "b")


def test_a_packet_of_a_run_needs_the_one_before_it() -> None:
    codec, end = antecede.Codec(NAMES), antecede.endpoint("optimal", process="c", members=NAMES)
    first, second = [end.send(["a"], text).packets[0] for text in (b"1", b"2")]
    assert packet_of(codec, None, 1, ALONE + codec.encode(first)) == first
    assert packet_of(codec, first, 2, NEXT + b"2") == second
    with pytest.raises(PeerError, match="packet 3 should follow packet 2, which was not accepted"):
        packet_of(codec, first, 3, NEXT + b"3")
    plain = antecede.endpoint("central", process="c", members=NAMES).send(["b"], b"1").packets[0]
    with pytest.raises(PeerError, match="packet 2 should follow packet 1"):
        packet_of(codec, plain, plain.n + 1, NEXT + b"2")


def test_a_delivery_is_saved_with_what_it_should_have_waited_for() -> None:
    unmet = (Need("c", 3, "message"), Need("b", 1, "count", "g"))
    delivery = Delivery(MessageId("a", 1), ("b",), b"x", 7, unmet)
    out = bytearray()
    records.put_delivery(out, deliveries.Delivery(delivery))
    assert records.get_delivery(Fields(bytes(out))) == delivery
    assert repr(deliveries.Delivery(delivery)) == "Delivery(a:1, 1 bytes)"


def test_a_journal_with_a_record_of_another_version_is_refused() -> None:
    good = records.sealed(records.done_record(1))
    assert list(records.records(good)) == [(records.DONE, (1,))]
    with pytest.raises(StoreError, match=r"a record of kind 63 .* made by another version"):
        list(records.records(records.sealed(b"?")))


def saved(change: Callable[[bytearray], None]) -> bytes:
    """Return a checkpoint whose bytes were changed by another version, checksum and all."""
    body = bytearray(machine().checkpoint()[: -records.CHECKSUM_BYTES])
    change(body)
    return bytes(body) + hashlib.blake2b(body, digest_size=records.CHECKSUM_BYTES).digest()


def test_a_checkpoint_of_another_version_is_refused() -> None:
    def renumber(body: bytearray) -> None:
        body[0] = FORMAT + 1

    def cut(body: bytearray) -> None:
        del body[-3:]

    with pytest.raises(StoreError, match=f"in format {FORMAT + 1}, .* reads format {FORMAT}"):
        Changing.restored(SETUP, saved(renumber), [])
    with pytest.raises(StoreError, match="the checkpoint cannot be read"):
        Changing.restored(SETUP, saved(cut), [])


def test_a_process_that_was_removed_cannot_go_on_from_its_checkpoint() -> None:
    gone = machine()
    gone.change(Input(records.LEARN, data=Change(1, False, "a", "a").encoded()))
    with pytest.raises(StoreError, match="was removed from its group"):
        Changing.restored(SETUP, gone.checkpoint(), [])


def test_a_change_that_cannot_follow_is_refused_and_an_old_one_ignored() -> None:
    one = machine()
    adds, again = (Change(1, True, name, name).encoded() for name in ("d", "a"))
    assert one.check_learn(adds)
    with pytest.raises(PeerError, match="view 0 cannot add 'a'"):
        one.check_learn(again)
    one.change(Input(records.LEARN, data=adds))
    one.change(Input(records.LEARN, data=adds))
    assert one.group.names == ("a", "b", "c", "d")
    assert not one.check_learn(adds)


def test_nobody_is_told_to_add_itself() -> None:
    """As if another member had removed this process in the meantime."""
    one = machine()
    del one.group.members["a"]
    one.group.labels = ("b", "c")
    with pytest.raises(PeerError, match="view 1 adds 'a' to itself"):
        one.check_learn(Change(1, True, "a", "a").encoded())


def test_a_name_that_looks_like_a_label_gets_another_label() -> None:
    group = machine(Setup("a", ("a", "b", "c#2"), "optimal", {})).group
    group.past["c"] = "c"
    group.number = 1
    assert group.wish(is_add=True, name="c").label == "c#2#"


def test_wishes_that_have_come_true_are_not_proposed() -> None:
    group = machine().group
    group.wishes = [group.wish(is_add=False, name="c")]
    group.wishes.append(Change(1, True, "d", "d"))
    del group.members["c"]
    proposal = group.proposal()
    assert proposal is not None
    assert Change.decoded(proposal).name == "d"


def test_inputs_that_come_again_or_concern_nobody_change_nothing() -> None:
    one = machine()
    one.send(("a",), b"x", None)
    (event,) = one.inbox
    assert one.done(event) is not None
    assert one.done(event) is None
    before = one.checkpoint()
    one.meet("stranger", b"identity")
    for kind in (records.REPORT, records.ANSWERED, records.FINISHED):
        one.change(Input(kind, "b", 1))
    one.change(Input(records.RELAY, "b", 1, 0, b"parcel"))
    assert one.checkpoint() == before
