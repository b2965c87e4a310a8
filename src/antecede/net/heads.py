"""What the head of a frame must say before anything else in the frame counts."""

from __future__ import annotations

from antecede.errors import PeerError
from antecede.net.channels import Channel
from antecede.net.frames import Head
from antecede.net.machine import Machine


def check_setup(machine: Machine, peer: str, head: Head) -> None:
    """Refuse a frame of a node that runs something else."""
    if head.setup != machine.group.digest:
        msg = (
            f"{peer!r} runs another setup than {machine.setup.sentence}; give all nodes the same "
            "members, protocol and options"
        )
        raise PeerError(msg)


def is_first(machine: Machine, peer: str, channel: Channel, head: Head) -> bool:
    """Tell whether this is a peer's first frame; refuse one from or for a store that was lost."""
    known, mine = channel.identity, machine.identity
    if head.source == known and head.dest == mine:
        return False
    if (known and head.source != known) or (head.dest and head.dest != mine):
        who = f"{peer!r} has" if known and head.source != known else "this node has"
        msg = (
            f"{who} lost its store since {peer!r} and this node last met; put the store back, or "
            "remove the process and add it again"
        )
        raise PeerError(msg)
    return not known
