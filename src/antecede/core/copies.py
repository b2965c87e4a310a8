"""Copies of endpoints, by their states: the same in plain Python and in compiled form."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from antecede.core.endpoint import Endpoint

    E = TypeVar("E", bound=Endpoint)


def twin_of(endpoint: E) -> E:
    """Return an endpoint in the same state that shares nothing with this one."""
    twin = type(endpoint)(
        process=endpoint.process,
        members=endpoint.members,
        options=endpoint.options,
        pull=endpoint.pull,
        held_max=endpoint.held_max,
        held_bytes_max=endpoint.held_bytes_max,
        queue_max=endpoint.queue_max,
    )
    twin.load(endpoint.state())
    twin._forgotten = endpoint._forgotten.copy()
    return twin
