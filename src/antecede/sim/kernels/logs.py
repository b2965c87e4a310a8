"""The Python side of the kernel of `optimal` and `pruned`: its arrays, and how they grow."""

from __future__ import annotations

import numpy as np

from antecede.sim.kernels.common import FREE, NODE, NODES, NOTHING, WIDEST, Plan
from antecede.sim.kernels.drive import Common, Progress, drive, longer
from antecede.sim.kernels.optimal import END, Constraints, Logs, Scratch, run


class State(Common):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int) -> None:
        super().__init__(plan, n)
        slabs = 2 * n + 64
        self.size = 4 * n + 64
        self.words = (n + 63) // 64
        self.logs = Logs(
            keys=np.full(slabs * self.size, END, np.int64),
            words=np.zeros(slabs * self.size, np.uint64),
            newest=np.zeros(slabs * n, np.int32),
            count=np.zeros(slabs, np.int32),
            known=np.zeros(slabs, np.int32),
            refs=np.concatenate([np.ones(n, np.int32), np.zeros(slabs - n, np.int32)]),
            free=np.zeros(slabs, np.int32),
            own=np.arange(n, dtype=np.int32),
            clock=np.zeros(n, np.int32),
            slab=np.zeros(len(plan.time), np.int32),
        )
        self.reg[FREE] = slabs - n
        self.logs.free[: slabs - n] = np.arange(slabs - 1, n - 1, -1)
        self.cons = Constraints(
            sender=np.zeros(0, np.int32),
            clock=np.zeros(0, np.int32),
            following=np.zeros(0, np.int32),
            first=np.full(len(plan.dests), NOTHING, np.int32),
        )
        self.reg[NODE] = NOTHING
        self.scratch = Scratch(np.zeros(self.words, np.uint64), np.zeros(n, np.int32))
        self._grow_nodes(int(self.reg[WIDEST]) * n)

    def grow(self) -> None:
        """Make larger whatever may have been too small."""
        super().grow()
        if self.reg[FREE] < 2:
            self._grow_slabs()
        if self.reg[NODES] < self.reg[WIDEST] * self.n:
            self._grow_nodes(len(self.cons.sender) + int(self.reg[WIDEST]) * self.n)
        longest = np.partition(self.logs.count[self.logs.refs > 0], -2)[-2:]
        if int(longest.sum()) + self.words + 1 > self.size:
            self._widen(2 * self.size)

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        own = sum(array.nbytes for array in (*self.logs[:7], *self.cons[:3]))
        return super().bytes() + int(own)

    def _grow_slabs(self) -> None:
        logs, n, slabs = self.logs, self.n, len(self.logs.count)
        more = 2 * slabs
        self.logs = logs._replace(
            keys=longer(logs.keys, more * self.size),
            words=longer(logs.words, more * self.size),
            newest=longer(logs.newest, more * n),
            count=longer(logs.count, more),
            known=longer(logs.known, more),
            refs=longer(logs.refs, more),
            free=longer(logs.free, more),
        )
        have = int(self.reg[FREE])
        fresh = np.arange(more - 1, slabs - 1, -1)
        # The stack gives the last first: keep the slabs in use, warm in the cache, on top.
        self.logs.free[: have + len(fresh)] = np.concatenate([fresh, logs.free[:have]])
        self.reg[FREE] = have + len(fresh)

    def _widen(self, size: int) -> None:
        slabs = len(self.logs.count)
        keys = np.full((slabs, size), END, np.int64)
        words = np.zeros((slabs, size), np.uint64)
        keys[:, : self.size] = self.logs.keys.reshape(slabs, self.size)
        words[:, : self.size] = self.logs.words.reshape(slabs, self.size)
        self.logs = self.logs._replace(keys=keys.ravel(), words=words.ravel())
        self.size = size

    def _grow_nodes(self, size: int) -> None:
        cons, have = self.cons, len(self.cons.sender)
        following = longer(cons.following, size)
        following[have:] = np.arange(have + 1, size + 1)
        following[-1] = self.reg[NODE]
        self.cons = cons._replace(
            sender=longer(cons.sender, size), clock=longer(cons.clock, size), following=following
        )
        self.reg[NODE] = have
        self.reg[NODES] += size - have


def simulate(plan: Plan, n: int, *, pruned: bool, progress: Progress | None = None) -> State:
    """Run `optimal`, or `pruned`, over a plan."""
    state = State(plan, n)
    drive(
        state,
        lambda: run(
            plan, state.heap, state.trace, state.holding, state.logs, state.cons,
            state.scratch, state.reg, state.now, n, state.size, pruned,
        ),
        progress,
    )  # fmt: skip
    return state
