"""Where a newcomer waits until a member tells it that the group has taken it in."""

from __future__ import annotations

import asyncio

from antecede.errors import PeerError, UsageError
from antecede.net import frames
from antecede.net.fields import Fields
from antecede.net.groups import Welcome
from antecede.net.members import WELCOME
from antecede.net.setups import Setup
from antecede.net.transports import Receiver
from antecede.net.watch import LOG


class Lobby:
    """Receives frames for a node that may have no group yet, and then passes them on to it."""

    def __init__(self, setup: Setup, identity: bytes) -> None:
        self.setup = setup
        self.identity = identity
        self.welcome: asyncio.Future[Welcome] = asyncio.get_running_loop().create_future()
        self._receiver: Receiver | None = None
        self._connected: dict[str, None] = {}

    def open(self, receiver: Receiver) -> None:
        """Pass everything on from now on."""
        self._receiver = receiver
        for peer in self._connected:
            receiver.connected(peer)

    def connected(self, peer: str) -> None:
        """Hear that frames can reach a peer."""
        if self._receiver is not None:
            self._receiver.connected(peer)
        else:
            self._connected[peer] = None

    def received(self, peer: str, frame: bytes) -> None:
        """Take a frame; before the group has taken us in, only a welcome counts."""
        if self._receiver is not None:
            self._receiver.received(peer, frame)
        elif not self.welcome.done():
            try:
                self._look(frame)
            except PeerError as error:
                LOG.warning("%s: turned away what %s sent: %s", self.setup.process, peer, error)
            except UsageError as error:
                self.welcome.set_exception(error)

    def _look(self, data: bytes) -> None:
        frame = frames.decode(data)
        if frame.head.dest and frame.head.dest != self.identity:
            # It means who this process was before it lost its store: the member has not heard of a
            # removal yet.
            return
        for note in frame.notes:
            if note[:1] != bytes((WELCOME,)):
                continue
            welcome = Welcome.read(Fields(note, 1))
            if self.setup.process not in welcome.members:
                msg = "the welcome is for another process"
                raise PeerError(msg)
            if welcome.rules != self.setup.rules:
                msg = (
                    f"the group runs another protocol or other options than {self.setup.protocol!r}"
                    f" of {self.setup.process!r}; start this node with the same as the others"
                )
                raise UsageError(msg)
            self.welcome.set_result(welcome)
            return
