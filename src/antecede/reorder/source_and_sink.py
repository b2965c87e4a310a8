"""The folders and streams that a reordering reads and writes, checked before Spark starts."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path

from antecede.errors import UsageError
from antecede.runs import lock_folder

#: How long a server may take to accept a connection, and the pause between attempts.
ANSWER_SECONDS, AGAIN_SECONDS = 10.0, 0.5
#: The file formats that can be read, with their suffixes.
FORMATS = {"parquet": (".parquet",), "json": (".jsonl", ".json", ".ndjson"), "csv": (".csv",)}


def require_folder(path: Path, form: str) -> None:
    """Refuse an unknown format, and a folder without a file that defines the columns."""
    if form not in FORMATS:
        raise UsageError(f"format {form!r} is not one of {', '.join(FORMATS)}")
    if not path.is_dir():
        raise UsageError(
            f"{path} is not a folder; reorder reads the files of a folder as they come"
        )
    suffixes = {entry.suffix for entry in path.iterdir()}
    if not suffixes.intersection(FORMATS[form]):
        others = [name for name, known in FORMATS.items() if suffixes.intersection(known)]
        hint = f"give --format {others[0]}" if others else "the first tells the columns"
        raise UsageError(f"{path} has no {' or '.join(FORMATS[form])} file yet; {hint}")


def require_apart(source: Path, out: Path) -> None:
    """Refuse to write into the folder that is read: results would be read as rows."""
    read, written = source.resolve(), out.resolve()
    if (read == written or read in written.parents) and not any(
        path.is_file() for path in (written, *written.parents)
    ):
        raise UsageError(f"{out} lies in {source}, which is read; choose a folder outside it")


def require_checkpoint(path: Path) -> None:
    """Refuse a folder that is not the checkpoint of a query with state."""
    if not (path / "state").is_dir():
        raise UsageError(f"{path} is not the checkpoint of a query with state; give its folder")


def is_url(place: str) -> bool:
    """Return whether a place to read or write is a stream of a NATS server."""
    return place.startswith(("nats://", "tls://"))


def shown(place: str) -> str:
    """Return a place in a form that may be printed: without a password."""
    return re.sub(r"//[^/@]*@", "//...@", place) if is_url(place) else place


def require_stream(url: str) -> str:
    """Refuse a URL that does not name a stream; return the stream's name."""
    from antecede.net.transports.nats_names import parse_url

    if importlib.util.find_spec("nats") is None:
        raise UsageError(
            "streams of NATS need nats-py, which is not installed; "
            "run: pip install 'antecede[spark,nats]'"
        )
    if importlib.util.find_spec("pyspark.sql.streaming.datasource") is None:
        raise UsageError(
            f"streams of NATS need Spark 4.2 or newer; PySpark here is {version('pyspark')}"
        )
    return parse_url(url, ()).name


def require_server(url: str) -> None:
    """Refuse a stream if none of its servers can be reached: its client would try for minutes.

    A server that is restarting gets a moment to answer.
    """
    from antecede.net.transports.nats_names import parse_url

    addresses, reason = parse_url(url, ()).addresses, ""
    end = time.monotonic() + ANSWER_SECONDS
    while True:
        for address in addresses:
            try:
                socket.create_connection((address.host, address.port), ANSWER_SECONDS).close()
            except OSError as error:
                reason = f"{address}: {error.strerror or error}"
            else:
                return
        if time.monotonic() >= end:
            raise UsageError(
                f"no server answers for {shown(url)} ({reason}); is NATS running there?"
            )
        time.sleep(AGAIN_SECONDS)


@contextmanager
def claimed(folders: Iterable[Path]) -> Iterator[None]:
    """Create the folders that a query writes to, and lock them against other queries.

    Two queries would overwrite each other's batches. The locks end with this process in any case,
    so a query that was killed can be restarted at once.
    """
    with ExitStack() as locks:
        for folder in dict.fromkeys(folder.resolve() for folder in folders):
            _create(folder)
            locks.callback(os.close, lock_folder(folder, str(folder)))
        yield


def _create(folder: Path) -> None:
    """Create a folder, or say in one line why nothing can be written there."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; reorder writes into a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder} ({error.strerror or error}); choose another folder"
        ) from None
