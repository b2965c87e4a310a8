"""The pages of the reference (API from docstrings, command line from its parser) and the layers."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from antecede.cli.main import VERBS, command_line

ROOT = Path(__file__).resolve().parents[1]
MODULES = {
    "antecede": "antecede",
    "net": "antecede.net",
    "inbox": "antecede.inbox",
    "logs": "antecede.logs",
    "testing": "antecede.testing",
    "check": "antecede.check",
    "pipeline": "antecede.pipeline",
    "sim": "antecede.sim",
}
EXIT = """\
Every verb has `--help`. Exit status: 0 all is well; 1 the answer is bad news (order was broken,
something is missing); 2 the call or its input is wrong, or no verdict is possible. After Ctrl-C it
is 130; if nobody reads the output any more, it is 141."""
RULE = """\
Imports point downwards only: a module may import from the layers below its own, never from above,
and names in one row do not import each other. `make check` enforces it. This page is made from the
code: the layers from `pyproject.toml`, the arrows from the imports, the table from the
docstrings."""
PICTURE = """\
![Each package with arrows to those that it imports](figures/imports.svg)"""
WHY = """\
Everything that computes a verdict is plain data and functions; the command line only assembles.
Endpoints have no I/O, no clock and no thread, so the same code runs in a simulation, under the
oracle, in a node, and inside Spark. Heavy libraries are extras and are imported where they are
used."""
FOLLOW = """\
## Follow a message

1. `antecede.endpoint` (`endpoint/registry.py`) makes an endpoint with the rules of its protocol.
   `Endpoint.send` (`endpoint/endpoint.py`) numbers the message, and the rules (`protocols/`) say
   what each copy carries.
2. `antecede.Codec` (`wire/codec.py`) turns packets into bytes. In a node, `net/node.py` passes the
   call to `net/driver.py`, the one place with tasks and clocks; `net/machine.py` decides,
   `net/journal.py` saves, and only then does `net/transports/` send the frame.
3. At the destination `Codec.decode` and `Endpoint.receive` take a packet in. The rules refuse what
   is malformed and say what the message waits for.
4. A message that waits for nothing is delivered, and those that waited for it are looked at again.

## Follow a record of Kafka

1. `Consumer` (`logs/confluent.py`, `logs/aiokafka.py`, `logs/nats.py`) fetches it. Its header has
   the sender's positions (`logs/positions.py`).
2. `logs/reader.py` queues it behind earlier records of its log, and asks the gate (`logs/gate.py`)
   whether the group has processed all that the positions name.
3. In `with record:` the handler's `Producer` stamps what it writes with the record's positions and
   its own; the consumer commits after the handler, and says how far it has come before it waits.

## Follow a webhook

1. `Inbox.offer` (`inbox/api.py`, for asyncio `inbox/aio.py`) checks it and hands it to a store:
   `inbox/stores/memory.py`, or `inbox/stores/sql.py` over SQLite or PostgreSQL.
2. The rule of declared causes (`inbox/causes.py`) makes it ready, waiting or parked.
3. `with message as transaction:` runs the handler; its writes, its sends and "done" are committed
   together, and what waited only for this message becomes ready. `Inbox.relay` publishes the sends.

## Follow a log

1. `cli/audit.py` reads a small log in JSON lines or CSV and judges it as a whole, in plain Python:
   `audit/small.py`, `audit/plain.py`, `audit/doubt.py`. Any other log goes to `audit/files.py`:
   `events/sources.py` recognises the format and reads events; `events/rule.py` decides which rows
   are events.
2. `audit/api.py` has the log cut into windows: `audit/local_windows.py` in this process,
   `audit/row_group_windows.py` or `audit/shuffled_windows.py` on Spark
   (`audit/arrangements.py` chooses). `audit/windows/cuts.py` finds the cuts, and
   `audit/windows/window.py` checks each window by itself.
3. `audit/windows/join.py` joins the windows, and `audit/windows/rounds.py` runs some again where
   that needs more.
4. `audit/verdicts.py` decides, `audit/tables.py` and `audit/sentences.py` tell why;
   `report/audit_page.py` draws it, and `runs.py` writes the folder.

## Follow a row

1. `cli/reorder.py` checks both ends (`reorder/source_and_sink.py`) and calls `reorder/files.py`,
   which starts a query on `reorder/api.py`.
2. `reorder/columns.py` turns the user's columns into numbers. `reorder/spark_state.py` takes the
   rows of a bucket of destinations, with its state, from Spark to `reorder/bucket.py`.
