"""pruned: two readings of the listing of [JPCY97] that its text settles."""

from antecede.check import World
from antecede.endpoint.messages import Message
from antecede.endpoint.rules import Own
from antecede.protocols.pruned import Pruned


class EntersFirst(Pruned):
    """Enters the message before it is sent, so that its own entry travels with it."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        own = super().stamp(message, others, event, after)
        message.control = self._tops.copy(), self._log.copy()
        return own


def test_a_message_does_not_carry_its_own_entry() -> None:
    """R4 adds the entry without the receiver; one that travelled as well would never go away."""
    world = World("pruned", "ab", rules=EntersFirst, promises=())
    message = world.send("a", ["b"])
    world.arrive_packet("a", "b")
    assert world.history.deliveries("b") == [message]
    assert world.endpoints["b"].dependencies() == {message: {"b"}}
    assert world.history.required("b") == {}


def pruned_at_k(*, is_delivered: bool) -> int:
    world = World("pruned", "ijkl")
    m1 = world.send("i", ["j"])
    world.send("i", ["k"])
    world.arrive_packet("i", "k")
    world.send("i", ["l"])
    world.arrive_packet("i", "l")
    if is_delivered:
        world.arrive_packet("i", "j")
        world.send("j", ["k"])
        world.arrive_packet("j", "k")
    else:
        world.send("l", ["j"])
        world.send("l", ["k"])
        world.arrive_packet("l", "k")
    assert m1 not in world.endpoints["k"].dependencies()
    return int(world.endpoints["k"].notes()["already"])


def test_r5_and_r6_serve_both_already_kinds() -> None:
    """As section 4.3 says: both kinds show as absence, so they are counted together."""
    assert pruned_at_k(is_delivered=True) == pruned_at_k(is_delivered=False) == 1
