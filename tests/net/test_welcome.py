"""Joining: a newcomer believes a majority of the previous members."""

from __future__ import annotations

import asyncio

import pytest

from antecede.errors import UsageError
from antecede.net import frames
from antecede.net.group.joining import WELCOME, Lobby
from antecede.net.group.views import Member, Welcome
from antecede.net.settings import Setup

SETUP = Setup("d", ("a", "b", "c", "d"), "optimal", {})
MEMBERS = {name: Member(name, 0, f"{name}:1") for name in "abc"} | {"d": Member("d", 1)}
GOOD = Welcome(1, b"digest", SETUP.rules, MEMBERS)


def frame(*notes: bytes, dest: bytes = b"") -> bytes:
    return frames.encode(frames.Head(bytes(8), b"identity", dest), 0, (), (), notes)


def note(welcome: Welcome) -> bytes:
    return bytes((WELCOME,)) + welcome.encoded()


def test_a_newcomer_waits_for_a_majority_that_says_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    later = GOOD._replace(number=2, members=MEMBERS | {"d": Member("d", 2)})
    placeless = GOOD._replace(
        members={name: one._replace(address="") for name, one in MEMBERS.items()}
    )

    async def main() -> None:
        lobby = Lobby(SETUP, b"myself..")
        for peer, data in (
            ("a", b"garbage"),
            ("a", frame(b"?another note")),
            ("a", frame(note(GOOD), dest=b"another.")),
            ("z", frame(note(GOOD))),
            ("a", frame(note(GOOD._replace(members={"a": Member("a")})))),
            ("a", frame(note(GOOD))),
            ("a", frame(note(GOOD))),
            ("b", frame(note(later))),
        ):
            lobby.received(peer, data)
            assert not lobby.welcome.done()
        lobby.received("c", frame(b"?another note", note(placeless)))
        welcome = await lobby.welcome
        assert (welcome.number, list(welcome.members)) == (1, list("abcd"))
        assert welcome.members["b"].address == "b:1"
        lobby.received("b", b"garbage that nobody looks at")

    asyncio.run(main())
    told = [text.partition(" sent: ")[2] for text in caplog.messages]
    assert told[0].startswith("a frame of 7 bytes is too short")
    assert (
        told[1:]
        == ["the welcome is for another process, or from one that has not been a member"] * 2
    )


@pytest.mark.parametrize("others", ["", "c"])
def test_one_alone_is_not_believed_about_a_group_of_its_own_making(others: str) -> None:
    members = {name: Member(name) for name in ("b", *others)} | {"d": Member("d", 1)}
    false = GOOD._replace(members=members)

    async def main() -> None:
        lobby = Lobby(SETUP, b"myself..")
        lobby.received("b", frame(note(false)))
        assert not lobby.welcome.done()
        alone = Lobby(Setup("d", ("b", "d"), "optimal", {}), b"myself..")
        alone.received("b", frame(note(false)))
        assert alone.welcome.done()

    asyncio.run(main())


def test_a_newcomer_with_another_protocol_is_told_so() -> None:
    async def main() -> None:
        lobby = Lobby(Setup("d", ("a", "d"), "matrix", {}), b"myself..")
        for peer in "ab":
            lobby.received(peer, frame(note(GOOD)))
        with pytest.raises(UsageError, match="the group runs another protocol"):
            await lobby.welcome

    asyncio.run(main())
