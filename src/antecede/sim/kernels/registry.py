"""All kernels: every module of this package that exports a `KERNEL`."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

import antecede
from antecede.sim import kernels

if TYPE_CHECKING:
    from antecede.sim.kernels.loop import Kernel


def _found() -> dict[str, Kernel]:
    modules = (
        importlib.import_module(f"{kernels.__name__}.{module.name}")
        for module in pkgutil.iter_modules(kernels.__path__)
        if module.name != "registry"
    )
    records = {m.KERNEL.protocol: m.KERNEL for m in modules if hasattr(m, "KERNEL")}
    return {name: records[name] for name in antecede.PROTOCOLS if name in records} | records


KERNELS: dict[str, Kernel] = _found()
