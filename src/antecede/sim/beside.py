"""A second process of our own, for work that two cores share."""

from __future__ import annotations

import os
import subprocess
import sys


def beside(program: str, *, stdin: int | None = None, stdout: int) -> subprocess.Popen[bytes]:
    """Start ``program``, Python code, in a process that finds the modules that this one finds.

    Its messages are of no interest: what it fails to do, its caller does.
    """
    return subprocess.Popen(  # noqa: S603 - our own interpreter and words
        [sys.executable, "-c", program],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
