"""The oracle against small computations with obvious answers, and against brute force."""

from itertools import product
from random import Random

import pytest

from antecede import MessageId, UsageError
from antecede.check import (
    Event,
    History,
    causal_violations,
    random_script,
    run_script,
    undelivered,
)

A1, A2, B1, C1 = MessageId("a", 1), MessageId("a", 2), MessageId("b", 1), MessageId("c", 1)


def triangle(*, is_late: bool) -> History:
    """a tells c, then b; b tells c: the message a -> c comes last, or not."""
    history = History("abc")
    history.send("a", A1, ["c"])
    history.send("a", A2, ["b"])
    history.deliver("b", A2)
    history.send("b", B1, ["c"])
    for message in (B1, A1) if is_late else (A1, B1):
        history.deliver("c", message)
    return history


def test_causes_follow_sends_and_deliveries() -> None:
    history = triangle(is_late=False)
    assert history.causes(A1) == frozenset()
    assert history.causes(A2) == {A1}
    assert history.causes(B1) == {A1, A2}


def test_an_ordered_history_has_no_violation() -> None:
    assert causal_violations(triangle(is_late=False)) == []


def test_a_violation_names_the_chain_and_explains_itself() -> None:
    (violation,) = causal_violations(triangle(is_late=True))
    assert (violation.process, violation.message, violation.overtaker) == ("c", A1, B1)
    assert violation.kind == "causal"
    assert violation.lateness == 1
    assert violation.chain == (A1, A2, B1)
    assert violation.sentence == (
        "a:1 comes before b:1: because a sent a:1 before it sent a:2, because b delivered a:2 "
        "before it sent b:1; however, c delivered b:1 first and delivers it later"
    )


def test_a_message_that_never_comes_is_a_violation_once_its_effect_is_there() -> None:
    history = triangle(is_late=False)
    history.send("c", C1, ["a"])
    history.send("a", MessageId("a", 3), ["b"])
    history.send("a", MessageId("a", 4), ["b"])
    history.deliver("b", MessageId("a", 4))
    (violation,) = causal_violations(history)
    assert violation.kind == "fifo"
    assert violation.lateness is None
    assert violation.sentence.endswith("b delivered a:4 first and has not delivered it")
    assert undelivered(history) == [("a", C1), ("b", MessageId("a", 3))]


def test_after_leaves_out_later_local_events() -> None:
    history = History("ab")
    history.send("a", A1, ["b"])
    history.send("a", A2, ["b"], after=0)
    history.send("a", MessageId("a", 3), ["b"], after=1)
    assert history.causes(A2) == frozenset()
    assert history.causes(MessageId("a", 3)) == {A1}


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Event("a", "send", A1, ("b",)), "a:1 is sent twice"),
        (Event("b", "deliver", C1), "which was not sent before"),
        (Event("a", "deliver", A1), "which is for c"),
        (Event("c", "deliver", A1), "twice"),
        (Event("c", "send", C1, ("a",), after=3), "after event 3 of c, which has had 2"),
    ],
)
def test_impossible_events_are_refused(event: Event, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        triangle(is_late=False).append(event)


def happened_before(history: History) -> set[tuple[int, int]]:
    """Return happened-before between event numbers, closed by brute force."""
    events = history.events
    pairs = set()
    for (i, x), (j, y) in product(enumerate(events), repeat=2):
        is_local = x.process == y.process and i < j
        is_message = x.kind == "send" and y.kind == "deliver" and x.message == y.message
        if is_local or is_message:
            pairs.add((i, j))
    for k, i, j in product(range(len(events)), repeat=3):
        if (i, k) in pairs and (k, j) in pairs:
            pairs.add((i, j))
    return pairs


def required_by_definition(history: History, process: str) -> dict[MessageId, frozenset[str]]:
    """[KS98] 3.4 word by word, on the closed relation."""
    events = history.events
    before = happened_before(history)
    now = max((i for i, e in enumerate(events) if e.process == process), default=None)
    result: dict[MessageId, set[str]] = {}
    if now is None:
        return {}

    def is_past(i: int) -> bool:
        return i == now or (i, now) in before

    for i, send in enumerate(events):
        if send.kind != "send" or not is_past(i):
            continue
        for dest in set(send.dests) - {send.process}:
            is_delivered = any(
                is_past(j)
                and e.kind == "deliver"
                and (e.process, e.message) == (dest, send.message)
                for j, e in enumerate(events)
            )
            is_replaced = any(
                is_past(k) and (i, k) in before and e.kind == "send" and dest in e.dests
                for k, e in enumerate(events)
            )
            if not is_delivered and not is_replaced:
                result.setdefault(send.message, set()).add(dest)
    return {message: frozenset(names) for message, names in result.items()}


@pytest.mark.parametrize("seed", range(40))
def test_the_sets_equal_brute_force_on_the_computation_graph(seed: int) -> None:
    script = random_script(seed, members=2 + seed % 4, casts=("unicast", "multicast"), steps=22)
    history = run_script(script, "matrix").history
    before = happened_before(history)
    sends = {e.message: i for i, e in enumerate(history.events) if e.kind == "send"}
    for message, i in sends.items():
        assert history.causes(message) == {m for m, j in sends.items() if (j, i) in before}
    for process in history.members:
        assert history.required(process) == required_by_definition(history, process)


def test_a_script_runs_the_same_again() -> None:
    script = random_script(5, members=4, casts=("multicast",), steps=50)
    world = run_script(script, "optimal", drain=Random(1))
    again = run_script(world.script, "optimal")
    assert again.history.events == world.history.events
    assert not again.in_flight


def test_a_message_that_was_never_sent_follows_all_its_sender_did() -> None:
    history = History(("a", "b"))
    history.send("a", MessageId("a", 1), ("b",))
    ((before, link),) = history.influenced_directly(MessageId("a", 2))
    assert (before, str(link)) == (MessageId("a", 1), "a sends a:1 to b")
    assert History(("a", "b"), history.events).events == history.events
