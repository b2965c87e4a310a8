"""The pages about nodes are true: their programs run, their figures and settings exist."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from antecede.net import Node
from antecede.net.config import read_settings
from antecede.net.transports.tcp import TcpTransport
from tests.net.test_tcp import Group

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "nodes.md").read_text()


def blocks(language: str, text: str = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def program(word: str) -> str:
    """Return the program on the page that contains a word."""
    (found,) = [block for block in blocks("python") if word in block]
    return found


def test_the_program_for_tests_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(program("antecede.testing"), "nodes.md", "exec"), {})
    assert capsys.readouterr().out.endswith("b'hello'\n")


def test_the_program_with_stamps_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(program("Stamp("), "nodes.md", "exec"), {})
    assert capsys.readouterr().out == "[b'hello']\n"


def test_the_readme_sends_and_receives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    readme = (ROOT / "README.md").read_text()
    (code,) = [block for block in blocks("python", readme) if "import Node" in block]
    body, _, last = code.rstrip().rpartition("\n")
    assert last == "asyncio.run(main(sys.argv[1]))"
    group = Group("ab")
    for name in "ab":
        body = re.sub(rf"127\.0\.0\.1:700{'ab'.index(name) + 1}", group.addresses[name], body)
    scope: dict[str, Any] = {}
    exec(compile(body, "README.md", "exec"), scope)

    async def main() -> None:
        tasks = [asyncio.create_task(scope["main"](name)) for name in "ab"]
        said = ""
        async with asyncio.timeout(600):
            while "hello yourself" not in said:
                await asyncio.sleep(0.05)
                said += capsys.readouterr().out
        assert said.splitlines() == ["a b'hello'", "b b'hello yourself'"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_the_settings_on_the_page_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(blocks("toml")[0])
    assert read_settings(path)["limits"].outbox_count == 1024


def test_the_figures_on_the_page_exist(tmp_path: Path) -> None:
    async def main() -> str:
        async with Node("a", store=tmp_path / "a.db") as node:
            assert isinstance(node._transport, TcpTransport)
            return node.metrics()

    served = asyncio.run(main())
    named = set(re.findall(r"`(antecede_\w+)`", PAGE))
    assert len(named) > 8
    assert not {name for name in named if f"# TYPE {name} " not in served}
