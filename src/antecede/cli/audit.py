"""``antecede audit``: check a log for violations of causal order."""

from __future__ import annotations

import json
import re
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecede.cli.options import (
    SPARK,
    Alias,
    AsJson,
    Delimiter,
    DeliverPattern,
    Execution,
    Field,
    Form,
    Local,
    LogsOrNone,
    Master,
    Out,
    Pattern,
    SendPattern,
    Strict,
    Wait,
    is_given,
    log_options,
    require_no_spark,
    say_rejected,
    sources_of,
)
from antecede.cli.shown import say, told_if_slow
from antecede.errors import UsageError
from antecede.events.lines import ours
from antecede.events.tables import SENT_TWICE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from antecede.audit.results import AuditedFile
    from antecede.audit.verdicts import Asked
    from antecede.events.log import Source

STARTING = "starting Spark to audit in windows"
#: The help's panels for options about the verdict, and about other tools.
_VERDICT, _TOOLS = "Verdict and exit status", "For other tools"
AssumeComplete = Annotated[
    bool,
    typer.Option(
        "--assume-complete",
        rich_help_panel=_VERDICT,
        help="Judge by the events present, even if missing ones could change the verdict.",
    ),
]
CompleteUntilEnd = Annotated[
    bool,
    typer.Option(
        "--complete-until-end",
        rich_help_panel=_VERDICT,
        help="Each process's log is complete up to its last event. Default for JSON lines and CSV "
        "without gaps.",
    ),
]
NotComplete = Annotated[
    bool, typer.Option("--not-complete", rich_help_panel=_VERDICT, help="It is not.")
]
MaxViolations = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        show_default=False,
        rich_help_panel=_VERDICT,
        help="Exit with 0 if at most this many violations count.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        metavar="REGEX",
        rich_help_panel=_VERDICT,
        help="Do not count what matches in 'SENDER -> PROCESS: MESSAGE'. May be repeated.",
    ),
]
Junit = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=_TOOLS, help="Write JUnit's XML."),
]
Sarif = Annotated[
    Path | None,
    typer.Option(metavar="FILE", rich_help_panel=_TOOLS, help="Write the violations as SARIF."),
]
Github = Annotated[
    bool,
    typer.Option("--github", rich_help_panel=_TOOLS, help="Print annotations for GitHub Actions."),
]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Receive OTLP over HTTP, such as at 127.0.0.1:4318; audit when stopped.",
    ),
]
Every = Annotated[
    float | None,
    typer.Option(min=0.1, metavar="SECONDS", help="With --listen: audit this often too."),
]
Windows = Annotated[
    int | None,
    typer.Option(metavar="N", rich_help_panel=SPARK, help="Windows to cut the log into."),
]
Memory = Annotated[
    str,
    typer.Option(
        metavar="SIZE",
        rich_help_panel=SPARK,
        show_default=False,
        help="Memory of the embedded Spark. Default: 4g.",
    ),
]
NoPage = Annotated[bool, typer.Option("--no-page", help="Do not write index.html.")]
#: How many violations the terminal lists.
WORST = 10
RUN_BY_RUN = (
    "If a process was restarted and numbers its messages anew, audit each run by itself: "
    "messages of different runs that share an id count as one."
)
#: Logs with fewer events are audited faster without Spark, on two cores.
SPARK_FROM = 20_000_000
EXIT_CODES = {"ordered": 0, "broken": 1, "undecidable": 2}


