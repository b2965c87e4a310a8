"""Spark masters: which names there are, where they run, and whether they answer."""

from __future__ import annotations

import re
import socket

from antecede.errors import MasterError, UsageError

WAIT_MAX = 1_000_000
"""Seconds that a master may be waited for at most: more than a week."""

CLOSED_SECONDS = 0.5
"""How soon a server that is not a Spark master closes a connection it has accepted."""

_EMBEDDED = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\])?$")
_STANDALONE = re.compile(r"spark://[^/]+$")
_OTHER = re.compile(r"(yarn$|k8s://|local-cluster\[)")


def is_embedded(master: str) -> bool:
    """Return whether ``master`` runs on this machine with this Python."""
    return _EMBEDDED.match(master) is not None


def check_master(master: str, wait: float) -> None:
    """Refuse a master that has no valid name or, if standalone, does not answer in time."""
    if not 0 < wait <= WAIT_MAX:
        msg = f"--wait {wait:g} is not possible; give seconds, more than 0 and up to {WAIT_MAX:,}"
        raise UsageError(msg)
    if not any(form.match(master) for form in (_EMBEDDED, _STANDALONE, _OTHER)):
        msg = (
            f"Spark has no master {master!r}; use local[*], local[2], spark://HOST:PORT, yarn or "
            "k8s://..."
        )
        raise MasterError(msg, master=master, reason="unknown")
    if not _STANDALONE.match(master):
        return
    failures = []
    for host, port in _addresses(master):
        try:
            if _stays_open(host, port, wait):
                return
            failures.append(f"{host}:{port}: the connection is closed at once")
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    reason = "; ".join(failures)
    msg = (
        f"master {master} does not answer ({reason}); is it running there? "
        "Without --master the work runs on this machine"
    )
    raise MasterError(msg, master=master, reason=reason)


def _stays_open(host: str, port: int, wait: float) -> bool:
    """Connect, and return whether the other side waits for a request, as a master does."""
    with socket.create_connection((host, port), timeout=wait) as made:
        made.settimeout(CLOSED_SECONDS)
        try:
            return made.recv(1) != b""
        except TimeoutError:
            return True


def _addresses(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of ``spark://a:1,b:2``, a master and its stand-ins."""
    found = []
    for part in master.removeprefix("spark://").split(","):
        host, _, port = part.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            msg = f"master {master!r} has no host and port; write spark://HOST:7077"
            raise MasterError(msg, master=master, reason="no host and port")
        found.append((host.strip("[]"), int(port)))
    return found


def is_loopback(master: str) -> bool:
    """Return whether ``master`` is a standalone master on this machine."""
    if not _STANDALONE.match(master):
        return False
    local = ("127.", "localhost", "::1")
    return all(host.startswith(local) for host, _ in _addresses(master))
