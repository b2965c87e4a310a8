"""A service that crashes: what it has to save, and when, so that no message is lost in silence.

Run ``python examples/restart.py``. The till crashes and comes back; the bank should then receive
"pay 999". Three ways to come back:

- ``careful``: save, then release packets; save, then acknowledge. Nothing is lost.
- ``careless``: release first, save later, and vouch all the same that nothing was sent since. The
  new message has the number of an old one, so the bank drops it as a duplicate.
- ``honest``: as careless, but without vouching. The till may not send in that view any more, so
  till and bank begin the next one, and "pay 999" arrives.
"""

import antecede
from antecede import Codec, Delivery

MEMBERS = ("till", "bank")


def endpoint(process: str, view: int = 0) -> antecede.Endpoint:
    """Make the endpoint of a process in a view."""
    return antecede.endpoint("optimal", process=process, members=MEMBERS, view=view)


class Disk:
    """What survives a crash: the till's last snapshot, and packets that it may not have sent."""

    def __init__(self) -> None:
        self.snapshot = b""
        self.outbox: list[bytes] = []


class Till:
    """Sends orders to the bank. With ``saves_first``, it saves before it releases packets."""

    def __init__(self, endpoint: antecede.Endpoint, disk: Disk, *, saves_first: bool) -> None:
        self.endpoint = endpoint
        self.codec = Codec(endpoint)
        self.disk = disk
        self.saves_first = saves_first

    def pay(self, amount: int) -> list[bytes]:
        """Send an order; return the packets as bytes, ready for the network."""
        effects = self.endpoint.send(["bank"], f"pay {amount}".encode())
        packets = [self.codec.encode(packet) for packet in effects.packets]
        if self.saves_first:
            self.save(packets)
        return packets

    def save(self, outbox: list[bytes]) -> None:
        """Save the state and the packets that are not known to have left, in one step.

        A real service writes both in one transaction, and drops a packet from the outbox when its
        transport says that it has arrived. Sending one twice does no harm.
        """
        self.disk.snapshot = self.codec.snapshot(self.endpoint)
        self.disk.outbox = outbox


class Bank:
    """Receives orders, in the view that is current."""

    def __init__(self) -> None:
        self.orders: list[str] = []
        self.begin(0)

    def begin(self, view: int) -> None:
        """Begin a view. A real bank first finishes the one before, and knows who asks for this."""
        self.view = view
        self.endpoint = endpoint("bank", view)
        self.codec = Codec(self.endpoint)

    def receive(self, packets: list[bytes]) -> None:
        """Take packets in. A real service saves here, before it acknowledges them."""
        for data in packets:
            effects = self.endpoint.receive(self.codec.decode(data))
            self.orders += map(_text, effects.deliveries)


def _text(delivery: Delivery) -> str:
    return delivery.payload.decode()


def run(*, saves_first: bool, resumed: bool) -> Bank:
    """Pay 5, crash right after it left, come back, and pay 999."""
    disk, bank = Disk(), Bank()
    till = Till(endpoint("till"), disk, saves_first=saves_first)
    till.save([])
    bank.receive(till.pay(5))
    del till  # the crash
    again = Codec(MEMBERS).restore(disk.snapshot, resumed=resumed)
    till = Till(again, disk, saves_first=saves_first)
    bank.receive(disk.outbox)  # perhaps for the second time
    try:
        packets = till.pay(999)
    except antecede.UsageError:  # it may have sent since it was saved, so it may not send here
        bank.begin(bank.view + 1)
        till = Till(endpoint("till", bank.view), disk, saves_first=saves_first)
        packets = till.pay(999)
    bank.receive(packets)
    return bank


def careful() -> Bank:
    """Save, then release: the latest snapshot knows of everything that was sent."""
    return run(saves_first=True, resumed=True)


def careless() -> Bank:
    """Release, crash before saving, and say that nothing was sent since the snapshot."""
    return run(saves_first=False, resumed=True)


def honest() -> Bank:
    """Release and crash before saving, but do not vouch for the snapshot."""
    return run(saves_first=False, resumed=False)


if __name__ == "__main__":
    for way in (careful, careless, honest):
        result = way()
        told = f", in view {result.view}" if result.view else ""
        print(f"{way.__name__:<9} the bank got: {', '.join(result.orders)}{told}")
