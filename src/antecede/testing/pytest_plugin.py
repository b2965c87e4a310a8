"""``pytest --causal-order``: fail tests whose traces or event logs break causal order.

When a test is over, the spans that ended during it, by any providers of the OpenTelemetry SDK, and
the logs that it wrote to the folder of the fixture ``event_logs`` are audited. A test fails only if
order was broken; a page with the diagram then goes to the folder ``--causal-order-out``. If a log
does not suffice to decide, the report of the test says why.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

#: The key under which a test keeps its folder of event logs.
LOGS = pytest.StashKey[Path]()
COLLECTOR = pytest.StashKey["Collector"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("antecede", "causal order of messages")
    group.addoption(
        "--causal-order",
        action="store_true",
        help="fail tests whose OpenTelemetry spans or event logs break causal order",
    )
    group.addoption(
        "--causal-order-out",
        default="causal-order",
        metavar="FOLDER",
        help="folder for the pages of tests that broke it (default: %(default)s)",
    )


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin to collect spans before a conftest.py may make providers."""
    pytest_configure(early_config)


def pytest_configure(config: pytest.Config) -> None:
    """Begin to collect spans, unless collection has begun."""
    early = getattr(config.known_args_namespace, "causal_order", False)
    if (early or config.getoption("causal_order", default=False)) and COLLECTOR not in config.stash:
        config.stash[COLLECTOR] = Collector()
        config.stash[COLLECTOR].start()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the SDK as it was."""
    if COLLECTOR in config.stash:
        config.stash[COLLECTOR].stop()


class Collector:
    """Collects every span that ends: providers made while it collects export to it."""

    def __init__(self) -> None:
        self._spans: list[str] = []
        self._lock = threading.Lock()
        self._init: Any = None

    def start(self) -> None:
        """Collect from all providers made from now on; without the SDK there are none."""
        try:
            from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
        except ImportError:
            return
        collector, init = self, TracerProvider.__init__
        provided: Any = TracerProvider

        class Processor(SpanProcessor):
            def on_end(self, span: Any) -> None:
                collector.add(span.to_json(indent=None))

        def begin(provider: Any, *args: Any, **options: Any) -> None:
            init(provider, *args, **options)
            provider.add_span_processor(Processor())

        self._init = init
        provided.__init__ = begin

    def stop(self) -> None:
        """Stop collecting from providers made from now on."""
        if self._init is not None:
            from opentelemetry.sdk.trace import TracerProvider

            provided: Any = TracerProvider
            provided.__init__ = self._init

    def add(self, span: str) -> None:
        """Add a span, as JSON."""
        with self._lock:
            self._spans.append(span)

    def take(self) -> list[str]:
        """Return the spans since the last call."""
        with self._lock:
            spans, self._spans = self._spans, []
        return spans


@pytest.fixture
def event_logs(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder: the event logs that a test writes there are audited as one."""
    folder = tmp_path / "event-logs"
    folder.mkdir()
    request.node.stash[LOGS] = folder
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Audit a test's spans and event logs, once it has passed."""
    report = yield
    collector = item.config.stash.get(COLLECTOR, None)
    if collector is None or call.when == "setup":
        return report
    spans = collector.take()  # At teardown this empties it for the next test.
    broken = []
    for what, told, page in _judged(item, spans) if call.when == "call" and report.passed else ():
        if page is None:
            report.sections.append(("causal order", f"{what}: {told}"))
        else:
            broken.append(f"Causal order was broken in the {what}. {told}\nDrawn in {page}")
    if broken:
        report.outcome, report.longrepr = "failed", "\n".join(broken)
    return report


def _judged(item: pytest.Item, spans: list[str]) -> Iterator[tuple[str, str, Path | None]]:
    """Yield what was audited, the text to report, and a page with the diagram if order broke."""
    from antecede.audit.api import audit
    from antecede.errors import AntecedeError
    from antecede.events.log import Source

    folder = item.stash.get(LOGS, None)
    given: list[tuple[str, Any]] = []
    if spans:
        data = "\n".join(json.dumps(json.loads(span)) for span in spans).encode()
        given.append(("spans", Source(Path("spans of the test"), "spans", data=data)))
    if folder is not None and any(folder.iterdir()):
        given.append(("event logs", sorted(folder.iterdir())))
    for what, log in given:
        try:
            found = audit(log)
        except AntecedeError as error:
            yield what, str(error), None
            continue
        if found.verdict == "undecidable":
            yield what, f"undecidable: {found.reason}", None
        elif found.verdict == "broken":
            out = Path(item.config.getoption("--causal-order-out"))
            out.mkdir(parents=True, exist_ok=True)
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", item.nodeid)[-120:]
            page = found.report(out / f"{name}-{what.replace(' ', '-')}.html")
            worst = found.explain(**_first(found)) if found.summary["violations"] else ""
            yield what, f"{found.reason}\n{worst}", page


def _first(found: Any) -> dict[str, str]:
    row = found.records["violations"][0]
    return {"process": row["process"], "message": row["message"]}
