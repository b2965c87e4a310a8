"""The claims of the papers: those that tests settle, and the table of all claims.

Claims about size, delay or growth are judged from a study's points; they are defined in the
modules of the experiments that measure them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from antecede.study.design import QUICK, Claim, Judgement
from antecede.study.experiments import EXPERIMENTS
from antecede.study.points import CONSISTENT, HOLDS, LIMITS, NOT_RUN, PARTLY, Measured

TESTS, RUN = "tests", "this run"
"""The bases of a verdict."""


class Row(NamedTuple):
    """A claim in the form that a page prints; no cell is empty."""

    id: str
    claim: str
    test: str
    result: str
    verdict: str
    short: str
    basis: str


def claims() -> dict[Claim, str]:
    """Return every claim in the papers' order, with the experiment that judges it ("" if none)."""
    found = {claim: each.name for each in EXPERIMENTS.values() for claim in each.claims}
    found |= dict.fromkeys(TESTED, "")
    return dict(sorted(found.items(), key=lambda item: _place(item[0].id)))


def papers() -> dict[str, str]:
    """Return the names of papers by the first part of their claims' numbers."""
    judged = {claim.id: EXPERIMENTS[name].paper for claim, name in claims().items() if name}
    return {number.partition(".")[0]: paper for number, paper in judged.items()}


def _place(claim: str) -> list[tuple[bool, int]]:
    """Return the sort key of a claim: its number, but open questions after a paper's claims."""
    return [(part == "open", int(part) if part.isdigit() else 0) for part in claim.split(".")]


def claim_rows(measured: Measured, only: Sequence[str] = ()) -> list[Row]:
    """Return every claim with its result, as far as this study measured it.

    ``only`` names the protocols that the study was restricted to; a claim that needs others says
    so in its row.
    """
    return [_row(claim, experiment, measured, only) for claim, experiment in claims().items()]


def _row(claim: Claim, experiment: str, measured: Measured, only: Sequence[str]) -> Row:
    outcome, basis = _outcome(claim, experiment, measured), RUN if claim.judge else TESTS
    if outcome is None or (outcome.verdict == NOT_RUN and only):
        outcome = _not_run(experiment, only)
    result = outcome.result[0].upper() + outcome.result[1:]
    short = outcome.short or ("settled by tests" if basis == TESTS else "see the result")
    return Row(claim.id, claim.text, claim.test, result, outcome.verdict, short, basis)


def _outcome(claim: Claim, experiment: str, measured: Measured) -> Judgement | None:
    points = measured.of(experiment)
    return claim.judge(points) if claim.judge and points else claim.outcome


def refuted(measured: Measured) -> str:
    """Name the statements that are wrong as the papers print them, as far as this study tells."""
    found = [
        f"{outcome.refuted} ({claim.id})"
        for claim, experiment in claims().items()
        if (outcome := _outcome(claim, experiment, measured)) and outcome.refuted
    ]
    return (
        f'Refuted as printed: {"; ".join(found)}. Such a row may say "{LIMITS}" because it joins '
        "several statements."
    )


def _not_run(experiment: str, only: Sequence[str]) -> Judgement:
    """Say why a claim was not judged: its experiment was not run, or protocols were left out."""
    needed = {case.protocol for case in EXPERIMENTS[experiment].cases(QUICK)}
    missing = sorted(needed - set(only)) if only else []
    if missing:
        names = ", ".join(missing)
        text = f"Not measured: --protocol left out {names}; run again without --protocol."
        return Judgement(text, NOT_RUN, f"--protocol left out {names}")
    text = f"Not part of this study; run antecede study --experiment {experiment}."
    return Judgement(text, NOT_RUN, f"needs --experiment {experiment}")


_ORACLE = (
    "Property tests with an oracle that uses no clocks, on networks that reorder and duplicate "
    "(tests/protocols/test_properties.py)"
)
_EXPLORER = "the explorer (tests/check/test_explore.py)"


