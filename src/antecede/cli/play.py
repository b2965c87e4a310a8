"""``antecede play``: write the playground and open it."""

from __future__ import annotations

import contextlib
import json
import os
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from antecede import __version__
from antecede.cli.options import AsJson
from antecede.errors import UsageError
from antecede.report.playground import playground_page

_TITLE = "<title>Playground: causal order by hand</title>"


def play(
    *,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("playground.html"),
    opens: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Write one page on which you drag arrivals and see what each protocol does, and open it.

    The page needs no network and no server. With --json it is not opened.

    Example: `antecede play --out playground.html`
    """
    if out.is_dir():
        msg = f"{out} is a folder; give the name of a file: --out {out / 'playground.html'}"
        raise UsageError(msg)
    if out.exists() and not _is_playground(out):
        msg = f"{out} exists and is not a playground; choose another name with --out"
        raise UsageError(msg)
    part = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        part.write_text(playground_page(), encoding="utf-8")
        part.replace(out)
    except OSError as error:
        msg = f"cannot write {out}: {error.strerror}; choose another place with --out"
        raise UsageError(msg) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    if as_json:
        typer.echo(json.dumps({"verb": "play", "version": __version__, "page": str(out)}, indent=2))
        return
    typer.echo(f"Page: {out}")
    if opens:
        webbrowser.open(out.resolve().as_uri())


def _is_playground(path: Path) -> bool:
    """Tell whether a file is a page that this verb wrote; a device or a pipe is none."""
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return _TITLE in file.read(1000)
