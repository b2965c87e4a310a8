"""[KS98] section 4.5: lookahead and its limits, and both packet forms."""

from collections.abc import Callable

import pytest

import antecede
from antecede.check import BrokenPromiseError, World, random_script, run_script, shrunk
from antecede.check.promises import Script
from tests.support.mutants import LooksAhead

FORMS = [{"hardware_multicast": False}, {"hardware_multicast": True}]
ORDER_ONLY = frozenset({"safety", "liveness", "quiescence"})


def test_lookahead_purges_on_arrival() -> None:
    """A held message says that a:1 for d is replaced; with lookahead that is used at once."""
    keeps = {}
    for lookahead in (False, True):
        world = World("optimal", "abcd", options={"lookahead": lookahead}, promises=ORDER_ONLY)
        question = world.send("a", ["b", "c", "d"])
        world.arrive_packet("a", "b")
        world.arrive_packet("a", "c")
        world.send("c", ["d"])
        world.send("c", ["b"])
        held = world.send("c", ["b"])
        world.arrive_packet("c", "b", 2)
        assert list(world.endpoints["b"].waiting()) == [held]
        keeps[lookahead] = question in world.endpoints["b"].dependencies()
        world.drain()
        world.check()
    assert keeps == {False: True, True: False}


def shortest(run: Callable[[Script], object], seeds: range) -> BrokenPromiseError | None:
    found: BrokenPromiseError | None = None
    for seed in seeds:
        script = random_script(seed, members=4, casts=("multicast",), steps=40)
        try:
            run(script)
        except BrokenPromiseError:
            error = shrunk(script, run)
            if found is None or len(error.script.steps) < len(found.script.steps):
                found = error
    return found


def test_purging_by_the_word_of_an_undelivered_message_loses_order() -> None:
    """The remark read literally: "guaranteed" holds only in the causal future of the send."""

    def run(script: Script) -> None:
        run_script(script, "optimal", promises={"safety"}, rules=LooksAhead, drain=-1)

    error = shortest(run, range(30))
    assert error is not None
    assert error.promise == "safety"
    assert len(error.script.steps) <= 10


def test_lookahead_as_built_keeps_order_and_may_hold_longer() -> None:
    def run(script: Script) -> None:
        run_script(script, "optimal", options={"lookahead": True}, promises=ORDER_ONLY, drain=-1)

    def run_strictly(script: Script) -> None:
        run_script(
            script, "optimal", options={"lookahead": True}, promises={"no_overblocking"}, drain=-1
        )

    assert shortest(run, range(40)) is None
    error = shortest(run_strictly, range(12))
    assert error is not None
    assert error.promise == "no_overblocking"


def test_hardware_multicast_with_lookahead_and_a_message_to_oneself_too() -> None:
    """The smallest script that once lost order: the sender's own name must survive."""
    script = Script(
        ("a", "b", "c", "d"),
        (
            ("send", "b", ("a", "c"), None),
            ("send", "a", ("b", "d"), None),
            ("send", "a", ("a", "b", "c", "d"), None),
            ("packet", "a", "b", 2, False),
            ("send", "b", ("a", "b", "d"), None),
            ("packet", "b", "a", 2, False),
            ("send", "a", ("b", "c", "d"), None),
            ("packet", "a", "b", 3, False),
        ),
    )
    options = {"hardware_multicast": True, "lookahead": True}
    run_script(script, "optimal", options=options, promises=ORDER_ONLY, drain=0)


@pytest.mark.parametrize("form", FORMS)
def test_what_waits_for_a_process_that_is_gone_is_released_and_says_so(
    form: dict[str, object],
) -> None:
    world = World("optimal", "abc", options=form)
    first = world.send("a", ["b"])
    world.send("a", ["c"])
    world.arrive_packet("a", "c")
    second = world.send("c", ["b"])
    world.arrive_packet("c", "b")
    assert world.endpoints["b"].waiting() == {second: (antecede.Need("a", 1),)}
    (delivery,) = world.endpoints["b"].skip("a").deliveries
    assert delivery.message == second
    assert [need.message for need in delivery.unmet] == [first]
