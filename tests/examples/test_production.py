"""The files for production: what they name exists, and the tools that read them accept them."""

from __future__ import annotations

import asyncio
import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from antecede.net import Node
from antecede.net.config import read_settings
from tests.net.test_tcp import Group

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "production"
NAMED = re.compile(r"\bantecede_\w+")


def loaded(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def served(folder: Path) -> set[str]:
    """Return the names of all figures that a node with a store serves over TCP."""

    async def main() -> list[str]:
        async with Group("ab").node("a", store=folder / "a.db") as node:
            return [figure.name for figure in node.figures()]

    return {f"antecede_{name}" for name in asyncio.run(main())}


def test_the_alarms_and_the_dashboard_name_figures_that_nodes_serve(tmp_path: Path) -> None:
    rules = loaded("alerts.yml")["groups"][0]["rules"]
    panels = json.loads((FOLDER / "grafana" / "dashboard.json").read_text())["panels"]
    queries = [rule["expr"] for rule in rules]
    queries += [target["expr"] for panel in panels for target in panel["targets"]]
    named = {name for query in queries for name in NAMED.findall(query)}
    assert named <= served(tmp_path)
    assert len(panels) >= 12
    told = (FOLDER.parents[1] / "docs" / "production.md").read_text()
    assert [rule["alert"] for rule in rules if f"`{rule['alert']}`" not in told] == []
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]


def test_the_compose_file_starts_what_its_files_describe() -> None:
    compose, scraped = loaded("compose.yaml"), loaded("prometheus.yml")
    services = compose["services"]
    nodes = [name for name, service in services.items() if "build" in service]
    assert nodes == ["a", "b", "c"]
    (targets,) = scraped["scrape_configs"][0]["static_configs"]
    assert targets["targets"] == [f"{name}:9100" for name in nodes]
    for name, service in services.items():
        for mount in service["volumes"]:
            source = mount.partition(":")[0]
            is_made = source == "./certs"  # by the command in the first lines
            assert is_made or source in compose["volumes"] or (FOLDER / source).exists(), mount
        if name in nodes:
            settings = read_settings(FOLDER / f"{name}.toml")
            assert service["command"] == [f"/etc/antecede/{name}.toml", "--log", "json"]
            assert settings["process"] == name
            assert settings["peers"] == {peer: f"{peer}:7000" for peer in nodes if peer != name}
            assert settings["listen"] == "0.0.0.0:7000"
            assert settings["metrics"] == "0.0.0.0:9100"


def test_a_node_of_the_compose_file_can_be_made(tmp_path: Path) -> None:
    certs = pytest.importorskip("antecede.net.transports.certs", reason="needs cryptography")
    certs.make_certificates(tmp_path, ["a"])
    given = read_settings(FOLDER / "a.toml")
    node = Node(given.pop("process"), **{**given, "tls": tmp_path, "store": tmp_path / "a.db"})
    assert node.members == ("a", "b", "c")


def test_the_unit_runs_a_node_and_does_not_repeat_what_cannot_work() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(FOLDER / "antecede-node@.service")
    command = unit["Service"]["ExecStart"].split()
    assert command[1:] == ["node", "/etc/antecede/%i.toml", "--log", "json"]
    assert unit["Service"]["RestartPreventExitStatus"] == "2"
    assert unit["Service"]["StateDirectory"] == "antecede/%i"


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """Where systemd is installed; the command is replaced by one that exists here."""
    tool, name = shutil.which("systemd-analyze"), "antecede-node@a.service"
    text = (FOLDER / "antecede-node@.service").read_text()
    assert text.count("/opt/antecede/bin/antecede") == 1
    (tmp_path / name).write_text(text.replace("/opt/antecede/bin/antecede", sys.executable))
    if tool is not None:
        done = subprocess.run(
            [tool, "verify", f"./{name}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_tools_of_prometheus_accept_the_rules() -> None:
    """Where Debian's prometheus is installed; elsewhere the other tests have to do."""
    tool = shutil.which("promtool")
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        if tool is not None:
            done = subprocess.run(
                [tool, *words], cwd=FOLDER, capture_output=True, text=True, check=False, timeout=300
            )
            assert done.returncode == 0, done.stdout + done.stderr
    tested = {one["alertname"] for one in loaded("alerts_test.yml")["tests"][0]["alert_rule_test"]}
    assert tested <= {rule["alert"] for rule in loaded("alerts.yml")["groups"][0]["rules"]}