3. `reorder/machine.py` holds each row or delivers it, most of them together
   (`reorder/compiled_rows.py`); rows with packets ask their endpoint (`reorder/packets.py`).
4. The bucket writes what changed to its store (`reorder/store.py`) and returns the rows in order.

## Follow a run

1. `cli/study.py` makes a request (`study/request.py`), and `study/campaign.py` carries it out.
2. Each experiment (`study/experiments/`) states its cases; `study/grid.py` makes rows of them.
3. `study/jobs.py` hands rows to executors through `study/api.py`; `study/measuring.py` makes the
   schedule and runs the protocol on it (`sim`).
4. `study/aggregates.py` gives means and differences, `study/points.py` offers them to the
   experiments' findings and claims, and `study/results.py` makes the page."""
#: The widest line of code on a page.
WIDTH = 100


def reference_pages() -> dict[Path, str]:
    """Return the text of every page of the reference."""
    folder = ROOT / "docs" / "reference"
    pages = {folder / f"{page}.md": api_page(name) for page, name in MODULES.items()}
    pages[folder / "cli.md"] = cli_page()
    return pages


def api_page(name: str) -> str:
    """Return the page of a package: every public name, with signature and docstring."""
    module = import_module(name)
    parts = [f"# `{name}`", _prose(module.__doc__)]
    for public in module.__all__:
        parts += _described(public, getattr(module, public), name)
    return "\n\n".join(part for part in parts if part) + "\n"


def _described(name: str, found: object, module: str) -> list[str]:
    if inspect.isclass(found):
        parts = [f"## `{name}`", _code(f"class {name}{_signature(found)}"), _prose(found.__doc__)]
        parts.append(_fields(found))
        for own, member in inspect.getmembers(found):
            if own.startswith("_") or not _is_ours(member):
                continue
            if isinstance(member, property):
                parts += [f"### `{name}.{own}`", _prose(member.__doc__)]
            elif inspect.isroutine(member):
                word = "async def" if inspect.iscoroutinefunction(member) else "def"
                parts += [f"### `{name}.{own}`"]
                parts.append(_code(f"{word} {own}{_signature(member)}", _decorator(found, own)))
                parts.append(_prose(inspect.getdoc(member)))
        return parts
    if inspect.isroutine(found):
        return [f"## `{name}`", _code(f"def {name}{_signature(found)}"), _prose(found.__doc__)]
    return [f"## `{name}`", *_constant(name, found, module)]


def _fields(found: type) -> str:
    """Return the fields of a class that have a docstring below them, as a list."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(found))).body
    told = {
        node.target.id: after.value.value
        for node, after in itertools.pairwise(getattr(tree, "body", ()))
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
    }
    return "\n".join(_item(f"`{name}`", _prose(str(text))) for name, text in told.items())


def _decorator(found: type, name: str) -> str:
    kind = inspect.getattr_static(found, name)
    return {classmethod: "@classmethod\n", staticmethod: "@staticmethod\n"}.get(type(kind), "")


def _constant(name: str, found: object, module: str) -> list[str]:
    """Return a constant's assignment, if that is short, and the docstring below it."""
    for path in sorted((ROOT / "src" / "antecede").rglob("*.py")):
        body = ast.parse(path.read_text()).body if f"\n{name}" in path.read_text() else []
        for node, after in itertools.pairwise(body):
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            told = after.value if isinstance(after, ast.Expr) else None
            if (
                [getattr(target, "id", "") for target in targets] == [name]
                and isinstance(told, ast.Constant)
                and isinstance(told.value, str)
                and getattr(import_module(_dotted(path)), name) is found
            ):
                return [_assigned(node), _entries(found), _prose(told.value)]
    msg = f"{module}.{name} has no string below its assignment that says what it is"
    raise ValueError(msg)


def _assigned(node: ast.stmt) -> str:
    """Return a short assignment as code, or only the type of its value."""
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) != "Final":
        return _code(f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}")
    text = ast.unparse(node).replace(": Final =", " =")
    return _code(text) if len(text) <= WIDTH else ""


def _entries(found: object) -> str:
    """Return the names in a constant with their descriptions, as a list."""
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        return ""
    return "\n".join(_item(f"`{name}`", text) for name, text in found.items())


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _is_ours(member: object) -> bool:
    made = member.fget if isinstance(member, property) else member
    return str(getattr(made, "__module__", "")).startswith("antecede")


