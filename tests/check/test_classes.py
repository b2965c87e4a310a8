"""The classes of histories: strictly nested, and recognised where they differ."""

import pytest

from antecede import MessageId
from antecede.check import (
    History,
    HistoryClass,
    causal_violations,
    crown,
    history_class,
    random_script,
    run_script,
)
from tests.support.mutants import Unordered

CLASSES: tuple[HistoryClass, ...] = ("synchronous", "causal", "fifo", "none")


def told(text: str) -> History:
    """Return a history from words: ``a>b:x`` is a send, ``b<x`` a delivery."""
    history = History("abc")
    names: dict[str, MessageId] = {}
    counts: dict[str, int] = {}
    for word in text.split():
        if ">" in word:
            sender, rest = word.split(">")
            dests, name = rest.split(":")
            counts[sender] = counts.get(sender, 0) + 1
            names[name] = MessageId(sender, counts[sender])
            history.send(sender, names[name], dests)
        else:
            process, name = word.split("<")
            history.deliver(process, names[name])
    return history


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "synchronous"),
        ("a>b:x b<x b>c:y c<y", "synchronous"),
        ("a>c:x a>b:y b<y b>c:z c<x c<z", "synchronous"),
        ("a>b:x b>a:y a<y b<x", "causal"),
        ("a>bc:x b>ac:y a<y b<x c<x c<y", "causal"),
        ("a>c:x a>b:y b<y b>c:z c<z c<x", "fifo"),
        ("a>b:x a>b:y b<y b<x", "none"),
        ("a>b:x b<x a>a:y a<y", "synchronous"),
    ],
)
def test_each_class_has_its_example(text: str, kind: HistoryClass) -> None:
    assert history_class(told(text)) == kind


def test_a_crown_names_its_messages() -> None:
    """Each is sent before the next is delivered: the crossing pair is the smallest crown."""
    history = told("a>b:x b>a:y a<y b<x")
    assert set(crown(history)) == {MessageId("a", 1), MessageId("b", 1)}
    assert crown(told("a>b:x b<x b>a:y a<y")) == ()


def instants(history: History) -> bool:
    """Return by brute force whether all messages could be instantaneous, one after the other."""
    left = [[e.message for e in history.events if e.process == p] for p in history.members]
    while any(left):
        for message in {line[0] for line in left if line}:
            lines = [line for line in left if message in line]
            if all(line[0] == message for line in lines):
                for line in lines:
                    while line and line[0] == message:
                        line.pop(0)
                break
        else:
            return False
    return True


@pytest.mark.parametrize("seed", range(150))
def test_crown_free_is_synchronous_realisable(seed: int) -> None:
    """On histories without any order, so that all classes occur."""
    script = random_script(
        seed,
        members=2 + seed % 3,
        casts=("unicast", "multicast"),
        steps=8 + seed % 9,
        self_share=0.0,
    )
    world = run_script(script, "matrix", rules=Unordered, promises=())
    world.drain()
    history = world.history
    assert (crown(history) == ()) == instants(history)
    kind = history_class(history)
    assert (kind in ("synchronous", "causal")) == (causal_violations(history) == [])
    if kind == "synchronous":
        assert instants(history)


def test_random_histories_show_every_class() -> None:
    kinds = set()
    for seed in range(150):
        script = random_script(seed, members=3, casts=("unicast",), steps=10, self_share=0.0)
        world = run_script(script, "matrix", rules=Unordered, promises=())
        world.drain()
        kinds.add(history_class(world.history))
    assert kinds == set(CLASSES)