def audit(
    ctx: typer.Context,
    logs: LogsOrNone = None,
    *,
    form: Form = None,
    pattern: Pattern = None,
    send: SendPattern = None,
    deliver: DeliverPattern = None,
    delimiter: Delimiter = None,
    execution: Execution = None,
    alias: Alias = None,
    field: Field = None,
    strict: Strict = False,
    local: Local = False,
    windows: Windows = None,
    out: Out = None,
    master: Master = None,
    wait: Wait = 180.0,
    memory: Memory = "4g",
    assume_complete: AssumeComplete = False,
    complete_until_end: CompleteUntilEnd = False,
    not_complete: NotComplete = False,
    max_violations: MaxViolations = 0,
    ignore: Ignore = None,
    no_page: NoPage = False,
    junit: Junit = None,
    sarif: Sarif = None,
    github: Github = False,
    listen: Listen = None,
    every: Every = None,
    as_json: AsJson = False,
) -> None:
    """Check whether, where and how often causal order was broken in a log.

    Writes a folder with tables and a page that draws the worst violations, for each execution of
    several. Exit status: 0 order was kept, or violations are allowed; 1 it was broken; 2 the log
    cannot tell, or the call is wrong.

    Example: `antecede audit examples/shop.jsonl`
    """
    from antecede.audit.results import compiled, require_windows
    from antecede.audit.verdicts import Asked

    if complete_until_end and not_complete:
        msg = "--complete-until-end and --not-complete contradict each other; leave one out"
        raise UsageError(msg)
    until_end = True if complete_until_end else False if not_complete else None
    require_windows(windows)
    wants_spark = wants_spark_only(ctx, local=local)
    call = _Call(
        form=form,
        how=(pattern, send, deliver, delimiter),
        execution=execution,
        alias=alias,
        fields=field,
        strict=strict,
        engine="spark" if wants_spark else "local" if local else "",
        windows=windows,
        out=out,
        spark={"master": master, "memory": memory, "wait": wait},
        asked=Asked(assume_complete=assume_complete, complete_until_end=until_end),
        max_violations=max_violations,
        ignore=ignore or [],
        ignored=compiled(ignore or []),
        page=not no_page,
        junit=junit,
        sarif=sarif,
        github=github,
        as_json=as_json,
    )
    if bool(logs) == bool(listen):
        what = "both a log and --listen" if logs else "neither a log nor --listen"
        msg = f"{what} is given; name the log, or give --listen HOST:PORT to receive one"
        raise UsageError(msg)
    if every is not None and not listen:
        msg = "--every is for --listen; leave it out"
        raise UsageError(msg)
    raise typer.Exit(_heard(call, listen, every) if listen else call.run(logs or []))


@dataclass(frozen=True)
class _Call:
    """The request of the command line."""

    form: str | None
    how: tuple[str | None, str | None, str | None, str | None]
    execution: str | None
    alias: list[str] | None
    fields: list[str] | None
    strict: bool
    engine: str
    windows: int | None
    out: Path | None
    spark: Mapping[str, Any]
    asked: Asked
    max_violations: int
    ignore: list[str]
    ignored: Sequence[re.Pattern[str]]
    page: bool
    junit: Path | None
    sarif: Path | None
    github: bool
    as_json: bool

    def run(self, logs: list[Path], *, are_kept: bool = True) -> int:
        """Audit files, write and print the results, and return the exit status.

        Annotations do not point at files that are not kept.
        """
        from antecede.audit.results import allowance, write_results
        from antecede.audit.small import audit_small, form_of_small
        from antecede.runs import RunFolder

        is_odd = self.strict or self.execution or self.alias or self.fields or any(self.how)
        small = None if is_odd or self.engine else form_of_small(logs, self.form)
        read = partial(
            sources_of, logs, self.form, self.how, self.alias, self.fields, strict=self.strict
        )
        run = _Run(read, self.asked, self.execution, self.windows, self.engine)
        options = {
            **(_small_options(logs, small) if small else log_options(run.sources)),
            "execution": self.execution,
            "engine": self.engine or None,
            "windows": self.windows,
            "assume_complete": self.asked.assume_complete,
            "complete_until_end": self.asked.complete_until_end,
            "max_violations": self.max_violations,
            "ignore": self.ignore,
            "master": self.spark["master"],
        }
        with RunFolder.open(self.out, "audit", options=options) as folder, ExitStack() as sessions:
            audited = (audit_small(logs, small, self.asked) if small else None) or run.here()
            if audited is None:
                from antecede.spark.session import session

                with told_if_slow(STARTING):
                    spark = sessions.enter_context(session(app="antecede-audit", **self.spark))
                audited = run.on(spark)
                if not self.spark["master"]:
                    _hint(sum(one.audit.summary["events"] for one in audited.values()))
            allowed = {
                label: allowance(one.audit, self.max_violations, self.ignored)
                for label, one in audited.items()
            }
            summary = write_results(folder, audited, allowed, has_page=self.page)
        results = summary["result"].get("executions", [summary["result"]])
        _warn(results, list(audited.values()))
        self._tell_others(results, audited, [str(path) for path in logs if are_kept])
        if self.as_json:
            typer.echo(json.dumps({**summary, "violations": _all_violations(audited)}, indent=2))
        else:
            for result, one in zip(results, audited.values(), strict=True):
                _show(result, one, self.ignored, self.max_violations, is_one=len(results) == 1)
            path = folder.path
            say(f"Tables and page: {path / 'index.html'}" if self.page else f"Tables: {path}")
        return exit_code(results)

    def _tell_others(
        self,
        results: Sequence[Mapping[str, Any]],
        audited: Mapping[str, AuditedFile],
        paths: Sequence[str],
    ) -> None:
        """Write the files and annotations that continuous integration reads."""
        if not (self.junit or self.sarif or self.github):
            return
        import antecede
        from antecede.audit.results import label, not_ignored
        from antecede.audit.sentences import grouped, missing_sentence, sentence
        from antecede.report import ci

        found = []
        for result, one in zip(results, audited.values(), strict=True):
            late = not_ignored(one.audit, "violations", self.ignored)
            told = [
                f"{label(row)}. {sentence(row, beyond_messages=result['beyond_messages'])}"
                for row in late
            ]
            lost = not_ignored(one.audit, "missing", self.ignored)
            rest = [f"{label(row)}. {missing_sentence(row)}" for row in lost]
            kinds = [_in_words(alike, result) for alike in grouped(late)]
            verdict, reason = result["verdict"], result["reason"]
            told, kinds = (told + rest, kinds + rest) if verdict == "broken" else ([], [])
            place = paths[0] if len(paths) == 1 else ""
            found.append(
                ci.Judged(one.name, place, verdict, reason, told, kinds, result["allowed"])
            )
        for path, text in (
            (self.junit, ci.junit(found)),
            (self.sarif, ci.sarif(found, antecede.__version__)),
        ):
            if path is not None:
                with ours("write", path):
                    path.write_text(text, encoding="utf-8")
        for line in ci.workflow_commands(found) if self.github else ():
            typer.echo(line)


