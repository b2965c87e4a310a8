"""``antecede demo``: a shop over a mock cluster of Kafka, without order and with it."""

from __future__ import annotations

import dataclasses
import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from antecede.cli.options import AsJson, Out
from antecede.cli.shown import say, told_if_slow
from antecede.logs.reader import Order

_WORDS: dict[Order, str] = {"off": "without order", "enforce": "with order"}


class What(StrEnum):
    """What can be shown."""

    kafka = "kafka"


def demo(
    what: Annotated[What, typer.Argument(metavar="kafka", help="What to show.")],
    *,
    orders: Annotated[int, typer.Option(min=1, max=10_000, help="How many orders.")] = 150,
    seed: Annotated[
        int,
        typer.Option(help="Random seed for keys and handling times; threads still race."),
    ] = 1,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Run a shop over Kafka, first without order, then with it, and audit what happened.

    The cluster is a mock one inside this process: nothing has to be installed or started. A till
    answers orders with payments and payments with shipments; a group of two instances reads all
    three topics. Its event logs and the audit's page are written to a folder.

    Example: `antecede demo kafka`
    """
    from antecede.audit.files import audit_here
    from antecede.audit.results import write_results
    from antecede.events.log import Source
    from antecede.logs.mock import cluster
    from antecede.logs.shop import TOPICS, Shop
    from antecede.runs import RunFolder

    options = {"what": what.value, "orders": orders}
    with RunFolder.open(out, "demo", options=options, seed=seed) as folder:
        audited, results = {}, {}
        for order, words in _WORDS.items():
            events = folder.stage / f"{order}.jsonl"
            with told_if_slow(f"running the shop {words}"), cluster(TOPICS) as servers:
                book = Shop(servers, orders, seed).run(order, events)
            (found,) = audit_here([Source(events)]).values()
            audited[words] = dataclasses.replace(found, name=f"shop, execution {words}")
            results[words] = {
                "order": order,
                "records": 3 * orders,
                "too_early": len(book.too_early),
                "verdict": found.audit.verdict,
                "violations": found.audit.summary["violations"],
                "seconds": book.seconds,
                "metrics": book.metrics,
            }
            if not as_json:
                _show(words, results[words])
        summary = write_results(folder, audited)
    if as_json:
        typer.echo(json.dumps({**summary, "result": {"runs": results}}, indent=2))
    else:
        if not results[_WORDS["off"]]["too_early"]:
            say(
                "Nothing came early, so this run shows nothing: with few orders that happens. "
                f"Try more: antecede demo kafka --orders {max(150, 2 * orders)}"
            )
        say(f"Event logs and page: {folder.path / 'index.html'}")


def _show(words: str, result: dict[str, Any]) -> None:
    figures = result["metrics"]
    text = (
        f"{words}: the view processed {result['too_early']} of {result['records']} records before "
        f"what led to them; the audit says: {result['verdict']}, {result['violations']} violations."
    )
    if result["order"] == "enforce":
        text += (
            f" {figures['early']:.0f} records came early and waited, "
            f"{1000 * figures['waited'] / max(1, figures['early']):.0f} ms on average."
        )
    say(text[0].upper() + text[1:])
