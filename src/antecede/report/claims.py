"""The claims table: one row for each claim of the five papers, and what became of it.

Claims that a proof or an example settles point to the test that shows them; claims about size,
delay or growth are judged here from the study's own points (``verdicts``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from antecede.report.verdicts import bounded, buffered, optimal, pruned, semantic
from antecede.report.verdicts.common import HOLDS, LIMITS, NOT_RUN, OPEN, PARTLY, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from antecede.report.measured import Measured


@dataclass(frozen=True, slots=True)
class Row:
    """A claim as it is printed; no cell is empty."""

    id: str
    claim: str
    test: str
    result: str
    verdict: str

    def cells(self) -> tuple[str, ...]:
        """Return the row for a table."""
        return (self.id, self.claim, self.test, self.result, self.verdict)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim: shown by tests (``outcome``), or measured by an experiment (``judge``)."""

    id: str
    claim: str
    test: str
    outcome: Outcome | None = None
    judge: Callable[[Measured], Outcome | None] | None = None
    experiment: str = ""


def claim_rows(measured: Measured) -> list[Row]:
    """Return every claim with what came out, as far as this study measured it."""
    return [_row(claim, measured) for claim in CLAIMS]


def _row(claim: Claim, measured: Measured) -> Row:
    outcome = claim.outcome
    if claim.judge is not None:
        outcome = claim.judge(measured) if measured.has(claim.experiment) else None
        if outcome is None:
            again = f"this study left it out; antecede study --experiment {claim.experiment}"
            outcome = Outcome(again, NOT_RUN)
    assert outcome is not None, f"claim {claim.id} has neither outcome nor judge"
    return Row(claim.id, claim.claim, claim.test, outcome.result, outcome.verdict)


_ORACLE = (
    "Property tests under an oracle without clocks, on networks that reorder and duplicate "
    "(tests/protocols/test_properties.py)"
)
_EXPLORER = "the explorer (tests/check/test_explore.py)"