def _heard(call: _Call, address: str, every: float | None) -> int:
    """Receive spans until stopped, audit them regularly and at the end; return the status."""
    from antecede.events.listener import Listener

    # Shells let background processes ignore SIGINT; scripts stop them by SIGTERM.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="antecede-") as place:
        path = Path(place) / "received.otlp.json"
        with Listener(address, path) as listener:
            where = f"http://{listener.address}/v1/traces"
            typer.echo(f"antecede: receiving OTLP at {where}; stop it to audit (Ctrl-C)", err=True)
            judged = 0
            try:
                while True:
                    time.sleep(every or 3600)
                    if every and listener.requests > judged:
                        judged = listener.requests
                        call.run([path], are_kept=False)
            except KeyboardInterrupt:
                pass
        if not listener.requests:
            base = where.removesuffix("/v1/traces")
            msg = f"nothing came to {where}; set OTEL_EXPORTER_OTLP_ENDPOINT={base}"
            raise UsageError(msg)
        typer.echo(f"antecede: auditing what came (requests: {listener.requests:,})", err=True)
        return call.run([path], are_kept=False)


@dataclass
class _Run:
    """One audit of a log that is not small, by the requested engine or the one that suits it."""

    read: Callable[[], list[Source]]
    asked: Asked
    execution: str | None
    windows: int | None
    engine: str

    @cached_property
    def sources(self) -> list[Source]:
        """The files of the log."""
        return self.read()

    def here(self) -> dict[str, AuditedFile] | None:
        """Audit in this process; None if Spark is requested, or better."""
        from antecede.audit.small import BYTES_MAX

        if self.engine != "local":
            sizes = (s.path.stat().st_size for s in self.sources if s.data is None)
            folders = any(source.path.is_dir() for source in self.sources)
            if self.engine == "spark" or folders or sum(sizes) > BYTES_MAX:
                return None
        from antecede.audit.files import audit_here

        return audit_here(self.sources, self.execution, self.asked, engine=self.engine)

    def on(self, spark: SparkSession) -> dict[str, AuditedFile]:
        """Audit on Spark."""
        from antecede.audit.files import audit_on

        return audit_on(spark, self.sources, self.windows, self.execution, self.asked)


def wants_spark_only(ctx: typer.Context, *, local: bool) -> bool:
    """Return whether options of Spark were given; refuse them together with --local."""
    require_no_spark(ctx, local=local)
    return any(is_given(ctx, name) for name in ("master", "windows", "memory", "wait"))


