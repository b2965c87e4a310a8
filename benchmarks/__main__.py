"""``python -m benchmarks [NAME ...] [--quick] [--out FOLDER]``: run benchmarks, or all of them.

A benchmark is a module beside this one with a function ``main(*, quick: bool) -> bool`` that
prints its tables, records their rows (``_tables.record``) and returns whether every stated bound
was met. A benchmark with options of its own, such as ``endpoints``, takes them as keywords of
``main``. With ``--out``, the rows are written as CSV; ``make docs`` makes docs/benchmarks.md from
the tables in docs/measured.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from pathlib import Path

from benchmarks import _tables, endpoints


def names() -> list[str]:
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"one of {', '.join(names())}")
    parser.add_argument("--quick", action="store_true", help="tiny inputs, to see that it runs")
    parser.add_argument("--out", type=Path, help="write the tables as CSV into this folder")
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
        begin = time.perf_counter()
        is_met = module.main(quick=asked.quick, **own)
        if asked.out is not None:
            seconds = time.perf_counter() - begin
            _tables.write(asked.out, name, quick=asked.quick, is_met=is_met, seconds=seconds)
        _tables.ROWS.clear()
        _tables.MISSED.clear()
        met = is_met and met
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
