"""A vector as control: one key for each member, the same in all copies."""

from typing import Any, cast

from antecede.endpoint.numbers import get_vector, put_vector
from antecede.endpoint.rules import Message, Packet, Wire
from antecede.errors import PeerError

Vector = list[int]
LATER = "knows of later messages of its sender"


class VectorWire(Wire):
    """By sender, the key of its last message before this one."""

    def put(self, message: Message) -> bytes:
        return put_vector(message.control, self.view, message.seq)

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        vector, at = get_vector(data, at, self.view, message.seq)
        if vector[message.sender] >> self.view.shift >= message.seq:
            raise PeerError(LATER)
        return vector, at

    def spell(self, packet: Packet) -> object:
        return self.numbers(packet.content.control)

    def numbers(self, vector: object) -> tuple[int, ...]:
        """Return the numbers of the messages in a vector."""
        return tuple([key >> self.view.shift for key in cast("Vector", vector)])
