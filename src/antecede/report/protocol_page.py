"""A protocol's page in Markdown, from its record and its module's docstring.

``antecede protocols NAME`` prints it and `make docs` writes it, so both say the same.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys

from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.registry import rules_of

HEADINGS = ("Guarantee", "Assumes", "Cost", "Names", "Differences from the paper", "References")


def protocol_page(info: ProtocolInfo) -> str:
    """Return the page: title, facts from the record, then the sections of the docstring."""
    doc = inspect.getdoc(sys.modules[rules_of(info.name).__module__]) or ""
    title, _, body = doc.partition("\n")
    facts = [
        ("Paper", info.paper),
        ("Idea", info.idea),
        ("Casts", ", ".join(info.casts)),
        ("Guarantee", info.guarantee),
        ("Assumptions", info.assumptions),
        ("Cost", info.cost),
        ("Checked by the oracle", ", ".join(sorted(info.promises)).replace("_", " ")),
        ("After `skip`", "; ".join(after_skip(info))),
    ]
    if info.reconstruction:
        facts.append(("Source", "reconstructed from the abstract of the paper"))
    lines = [f"# {info.name}", "", _prose(title), "", "| | |", "| --- | --- |"]
    lines += [f"| {key} | {cell(value)} |" for key, value in facts]
    if info.options:
        lines += ["", "## Options", "", "| option | default | meaning |", "| --- | --- | --- |"]
        lines += [
            f"| `{key}` | `{option.default!r}` | {option.doc} |"
            for key, option in info.options.items()
        ]
    return "\n".join(lines) + "\n\n" + _sections(body) + "\n" + _specification(info.name)


def cell(text: str) -> str:
    """Return plain text for a cell of a Markdown table: ``2*n`` keeps its asterisk."""
    return text.replace("*", r"\*")


def _specification(name: str) -> str:
    """Return the executable specification as a section, if there is one."""
    module = f"antecede.protocols.specs.{name}"
    if importlib.util.find_spec(module) is None:
        return ""
    source = inspect.getsource(importlib.import_module(module)).strip()
    return (
        f"\n## The paper's steps\n\n`{module}`: the algorithm as printed, by names. A test runs "
        "it beside the protocol and compares both after every event.\n\n"
        f"```python\n{source}\n```\n"
    )


def after_skip(info: ProtocolInfo) -> list[str]:
    """Return what holds, and what may not, after messages were declared lost."""
    order = f"order may be lost: {info.lost_by_skip}" if info.lost_by_skip else "order is kept"
    marks = "what depends on a loss says so"
    if info.unmarked_by_skip:
        marks = f"what depends on a loss may not say so: {info.unmarked_by_skip}"
    return [order, marks]


def _sections(body: str) -> str:
    """Turn the docstring's underlined headings, name table and references into Markdown."""
    text = re.sub(r"^(.+)\n-{3,}$", r"## \1\n", body.strip(), flags=re.MULTILINE)
    text = re.sub(r"^\.\. \[(\w+)\] ", r"- [\1] ", text, flags=re.MULTILINE)
    text = _tables(text)
    return _prose(text)


def _tables(text: str) -> str:
    """Turn a table ruled with ``====`` into a Markdown table."""
    result: list[str] = []
    in_table, widths = False, 0
    for line in text.split("\n"):
        if re.fullmatch(r"=+(\s+=+)+", line):
            if not in_table:
                in_table, widths = True, line.index(" ")
            elif result and result[-1].startswith("| paper") and not result[-1].endswith("-"):
                result.append("| --- | --- |")
            else:
                in_table = False
            continue
        if in_table and line.strip():
            left, right = line[:widths].strip(), line[widths:].strip()
            if left:
                result.append(f"| {left} | {right} |")
            else:  # a continuation of the row above
                result[-1] = f"{result[-1].removesuffix(' |')} {right} |"
        else:
            result.append(line)
    return "\n".join(result)


def _prose(text: str) -> str:
    """Turn reStructuredText's literals and citations into Markdown's."""
    text = text.replace("``", "`")
    text = re.sub(r":(?:class|func|meth|data|mod):`~?([^`]+)`", r"`\1`", text)
    return re.sub(r"\[(\w+)\]_", r"[\1]", text)