def _signature(found: Callable[..., object]) -> str:
    if inspect.isclass(found) and issubclass(found, BaseException):
        return f"({found.__bases__[0].__name__})"
    if getattr(found, "_is_protocol", False):
        return "(Protocol)"
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"""(: |-> )(["'])((?:(?!\2).)*)\2""", r"\1\3", str(signature))
    if inspect.isclass(found):
        text = text.removesuffix(" -> None")
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text).replace("<factory>", "...")
    text = re.sub(r"\bantecede(\.\w+)+\.(?=[A-Z])", "", text)
    return re.sub(r"\b(collections\.abc|typing|pathlib)\.(?=[A-Z])", "", text)


def _code(text: str, above: str = "") -> str:
    if len(text) > WIDTH:
        head, _, rest = text.partition("(")
        inner, _, tail = rest.rpartition(")")
        parts = _split(inner)
        text = "\n".join([f"{head}(", *(f"    {part}," for part in parts), f"){tail}"])
    return f"```python\n{above}{text}\n```"


def _split(text: str) -> list[str]:
    """Split at the commas outside all brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _prose(docstring: str | None) -> str:
    """Return a docstring as Markdown, with double backticks and roles simplified."""
    text = inspect.cleandoc(docstring or "")
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    text = re.sub(r"\[(\w+\d\d)\]_", r"[\1]", text)
    text = re.sub(r"^(\w+)\n-{3,}\n((?:\S.*\n(?: {4}.*\n?)+)+)", _listed, text, flags=re.MULTILINE)
    return re.sub(r"::\n\n((?:    .*\n?|\n)+)", _literal, text).strip()


def _listed(found: re.Match[str]) -> str:
    """Return a section of names and descriptions as a list."""
    lines = [f"{found[1]}:", ""]
    for names, text in re.findall(r"^(\S.*)\n((?: {4}.*\n?)+)", found[2], flags=re.MULTILINE):
        shown = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        lines.append(_item(shown, text))
    return "\n".join(lines) + "\n"


def _item(shown: str, text: str) -> str:
    told = f"- {shown}: {' '.join(text.split())}"
    return textwrap.fill(told, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _literal(found: re.Match[str]) -> str:
    return f":\n\n```python\n{textwrap.dedent(found[1]).strip()}\n```\n\n"


def cli_page() -> str:
    """Return the page of the command line, from its parser."""
    parts = [
        "# The command line",
        EXIT,
    ]
    for verb, (extra, _) in VERBS.items():
        group: Any = typer.main.get_command(command_line(verb))
        command = group.commands[verb]
        parts.append(f"## `antecede {verb}`")
        if extra:
            parts.append(f"Needs `pip install 'antecede[{extra}]'`.")
        parts.append(_prose(command.help))
        rows = [_option(parameter) for parameter in command.params]
        if rows:
            parts.append("\n".join(["| argument | what it does |", "| --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


def _option(parameter: Any) -> str:  # noqa: ANN401 - typer keeps its copy of Click private
    names = ", ".join((*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = (parameter.metavar or parameter.name or "").upper()
    default = parameter.default
    shown = "" if default in (None, False, (), []) or callable(default) else f" Default: {default}."
    text = " ".join((parameter.help or "").split()).replace("|", "\\|")
    return f"| `{names}` | {text}{shown} |"


def architecture_page() -> str:
    """Return the page on the layers that import-linter checks, and their contents."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c["layers"] for c in linter["contracts"] if c["type"] == "layers")
    rows = []
    for layer in layers:
        names = re.findall(r"\((\w+)\)", layer)
        rooms = "<br>".join(f"`{name}`: {_summary(name)}" for name in names)
        files = sum(_files(name) for name in names)
        rows.append(f"| {' and '.join(names)} | {rooms} | {files} |")
    table = ["| layer | what it does | modules |", "| --- | --- | --- |", *rows]
    return "\n\n".join(("# Architecture", RULE, PICTURE, "\n".join(table), WHY, FOLLOW)) + "\n"


def _summary(name: str) -> str:
    """Return the first paragraph of the docstring of a package or module."""
    folder = ROOT / "src" / "antecede" / name
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(re.sub(r"``([^`]+)``", r"`\1`", text.split("\n\n")[0]).split())


def _files(name: str) -> int:
    folder = ROOT / "src" / "antecede" / name
    return len(list(folder.rglob("*.py"))) if folder.is_dir() else 1