TESTED: tuple[Claim, ...] = (
    Claim(
        "0.1",
        "Pruned keeps causal order and delivers everything, even if channels are not FIFO.",
        f"{_ORACLE}, tests/protocols/test_pruned.py, and {_EXPLORER}.",
        Judgement("No violation, and everything is delivered; broken steps are detected.", HOLDS),
    ),
    Claim(
        "0.8",
        "In the worst case pruned keeps and sends O(n²) tuples: everybody unicasts to everybody, "
        "concurrently.",
        "That script, to one process that hears of it all, beside optimal "
        "(tests/protocols/test_pruned.py).",
        Judgement(
            "That process keeps (n - 1)(n - 2) messages with a destination each, under pruned as "
            "under optimal: none of them can be left out.",
            HOLDS,
            "(n - 1)(n - 2) tuples",
        ),
    ),
    Claim(
        "1.1",
        "The prefix MCV holds every semantic cause and only the past; its entries and those of "
        "SENT never decrease.",
        "Lemma 1 and property 2 as invariants on random scripts "
        "(tests/protocols/test_semantic_paper.py).",
        Judgement("Both held after every event.", HOLDS),
    ),
    Claim(
        "1.2",
        "SENT_PREV + SENT_CONC = SENT_ECV, and each counts exactly the messages it should.",
        "Lemmas 2 to 4 as invariants (tests/protocols/test_semantic_paper.py).",
        Judgement(
            "Lemma 2 held after every event. Lemmas 3 and 4 fail together: SENT_PREV may lack the "
            "last message of the prefix, which SENT_CONC then counts. This happens at receivers, "
            "and with E7 as printed at senders too (docs/errata.md).",
            LIMITS,
            "lemma 2 held; 3 and 4 fail together",
            "lemmas 3 and 4",
        ),
    ),
    Claim(
        "1.3",
        "Semantic causal order is kept.",
        f"{_ORACLE}, whatever messages depend on (tests/protocols/test_semantic.py); the steps as "
        "printed in tests/protocols/test_errata.py.",
        Judgement(
            "Held as repaired, without assumptions on channels and with unbounded buffers. As "
            "printed it holds on FIFO channels, which the paper assumes, with one destination per "
            "message. E7 and DELIV would lose order if a channel reordered, and R3 does in "
            "multicast (docs/errata.md).",
            LIMITS,
            "as printed: FIFO channels, one destination",
        ),
    ),
    Claim(
        "1.7",
        "In figure 2, M3 need not wait for M1.",
        "The figure as a test, also under matrix (tests/protocols/test_semantic_paper.py).",
        Judgement("Semantic delivers M3 at once; matrix holds it.", HOLDS),
    ),
    Claim(
        "1.8",
        "Definition 5 moves MCV exactly when definition 4 does; proposition 1: if the prefix is "
        "delivered first, semantic order is kept.",
        "Both conditions at every send of random scripts (tests/protocols/test_semantic_paper.py); "
        f"for the proposition: {_ORACLE.lower()}.",
        Judgement(
            "They agreed at every send, and no order was lost. The conditions of definitions 4 and "
            "5 are cut off in our copy; they are completed from the text around them.",
            HOLDS,
        ),
    ),
    Claim(
        "1.9",
        "MCV, the prefix that a message waits for, is much less than ECV, its whole past.",
        "Both by events, in random scripts, by the share of sends that depend on anything "
        "(tests/protocols/test_semantic_paper.py).",
        Judgement(
            "In scripts of 80 steps the prefix has less than a quarter of the past if one send in "
            "fifty depends on something, more than three quarters if every second one does: one "
            "dependence takes in all before it. The share grows with the run, because the past "
            "grows and the distance from MCV to ECV does not: with one send in fifty it is more "
            "than half after 1,280 steps, and in a long run nearly all.",
            LIMITS,
            "only in short runs where few sends depend",
        ),
    ),
    Claim(
        "2.1",
        "The delivery condition and the propagation constraints are necessary and sufficient, and "
        "the algorithm meets both.",
        f"{_ORACLE}; after every event, the log is compared with the set that the constraints "
        f"allow (tests/protocols/test_optimal_paper.py); {_EXPLORER}. For theorem 2, these are "
        "dropped in turn: every unit of a log, and every unit of a message that is news to its "
        "receiver and about a third process. For each, a schedule is constructed in which order "
        "breaks (tests/protocols/test_optimal_necessity.py).",
        Judgement(
            "The log equals that set exactly; no message is lost or late. Without any one of those "
            "units, the constructed schedule breaks causal order. What the constraints require is "
            "not the least that can be sent: they do not ask what a channel has carried before, "
            "and option differential sends less (docs/errata.md).",
            LIMITS,
            "differential sends less",
        ),
    ),
    Claim(
        "2.2",
        "Lemmas 1 to 7 hold for every log and message.",
        "As invariants on random scripts (tests/protocols/test_optimal_paper.py).",
        Judgement("Held after every event.", HOLDS),
    ),
    Claim(
        "2.7",
        "Chains longer than two need n² units in the worst case; for chains of two, O(n) is "
        "enough.",
        "The constructions of theorem 8 and lemma 8, which the paper credits to Adelstein and "
        "Singhal (ICDCS 1995), as tests "
        "(tests/protocols/test_optimal_paper.py, tests/protocols/test_two_hop.py).",
        Judgement(
            "Theorem 8 is a bound over all algorithms, which tests of some cannot establish. It is "
            "consistent with what was tried: its chain breaks the O(n) protocol two_hop and fills "
            "optimal's log. Lemma 8 says that one algorithm exists for chains of two, and two_hop "
            "is such.",
            CONSISTENT,
            "theorem 8 consistent with two algorithms",
        ),
    ),
    Claim(
        "2.9",
        "Processes may join and leave at run time.",
        "By views: a process that leaves is skipped, and the next view has new endpoints "
        "(tests/endpoint/test_skip.py, tests/endpoint/test_views.py).",
        Judgement(
            "By views it is safe and live; messages that wait for a removed process are released. "
            "The paper's own way, to add and remove processes in the running algorithm (section "
            "4.5), is not tested.",
            LIMITS,
            "by views; the paper's way is not tested",
        ),
    ),
    Claim(
        "2.10",
        "The algorithm is easily converted for channels that are not FIFO: numbers per channel.",
        f"{_ORACLE}; the log is exact there too (tests/protocols/test_optimal_paper.py).",
        Judgement(
            "It needs no conversion: a message carries its predecessor on the channel like any "
            "other cause, so the number of the last message from each sender is enough.",
            HOLDS,
            "no conversion needed",
        ),
    ),
    Claim(
        "3.1",
        "At most k entries are kept or sent, with causal order and liveness, on networks that "
        "reorder.",
        f"{_ORACLE}, tests/protocols/test_bounded.py, and tests/protocols/test_bounded_paper.py.",
        Judgement(
            "Never more than k entries; no violation, and everything is delivered. Clearing only "
            "before a send, which is our idea and not [SA00]'s, takes fewer extra messages; it "
            "bounds messages, not what is kept.",
            HOLDS,
        ),
    ),
    Claim(
        "3.3",
        "Lemmas 2 and 3 and propositions 1 and 5, on which safety and liveness rest.",
        "As invariants after every step of random runs on a network that reorders, with extra "
        "messages; a broken step is detected (tests/protocols/test_bounded_paper.py).",
        Judgement("Held after every step, also with several destinations.", HOLDS),
    ),
    Claim(
        "4.1",
        "Causal order and liveness without control information; lemmas 2 to 4.",
        f"{_ORACLE}, tests/protocols/test_buffered.py, tests/protocols/test_buffered_paper.py.",
        Judgement("No violation, and everything is delivered; the lemmas held.", HOLDS),
    ),
    Claim(
        "4.2",
        "The exchange of figures 1 and 3, which deadlocks synchronously, does not deadlock.",
        "The figures as tests (tests/protocols/test_buffered_paper.py, test_synchronous.py).",
        Judgement("It runs under buffered and deadlocks under synchronous.", HOLDS),
    ),
    Claim(
        "4.3",
        "The matrix delays at the receiver, the buffers at the sender (figures 4 to 6).",
        "The figures as tests (tests/protocols/test_buffered_paper.py).",
        Judgement("As drawn.", HOLDS),
    ),
    Claim(
        "4.4",
        "Selective receive: one program blocks under both; overlapping crowns run; nested crowns "
        "run under the matrix only; a third program sometimes blocks under buffers.",
        "Figures 7 and 8 and the programs as tests (tests/protocols/test_buffered_paper.py).",
        Judgement("Each behaves as the paper says.", HOLDS),
    ),
    Claim(
        "4.6",
        "Matrices can be made smaller by sending differences, or by a known topology; Isis blocks "
        "a sender until its message is acknowledged.",
        "Runs of matrix, replayed with the differences on each channel, from which receivers "
        "rebuild every matrix (tests/study/test_replays.py). Blocking is protocol synchronous "
        "(tests/protocols/test_synchronous.py).",
        Judgement(
            "Among twelve processes, two fifths to half of the cells have changed since the last "
            "message on the same channel, on a ring less than a tenth. A changed cell needs its "
            "place (8 bytes, not 4), so at half nothing is saved: differences pay on the ring. "
            "Cells of what is no channel stay 0. The price is a matrix per channel at both ends, "
            "and channels that are FIFO. What Isis does is history and was not tested; synchronous "
            "is such blocking for unicast, and its use for broadcast is not covered.",
            LIMITS,
            "differences pay on a ring; Isis is not tested",
        ),
    ),
    Claim(
        "4.open.2",
        "Open: fault tolerance of both.",
        "Snapshots and restarts of every endpoint (tests/protocols); a process that is lost is "
        "skipped (tests/endpoint/test_skip.py).",
        Judgement(
            "A stopped process resumes from its snapshot. That a process is lost must be declared; "
            "what waits for it is then delivered, and marked. Nothing here detects a loss, and "
            "what only the lost process had is gone.",
            PARTLY,
            "restarts; a loss must be declared",
        ),
    ),
)
