"""Which messages of each channel are delivered, where a channel may be delivered out of order.

Two dicts hold it as plain data: ``reached`` has, by source, the length of the channel's beginning
that is delivered without a gap, and the last message of it; ``ahead`` has the messages delivered
beyond that, by their place on the channel.
"""

Reached = dict[str, list[int]]
Ahead = dict[str, dict[int, int]]


def count_delivery(reached: Reached, ahead: Ahead, source: str, place: int, seq: int) -> None:
    """Note that the message ``seq``, the one at this place on the channel, is delivered."""
    beyond = ahead.setdefault(source, {})
    beyond[place] = seq
    beginning = reached.setdefault(source, [0, 0])
    while beginning[0] + 1 in beyond:
        beginning[0] += 1
        beginning[1] = beyond.pop(beginning[0])
    if not beyond:
        del ahead[source]


def is_delivered(reached: Reached, ahead: Ahead, source: str, seq: int) -> bool:
    """Tell whether the message ``seq`` of ``source``, addressed to this process, is delivered."""
    beginning = reached.get(source)
    if beginning is not None and seq <= beginning[1]:
        return True
    return seq in ahead.get(source, {}).values()
