"""Where a newcomer waits until the members tell it that it has joined the group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from antecede.errors import PeerError, UsageError
from antecede.net import frames
from antecede.net.fields import Fields
from antecede.net.group.views import Member, Welcome, is_quorum
from antecede.net.log import tell
from antecede.net.settings import Setup
from antecede.net.transports import Receiver

WELCOME, REMOVED = b"WX"
"""Notes for processes that are not yet members, or no longer."""


class Lobby:
    """Receives frames for a node that may have no group yet, and later passes them on to it.

    A welcome counts when a majority of the earlier members say the same, and at least two, unless
    only one is known: one alone may invent a group that does not exist.
    """

    def __init__(self, setup: Setup, identity: bytes) -> None:
        self.setup = setup
        self.identity = identity
        self.welcome: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        self._said: dict[str, Welcome] = {}
        self.received: Callable[[str, bytes], None] = self._wait_for_welcome
        """Called with each frame; once the lobby is open, this is the receiver's own method."""
        self._receiver: Receiver | None = None
        self._connected: dict[str, None] = {}

    def open(self, receiver: Receiver) -> None:
        """Pass on everything from now on."""
        self._receiver, self.received = receiver, receiver.received
        for peer in self._connected:
            receiver.connected(peer)

    def connected(self, peer: str) -> None:
        """Note that frames can reach a peer."""
        if self._receiver is not None:
            self._receiver.connected(peer)
        else:
            self._connected[peer] = None

    def _wait_for_welcome(self, peer: str, frame: bytes) -> None:
        """Process a frame; until we have joined the group, only a welcome counts."""
        if not self.welcome.done():
            try:
                self._look(peer, frame)
            except PeerError as error:
                sentence = f"turned away what {peer} sent: {error}"
                tell(logging.WARNING, self.setup.process, "refused", sentence, peer=peer)
            except UsageError as error:
                self.welcome.set_exception(error)

    def refused(self, peer: str, view: int) -> None:
        """Note that a process does not count us among the members of its view."""
        if self._receiver is not None:
            self._receiver.refused(peer, view)

    def _look(self, peer: str, data: bytes) -> None:
        frame = frames.decode(data)
        if frame.head.dest and frame.head.dest != self.identity:
            # It is for this process as it was before it lost its store: the member has not heard
            # of its removal yet.
            return
        for note in frame.notes:
            if note[:1] == bytes((WELCOME,)):
                self._hear(peer, Welcome.read(Fields(note, 1)))
                return

    def _hear(self, peer: str, welcome: Welcome) -> None:
        process = self.setup.process
        if process not in welcome.members or peer not in welcome.stayers:
            msg = "the welcome is for another process, or from one that has not been a member"
            raise PeerError(msg)
        self._said[peer] = welcome
        gist = welcome.gist
        said = {name: one for name, one in self._said.items() if one.gist == gist}
        voices = min(2, len(self.setup.members) - 1)
        if len(welcome.stayers) < voices:
            msg = (
                f"it says that it was the only member, and is not believed alone; if that is so, "
                f"start {process!r} with no other in peers"
            )
            raise PeerError(msg)
        if len(said) < voices or not is_quorum(said, welcome.stayers):
            return
        if welcome.rules != self.setup.rules:
            msg = (
                f"the group runs another protocol or other options than {self.setup.protocol!r}"
                f" of {process!r}; start this node with the same as the others"
            )
            raise UsageError(msg)
        self.welcome.set_result(welcome._replace(members=_located(said)))


def _located(said: dict[str, Welcome]) -> dict[str, Member]:
    """Return the members, each with an address if any welcome has it."""
    found: dict[str, Member] = {}
    for welcome in said.values():
        for name, member in welcome.members.items():
            if name not in found or not found[name].address:
                found[name] = member
    return found
