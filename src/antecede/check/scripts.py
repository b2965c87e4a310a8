"""Random scripts, and how to run a script under any protocol."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import cast

from antecede.check.promises import BrokenPromiseError, Script, Step
from antecede.check.world import World
from antecede.endpoint.info import Cast
from antecede.endpoint.registry import rules_of
from antecede.endpoint.rules import Rules
from antecede.errors import HoldFullError, UsageError


def process_names(count: int) -> tuple[str, ...]:
    """Return ``count`` short names: a, b, c and so on."""
    return tuple(chr(ord("a") + i) if i < 26 else f"p{i}" for i in range(count))


def random_script(
    seed: int,
    *,
    members: int | Sequence[str],
    casts: Sequence[Cast],
    steps: int,
    send_share: float = 0.4,
    duplicate_share: float = 0.15,
    self_share: float = 0.05,
    restart_share: float = 0.0,
    loss_share: float = 0.0,
    crashes: int = 0,
    link_share: float = 0.0,
    tick_share: float = 0.0,
    ranks: bool = False,
    fifo: bool = False,
    pull: bool = False,
    groups: Mapping[str, tuple[str, ...]] | None = None,
) -> Script:
    """Return a script drawn from ``seed``; the same seed gives the same script everywhere.

    Some scripts deliver packets in any order, some mostly newest first, some mostly oldest first:
    each kind finds different mistakes. ``crashes`` processes stop midway; some steps later all that
    can arrive does, and the others skip what was lost. ``loss_share`` of the steps lose single
    data packets, ``link_share`` open links, and in ``tick_share`` of them time passes.
    """
    rng = Random(seed)  # noqa: S311 - scripts, not secrets
    names = process_names(members) if isinstance(members, int) else tuple(members)
    bias = rng.choice((None, None, -1, 0))
    made: list[Step] = []
    turns = sorted(rng.sample(range(steps), 2 * crashes))
    crashing = dict(zip(turns[::2], rng.sample(names, crashes), strict=True))
    for turn in range(steps):
        if turn in crashing:
            lost = rng.choice((-1, rng.getrandbits(16)))
            made.append(("crash", crashing[turn], lost))
        elif turn in turns:
            made.append(("settle",))
        elif loss_share and rng.random() < loss_share:
            made.append(("lose", rng.randrange(1 << 16)))
        elif restart_share and rng.random() < restart_share:
            made.append(("restart", rng.choice(names)))
        elif link_share and rng.random() < link_share:
            made.append(("link", *rng.sample(names, 2)))
        elif tick_share and rng.random() < tick_share:
            made.append(("tick", rng.choice((1, 1, 2, 3, 5, 13))))
        elif rng.random() < send_share:
            sender = rng.choice(names)
            dests = _dests(rng, sender, names, rng.choice(casts), groups)
            if rng.random() < self_share and "groups" not in casts:
                dests = tuple(sorted({*dests, sender}))
            rank = rng.choice((None, 0, 1, 2, 3, 5)) if ranks else None
            made.append(("send", sender, dests, rank))
        elif pull and rng.random() < 0.4:
            process = rng.choice(names)
            made.append(("take", process, rng.choice((None, None, rng.choice(names)))))
        else:
            is_any = bias is None or rng.random() < 0.3
            choice = rng.randrange(1 << 16) if is_any else cast("int", bias)
            made.append(("arrive", choice, not fifo and rng.random() < duplicate_share))
    return Script(names, tuple(made), fifo=fifo, pull=pull, groups=groups)


def _dests(
    rng: Random,
    sender: str,
    names: tuple[str, ...],
    cast_name: Cast,
    groups: Mapping[str, tuple[str, ...]] | None,
) -> tuple[str, ...]:
    others = [name for name in names if name != sender]
    if cast_name == "groups":
        assert groups is not None
        mine = [group for group in groups.values() if sender in group]
        return tuple(sorted(rng.choice(mine)))
    if cast_name == "broadcast":
        return tuple(others)
    size = 1 if cast_name == "unicast" else rng.randint(1, len(others))
    return tuple(sorted(rng.sample(others, size)))


def run_script(
    script: Script,
    protocol: str,
    *,
    options: Mapping[str, object] | None = None,
    held_max: int | None = None,
    coded: bool = False,
    promises: Iterable[str] | None = None,
    rules: type[Rules] | None = None,
    drain: Random | int | None = None,
) -> World:
    """Run a script; with ``drain`` (see ``World.drain``) let the rest arrive and check everything.

    If something was lost, everybody skips it (``World.settle``). Steps that are impossible (nothing
    in flight, a full queue) are left out, so one script serves all protocols.
    """
    chosen = dict(options or {})
    if script.groups is not None and "groups" in rules_of(protocol).INFO.options:
        chosen.setdefault("groups", dict(script.groups))
    world = World(
        protocol,
        script.members,
        options=chosen,
        pull=script.pull,
        fifo=script.fifo,
        held_max=held_max,
        coded=coded,
        promises=promises,
        rules=rules,
    )
    for step in script.steps:
        run_step(world, step)
    if drain is not None:
        world.settle(drain)
        world.check()
    return world


def shrunk(script: Script, run: Callable[[Script], object]) -> BrokenPromiseError:
    """Return the failure of a minimal part of a failing script.

    ``run`` runs a script and raises if a promise is broken. Smaller and smaller pieces are removed
    while the same promise still breaks; in the end no single step can be removed.
    """
    try:
        run(script)
    except BrokenPromiseError as error:
        found = error
    else:
        msg = "the script breaks no promise; pass one that does"
        raise UsageError(msg)
    size = len(found.script.steps)
    while size:
        steps, start, is_smaller = found.script.steps, 0, False
        while start < len(steps):
            tried = replace(found.script, steps=(*steps[:start], *steps[start + size :]))
            try:
                run(tried)
            except BrokenPromiseError as error:
                if error.promise == found.promise and len(error.script.steps) < len(steps):
                    found, steps, is_smaller = error, error.script.steps, True
                    continue
            start += size
        size = size if is_smaller and size == 1 else size // 2
    return found


def run_step(world: World, step: Step) -> None:
    """Run one step of a script in a world; a process that crashed does nothing more."""
    match step:
        case ("send" | "take" | "restart" | "crash" | "skip" | "link", str(process), *_) if (
            process in world.view.members and process not in world.endpoints
        ):
            return
        case ("send", str(process), dests, rank):
            _send(world, process, cast("tuple[str, ...]", dests), cast("int | None", rank))
        case ("arrive", int(choice), keep):
            if world.in_flight:
                world.arrive(choice % len(world.in_flight), keep=bool(keep))
        case ("packet", str(source), str(dest), int(n), keep):
            world.arrive_packet(source, dest, n, keep=bool(keep))
        case ("lose", int(choice)):
            data = [i for i, packet in enumerate(world.in_flight) if packet.kind == "data"]
            if data:
                world.lose(data[choice % len(data)])
        case ("loss", str(source), str(dest), int(n)):
            world.lose_packet(source, dest, n)
        case ("skip", _, str(source), None) if source not in world.crashed:
            return  # this is part of a longer script, in which it crashed
        case ("take" | "restart" | "crash" | "skip" | "settle" | "link" | "tick" as name, *rest):
            getattr(world, name)(*rest)
        case _:
            msg = f"unknown step {step!r}"
            raise ValueError(msg)


def _send(world: World, process: str, dests: tuple[str, ...], rank: int | None) -> None:
    count = world.history.local_count(process)
    after = rank if not rank else max(0, count - rank + 1)
    try:
        world.send(process, dests, after=after)
    except HoldFullError:
        return
    except UsageError:
        if not world.info.blocking:
            raise
