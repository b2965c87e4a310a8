"""Wire sizes, measured with the real codec on the plain engine; never estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from antecede.sim.plain import PlainRun
from antecede.wire import Codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    import antecede
    from antecede.sim.metrics import Metric
    from antecede.sim.schedule import Schedule

# At least this many copies and messages per process precede the sample: everyone must have heard
# of everyone, several times.
LEAD, LEAD_MESSAGES = 30, 8


def wire_sizes(
    protocol: str,
    schedule: Schedule,
    options: Mapping[str, Any],
    sample: int,
    *,
    sent_before: int = 0,
) -> dict[str, Metric]:
    """Return mean encoded and model bytes of the control of `sample` copies.

    Runs the beginning of the schedule: a lead (:data:`LEAD`), then the sample. All members share
    one codec, so names are numbers on the wire. With `sent_before`, every process continues its
    message numbers from there, as late in a long run: larger numbers take more bytes. (Protocols
    that count per channel still start their counts from 0.)
    """
    sent = min(LEAD_MESSAGES * schedule.n, schedule.messages)
    lead = max(LEAD * schedule.n, int(schedule.offsets[sent]))
    lead = min(lead, max(0, schedule.copies - sample))
    rows = int((schedule.offsets < lead + sample).sum())
    run = PlainRun(protocol, schedule.head(rows), options, sent_before=sent_before)
    codec = Codec(run.endpoints[0])
    wire: list[int] = []
    model: list[int] = []

    def measure(packet: antecede.Packet, copy: int) -> None:
        if copy >= lead and len(wire) < sample:
            wire.append(codec.wire_bytes(packet))
            model.append(int(run.model_bytes[copy]))

    run.on_packet = measure
    run.run()
    count = max(1, len(wire))
    return {
        "wire_bytes_per_copy": sum(wire) / count if wire else None,
        "wire_sample_model_bytes": sum(model) / count if wire else None,
        "wire_sample": len(wire),
    }
