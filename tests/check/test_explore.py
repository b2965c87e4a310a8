"""The explorer: exhausts every protocol, and its reductions leave nothing out."""

import json
import subprocess
import sys

import pytest

import antecede
from antecede.check import BrokenPromiseError, explore, run_script
from antecede.check.cases import Case, cases
from antecede.check.exploration import main
from antecede.check.scripts import process_names
from antecede.check.search import Explorer
from antecede.endpoint.info import Cast
from antecede.endpoint.rules import Rules
from tests.support.mutants import MUTANTS

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
    result = explore(
        case.protocol,
        3,
        2 if str(case) in TWO_ONLY else 3,
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
    """With three processes k = n + 1 is never exceeded; four and three multicasts do exceed it."""
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
    assert explorer.run(lambda _situations, _cost: False)
    assert explorer.failure() is None
    assert any(packet.kind == "control" for packet in explorer.machine.packets)
