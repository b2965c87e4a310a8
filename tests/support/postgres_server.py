"""A real PostgreSQL server on loopback in a temporary folder, which can be killed and started."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest

from tests.support.nats_server import free_port

PATIENCE = 300.0


def programs() -> Path:
    """Return the folder of PostgreSQL's programs; skip the test if there is none."""
    pytest.importorskip("psycopg", reason="needs psycopg")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name)
    found = [folder for folder in folders if (folder / "initdb").exists()]
    if found:
        return found[-1]
    here = shutil.which("initdb")
    if here is None:
        pytest.skip("needs the server of PostgreSQL, for instance Debian's postgresql")
    return Path(here).parent


def _user() -> dict[str, int]:
    """Return arguments that run a program as a user whom PostgreSQL accepts, not as root."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam("nobody")
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
            break
        except KeyError:
            continue
    return {"user": entry.pw_uid, "group": entry.pw_gid}


class PostgresServer:
    """A server with its own port and folder; both stay the same when it is started again."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.durable = durable
        self.bin = programs()
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.data = folder / "data"
        folder.mkdir(parents=True, exist_ok=True)
        self._as = _user()
        if self._as:
            os.chown(folder, self._as["user"], self._as["group"])
            for parent in folder.parents:  # Other users must have access.
                if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
                    parent.chmod(parent.stat().st_mode | 0o711)
        self._run(
            "initdb", "-D", str(self.data), "-U", "antecede", "-A", "trust", "-N", "-E", "UTF8"
        )

    def url(self) -> str:
        return f"postgresql://antecede@127.0.0.1:{self.port}/postgres"

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self.bin / program), *words],
            cwd=self.folder, check=True, capture_output=True, timeout=PATIENCE, **self._as,
        )  # type: ignore[call-overload]  # fmt: skip

    def start(self) -> None:
        log = (self.folder / "server.log").open("ab")
        options = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "",
            "max_connections": 60, "shared_buffers": "64MB",
        }  # fmt: skip
        if not self.durable:  # Data survives kills anyway; only a power cut would hurt.
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        words = [str(self.bin / "postgres"), "-D", str(self.data)]
        words += [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        with log:
            self.process = subprocess.Popen(
                words, cwd=self.folder, stdout=log, stderr=log, **self._as
            )  # type: ignore[call-overload]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "server.log").read_text()[-2000:]
            done = subprocess.run(
                [str(self.bin / "pg_isready"), "-h", "127.0.0.1", "-p", str(self.port), "-q"],
                check=False,
            )
            if done.returncode == 0:
                return
            time.sleep(0.05)
        pytest.fail("the server of PostgreSQL did not start")

    def stop(self) -> None:
        """Stop the server at once, as an operator would."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(3)  # SIGQUIT: immediate; its children go too
            self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
