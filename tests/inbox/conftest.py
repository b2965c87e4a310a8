"""Inboxes in each kind of store, and a server of PostgreSQL that all tests of a worker share."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from antecede.inbox import Inbox
from tests.support.postgres_server import PostgresServer

COUNTER = itertools.count()
Make = Callable[..., Inbox]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    # Another run of pytest would shut other users, such as the server's, out of tmp_path.
    with (
        tempfile.TemporaryDirectory() as folder,
        PostgresServer(Path(folder) / "server", durable=False) as server,
    ):
        yield server


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["sqlite", "postgresql"])
def durable(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def place_of(kind: str, request: pytest.FixtureRequest) -> tuple[Any, dict[str, Any]]:
    """Return a place for a new inbox of a kind, and the name it needs there."""
    if kind == "memory":
        return None, {}
    number = next(COUNTER)
    if kind == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        return folder / f"inbox-{number}.db", {}
    return request.getfixturevalue("postgres").url(), {"name": f"test {number}"}


@pytest.fixture
def make(kind: str, request: pytest.FixtureRequest) -> Iterator[Make]:
    yield from maker(kind, request)


@pytest.fixture
def make_durable(durable: str, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Make inboxes that can be opened again: ``make(place=inbox.place)``."""
    yield from maker(durable, request)


def maker(kind: str, request: pytest.FixtureRequest) -> Iterator[Make]:
    opened: list[Inbox] = []
    places: list[tuple[Any, dict[str, Any]]] = []

    def made(*, again: bool = False, **options: Any) -> Inbox:
        if not again or not places:
            places.append(place_of(kind, request))
        place, name = places[-1]
        if not again:
            options = {"topics": {"a", "b"}, **options}
        inbox = Inbox(place, **name, **options)
        opened.append(inbox)
        return inbox

    yield made
    for inbox in opened:
        inbox.close()
