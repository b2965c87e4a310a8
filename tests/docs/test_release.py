"""What a release needs: one version everywhere, citations that agree with the sources."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

import antecede

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_version_is_the_same_everywhere() -> None:
    assert PROJECT["version"] == antecede.__version__ == str(CITATION["version"])
    assert PROJECT["license"] == CITATION["license"]


def test_the_page_of_the_package_points_at_nothing_beside_it() -> None:
    page = (ROOT / PROJECT["readme"]).read_text()
    assert "## Install" in page
    targets = re.findall(r"\]\(([^)]*)\)", page)
    assert [target for target in targets if not target.startswith("https://")] == []
    assert "<img" not in page


def test_the_citation_names_the_papers_as_the_protocols_do() -> None:
    cited = {reference["title"]: reference for reference in CITATION["references"]}
    assert len(cited) == 5
    for name in ("optimal", "pruned", "semantic", "bounded", "buffered"):
        own = antecede.PROTOCOLS[name].citation
        reference = cited.pop(own.title)
        assert reference["year"] == own.year
        assert tuple(author["family-names"] for author in reference["authors"]) == own.surnames
        assert own.url.removeprefix("https://doi.org/") == reference.get("doi", "")
    assert cited == {}


def test_bug_reports_ask_for_what_doctor_says() -> None:
    template = (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.md").read_text()
    assert "antecede doctor --json" in template
    assert "antecede doctor --json" in (ROOT / "SECURITY.md").read_text()