def _small_options(logs: Sequence[Path], form: str) -> dict[str, Any]:
    """Return the options for reading a small log, as ``log_options`` does."""
    names = [str(path) for path in logs]
    given: dict[str, Any] = {"log": names[0] if len(names) == 1 else names, "format": form}
    given |= dict.fromkeys(("pattern", "send", "deliver", "delimiter"))
    return given | {"alias": {}, "field": {}, "strict": False}


def _hint(events: int) -> None:
    """Say if a log is too small for Spark to pay off."""
    if events < SPARK_FROM:
        why = "Spark pays with more cores, or if a log does not fit into memory"
        typer.echo(f"antecede: {events:,} events are few; --local is faster ({why})", err=True)


def _warn(results: Sequence[Mapping[str, Any]], audited: Sequence[AuditedFile]) -> None:
    """Print to standard error what cannot be decided, and why."""
    for result, one in zip(results, audited, strict=True):
        if result["verdict"] == "undecidable":
            typer.echo(f"antecede: undecidable: {one.name}: {result['reason']}", err=True)


def exit_code(results: Sequence[Mapping[str, Any]]) -> int:
    """Return the exit status of the worst verdict: broken, else undecidable, else ordered."""
    codes = {0 if one["allowed"] else EXIT_CODES[one["verdict"]] for one in results}
    return next(code for code in (1, 2, 0) if code in codes)


def _all_violations(audited: Mapping[str, AuditedFile]) -> list[dict[str, Any]]:
    """Return the rows of the violations table, with the execution if there are several."""
    rows = {label: one.audit.records["violations"] for label, one in audited.items()}
    if len(rows) == 1:
        return next(iter(rows.values()))
    return [{"execution": label, **row} for label, found in rows.items() for row in found]


def _in_words(alike: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> str:
    """Return one line about a violation, or about several that are alike."""
    from antecede.audit.results import label
    from antecede.audit.sentences import kind_of, sentence

    words = sentence(alike[0], beyond_messages=result["beyond_messages"])
    return f"{label(alike[0])}. {words}" if len(alike) == 1 else f"{kind_of(alike)}: {words}"


def _show_violations(rows: list[dict[str, Any]], result: dict[str, Any], most: int) -> None:
    """List the worst violations that count, and say which do not count or are allowed."""
    from antecede.audit.sentences import grouped

    groups = grouped(rows)
    if rows:
        some = (
            f"The worst {WORST} of {len(groups):,} kinds" if len(groups) > WORST else "Worst first"
        )
        say(f"{some} (violations.csv has all):")
    for alike in groups[:WORST]:
        say(f"  {_in_words(alike, result)}")
    if result["ignored"]:
        say(f"Ignored: {result['ignored']:,}.")
    if result["allowed"]:
        count = f"{result['counted']:,}"
        say(f"Violations that count: {count}; allowed: {most:,}; exit status 0.")


def _show(
    result: dict[str, Any],
    audited: AuditedFile,
    ignored: Sequence[re.Pattern[str]],
    most: int,
    *,
    is_one: bool,
) -> None:
    """Print the verdict on one log or execution, and its results."""
    from antecede.audit.results import not_ignored
    from antecede.report.audit_page import lateness_in_words, lead

    if not is_one:
        say(f"{result['execution']} ({result['folder']}): {result['verdict']}")
    if result["verdict"] != "undecidable":
        say(lead(result))
        if late := lateness_in_words(result):
            say(late)
    if result["findings"]:
        counts = result["findings_by_kind"].items()
        kinds = ", ".join(f"{kind} ({count:,})" for kind, count in counts)
        say(f"Inconsistencies: {kinds}.")
        if SENT_TWICE in result["findings_by_kind"]:
            say(RUN_BY_RUN)
    say_rejected(result)
    _show_violations(not_ignored(audited.audit, "violations", ignored), result, most)
    _show_missing(not_ignored(audited.audit, "missing", ignored))


def _show_missing(rows: list[dict[str, Any]]) -> None:
    """List the messages that never arrived although an effect did."""
    from antecede.audit.results import label
    from antecede.audit.sentences import missing_sentence

    if rows:
        say(f"No delivery in the log, although an effect of it has one ({len(rows):,}):")
    for row in rows[:WORST]:
        say(f"  {label(row)}. {missing_sentence(row)}")
    if len(rows) > WORST:
        say("missing.csv has all.")
