"""The program ``antecede`` itself: how it begins, and how Ctrl-C ends it at any moment."""

from __future__ import annotations

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Runs the program, and interrupts it when a module is first looked for, or when Python ends.
PRESSED = """
import atexit, os, signal, sys, time, weakref

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            press()
        if name == "antecede.cli.protocols" and moment == "callback":
            kept.append(weakref.ref(Finder(), press))

def press(_=None):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)

kept = []
moment = sys.argv.pop(1)
signal.signal(signal.SIGINT, signal.default_int_handler)
if moment == "end":
    atexit.register(press)
sys.meta_path.insert(0, Finder())
from antecede_command import main
main()
"""


def test_the_program_begins_before_the_package_is_imported() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["scripts"] == {"antecede": "antecede_command:main"}
    code = "import sys, antecede_command; print(*sorted({'antecede', 'typer'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


@pytest.mark.parametrize(
    ("moment", "told", "status"),
    [
        ("antecede", "antecede: stopped\n", 130),
        ("typer", "antecede: stopped\n", 130),
        ("antecede.cli.protocols", "antecede: stopped\n", 130),
        ("callback", "antecede: stopped\n", 130),
        ("end", "", -signal.SIGINT),
    ],
)
def test_an_interrupt_shows_no_traceback_at_any_moment(moment: str, told: str, status: int) -> None:
    words = [sys.executable, "-c", PRESSED, moment, "protocols", "optimal", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stderr, done.returncode) == (told, status)


def test_the_module_does_what_the_program_does() -> None:
    words = [sys.executable, "-m", "antecede", "protocols", "nonsense"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("antecede: unknown protocol 'nonsense'; ")
