"""An event loop with virtual time: instead of waiting, it moves its clock to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from contextvars import Context

    from _typeshed import FileDescriptorLike

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_STEPS_MAX: Final = 50_000_000


class DeadlockError(AssertionError):
    """Every task waits, and no timer will ever wake one."""


class _Selector(selectors.BaseSelector):
    """A selector without files; instead of waiting it moves the clock."""

    def __init__(self) -> None:
        self.time = 0.0
        self._keys: dict[FileDescriptorLike, selectors.SelectorKey] = {}

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: object = None
    ) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, number, events, data)
        self._keys[number] = key
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            msg = "every task waits, and no timer will ever wake one"
            raise DeadlockError(msg)
        self.time += max(timeout, 0.0)
        return []

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._keys


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose time passes only when nothing is left to do.

    Timers fire in the order of their times. Work for executors runs at once in the same thread, so
    that its order is fixed too. Sockets and subprocesses are not available: use
    :class:`antecede.testing.Network`.
    """

    def __init__(self) -> None:
        self._virtual = _Selector()
        self.steps = 0
        self._alarms: dict[int, Callable[[], object]] = {}
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the virtual time in seconds, from 0."""
        return self._virtual.time

    def at_step(self, step: int, action: Callable[[], object]) -> None:
        """Call ``action`` just before the ``step``-th callback that the loop schedules.

        A task takes a step at each of its awaits. So a test can crash a program at every await, by
        running it again with each next number.
        """
        self._alarms[step] = action

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback, and count it as a step."""
        self.steps += 1
        if self.steps in self._alarms:
            super().call_soon(self._alarms.pop(self.steps))
        if self.steps > _STEPS_MAX:
            msg = f"{self.steps} steps without an end; the program probably spins"
            raise DeadlockError(msg)
        return super().call_soon(callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run ``func`` now, in this thread."""
        del executor
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whoever awaits it gets it
            done.set_exception(error)
        return done


def run(main: Coroutine[Any, Any, T], *, loop: VirtualLoop | None = None) -> T:
    """Run a coroutine to its end in virtual time; then cancel the tasks that it left behind."""
    used = loop or VirtualLoop()
    try:
        return used.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(used)
        for task in left:
            task.cancel()
        if left:
            used.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        used.run_until_complete(used.shutdown_asyncgens())
        used.close()
