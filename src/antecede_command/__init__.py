"""The program ``antecede``: what a shell starts, before anything of the package is imported.

Importing the package and its command line takes a moment. Ctrl-C in that moment, or while Python
ends, must not show a traceback. So this module imports next to nothing, and is no part of the
package: ``import antecede`` comes before any module in it.
"""

from __future__ import annotations

import os
import signal
import sys

#: The exit status after Ctrl-C: 128 + SIGINT.
INTERRUPTED = 130


def main() -> None:
    """Run the command line of this process's arguments."""
    # A program in the background may have been told to ignore interrupts.
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_ours:
        signal.signal(signal.SIGINT, _leave)
    from antecede.cli.main import app

    try:
        if is_ours:
            sys.unraisablehook = _press_again
            signal.signal(signal.SIGINT, signal.default_int_handler)
        app()
    except KeyboardInterrupt:  # a second one, while the first was being answered
        sys.exit(INTERRUPTED)
    finally:
        if is_ours:  # nothing is left to do: an interrupt may end Python at once
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _leave(_number: int, _frame: object) -> None:
    """End at once: an exception in the middle of an import may be lost, or change into another."""
    os.write(2, b"antecede: stopped\n")
    os._exit(INTERRUPTED)


def _press_again(lost: sys.UnraisableHookArgs) -> None:
    """Repeat an interrupt that came where Python can only print it, as in a callback of imports."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    from threading import Timer

    timer = Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
