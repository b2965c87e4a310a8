"""The pages of the site: their code runs, their links lead somewhere, none is forgotten."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import antecede
from tools.pages import built_from, built_pages, site_page
from tools.pictures import pictures

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NAV = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]


def listed(entries: list[dict[str, object]]) -> set[str]:
    found: set[str] = set()
    for entry in entries:
        for value in entry.values():
            found |= listed(value) if isinstance(value, list) else {str(value)}
    return found


def test_the_tests_that_the_threat_model_names_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (DOCS / "threat-model.md").read_text()))
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 20
    assert named <= set(re.findall(r"def (test_\w+)\(", tests))


def test_every_page_is_in_the_contents() -> None:
    own = {str(page.relative_to(DOCS)) for page in PAGES}
    made = {str(page.relative_to(DOCS)) for page in built_pages()}
    made -= {name for name in made if name.startswith("algorithms/") and "index" not in name}
    assert listed(NAV) == own | made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name} links to {target}: not there"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name} links to {target}, a heading not there"


def test_the_site_links_to_pages_where_the_repository_links_to_sources() -> None:
    found, made = built_from(), built_pages()
    assert set(found.values()) | {DOCS / "playground.html"} == made.keys()
    for page in PAGES:
        text = re.sub(r"```.*?```", "", site_page(page, found), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:)([^)\s#]+)\)", text):
            file = (page.parent / target).resolve()
            assert file.exists() or file in made, f"{page.name} links to {target}"
            assert file not in found, f"{page.name} still links to the source {target}"


def anchors(page: Path) -> set[str]:
    text = page.read_text()
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_the_page_on_studies_lists_every_experiment() -> None:
    experiments = pytest.importorskip("antecede.study.experiments")
    section = (DOCS / "study.md").read_text().split("## Experiments")[1].split("The papers:")[0]
    rows = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)
    assert sorted(rows) == sorted(experiments.EXPERIMENTS)


def test_the_pages_say_how_many_protocols_a_study_runs() -> None:
    experiments = pytest.importorskip("antecede.study.experiments")
    design = pytest.importorskip("antecede.study.design")
    for scale in (design.QUICK, design.PAPER):
        cases = [case for one in experiments.EXPERIMENTS.values() for case in one.cases(scale)]
        count, whole = len({case.protocol for case in cases}), len(antecede.PROTOCOLS)
        assert f"runs {count} of the {whole} protocols" in (DOCS / "study.md").read_text()
        for page in (DOCS / "index.md", ROOT / "README.md"):
            assert f"{whole} algorithms to run, {count} of them in the study" in page.read_text()


#: Pages whose programs need nothing but the package; other tests run those of other pages.
PROGRAMS = [DOCS / f"{name}.md" for name in ("eventlog", "membership", "wire")]


@pytest.mark.parametrize(
    "page", [*sorted((DOCS / "explain").glob("*.md")), *PROGRAMS], ids=lambda page: page.stem
)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(code, page.name, "exec"), {})


def test_the_pictures_show_what_the_pages_say() -> None:
    shown = {path.stem: re.findall(r">([^<>]+)</text>", text) for path, text in pictures().items()}
    assert shown["false-causality"].count("holds m2") == 1
    assert shown["false-causality"].count("delivers m2") == 1
    chain = shown["lost-chain"]
    assert "x is lost" in chain
    assert chain.index("skips r, delivers m2") < len(chain) - 1 - chain[::-1].index("delivers m1")


def test_every_picture_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in [*PAGES, ROOT / "README.md"])
    missing = [path.name for path in (DOCS / "figures").iterdir() if path.name not in text]
    assert not missing


def test_the_files_that_the_page_on_architecture_follows_are_there() -> None:
    named = re.findall(r"`([\w/]+(?:\.py|/))`", (DOCS / "architecture.md").read_text())
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "src" / "antecede" / name).exists()] == []
