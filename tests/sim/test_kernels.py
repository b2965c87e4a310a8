"""Every kernel equals the plain engine, event by event."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from pkgutil import iter_modules

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import antecede
from antecede import sim
from antecede.endpoint.info import Options
from antecede.errors import UsageError
from antecede.sim import kernels
from antecede.sim.kernels import permits
from antecede.sim.kernels.loop import State
from antecede.sim.kernels.registry import KERNELS
from antecede.sim.workloads import WORKLOADS, paper
from tests.support.same_runs import (
    CASTS,
    PROTOCOLS,
    differences,
    random_schedule,
    widest,
    workload_schedule,
)


def options_of(protocol: str, members: tuple[str, ...]) -> list[Options]:
    """Return what a kernel is compared with: choices and variants of the options it knows."""
    info, known = antecede.PROTOCOLS[protocol], KERNELS[protocol].options
    chosen: list[Options] = [
        {name: choice}
        for name in sorted(known)
        for choice in info.options[name].choices
        if choice != info.options[name].default
    ]
    variants = [variant.options(members) for variant in info.variants]
    return chosen + [each for each in variants if set(each) <= known and each not in chosen]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_kernel_says_all_that_is_needed(protocol: str) -> None:
    kernel = KERNELS[protocol]
    info = antecede.PROTOCOLS[protocol]
    assert kernel.protocol == protocol
    assert kernel.options <= set(info.options)
    compared = {name for options in options_of(protocol, ("a", "b", "c")) for name in options}
    assert kernel.options == compared, "give the option choices, or the protocol a variant with it"
    assert issubclass(kernel.own, tuple)
    assert all(callable(getattr(kernel.steps, field.name)) for field in fields(kernel.steps))


def test_every_kernel_module_is_found() -> None:
    modules = {
        module.name: import_module(f"{kernels.__name__}.{module.name}")
        for module in iter_modules(kernels.__path__)
    }
    defined = {name: module.KERNEL for name, module in modules.items() if hasattr(module, "KERNEL")}
    assert defined == KERNELS


def assert_same(protocol: str, schedule: sim.Schedule, **options: object) -> None:
    kernel = sim.run(protocol, schedule, engine="kernel", options=options)
    plain = sim.run(protocol, schedule, engine="plain", options=options)
    assert differences(kernel.trace, plain.trace) == []
    assert kernel.metrics["undelivered"] == 0
    wrong = {
        name: f"kernel {kernel.metrics[name]}, plain {value}"
        for name, value in plain.metrics.items()
        if name != "seconds"
        if kernel.metrics[name] != value
    }
    assert wrong == {}


def casts_of(protocol: str) -> frozenset[str]:
    """Return the casts that a protocol can run; multicast includes the others."""
    casts = frozenset(antecede.PROTOCOLS[protocol].casts)
    return casts | set(CASTS) if "multicast" in casts else casts


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("workload", list(WORKLOADS))
def test_on_every_workload(protocol: str, workload: str) -> None:
    for n, seed in ((2, 1), (3, 2), (9, 3)):
        schedule = workload_schedule(workload, n, seed=seed)
        if schedule.casts & casts_of(protocol):
            assert_same(protocol, schedule)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**20), n=st.integers(2, 12), data=st.data())
def test_on_schedules_where_anything_goes(
    protocol: str, seed: int, n: int, data: st.DataObject
) -> None:
    cast = data.draw(st.sampled_from([c for c in CASTS if c in casts_of(protocol)]))
    schedule = random_schedule(seed, n, 80, cast=cast)
    assert_same(protocol, schedule)
    for options in options_of(protocol, schedule.names):
        assert_same(protocol, schedule, **options)


@settings(max_examples=12)
@given(seed=st.integers(0, 2**20), n=st.integers(2, 12), cast=st.sampled_from(CASTS))
def test_permits_are_the_same_by_the_pairs_in_use(seed: int, n: int, cast: str) -> None:
    """As with very many processes, of which few exchange messages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(permits, "DENSE_MAX", 0)
        assert_same("permits", random_schedule(seed, n, 80, cast=cast))


@pytest.mark.parametrize("n", [64, 65, 130])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_on_sets_of_more_than_one_word(protocol: str, n: int) -> None:
    """The border of a machine word, and beyond two of them."""
    schedule = paper(n=n, cast=widest(protocol), received=2, seed=n, delay="exponential:0.2")
    assert_same(protocol, schedule)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_growing_arrays_on_the_way_changes_nothing(protocol: str) -> None:
    """A slow network: far more in flight than the first arrays have room for."""
    cast = "broadcast" if widest(protocol) == "broadcast" else "unicast"
    slow = paper(n=12, received=60, seed=4, cast=cast, delay="exponential:3.0", mean_gap=0.01)
    assert_same(protocol, slow)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pause_for_the_progress_bar_changes_nothing(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = paper(n=5, cast=widest(protocol), received=40, seed=2)
    whole = sim.run(protocol, schedule, engine="kernel")
    monkeypatch.setattr("antecede.sim.kernels.loop.CHUNK", 7)
    seen: list[float] = []
    paused = sim.run(protocol, schedule, engine="kernel", progress=seen.append)
    assert differences(paused.trace, whole.trace) == []
    assert len(seen) > 10
    assert seen == sorted(seen)


def test_a_run_that_shows_no_progress_can_be_interrupted_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python hears of Ctrl-C only when compiled code returns."""
    calls: list[int] = []
    proceed = State._continue

    def noted(self: State, kind: type) -> int:
        calls.append(proceed(self, kind))
        return calls[-1]

    monkeypatch.setattr(State, "_continue", noted)
    monkeypatch.setattr("antecede.sim.kernels.loop.CHUNK", 7)
    sim.run("matrix", paper(n=5, received=40, seed=2), engine="kernel")
    assert len(calls) > 10


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_memory_is_bounded_by_what_is_in_flight(protocol: str) -> None:
    """A run eight times as long needs no more state, but for one doubling by chance."""
    sizes = [
        sim.run(
            protocol, paper(n=8, cast=widest(protocol), received=received, seed=1, delay=0.02)
        ).metrics["state_bytes"]
        for received in (150, 1200)
    ]
    assert all(isinstance(size, int) for size in sizes)
    short, long = (int(size or 0) for size in sizes)
    assert long <= 2 * short


def test_options_that_exclude_each_other_are_refused() -> None:
    schedule = paper(n=3, received=4)
    both = {"lookahead": True, "differential": True}
    with pytest.raises(UsageError, match="choose one"):
        sim.run("optimal", schedule, options=both)
    for name in both:
        assert sim.run("optimal", schedule, options={**both, name: False}).engine == "kernel"
