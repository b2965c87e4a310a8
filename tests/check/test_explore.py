"""The explorer exhausts every protocol, and its reductions leave nothing out."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import antecede
from antecede import Delivery, Effects, Endpoint, MessageId, Packet
from antecede.check import BrokenPromiseError, Script, World, explore, run_script
from antecede.check.cases import Case, cases
from antecede.check.exploration import main
from antecede.check.scripts import process_names
from antecede.check.search import Explorer
from antecede.endpoint.info import Cast
from antecede.endpoint.messages import Message
from antecede.endpoint.rules import Rules
from antecede.protocols.matrix import Matrix
from tests.support.mutants import MUTANTS
from tests.support.rounds import TIMES

ALL = [
    case
    for name, info in antecede.PROTOCOLS.items()
    for case in cases(name, process_names(3))
    if "multicast" not in info.casts or case.cast == "multicast"
]


TWO_ONLY = {
    "acknowledged-multicast",
    "acknowledged-quiet-multicast",
    "permits-multicast",
    "flooding-ring-broadcast",
    "phases-broadcast",
    "semantic_optimal-least-multicast",
    "serial-multicast",
}
"""With three messages these take long; ``make explore`` exhausts them."""


@pytest.mark.parametrize("case", ALL, ids=str)
def test_three_processes_and_three_messages_are_exhausted(case: Case) -> None:
    """With a variant of a protocol, three messages are for ``make soak``."""
    is_long = TIMES == 1 and case.label and case.cast == "multicast"
    result = explore(
        case.protocol,
        3,
        2 if str(case) in TWO_ONLY or is_long else 3,
        options=case.options,
        casts=(case.cast,),
        promises=case.promises,
        symmetric=case.is_symmetric,
    )
    assert result.is_clean, f"{result}\n{result.script!r}"
    assert result.situations > 20


@pytest.mark.parametrize("case", [case for case in ALL if case.cast != "groups"], ids=str)
def test_messages_to_oneself_do_no_harm(case: Case) -> None:
    result = explore(
        case.protocol,
        3,
        2,
        options=case.options,
        casts=(case.cast,),
        promises=case.promises,
        symmetric=case.is_symmetric,
        selves=True,
    )
    assert result.is_clean, f"{result}\n{result.script!r}"


def made(protocol: str, processes: int, messages: int, casts: tuple[Cast, ...]) -> Explorer:
    info = antecede.PROTOCOLS[protocol]
    return Explorer(
        protocol,
        process_names(processes),
        messages,
        options={},
        casts=casts,
        promises=info.promises,
        rules=None,
        symmetric=False,
    )


def local_states_step_by_step(explorer: Explorer) -> set[int]:
    """Visit every interleaving, one step at a time and without any reduction."""
    machine, members = explorer.machine, explorer.members
    start = (machine.starts, frozenset[int](), explorer.messages)
    seen, stack, found = {start}, [start], set(machine.starts)
    while stack:
        places, flying, left = stack.pop()
        steps = []
        for packet in flying:
            place = members.index(machine.packets[packet].dest)
            outcome = machine.receive(places[place], packet)
            steps.append((place, outcome, (flying - {packet}), left))
        for place, member in enumerate(members if left else ()):
            for dests in explorer.choices[member]:
                sent = machine.send(places[place], dests, None)
                assert sent is not None
                steps.append((place, sent, flying, left - 1))
        for place, outcome, rest, left_now in steps:
            assert outcome.broken is None
            found.add(outcome.local)
            now = (
                (*places[:place], outcome.local, *places[place + 1 :]),
                rest | frozenset(outcome.packets),
                left_now,
            )
            if now not in seen:
                seen.add(now)
                stack.append(now)
    return found


@pytest.mark.parametrize(("processes", "messages"), [(2, 3), (3, 2)])
@pytest.mark.parametrize(
    ("protocol", "cast"),
    [("matrix", "multicast"), ("optimal", "multicast"), ("buffered", "unicast")],
)
def test_the_reductions_reach_every_local_state(
    protocol: str, cast: Cast, processes: int, messages: int
) -> None:
    """Also where arrivals send something: buffered acknowledges each of them."""
    explorer = made(protocol, processes, messages, (cast,))
    assert explorer.run(lambda _situations, _cost: False)
    reached = explorer.machine.local_count
    assert local_states_step_by_step(explorer) == set(range(reached))
    assert explorer.machine.local_count == reached


def test_renaming_saves_work_and_finds_the_same() -> None:
    whole = explore("matrix", 3, 2, casts=("multicast",), symmetric=False)
    less = explore("matrix", 3, 2, casts=("multicast",))
    assert whole.is_clean
    assert less.is_clean
    assert less.situations < whole.situations / 3


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_line_is_found_with_a_shortest_script(mutant: type[Rules]) -> None:
    protocol, promises = MUTANTS[mutant]
    result = explore(protocol, 3, 3, casts=("multicast",), rules=mutant)
    assert result.promise in promises, str(result)
    if result.promise != "integrity":
        assert result.script is not None
        with pytest.raises(BrokenPromiseError, match=f"broke {result.promise}"):
            run_script(result.script, protocol, rules=mutant, drain=0)


def test_the_shortest_script_of_no_order_at_all_has_three_steps() -> None:
    """Two messages of one sender, and the second arrives: nothing shorter can go wrong."""
    mutant = next(one for one in MUTANTS if one.__name__ == "Unordered")
    result = explore("matrix", 3, 4, casts=("multicast",), rules=mutant)
    assert result.script is not None
    assert [step[0] for step in result.script.steps] == ["send", "send", "packet"]
    assert result.sentence == (
        "a:1 comes before a:2: because a sent a:1 before it sent a:2; however, b delivered a:2 "
        "first and has not delivered it"
    )


def test_an_exploration_stops_when_time_is_up() -> None:
    result = explore("matrix", 3, 4, casts=("multicast",), seconds_max=0.0)
    assert not result.is_complete
    assert str(result).endswith("not finished")


def test_the_command_line_prints_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--messages", "2", "--protocol", "matrix", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    figures = json.loads(line)
    assert figures["case"] == "matrix-multicast"
    assert figures["is_complete"] is True
    assert figures["broken"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--protocol", "matrx"], "did you mean matrix"),
        (["--processes", "1"], "at least 2 processes"),
    ],
)
def test_a_wrong_call_is_told_in_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-W", "error", "-m", "antecede.check.explore", "--messages", "1"]
    done = subprocess.run(
        [*command, "--protocol", "optimal"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "optimal-multicast 3x1" in done.stdout


def test_bounded_is_exhausted_where_it_must_send_extra_messages() -> None:
    """With three processes k = n + 1 is never exceeded; four and three multicasts do exceed it.

    The suite sees a third of the situations; ``make soak`` all.
    """
    explorer = Explorer(
        "bounded",
        process_names(4),
        3,
        options={"k": 5},
        casts=("multicast",),
        promises=antecede.PROTOCOLS["bounded"].promises,
        rules=None,
        symmetric=True,
    )
    whole = explorer.run(lambda situations, _cost: TIMES == 1 and situations > 2000)
    assert whole or TIMES == 1
    assert explorer.failure() is None
    assert any(packet.kind == "control" for packet in explorer.machine.packets)


class Deaf(Matrix):
    """Delivers nothing, whatever arrives."""

    def blocker(self, packet: Packet) -> int:
        return 99 << self.view.shift | packet.source_no


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Effects], Effects]], None]:
    """Return a function that changes every result of an endpoint's ``send`` and ``receive``."""

    def spoil(change: Callable[[Effects], Effects]) -> None:
        for name in ("send", "receive"):
            real = getattr(Endpoint, name)

            def spoilt(*given: Any, real: Any = real, **named: Any) -> Effects:
                return change(real(*given, **named))

            monkeypatch.setattr(Endpoint, name, spoilt)

    return spoil


