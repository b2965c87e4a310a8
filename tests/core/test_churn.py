"""Joins, removals, duplicates, reordering and restarts, judged by the oracle in ``churn``."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antecede import PROTOCOLS
from antecede.protocols.buffered import Buffered
from tests.core import churn
from tests.core.churn import WEIGHTED, BrokenError, Script, drawn, run

CASES: list[tuple[str, dict[str, object]]] = [
    *((name, {}) for name, info in PROTOCOLS.items() if info.dynamic),
    ("buffered", {"pipelined": True}),
]
SCRIPTS = st.lists(
    st.tuples(st.integers(0, len(WEIGHTED) - 1), st.integers(0, 63), st.integers(0, 63)),
    max_size=60,
).map(tuple)


def run_all(protocol: str, count: int, **options: object) -> None:
    for seed in range(count):
        run(protocol, drawn(seed), **options)


@pytest.mark.parametrize(("protocol", "options"), CASES, ids=str)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=SCRIPTS)
def test_the_contract_holds(protocol: str, options: dict[str, object], script: Script) -> None:
    run(protocol, script, **options)


@pytest.mark.parametrize(("protocol", "options"), CASES, ids=str)
def test_the_contract_holds_on_drawn_scripts(protocol: str, options: dict[str, object]) -> None:
    run_all(protocol, 120, **options)


@pytest.mark.parametrize("protocol", [name for name, info in PROTOCOLS.items() if info.dynamic])
def test_the_contract_holds_where_only_one_packet_can_be_held(protocol: str) -> None:
    run_all(protocol, 40, held_max=1)


@pytest.mark.parametrize("seed", [3735, 4266])
def test_what_does_not_fit_is_not_waited_for_in_a_circle(seed: int) -> None:
    run("vectors", drawn(seed), held_max=1)


#: Scripts that found mistakes: overtaking on a channel and waiting for ever after a removal, held
#: messages renamed by a restore, a held message overtaken by what its sender's restart hid, a
#: message to oneself that hid what it rests on, a wait for the incarnation before a restart where
#: only the last one was held, and a restored process that refused one whom it had forgotten.
FOUND = (484, 561, 997, 1177, 2774, 114534, 10003581, 20008082)


@pytest.mark.parametrize("seed", FOUND)
@pytest.mark.parametrize("protocol", ["optimal", "pruned"])
def test_scripts_that_found_mistakes(protocol: str, seed: int) -> None:
    run(protocol, drawn(seed))


def test_a_held_packet_may_name_one_who_was_forgotten_since() -> None:
    """Restoring the state then refused it whole, and all that was held was lost."""
    run("matrix", drawn(70003025))


def test_the_oracle_notices_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are posted without waiting for acknowledgements."""
    monkeypatch.setattr(Buffered, "_can_post", lambda *_: True)
    monkeypatch.setattr(Buffered, "_is_awaited", lambda *_: True)
    with pytest.raises(BrokenError, match="before its causes"):
        run_all("buffered", 300)


def test_every_step_occurs_in_drawn_scripts() -> None:
    kinds = {WEIGHTED[step[0]] for seed in range(20) for step in drawn(seed)}
    assert kinds == {
        churn.SEND,
        churn.ARRIVE,
        churn.REPEAT,
        churn.JOIN,
        churn.LEAVE,
        churn.LEARN,
        churn.RESUME,
        churn.SAVE,
        churn.RESTART,
    }
    assert all(PROTOCOLS[protocol].dynamic for protocol, _ in CASES)
