"""URLs of NATS servers, and names of processes as tokens of subjects."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import pytest

from antecede.errors import UsageError
from antecede.net import frames
from antecede.net.settings import DIGEST_BYTES
from antecede.net.transports.nats_names import NatsUrl, parse_url, token, untoken


def test_urls() -> None:
    url = parse_url("nats://ann:secret@h1:4001,[::1]/shop?reader=x,y&reader=z", ("reader",))
    assert url.servers == ("nats://ann:secret@h1:4001", "nats://ann:secret@[::1]:4222")
    assert (url.name, url.options) == ("shop", {"reader": ("x", "y", "z")})
    assert str(url) == "nats://h1:4001,[::1]:4222/shop"
    assert isinstance(url, NatsUrl)
    assert parse_url("tls://h", (), name="it").servers == ("tls://h:4222",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("http://h/shop", "neither nats nor tls"),
        ("nats://h", "its path is not a name"),
        ("nats://h/a.b", "its path is not a name"),
        ("nats://h/shop?readers=x", "option 'readers' is not one of reader"),
        ("nats://h/shop?reader", "bad query field"),
        ("nats://h:port/shop", "'h:port' is not host:port"),
        ("nats://ann:secret@:1/shop", "':1' is not host:port"),
        ("nats://h:99999/shop", "is not host:port"),
    ],
)
def test_a_wrong_url_is_one_line_without_the_password(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(text, ("reader",))
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a", "a.b", "*", ">", " ", "ä", "", "=", "x" * 65, "\ud800"])
def test_every_process_has_a_token(name: str) -> None:
    found = token(name)
    assert untoken(found) == name
    assert not set(found) & set(" .*>")
    assert found


def test_a_frame_sent_again_has_the_same_id_until_a_restart_or_a_change() -> None:
    """A node that forgot an acknowledgement in a crash must get an answer to the same frame.

    And a process that comes back after a removal gets packets under the same numbers as before.
    """
    pytest.importorskip("nats", reason="needs nats-py")
    from antecede.net.transports.nats import NatsTransport

    one, other = (NatsTransport("a", "nats://localhost/shop", peers=["b"]) for _ in range(2))
    head = frames.Head(bytes(DIGEST_BYTES), b"a" * 8, b"b" * 8)
    sent = [frames.decode(frames.encode(head, 0, [], [(n, b"x"), (9, b"y")])) for n in (1, 1, 2)]
    first, again, next_one = (one._frame_id("b", frame) for frame in sent)
    assert first == again != next_one
    assert other._frame_id("b", sent[0]) != first
    changed = frames.Head(bytes(DIGEST_BYTES), b"a" * 8, b"b" * 8, view=2)
    later = frames.decode(frames.encode(changed, 0, [], [(1, b"x"), (9, b"y")]))
    assert one._frame_id("b", later) != first
    answer = frames.decode(frames.encode(head, 5, [], [(1, b"x"), (9, b"y")]))
    assert one._frame_id("b", answer) != first  # or the acknowledgement would be dropped too
