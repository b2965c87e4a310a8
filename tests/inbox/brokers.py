"""Real RabbitMQ and Redis on loopback in temporary folders."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.nats_server import NatsServer, free_port

PATIENCE = 300.0


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.1)
    pytest.fail("the broker did not start")


@contextlib.contextmanager
def _running(words: list[str], port: int, folder: Path, env: dict[str, str]) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "broker.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            words, cwd=folder, stdout=out, stderr=out, env=os.environ | env, start_new_session=True
        )
    try:
        _wait(port, process, log)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs redis-server, for instance Debian's")
    port = free_port()
    words = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", "."]
    with _running(words, port, folder, {}):
        yield f"redis://127.0.0.1:{port}"


@contextlib.contextmanager
def rabbit(folder: Path) -> Iterator[str]:
    """Run RabbitMQ without its launcher, which needs a user of its own and a shared port."""
    homes = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    erl = shutil.which("erl")
    if not homes or erl is None:
        pytest.skip("needs the server of RabbitMQ, for instance Debian's rabbitmq-server")
    port, dist = free_port(), free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "rabbitmq.conf"
    config.write_text(
        f"listeners.tcp.1 = 127.0.0.1:{port}\nloopback_users.guest = true\n"
        "log.file = false\nlog.console = true\n"
    )
    env = {
        "HOME": str(folder),
        "RABBITMQ_HOME": str(homes[-1]),
        "RABBITMQ_BASE": str(folder),
        "RABBITMQ_NODENAME": f"antecede{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(dist),
        "RABBITMQ_CONFIG_FILE": str(config),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names := free_port()),
        "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",
    }
    words = [str(homes[-1] / "sbin" / "rabbitmq-server")]
    try:
        with _running(words, port, folder, env):
            yield f"amqp://guest:guest@127.0.0.1:{port}/"
    finally:  # The server of names that it started is a daemon.
        kill = ["epmd", "-port", str(names), "-kill"]
        subprocess.run(kill, env=os.environ | env, capture_output=True, check=False)


@contextlib.contextmanager
def nats(folder: Path) -> Iterator[str]:
    with NatsServer(folder, jetstream=False) as server:
        yield server.url()
