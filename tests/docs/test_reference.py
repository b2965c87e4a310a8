"""The pages of the reference describe every name."""

from __future__ import annotations

import inspect
from itertools import pairwise

import pytest

pytest.importorskip("pyspark")  # the page of the pipeline needs its types
pytest.importorskip("numba")

import antecede
from antecede import errors
from antecede.protocols.specs import SPECIFIED, specification
from antecede.report.protocol_page import protocol_page
from tools.reference_pages import api_page


def code(page: str, heading: str) -> str:
    """Return the first block of code below a heading."""
    below = page.partition(f"# `{heading}`\n")[2]
    return below.partition("```python\n")[2].partition("```")[0].strip()


def test_every_error_can_be_imported_from_the_package() -> None:
    own = {name for name in vars(errors) if name.endswith("Error")}
    assert len(own) > 10
    assert own <= set(antecede.__all__)


def test_an_error_shows_what_it_is_a_kind_of() -> None:
    page = api_page("antecede")
    assert code(page, "UsageError") == "class UsageError(AntecedeError)"
    assert code(page, "OtherViewError") == "class OtherViewError(PeerError)"
    assert code(page, "AntecedeError") == "class AntecedeError(Exception)"


def test_an_interface_shows_that_it_is_one() -> None:
    page = api_page("antecede.net")
    assert code(page, "Store") == "class Store(Protocol)"
    assert "*args" not in page


def test_a_method_of_the_class_shows_that_it_is_one() -> None:
    assert code(api_page("antecede.net"), "Stamp.restored").startswith("@classmethod\ndef restored")
    assert code(api_page("antecede.sim"), "Delay.constant").startswith("@classmethod\ndef constant")


def test_types_are_shown_without_quotes() -> None:
    assert "unmet: tuple[Need, ...])" in code(api_page("antecede"), "Delivery")


def test_fields_are_explained_where_the_source_explains_them() -> None:
    page = api_page("antecede")
    fields = page.split("## `ProtocolInfo`")[1].split("\n## ")[0]
    assert "- `lost_by_skip`: Why order may be lost after `skip`" in fields
    assert "- `research`: " in fields
    limits = api_page("antecede.net").split("## `Limits`")[1].split("\n## ")[0]
    for name in ("payload_bytes", "journal_bytes", "resend_seconds", "linger_seconds"):
        assert f"`{name}`" in limits.split("```")[2]


def test_the_promises_are_listed() -> None:
    assert "- `no_overblocking`: a message waits only while" in api_page("antecede.check")


def test_a_block_of_code_ends_before_the_text_goes_on() -> None:
    for name in ("antecede.net", "antecede.testing"):
        lines = api_page(name).splitlines()
        after = [b for a, b in pairwise(lines) if a == "```"]
        assert set(after) <= {""}


@pytest.mark.parametrize("name", antecede.PROTOCOLS)
def test_a_page_quotes_the_specification_where_there_is_one(name: str) -> None:
    quoted = protocol_page(antecede.PROTOCOLS[name]).partition("## The paper's steps\n")[2]
    assert bool(quoted) == (name in SPECIFIED)
    if quoted:
        assert f"```python\n{inspect.getsource(specification(name))}```" in quoted
