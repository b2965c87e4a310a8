"""Results of an audit for continuous integration: JUnit, SARIF and GitHub annotations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

RULE = "causal-order"
#: The most violations in each file; the tables have all.
TOLD_MAX = 1000


@dataclass(frozen=True)
class Judged:
    """An audited log: its name and path, its verdict, and the violations that count against it."""

    name: str
    path: str
    verdict: str
    reason: str
    violations: Sequence[str]
    """Each violation that counts, as a sentence."""
    kinds: Sequence[str] = ()
    """The same, with similar violations merged into one."""
    is_allowed: bool = False


def junit(found: Sequence[Judged]) -> str:
    """Return JUnit's XML: a test for each log, failed if its order was broken."""
    failures = sum(one.verdict == "broken" and not one.is_allowed for one in found)
    errors = sum(one.verdict == "undecidable" for one in found)
    cases = []
    for one in found:
        what = {"broken": "failure", "undecidable": "error"}.get(one.verdict)
        inside = ""
        if what and not one.is_allowed:
            lines = escape("\n".join(_shown(one.violations)))
            inside = f"<{what} message={quoteattr(_printable(one.reason))}>{lines}</{what}>"
        name = quoteattr(_printable(one.name))
        cases.append(f'<testcase classname="{RULE}" name={name}>{inside}</testcase>')
    counts = f'tests="{len(found)}" failures="{failures}" errors="{errors}"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites><testsuite name="antecede audit" {counts}>{"".join(cases)}</testsuite>'
        "</testsuites>\n"
    )


def _printable(text: str) -> str:
    """Return text without the characters that XML forbids."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def _shown(violations: Sequence[str]) -> list[str]:
    return [_printable(text) for text in violations[:TOLD_MAX]]


def sarif(found: Sequence[Judged], version: str) -> str:
    """Return SARIF 2.1.0: a result for each violation, located at its log."""
    results = []
    for one in found:
        told = _shown(one.violations)
        if one.verdict == "undecidable":
            told = [one.reason]
        where = one.path or one.name
        place = {"artifactLocation": {"uri": where}, "region": {"startLine": 1}}
        results += [
            {
                "ruleId": RULE,
                "level": "note" if one.is_allowed or one.verdict != "broken" else "error",
                "message": {"text": text},
                "locations": [{"physicalLocation": place}],
            }
            for text in told
        ]
    words = "A message was delivered after one of its effects"
    rule = {"id": RULE, "name": "CausalOrder", "shortDescription": {"text": words}}
    driver = {"name": "antecede", "version": version, "rules": [rule]}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def workflow_commands(found: Sequence[Judged]) -> list[str]:
    """Return the commands, one per line, that annotate a run of a GitHub workflow.

    GitHub shows ten per step, so similar violations are merged into one.
    """
    lines = []
    for one in found:
        level = "notice" if one.is_allowed else {"broken": "error"}.get(one.verdict, "warning")
        told = one.kinds[:10] or ([one.reason] if one.verdict != "ordered" else [])
        where = f"file={_escaped(one.path, in_property=True)}," if one.path else ""
        lines += [f"::{level} {where}title=Causal order::{_escaped(text)}" for text in told]
    return lines


def _escaped(text: str, *, in_property: bool = False) -> str:
    signs = "%\r\n:," if in_property else "%\r\n"
    return "".join(f"%{ord(c):02X}" if c in signs else c for c in text)
