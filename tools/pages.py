"""Write the generated pages: protocols, API, playground, benchmarks, architecture, PACKAGE.md.

``make docs`` runs this. The site is built from ``build/docs``: the pages of ``docs`` and pages
that only the site has. If a page of ``docs`` links to the source of a protocol or a package,
the site links to its page. ``python -m tools.pages --check`` writes nothing, and fails if a
generated page in the repository is out of date.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from functools import cache
from pathlib import Path

import antecede
from antecede.report.overtaken import overtaken
from antecede.report.playground import playground_page
from antecede.report.protocol_page import cell, protocol_page
from tools.benchmarks_page import benchmarks_page
from tools.pictures import pictures
from tools.reference_pages import MODULES, architecture_page, reference_pages

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "docs"
FOLDER = DOCS / "algorithms"
REFERENCE = DOCS / "reference"
PICTURE = DOCS / "figures" / "overtaken.svg"
BENCHMARKS = DOCS / "benchmarks.md"
PLAYGROUND = DOCS / "playground.html"
README = ROOT / "README.md"
PACKAGE = ROOT / "PACKAGE.md"


@cache
def built_pages() -> dict[Path, str]:
    """Return the pages that only the site has, by the path that each would have in ``docs``."""
    result = {
        FOLDER / f"{name}.md": protocol_page(info) for name, info in antecede.PROTOCOLS.items()
    }
    result[FOLDER / "index.md"] = index()
    result[PLAYGROUND] = playground_page()
    return result | reference_pages()


def kept_pages() -> dict[Path, str]:
    """Return the generated pages and pictures that the repository keeps for its readers."""
    return {
        PICTURE: overtaken(),
        PACKAGE: package_page(README.read_text()),
        BENCHMARKS: benchmarks_page(),
        DOCS / "architecture.md": architecture_page(),
        **pictures(),
    }


def built_from() -> dict[Path, Path]:
    """Return the source of each page that only the site has."""
    source = ROOT / "src" / "antecede"
    found = {source / "protocols": FOLDER / "index.md", source / "cli": REFERENCE / "cli.md"}
    for name in antecede.PROTOCOLS:
        found[source / "protocols" / f"{name}.py"] = FOLDER / f"{name}.md"
    for page, name in MODULES.items():
        found[ROOT.joinpath("src", *name.split("."), "__init__.py")] = REFERENCE / f"{page}.md"
    return found


def site_page(page: Path, built: dict[Path, Path]) -> str:
    """Return a page of ``docs`` with links to sources replaced by links to pages of the site."""

    def linked(link: re.Match[str]) -> str:
        target = built.get((page.parent / link[1]).resolve())
        return link[0] if target is None else f"]({os.path.relpath(target, page.parent)})"

    return re.sub(r"\]\(([^)\s#]+)\)", linked, page.read_text())


def write_site() -> int:
    """Write the input of the site; return its number of pages."""
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(DOCS, SITE)
    built = built_from()
    found = {page: site_page(page, built) for page in DOCS.rglob("*.md")} | built_pages()
    for page, text in found.items():
        path = SITE / page.relative_to(DOCS)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return len(found)


def package_page(readme: str) -> str:
    """Return the README for a package index: no pictures, and file names in place of links.

    On the index, neither pictures nor linked files are available.
    """
    title, _, rest = readme.partition("\n\n")
    note = "Pages and programs named here are in `docs` and `examples` of the source distribution."
    rest = rest.partition("## More\n")[0] + "The licence is Apache-2.0.\n"
    rest = re.sub(r"`make study` ends with [^!]*(?=!\[)", "", rest)
    rest = re.sub(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n", "", rest)
    rest = re.sub(r"\[([^\]]*)\]\((?!https?:)([^)#]*)[^)]*\)", _named, rest)
    return f"{title}\n\n{note}\n\n{rest}"


def _named(link: re.Match[str]) -> str:
    """Return the text of a link with the name of the file that it leads to."""
    text, target = link.groups()
    return text if text == f"`{target}`" else f"{text} (`{target}`)"


def index() -> str:
    """Return the page with the table of all protocols."""
    lines = [
        "# The protocols",
        "",
        textwrap.fill(
            f"There are {len(antecede.PROTOCOLS)} of them, and each has a page. [Choose a "
            "protocol](../advise.md) says which to use. Processes join and leave between "
            "[views](../membership.md), whatever the protocol. `antecede protocols NAME` prints "
            "the page of one.",
            100,
        ),
        "",
        "| name | idea | paper | casts | cost |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| [{info.name}]({info.name}.md) | {info.idea} | {info.paper} | {', '.join(info.casts)} "
        f"| {cell(info.cost)} |"
        for info in antecede.PROTOCOLS.values()
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the pages, or check them."""
    is_check = "--check" in sys.argv[1:]
    wanted = kept_pages()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if is_check:
        for path in stale:
            print(f"{path.name} is out of date; run: make docs")
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path])
    print(f"{write_site()} pages for the site; rewritten in the repository: {len(stale)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