def test_one_that_delivers_nothing_is_told_with_a_script() -> None:
    found = explore("matrix", 2, 1, rules=Deaf, promises=("safety", "liveness"))
    assert found.promise == "liveness"
    assert "never delivers a:1" in found.sentence
    assert "BROKEN liveness: " in str(found)
    assert isinstance(found.script, Script)
    assert not found.is_clean


def test_one_that_delivers_twice_is_told(spoil: Any) -> None:
    spoil(lambda made: Effects(made.packets, made.deliveries * 2, made.event))
    found = explore("matrix", 2, 1)
    assert found.promise == "integrity"
    assert "a:1 twice" in found.sentence


def test_one_that_holds_for_ever_is_not_quiescent() -> None:
    found = explore("matrix", 2, 1, rules=Deaf, promises=("quiescence",))
    assert found.promise == "quiescence"
    world = World("matrix", "ab", rules=Deaf, promises=("quiescence",))
    world.send("a", ("b",))
    world.drain()
    with pytest.raises(BrokenPromiseError, match="quiescence"):
        world.check()


def test_the_command_says_which_script_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Matrix, "blocker", Deaf.blocker)
    words = ["--processes", "2", "--messages", "1", "--protocol", "matrix"]
    assert main(words) == 1
    assert "shortest failing script: Script(members=" in capsys.readouterr().out


def test_a_delivery_at_the_wrong_process_is_told(spoil: Any) -> None:
    """The first message of all is delivered in the place of any other."""

    def misdirected(made: Effects) -> Effects:
        return Effects(made.packets, tuple(map(as_first, made.deliveries)), made.event)

    def as_first(one: Delivery) -> Delivery:
        old = one.content
        first = Message(old.view, old.sender, old.seq, old.dests, b"0", old.control)
        return Delivery(first, one.event, ())

    spoil(misdirected)
    found = explore("matrix", 3, 2, casts=("unicast",))
    assert found.promise == "integrity"
    assert [step[0] for step in found.failure] == ["send", "send", "arrive"]


def test_a_send_with_a_wrong_number_is_told(spoil: Any) -> None:
    spoil(lambda made: Effects(made.packets, made.deliveries, made.event + 1))
    world = World("matrix", "ab")
    with pytest.raises(BrokenPromiseError, match="the send of a:1 is event 1, not 2"):
        world.send("a", ("b",))


def test_long_explorations_say_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Explorer, "run", lambda _, is_time_up: not is_time_up(4096, 7))
    lines: list[str] = []
    assert explore("matrix", progress=lines.append).is_complete
    assert lines == ["matrix: 4,096 situations, 7 steps deep, 0 CPU s"]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main(["--protocol", "matrix"]) == 0
    assert capsys.readouterr().err == f"\r{lines[0]}  "


def test_a_failure_is_replayed_step_by_step() -> None:
    info = Matrix.INFO
    explorer = Explorer(
        "matrix", ("a", "b"), 1, options={}, casts=info.casts, promises=info.promises,
        rules=None, symmetric=True,
    )  # fmt: skip
    assert explorer.run(lambda *_: False)
    world = explorer.replay([("send", "a", ("b",), None), ("arrive", 0)])
    assert world.history.deliveries("b") == [MessageId("a", 1)]
    with pytest.raises(ValueError, match="unknown step"):
        explorer.replay([("dance",)])
