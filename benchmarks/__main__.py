"""``python -m benchmarks [NAME ...] [--quick]``: run benchmarks by name, or all of them.

A benchmark is a module beside this one with a function ``main(*, quick: bool) -> bool`` that
prints its tables and returns whether every stated bound was met. A benchmark with options of its
own, such as ``endpoints``, takes them as keywords of ``main``.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path

from benchmarks import endpoints


def names() -> list[str]:
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"one of {', '.join(names())}")
    parser.add_argument("--quick", action="store_true", help="tiny inputs, to see that it runs")
    endpoints.add_options(parser)
    asked = parser.parse_args()
    unknown = sorted(set(asked.name) - set(names()))
    if unknown:
        print(f"benchmarks: {unknown[0]!r} is not one of {', '.join(names())}", file=sys.stderr)
        return 2
    met = True
    for name in asked.name or names():
        module = importlib.import_module(f"benchmarks.{name}")
        if not hasattr(module, "main"):
            continue
        print(f"\n== {name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        own = endpoints.options(asked) if module is endpoints else {}
        met = module.main(quick=asked.quick, **own) and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
