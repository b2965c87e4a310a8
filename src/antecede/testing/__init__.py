"""Test distributed programs deterministically: virtual time, a seeded network, hosts that crash.

Nothing here is specific to nodes: any asyncio program that takes a transport and a store can be
tested with it. A seed reproduces a run exactly, and hours of virtual time pass in milliseconds::

    from antecede.testing import Host, Network, run

    async def main() -> None:
        network = Network(seed=7, delay=(0.001, 0.5), loss=0.1, duplication=0.1)
        ...

    run(main())

:func:`loopback_nodes` opens real nodes in one program, on loopback.
"""

from antecede.testing.clock import DeadlockError, VirtualLoop, run
from antecede.testing.hosts import Disk, Host
from antecede.testing.loopback import Service, loopback_nodes
from antecede.testing.network import Network, NetworkTransport

__all__ = [
    "DeadlockError",
    "Disk",
    "Host",
    "Network",
    "NetworkTransport",
    "Service",
    "VirtualLoop",
    "loopback_nodes",
    "run",
]