CLAIMS: tuple[Claim, ...] = (
    # papers/000
    Claim(
        "0.1",
        "pruned keeps causal order and delivers everything, also where channels are not FIFO.",
        f"{_ORACLE}, tests/protocols/test_pruned.py, and {_EXPLORER}.",
        Outcome("No violation and nothing left undelivered; broken steps are noticed.", HOLDS),
    ),
    Claim(
        "0.2",
        "Redundant information is of four kinds (just or already, delivered or replaced), each "
        "pruned by its own step.",
        "Paper tests for each kind (tests/protocols/test_pruned.py); how much each saves: "
        "experiment redundancy.",
        judge=pruned.redundancy,
        experiment="redundancy",
    ),
    Claim(
        "0.3",
        "Dependents per message: n² for RST, PRS towards two thirds of n², pruned the fewest, with "
        "the larger gain in multicast.",
        "Experiment overhead (figure 2).",
        judge=pruned.dependents,
        experiment="overhead",
    ),
    Claim(
        "0.4",
        "pruned keeps a dependent for every known sender, so dependents usually outnumber the "
        "destinations in them.",
        "Experiment overhead; tests/protocols/test_pruned.py keeps one entry per sender.",
        judge=pruned.dependents_per_sender,
        experiment="overhead",
    ),
    Claim(
        "0.5",
        "The mean size of a dependent is largest for pruned, then PRS, then RST.",
        "Experiment overhead: bytes divided by dependents.",
        judge=pruned.dependent_size,
        experiment="overhead",
    ),
    Claim(
        "0.6",
        "Bytes per message: pruned least and slowly growing; PRS above RST in unicast from 25 "
        "processes on.",
        "Experiments overhead (figure 3) and crossover, over delays from 0.01 to 10 gaps.",
        judge=pruned.bytes_crossover,
        experiment="overhead",
    ),
    Claim(
        "0.7",
        "pruned is O(n²) at worst and nearly O(n) on average.",
        "Experiment overhead: the exponent of n fitted to bytes per copy.",
        judge=pruned.pruned_exponent,
        experiment="overhead",
    ),
    # papers/001
    Claim(
        "1.1",
        "The prefix MCV holds every semantic cause and only the past; its entries and SENT's never "
        "decrease.",
        "Lemma 1 and property 2 as invariants on random scripts "
        "(tests/protocols/test_semantic_paper.py).",
        Outcome("Both held after every event.", HOLDS),
    ),
    Claim(
        "1.2",
        "SENT_PREV + SENT_CONC = SENT_ECV, and each counts exactly the messages it should.",
        "Lemmas 2 to 4 as invariants (tests/protocols/test_semantic_paper.py).",
        Outcome(
            "Lemmas 2 and 4 held after every event. Lemma 3 is not exact at receivers: SENT_PREV may "
            "lack the last message of the prefix, which SENT_CONC then counts; no order is lost by it "
            "(docs/errata.md).",
            LIMITS,
        ),
    ),
    Claim(
        "1.3",
        "Semantic causal order is kept.",
        f"{_ORACLE}, whatever messages depend on (tests/protocols/test_semantic.py); the steps as printed in tests/protocols/test_errata.py.",
        Outcome(
            "Held as repaired, with no assumption on channels and with unbounded buffers. As printed "
            "it needs FIFO channels and one destination a message: E7 and DELIV lose order where a "
            "channel reorders, and R3 in multicast (docs/errata.md).",
            LIMITS,
        ),
    ),
    Claim(
        "1.4",
        "Less delay and smaller buffers than the matrix.",
        "Experiment semantic: the same schedules under both, as dependence varies.",
        judge=semantic.semantic_saving,
        experiment="semantic",
    ),
    Claim(
        "1.5",
        "What false causality remains concerns the distant past and rarely delays with exponential "
        "delays; heavy tails are not discussed.",
        "Experiment semantic: every hold checked against explicit sets of semantic causes, with "
        "exponential delays and with heavy tails.",
        judge=semantic.false_causality,
        experiment="semantic",
    ),
    Claim(
        "1.6",
        "Twice the matrix's space, work of the same order.",
        "Experiment semantic: entries per copy, and the engine's own time per delivery.",
        judge=semantic.semantic_cost,
        experiment="semantic",
    ),
    Claim(
        "1.7",
        "In figure 2, M3 need not wait for M1.",
        "The figure as a test, also under matrix (tests/protocols/test_semantic_paper.py).",
        Outcome("semantic delivers M3 at once; matrix holds it.", HOLDS),
    ),
    Claim(
        "1.open",
        "Left open: the same idea on top of algorithms that carry less than a matrix.",
        "Needs a new algorithm; none is built here yet.",
        Outcome("Open.", OPEN),
    ),
    # papers/002
    Claim(
        "2.1",
        "The delivery condition and the propagation constraints are necessary and sufficient, and "
        "the algorithm meets both.",
        f"{_ORACLE}; after every event the log is compared with the set that the constraints allow "
        f"(tests/protocols/test_optimal_paper.py); {_EXPLORER}.",
        Outcome("The log equals that set, no more and no less; nothing is lost or late.", HOLDS),
    ),
    Claim(
        "2.2",
        "Lemmas 1 to 7 hold of every log and message.",
        "As invariants on random scripts (tests/protocols/test_optimal_paper.py).",
        Outcome("Held after every event.", HOLDS),
    ),
    Claim(
        "2.3",
        "At most n² units; by sender the sum of nd_i, and nd_i at most n/2 with complements.",
        "As bounds on every log (tests/protocols/test_optimal_paper.py); experiment growth.",
        judge=optimal.optimal_bound,
        experiment="growth",
    ),
    Claim(
        "2.4",
        "Overhead and log are much smaller than n² on the average.",
        "Experiment growth: sizes to hundreds of processes, three casts, three delays.",
        judge=optimal.optimal_growth,
        experiment="growth",
    ),
    Claim(
        "2.5",
        "A send takes cubic time as printed, quadratic with the common computation; a receipt "
        "quadratic.",
        "Experiment growth: the compiled kernel's own time per delivery, sends included.",
        judge=optimal.optimal_work,
        experiment="growth",
    ),
    Claim(
        "2.6",
        "Hardware multicast costs extra on that message only; lookahead purges earlier; FIFO "
        "channels allow sending differences.",
        "Experiment variants, on the same schedules; tests/protocols/test_optimal_remarks.py shows "
        "where lookahead as printed loses order.",
        judge=optimal.variants,
        experiment="variants",
    ),
    Claim(
        "2.7",
        "Chains longer than two need n² units at worst; chains of two need n.",
        "The constructions of theorem 8 and lemma 8 as tests "
        "(tests/protocols/test_optimal_paper.py, tests/protocols/test_two_hop.py).",
        Outcome("Theorem 8's chain breaks the O(n) protocol and fills optimal's log.", HOLDS),
    ),
    Claim(
        "2.8",
        "Special cases cost less: n for broadcast, 1 serialised, 0 where synchronous or "
        "acknowledged, central and hierarchical relays.",
        "Experiment special, each where it applies: broadcast, multicast, unicast, and a token that goes "
        "round.",
        judge=optimal.special_cases,
        experiment="special",
    ),
    Claim(
        "2.9",
        "Processes may join and leave at run time.",
        "Joins and leaves in random scripts (tests/protocols/test_optimal_remarks.py, "
        "tests/core/test_membership.py).",
        Outcome(
            "Safe and live; what waits for a process that left is released and says so.", HOLDS
        ),
    ),
    Claim(
        "2.open",
        "Left open: ordering only between groups of events.",
        "Needs a new algorithm; none is built here yet.",
        Outcome("Open.", OPEN),
    ),
    # papers/003
    Claim(
        "3.1",
        "At most k entries are kept or sent; causal order and liveness, on networks that reorder.",
        f"{_ORACLE}, and tests/protocols/test_bounded.py.",
        Outcome("Never more than k entries; no violation, nothing left undelivered.", HOLDS),
    ),
    Claim(
        "3.2",
        "A zero own column and clearing a column at each send already thin the matrix.",
        "Experiment bounded with k = n², where the bound never acts.",
        judge=bounded.thinning,
        experiment="bounded",
    ),
    Claim(
        "3.open.1",
        "Asked: how many extra messages are sent in practice?",
        "Experiment bounded: extra messages per message over k.",
        judge=bounded.bounded_extra,
        experiment="bounded",
    ),
    Claim(
        "3.open.2",
        "Asked: the total size against optimal's.",
        "Experiment bounded: control of messages and extra messages together.",
        judge=bounded.bounded_total,
        experiment="bounded",
    ),
    Claim(
        "3.open.3",
        "Asked: different k for different processes.",
        "Experiment bounded: half the processes with less than k, half with more.",
        judge=bounded.bounded_uneven,
        experiment="bounded",
    ),
    Claim(
        "3.open.4",
        "Asked: the time lost waiting for extra messages.",
        "Experiment bounded: mean time from send to delivery against optimal's.",
        judge=bounded.bounded_delay,
        experiment="bounded",
    ),
    # papers/004
    Claim(
        "4.1",
        "Causal order with no control information, and liveness; lemmas 2 to 4.",
        f"{_ORACLE}, tests/protocols/test_buffered.py, tests/protocols/test_buffered_paper.py.",
        Outcome("No violation, nothing left undelivered; the lemmas held.", HOLDS),
    ),
    Claim(
        "4.2",
        "The exchange of figures 1 and 3, which deadlocks synchronously, does not deadlock.",
        "The figures as tests (tests/protocols/test_buffered_paper.py, test_synchronous.py).",
        Outcome("It runs under buffered and deadlocks under synchronous.", HOLDS),
    ),
    Claim(
        "4.3",
        "The matrix delays at the receiver, the buffers at the sender (figures 4 to 6).",
        "The figures as tests (tests/protocols/test_buffered_paper.py).",
        Outcome("As drawn.", HOLDS),
    ),
    Claim(
        "4.4",
        "Selective receive: one program blocks under both; overlapping crowns run; nested crowns "
        "run under the matrix only; a third program blocks by chance under buffers.",
        "Figures 7 and 8 and the programs as tests (tests/protocols/test_buffered_paper.py).",
        Outcome("As the paper says, each one.", HOLDS),
    ),
    Claim(
        "4.5",
        "Untested by its authors: the extra delay is barely noticeable when round trips are short "
        "against the gaps; acknowledgements cost little; pipelining removes most of the delay.",
        "Experiment buffered: round trips from a hundredth of the gap to nearly all of it, each protocol "
        "against buffered on the same schedules.",
        judge=buffered.buffered_delay,
        experiment="buffered",
    ),
    Claim(
        "4.open.1",
        "Left open: combining the matrix and the buffers.",
        "Needs a new algorithm; none is built here yet.",
        Outcome("Open.", OPEN),
    ),
    Claim(
        "4.open.2",
        "Left open: fault tolerance of both.",
        "Snapshots and restarts of every endpoint (tests/protocols); lost processes only where a "
        "protocol can remove them (tests/core/test_membership.py).",
        Outcome("A stopped process goes on from its snapshot; a lost one is not covered.", PARTLY),
    ),
    Claim(
        "4.open.3",
        "Left open: buffers for causal broadcast.",
        "Needs a new algorithm; none is built here yet.",
        Outcome("Open.", OPEN),
    ),
)
