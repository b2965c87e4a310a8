"""What a send and a receipt cost in the worst case, timed apart: section 6.2 of [KS98].

The worst case is the log of theorem 8: everyone has sent to everyone, one process has heard of it
all, and nothing is known to be delivered.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import antecede
from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.logs import Log, saved
from antecede.endpoint.messages import Message
from antecede.endpoint.registry import restored
from antecede.endpoint.rules import Own
from antecede.protocols.optimal import Optimal
from antecede.study.design import Case, Chart, Experiment, Outcome, Scale, claim, paper
from antecede.study.limits import CUBIC, QUADRATIC
from antecede.study.measuring import Task
from antecede.study.points import Points, judged, local_exponents, told_growth

SIZES = (8, 16, 32, 64)
LONGER = (8, 16, 32, 64, 96)
PRINTED, COMMON, RECEIPT = "send:printed", "send:common", "receipt"
_ENOUGH = 0.05
"""Each measurement repeats until it has taken this many seconds."""
_LEAST, _MOST = 3, 25
"""How often at least, and at most: to prepare a step takes longer than the step."""


class AsPrinted(Optimal):
    """The send as [KS98] prints it: SND(2) goes through the whole log for each destination."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """SND(2) for one destination after the other, then the other steps."""
        _, before = self._settled()
        before = before.copy()
        own, everyone = {}, message.dests & ~(1 << self.me)
        for dest in others:
            bit = 1 << dest
            rest_of_them = everyone & ~bit
            copy = {key: rest for key, mask in before.items() if (rest := mask & ~rest_of_them)}
            own[dest] = [key for key, mask in copy.items() if mask & bit]
        super().stamp(message, others, event, after)
        return own


def worst(n: int) -> tuple[tuple[str, ...], Log]:
    """Return the names of n processes, and the log that theorem 8 makes for the first.

    By number, every process but the first has sent to every other but the first, one by one.
    """
    names = tuple(f"p{number:03}" for number in range(n))
    shift = antecede.view_of("optimal", names).shift
    log: Log = {}
    for sender in range(1, n):
        dests = [dest for dest in range(1, n) if dest != sender]
        log |= {clock << shift | sender: 1 << dest for clock, dest in enumerate(dests, start=1)}
    return names, log


def with_log(
    rules: type[Optimal], process: str, names: tuple[str, ...], log: Log, *, is_here: bool = False
) -> antecede.Endpoint:
    """Return an endpoint that keeps this log, and has sent what it says.

    With ``is_here`` it has delivered what the log names as sent to it.
    """
    view = antecede.view_of("optimal", names)
    tops = list(range(view.n))
    for key in log:
        tops[key & view.low] = max(key, tops[key & view.low])
    sent = tops[view.numbers[process]] >> view.shift
    state = Endpoint(view, process, rules).state()
    state |= {"seq": sent, "events": sent, "rules": {"tops": tops, "log": saved(log)}}
    if is_here:
        state["reached"] = list(tops)
    return restored(view, state, resumed=True, rules=rules)


def cases(scale: Scale) -> list[Case]:
    """Return each step at each size; a seed is one more repetition."""
    arguments = {"cast": "unicast", "received": 2}
    return [
        Case("optimal", "paper", {"n": n, **arguments}, seed, series, n)
        for n in scale.sizes_or(SIZES if scale.points < 6 else LONGER)
        for seed in scale.seeds[:3]
        for series in (PRINTED, COMMON, RECEIPT)
    ]


Step = Callable[[], object]


def send(n: int, series: str) -> Callable[[], Step]:
    """Return what prepares a broadcast from the worst log."""
    names, log = worst(n)
    rules = AsPrinted if series == PRINTED else Optimal

    def make() -> Step:
        one = with_log(rules, names[0], names, log)
        return lambda: one.send(names[1:])

    return make


def receipt(n: int, _: str) -> Callable[[], Step]:
    """Return what prepares the receipt of a message that carries the worst log.

    The receiver has delivered what the message names as sent to it.
    """
    names, log = worst(n)
    (packet,) = with_log(Optimal, names[0], names, log).send([names[1]]).packets

    def make() -> Step:
        one = with_log(Optimal, names[1], names, log, is_here=True)
        return lambda: (one.receive(packet), one.kept_entries())  # which merges, RCV(4)

    return make


def measure(task: Task) -> dict[str, Any]:
    """Time one step on a log of theorem 8; the schedule only says how many processes there are."""
    step = receipt if task.series == RECEIPT else send
    again = step(task.schedule.n, task.series)
    spent = 0.0
    times: list[float] = []
    collects = gc.isenabled()
    gc.disable()  # a collection looks at everything there is, not only at this step
    try:
        while len(times) < _LEAST or (spent < _ENOUGH and len(times) < _MOST):
            once = again()
            begun = time.thread_time()
            once()
            times.append(time.thread_time() - begun)
            spent += times[-1]
    finally:
        if collects:
            gc.enable()
    return {"deliveries": 0, "seconds": spent, "step_microseconds": 1e6 * min(times)}


def findings(points: Points) -> Iterator[str]:
    """Say how each step grows."""
    for series in points.series():
        told = told_growth(points.means("step_microseconds", "", series))
        if told is not None:
            yield f"{EXPERIMENT.label(series).capitalize()}: {told}."


@claim(
    "2.5",
    "A send takes cubic time as printed, quadratic with the common computation; a receipt "
    "takes quadratic time.",
    "Experiment work: sends and receipts timed apart on the logs of theorem 8; "
    "tests/study/test_work.py checks that the printed send sends the same.",
)
def _work(points: Points) -> Outcome | None:
    last, parts = {}, []
    for series in (PRINTED, COMMON, RECEIPT):
        line = points.means("step_microseconds", "", series)
        told = told_growth(line)
        if told is None:
            return None
        last[series] = list(local_exponents(line).values())[-1]
        n = max(line)
        point = points.line("step_microseconds", "", series)[n]
        parts.append(f"{EXPERIMENT.label(series)} {told}, {point} µs at n = {n:g}")

    def verdict(limit: float) -> str:
        quadratic = [last[series] <= limit for series in (COMMON, RECEIPT)]
        cubic = limit < last[PRINTED] <= CUBIC.value
        return judged(always=all(quadratic) and cubic, sometimes=any(quadratic))

    result = (
        f"Worst case, real endpoints: {'; '.join(parts)}. {QUADRATIC.said(verdict)} "
        f"Cubic is more than that, up to {CUBIC.written()}."
    )
    send_printed, send_common, received = (f"n^{e:.1f}" for e in last.values())
    short = f"send {send_printed} as printed, {send_common} common; receipt {received}"
    return Outcome(result, verdict(QUADRATIC.value), short)


EXPERIMENT = Experiment(
    name="work",
    rank=55,
    paper=paper("optimal"),
    part="section 6.2",
    question="How does the time of a send and of a receipt grow in the worst case?",
    how=(
        "Real endpoints with the largest log there can be, by theorem 8: (n-1)(n-2) units. A "
        "broadcast is sent as printed (the log is gone through for each destination) and with the "
        "common computation (once for all); a message that carries the whole log is "
        "received. The least of several times on this machine."
    ),
    x="processes",
    cases=cases,
    measure=measure,
    baseline=COMMON,
    labels={
        PRINTED: "send, as printed",
        COMMON: "send, common computation",
        RECEIPT: "receipt",
    },
    charts=(Chart("steps", "Time of one step", "step_microseconds", "microseconds", logs="xy"),),
    findings=findings,
    claims=(_work,),
)
