"""Messages in the order of their declared causes: webhooks, queues, HTTP; no list of members.

::

    inbox = Inbox("inbox.db", topics={"orders", "payments"})
    for message in inbox.offer("pay-17", body, causes=["orders/order-17"], topic="payments"):
        with message as transaction:
            transaction.execute(...)
            transaction.send("shipments", payload)
"""

from antecede.inbox.aio import AsyncInbox
from antecede.inbox.api import Inbox, Message, Transaction, current_causes
from antecede.inbox.causes import carried
from antecede.inbox.records import Offer, Outgoing, Parked, Report, Waiting

__all__ = [
    "AsyncInbox",
    "Inbox",
    "Message",
    "Offer",
    "Outgoing",
    "Parked",
    "Report",
    "Transaction",
    "Waiting",
    "carried",
    "current_causes",
]
