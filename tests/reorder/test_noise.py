"""Spark's remarks stay off the terminal, and everything else stays on it."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import os, subprocess, sys
from antecede.reorder.files import without_remarks

def remark():
    words = "Starting Streaming TransformWithStateInPandas Python worker.\\n\\n"
    subprocess.run(["printf", words], stdout=2, check=True)

with without_remarks():
    print("one", file=sys.stderr)
    remark()
    os.write(2, b"two\\n")
    remark()
    remark()
    print("three", file=sys.stderr)
print("four", file=sys.stderr)
"""


def test_remarks_of_any_process_are_left_out_and_other_lines_stay() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["one", "two", "three", "four"]
