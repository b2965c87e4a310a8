"""A node's settings from a TOML file."""

from __future__ import annotations

import os
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from antecede.errors import UsageError, meant
from antecede.events.content import content_of
from antecede.net.node import Node
from antecede.net.settings import Limits

PATHS: Final = ("store", "tls", "events")
"""Settings that name files or folders; relative paths start from the TOML file's folder."""
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "process": str,
    "listen": str,
    "protocol": str,
    "transport": str,
    "metrics": str,
    **dict.fromkeys(PATHS, str),
    "allow_plaintext": bool,
    "joining": bool,
    "peers": (dict, list),
    "options": dict,
    "limits": dict,
}


def node_from(path: str | os.PathLike[str]) -> Node:
    """Return the node that a TOML file describes."""
    settings = read_settings(Path(path))
    process = settings.pop("process")
    return Node(process, **settings)


def read_settings(path: Path) -> dict[str, Any]:
    """Return the arguments of :class:`Node` that a TOML file gives; refuse unknown ones."""
    try:
        found = tomllib.loads(content_of(path).decode())
    except OSError as error:
        msg = f"cannot read {str(path)!r}: {error.strerror}; give the TOML file of a node"
        raise UsageError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{str(path)!r} is not valid TOML: {error}"
        raise UsageError(msg) from error
    for name, value in found.items():
        kind = _TYPES.get(name)
        if kind is None:
            msg = f"{path}: unknown setting {name!r}; {meant(name, _TYPES)}"
            raise UsageError(msg)
        if not isinstance(value, kind):
            msg = f"{path}: {name} is {value!r}; expected {_WORDS[kind]}"
            raise UsageError(msg)
    if "process" not in found:
        msg = f"{path}: process is missing; write process = 'NAME'"
        raise UsageError(msg)
    for name in PATHS:
        if name in found:
            found[name] = path.parent / found[name]
    _check_peers(path, found.get("peers", {}))
    if "limits" in found:
        found["limits"] = _limits(path, found["limits"])
    return found


_WORDS: Final[dict[type | tuple[type, ...], str]] = {
    str: "a string",
    bool: "true or false",
    dict: "a table",
    (dict, list): "a table of addresses, or a list of names",
}


def _check_peers(path: Path, peers: dict[str, Any] | list[Any]) -> None:
    if isinstance(peers, list):
        for name in peers:
            if not isinstance(name, str):
                msg = f"{path}: peers has {name!r}; expected a list of names"
                raise UsageError(msg)
        return
    for name, address in peers.items():
        if not isinstance(address, str):
            msg = f"{path}: the address of peer {name!r} is {address!r}; expected 'host:port'"
            raise UsageError(msg)


def _limits(path: Path, given: dict[str, Any]) -> Limits:
    known = [entry.name for entry in fields(Limits)]
    for name in given:
        if name not in known:
            msg = f"{path}: unknown limit {name!r}; {meant(name, known)}"
            raise UsageError(msg)
    return Limits(**given)
