"""One record per protocol: it is complete, and it agrees with what the protocol does."""

from __future__ import annotations

import re
import sys
from types import ModuleType

import pytest

import antecede
from antecede.check import process_names, random_script, run_script
from antecede.check.cases import Case, cases
from antecede.endpoint.info import CASTS, CITATION_FORM, Citation
from antecede.endpoint.registry import register, rules_of

PROTOCOLS = antecede.PROTOCOLS
MEMBERS = process_names(5)
EVERY_CASE = [case for name in PROTOCOLS for case in cases(name, MEMBERS)]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_field_is_filled(name: str) -> None:
    info = PROTOCOLS[name]
    assert info.name == name
    for text in (info.idea, info.paper, info.guarantee, info.assumptions, info.cost):
        assert text.strip()
    assert info.casts
    assert set(info.casts) <= set(CASTS)
    assert info.title.startswith(name)
    assert "safety" not in info.promises or "causal order" in info.guarantee
    for option in info.options.values():
        assert option.doc


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_paper_is_cited_in_full(name: str) -> None:
    info = PROTOCOLS[name]
    citation = info.citation
    assert 1978 <= citation.year <= 2026
    assert citation.tag.endswith(str(citation.year)[2:])
    assert info.paper.startswith(f"{', '.join(citation.surnames)} {citation.year}")
    doc = " ".join((sys.modules[rules_of(name).__module__].__doc__ or "").split())
    assert f".. [{citation.tag}] {citation}" in doc
    assert re.search(rf"\[{citation.tag}\]_", doc)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_variants_are_options_that_exist(name: str) -> None:
    info = PROTOCOLS[name]
    labels = [variant.label for variant in info.variants]
    assert len(set(labels)) == len(labels)
    for variant in info.variants:
        options = variant.options(MEMBERS)
        assert options
        assert set(options) <= set(info.options)
        assert variant.broken_promises <= info.promises
        antecede.endpoint(name, process="a", members=MEMBERS, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", EVERY_CASE, ids=str)
def test_the_record_agrees_with_a_run(case: Case) -> None:
    """Measured on real packets: the model's bytes, what is kept, what waits at the sender."""
    info = PROTOCOLS[case.protocol]
    groups = case.options.get("groups")
    script = random_script(
        7,
        members=MEMBERS,
        casts=(case.cast,),
        steps=120,
        groups=groups if isinstance(groups, dict) else None,
    )
    world = run_script(script, case.protocol, options=case.options, promises=case.promises)
    assert any(packet.message is not None for packet in world.packets)
    for packet in world.packets:
        size = antecede.size(packet)
        if info.bytes_per_entry is not None:
            assert size.model_bytes == (
                info.bytes_per_entry * size.entries + info.bytes_per_destination * size.destinations
            )
        if info.formula is not None and not case.options:
            entries = info.formula.entries(len(MEMBERS))
            most = info.formula.bytes(len(MEMBERS))
            if info.formula.most:
                assert size.entries <= entries
                assert size.model_bytes <= most
            else:
                assert (size.entries, size.model_bytes) == (entries, most)
    for end in world.endpoints.values():
        kept = end.kept_entries()
        assert kept is None or kept >= 0
        assert all(isinstance(count, int) for count in end.notes().values())
        assert info.queueing or end.queued == 0


def refuses_while_one_is_under_way(name: str) -> bool:
    end = antecede.endpoint(name, process="a", members=("a", "b"))
    end.send(["b"])
    try:
        end.send(["b"])
    except antecede.UsageError:
        return True
    return False


@pytest.mark.parametrize("name", PROTOCOLS)
def test_blocking_and_queueing_are_as_stated(name: str) -> None:
    info = PROTOCOLS[name]
    assert refuses_while_one_is_under_way(name) == info.blocking
    a, b = (antecede.endpoint(name, process=p, members=("a", "b", "c")) for p in "ab")
    if name == "permits":  # what follows a delivery waits
        b.receive(a.send(["b", "c"]).packets[0])
    for _ in range(0 if info.blocking else 3):
        b.send(["a"] if "unicast" in info.casts and name != "permits" else ["a", "c"])
    assert (b.queued > 0) == info.queueing


@pytest.mark.parametrize("name", PROTOCOLS)
def test_only_history_hands_on_payloads(name: str) -> None:
    info = PROTOCOLS[name]
    casts = [cast for cast in info.casts if cast != "groups"]
    ends = {p: antecede.endpoint(name, process=p, members=("a", "b", "c")) for p in "abc"}
    dests = ["c"] if casts[0] == "unicast" else ["b", "c"]
    ends["a"].send(dests, b"first payload")
    if info.blocking:
        return
    second = ends["a"].send(dests, b"second").packets
    is_carried = any(b"first payload" in repr(packet.control).encode() for packet in second)
    assert is_carried == info.carries_messages


def test_a_citation_is_read_from_the_references() -> None:
    doc = """A protocol.

References
----------
.. [Doe26] J. Doe. "On
   order". Journal of Order 1(2):3-4, 2026. https://example.org/order
.. [X99] A. X and B. Y. "Another". Somewhere, 1999.
"""
    found = Citation.first_of(doc)
    assert found == Citation(
        tag="Doe26",
        authors=("J. Doe",),
        title="On order",
        venue="Journal of Order 1(2):3-4",
        year=2026,
        url="https://example.org/order",
    )
    text = 'J. Doe. "On order". Journal of Order 1(2):3-4, 2026. https://example.org/order'
    assert str(found) == text
    assert Citation.first_of(f"Doc.\n\nReferences\n---\n{CITATION_FORM}").tag == ""
    form = CITATION_FORM.replace("YEAR", "1998")
    assert Citation.first_of(f"Doc.\n\nReferences\n---\n{form}").authors == (
        "A. Author",
        "B. Author",
    )
    assert Citation.first_of(None) == Citation.first_of("no references") == Citation()


@pytest.mark.parametrize(
    ("module", "doc", "message"),
    [
        ("other", "", "other.py has no class Other; name its rules so"),
        ("fresh", "", "the References in fresh.py must begin with .. [TAG]"),
        (
            "fresh",
            "Doc.\n\nReferences\n----------\n.. [Doe26] J. Doe: On order, 2026.",
            "the References in fresh.py must begin with .. [TAG]",
        ),
    ],
)
def test_a_record_that_is_malformed_is_refused(module: str, doc: str, message: str) -> None:
    made = ModuleType(f"somewhere.{module}", doc)
    made.Fresh = type("Fresh", (rules_of("matrix"),), {})  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match=re.escape(message)):
        register(made)
    assert "fresh" not in PROTOCOLS
