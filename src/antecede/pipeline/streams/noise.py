"""Keep Spark's remarks about its own Python processes off the terminal.

Each start of a query with state prints some lines on the standard error stream of the JVM, which
no setting turns off. So that stream goes through a pipe while Spark runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

_REMARK = b"Streaming TransformWithStateInPandas Python worker"


@contextlib.contextmanager
def without_remarks() -> Iterator[None]:
    """Filter the standard error stream of this process and of those it starts."""
    sys.stderr.flush()
    real = os.dup(2)
    reader, writer = os.pipe()
    os.dup2(writer, 2)
    os.close(writer)

    def copy() -> None:
        skipped = False
        with os.fdopen(reader, "rb") as lines:
            for line in lines:
                # A blank line follows each remark.
                if _REMARK in line or (skipped and not line.strip()):
                    skipped = True
                    continue
                skipped = False
                os.write(real, line)

    thread = threading.Thread(target=copy, name="stderr", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(real, 2)
        # Processes that outlive this one may still hold the pipe; do not wait for them.
        thread.join(2)
