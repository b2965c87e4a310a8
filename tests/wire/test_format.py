"""The bytes are what docs/wire.md says, so that version 2 stays version 2."""

import re
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from hypothesis import given, settings

import antecede
from antecede import MessageId, Packet
from antecede.wire import Codec, values
from antecede.wire.stream import VERSION
from tests.wire.runs import Run, names, variants
from tests.wire.second import Second
from tests.wire.test_values import A_PACKET, controls
from tests.wire.test_values import CODEC as ANY

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
CODEC = Codec(("ann", "bob", "cem", "dia", "eva"))
LOG = (
    ("ann", 7, ("bob", "dia")),
    ("bob", 20, ()),
    ("cem", 6, ("ann",)),
    ("cem", 8, ("dia",)),
)
EXAMPLE = Packet(
    "cem", "ann", 12, "data", MessageId("cem", 9), ("ann", "dia"), b"hi", LOG, "optimal"
)


def test_the_example_of_the_specification() -> None:
    (block,) = re.findall(r"```hex\n(.*?)\n```", PAGE, flags=re.DOTALL)
    data = bytes.fromhex(block)
    assert CODEC.encode(EXAMPLE) == data
    assert CODEC.decode(data) == EXAMPLE
    size = antecede.size(EXAMPLE).model_bytes
    assert f"takes {CODEC.wire_bytes(EXAMPLE)} bytes" in PAGE
    assert f"2 per destination) it has {size}." in PAGE


def test_the_bytes_of_the_example_are_spelt_out() -> None:
    """The table's bytes, put together, are the packet."""
    rows = PAGE.split("| bytes | meaning |")[1].split("The control takes")[0]
    cells = [row.split("|")[1] for row in rows.splitlines() if row.startswith("| `")]
    assert bytes.fromhex("".join(re.findall(r"`([0-9a-f ]+)`", "".join(cells)))) == CODEC.encode(
        EXAMPLE
    )


@pytest.mark.parametrize(
    ("control", "encoded"),
    [
        (5, "05"),
        ("cem", "82"),
        ((1, None), "c2 01 e0"),
        (128, "e3 00"),
        (-1, "e4 00"),
        ("hey", "e5 03 68 65 79"),
        ("wish", "f7 03"),
        (b"\x01", "e6 01 01"),
        (MessageId("bob", 3), "ed 81 03"),
        ((3, 3, 3, 3), "f1 04 86 0f"),
        (("ann", "bob", "cem", "dia", "eva"), "f2 f0"),
        (((1, 2, 3), (4, 5, 6)), "f4 02 03"),
        ((("ann", 1), ("bob", 2)), "f5"),
        (((("ann", 1),), (("bob", 2),)), "f6 02"),
    ],
)
def test_values_have_the_bytes_of_the_table(control: object, encoded: str) -> None:
    packet = Packet("ann", "bob", 1, "control", None, (), b"", control, "history")
    data = CODEC.encode(packet)
    head = bytes.fromhex("a2 05 47 b4 14 ed 01 01 01")
    assert data.startswith(head + bytes.fromhex(encoded))
    assert CODEC.decode(data) == packet


def test_numbers_and_words_are_those_of_the_page() -> None:
    for name, info in antecede.PROTOCOLS.items():
        assert re.search(rf"\b{info.wire_number}\s{name}\b", PAGE), name
    for number, word in enumerate(values.WORDS):
        assert f"{number} `{word}`" in PAGE
    assert f"version {VERSION}**" in PAGE


@pytest.mark.parametrize(("protocol", "options"), variants())
def test_a_second_decoder_reads_every_packet(protocol: str, options: dict[str, object]) -> None:
    for count in (3, 10):
        codec = Codec(names(count))
        for packet in Run(protocol, codec.members, 17, options).go(60).packets:
            assert Second(codec.encode(packet), codec.members).packet() == astuple(packet)


@settings(max_examples=100)
@given(controls)
def test_a_second_decoder_reads_any_control(control: object) -> None:
    packet = replace(A_PACKET, control=control)
    assert Second(ANY.encode(packet), ANY.members).packet() == astuple(packet)
