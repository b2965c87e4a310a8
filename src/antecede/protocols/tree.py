"""Multicast over a tree of links that keep order, without control: after Blessing et al. [BCD17]_.

Processes form a tree. A message goes along the tree to its destinations, and every process on the
way passes it on in the order in which messages reach it. Between two processes there is only one
path, so nothing can overtake: the effects of a message must take the same links behind it.

Why this is safe: let m travel from its sender v0 by v1, v2 and so on to d. Every process on this
path gets m before any effect of m. This holds for v0. An effect that reaches the next process by
the link that brings m was sent behind m, because the process before got m first. An effect that
gets there from elsewhere was sent on this side of the link; the chain from m to it has crossed the
link, behind m or with it. So d, the last process on the path, delivers m first.

Differences from the paper
--------------------------
The paper's processes are actors in a tree that grows; here the tree is fixed for a view. A message
goes only where it has destinations. A sender that is among its own destinations delivers at once.
The links of the paper keep order; here each packet also names the previous message on its link, so
that a process that lost one can tell which. In pull mode processes also pass on what their
application has not taken yet, and each application takes messages in that order.

References
----------
.. [BCD17] S. Blessing, S. Clebsch and S. Drossopoulou. "Tree topologies for causal message
   delivery". 7th Workshop on Programming Based on Actors, Agents, and Decentralized
   Control, 2017.
   https://2017.splashcon.org/event/agere-2017-tree-topologies-for-causal-message-delivery
"""

from itertools import pairwise
from typing import ClassVar, cast

from antecede.endpoint.arguments import as_links
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.relays import Chained
from antecede.endpoint.rules import Message, Packet, View
from antecede.errors import UsageError

Links = tuple[tuple[str, str], ...]


def _as_tree(option: str, value: object, members: tuple[str, ...]) -> Links | None:
    """Return the option ``links``; refuse those that form no tree."""
    links = as_links(option, value, members)
    if links is not None and len(links) != len(members) - 1:
        msg = (
            f"{option} has {len(links)} links for {len(members)} members: a tree has one fewer "
            "than members; leave out those that close a circle"
        )
        raise UsageError(msg)
    return links


def default_links(n: int) -> list[tuple[int, int]]:
    """Return the links of a binary tree: each place but the first with its parent."""
    return [((place - 1) // 2, place) for place in range(1, n)]


class Tree(Chained):
    """A process, its neighbours in the tree, and whom it reaches through each."""

    INFO: ClassVar = ProtocolInfo(
        idea="messages go along a tree of links that keep order",
        assumptions="a fixed tree; no process fails, for each joins parts; every packet arrives",
        cost="the name of the message before on a link; a packet and a hop per link on the way",
        options={
            "links": Option(
                None,
                "pairs of members that form a tree; by default a binary tree in the order of "
                "members",
                check=_as_tree,
            )
        },
        lost_by_skip="a process that is gone takes along what it has not passed on",
        unmarked_by_skip="a message tells what went before it, but not what its sender knew of",
        research=True,
        bytes_per_entry=0,
        has_roles=True,
        relays=True,
        variants=(
            Variant("line", lambda members: {"links": tuple(pairwise(members))}),
            Variant(
                "star", lambda members: {"links": tuple((members[-1], m) for m in members[:-1])}
            ),
        ),
    )

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        beside: list[list[int]] = [[] for _ in range(view.n)]
        given = cast("Links | None", view.options["links"])
        numbers = view.numbers
        for one, other in (
            default_links(view.n)
            if given is None
            else [(numbers[one], numbers[other]) for one, other in given]
        ):
            beside[one].append(other)
            beside[other].append(one)
        self._sides = {near: _side(beside, me, near) for near in sorted(beside[me])}
        """By neighbour, all processes on its side of the tree, as a mask."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        """Send the message along the tree towards its destinations."""
        self._pass_on(message, self.me)

    def _pass_on(self, message: Message, source: int) -> None:
        """Pass a message on to each side with a destination, except back to where it came from."""
        due = message.dests & ~(1 << message.sender)
        for near, side in self._sides.items():
            if near != source and due & side:
                self.post(near, message)

    def check(self, packet: Packet) -> str:
        message, side = packet.content, self._sides.get(packet.source_no, 0)
        if not (message.seq and side >> message.sender & 1 and message.dests & ~side):
            return "is not a message that comes along the tree"
        return super().check(packet)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        places = super().taken(packet)
        self._pass_on(packet.content, packet.source_no)
        return places


def _side(beside: list[list[int]], me: int, near: int) -> int:
    """Return the processes on a neighbour's side of the tree, as a mask."""
    side, rest = 0, [(near, me)]
    while rest:
        here, behind = rest.pop()
        side |= 1 << here
        rest += [(further, here) for further in beside[here] if further != behind]
    return side
