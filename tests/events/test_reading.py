"""Reading logs as users have them: detected formats, many files, compressed, renamed."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede import events as eventlog
from antecede.audit.api import audit_table
from antecede.errors import LogError, UsageError
from antecede.events.formats import FORMATS
from antecede.events.log import Source
from antecede.events.sources import aliases_of, form_of, read, read_logs, sources_in, table_of
from tests.support.histories import LATE
from tests.support.traces import REVERSED, console, jaeger, otlp, zipkin

#: What GoVector writes: a line with the clock, then the text.
GOVECTOR = "".join(
    f"{host} {json.dumps(clock)}\n{text}\n"
    for host, clock, text in [
        ("a", {"a": 1}, "Initialization Complete"),
        ("a", {"a": 2}, "Sending 1 2 3"),
        ("b", {"b": 1}, "Initialization Complete"),
        ("b", {"b": 2, "a": 2}, "got 1 2 3"),
    ]
)


TRACES: dict[str, Callable[..., str]] = {
    "otlp": otlp,
    "jaeger": jaeger,
    "zipkin": zipkin,
    "spans": console,
}
KNOWN = ["parquet", "shiviz", "edges", "csv", "jsonl", *TRACES]


def content_of(form: str) -> bytes:
    """Return the beginning of a file of each format that the package writes or tests know."""
    out = io.BytesIO()
    if form == "parquet":
        pq.write_table(table_of(LATE), out)
        return out.getvalue()
    if form in TRACES:
        return TRACES[form](REVERSED).encode()
    if form == "shiviz":
        return GOVECTOR.encode()
    if form == "edges":
        return b"# who to when\n1 2 10\n2 3 20\n"
    if form == "csv":
        return b"process,seq,kind,message,dests,time\na,1,send,m1,b;c,0.5\nb,1,deliver,m1,,1\n"
    rows = [{"process": e.process, "seq": e.seq, "kind": e.kind, "message": e.message}
            for e in LATE]  # fmt: skip
    return "\n".join(map(json.dumps, rows)).encode()


@pytest.mark.parametrize("suffix", ["", ".txt", ".log", ".json", ".csv", ".parquet", ".jsonl.gz"])
@pytest.mark.parametrize("form", KNOWN)
def test_the_content_tells_the_format_whatever_the_name(
    tmp_path: Path, form: str, suffix: str
) -> None:
    path = tmp_path / f"log{suffix}"
    path.write_bytes(content_of(form))
    assert form_of(Source(path)) == form
    assert read(Source(path)).form == form


def test_the_log_that_govector_writes_is_not_an_edge_list(tmp_path: Path) -> None:
    path = tmp_path / "a-Log.txt"
    path.write_text(GOVECTOR)
    assert len(read(Source(path)).events) == 4
    said = r"as edges: 4 of its 7 rows are not valid; line 2: .*it looks like shiviz: give --format"
    with pytest.raises(LogError, match=said):
        read(Source(path, form="edges"))


def test_a_log_of_mostly_bad_rows_is_refused_with_the_true_number(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    good = '{"process":"a","seq":1,"kind":"local"}\n'
    path.write_text(good * 2 + "junk\n" * 2)
    assert read(Source(path)).bad == 2
    path.write_text(good * 2 + "junk\n" * 3)
    with pytest.raises(
        LogError, match=r"as jsonl: 3 of its 5 rows are not valid; line 3: not JSON; got 'junk'"
    ) as refused:
        read(Source(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("packing", ["gzip", "zstd", "bz2"])
@pytest.mark.parametrize("form", KNOWN)
def test_compressed_logs_are_read(tmp_path: Path, form: str, packing: str) -> None:
    plain, path = tmp_path / "plain", tmp_path / "log.packed"
    plain.write_bytes(content_of(form))
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, packing) as file:
        file.write(content_of(form))
    path.write_bytes(out.getvalue().to_pybytes())
    assert read(Source(path)).events.equals(read(Source(plain)).events)


def test_half_a_compressed_log_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    lines = "\n".join(f'{{"process":"a","seq":{i},"kind":"local"}}' for i in range(5000))
    path.write_bytes(gzip.compress(lines.encode())[:-400])
    with pytest.raises(LogError, match=r"cannot read .* as jsonl: ") as refused:
        read(Source(path))
    assert "\n" not in str(refused.value)


def test_each_service_may_write_its_own_file(tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "deep"
    folder.mkdir(parents=True)
    for process in "abc":
        eventlog.write(folder / f"{process}.jsonl", [e for e in LATE if e.process == process])
    (folder / "d.jsonl").write_text("")
    (folder / ".hidden").write_text("not a log")
    found = read(sources_in([tmp_path / "logs"], Source(Path())))
    (late,) = audit_table(found.events).tables["violations"].to_pylist()
    assert (late["message"], late["overtaker"]) == ("m1", "m3")
    several = sources_in([folder / "a.jsonl", folder / "b.jsonl"], Source(Path()))
    assert len(read(several).events) == 4
    (folder / "b.jsonl").write_text("junk\n" + (folder / "b.jsonl").read_text())
    (row,) = read(sources_in([tmp_path / "logs"], Source(Path()))).rejected.to_pylist()
    assert (row["source"], row["line"]) == ("deep/b.jsonl", 1)


def test_formats_may_be_mixed_if_their_events_can_be_one_log(tmp_path: Path) -> None:
    eventlog.write(tmp_path / "a.jsonl", LATE[:2])
    eventlog.write(tmp_path / "b.csv", LATE[2:4])
    pq.write_table(table_of(LATE[4:]), tmp_path / "c.parquet")
    found = read(sources_in([tmp_path], Source(Path())))
    assert audit_table(found.events).summary["violations"] == 1
    (tmp_path / "d.txt").write_text("1 2 3\n")
    with pytest.raises(LogError, match=r"cannot read edges .* together with jsonl, csv, parquet"):
        read(sources_in([tmp_path], Source(Path())))
    (tmp_path / "d.txt").write_text(GOVECTOR)
    with pytest.raises(LogError, match="the process 'a' has events in jsonl and in shiviz"):
        read(sources_in([tmp_path], Source(Path())))


def test_clocks_count_events_of_all_files(tmp_path: Path) -> None:
    """GoVector writes one file per process; an entry counts events in another file."""
    (tmp_path / "a-Log.txt").write_text(GOVECTOR[: GOVECTOR.index('b {"b"')])
    (tmp_path / "b-Log.txt").write_text(GOVECTOR[GOVECTOR.index('b {"b"') :])
    patterns: dict[str, Any] = {"send": "Sending (?<message>.*)", "deliver": "got (?<message>.*)"}
    found = read(sources_in([tmp_path], Source(Path(), **patterns)))
    assert found.events.equals(read(_written(tmp_path / "whole.log", GOVECTOR, patterns)).events)
    assert [dict(clock) for clock in found.events.column("clock").to_pylist()][3] == {"a": 2}


def _written(path: Path, text: str, options: dict[str, Any]) -> Source:
    path.write_text(text)
    return Source(path, **options)


def test_edge_lists_are_one_in_the_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("1 2 10\n2 3 30\n")
    (tmp_path / "y.txt").write_text("2 1 20\nnot an edge\n")
    found = read(sources_in([tmp_path], Source(Path())))
    sends = [row for row in found.events.to_pylist() if row["kind"] == "send"]
    assert [row["message"] for row in sends] == ["e1", "e2/1", "e2"]
    assert found.rejected.to_pylist()[0]["source"] == "y.txt"


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "edges", "shiviz"])
@pytest.mark.parametrize("option", ["send", "deliver", "pattern", "delimiter"])
def test_options_that_a_format_ignores_are_an_error(tmp_path: Path, form: str, option: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(content_of(form))
    options: dict[str, Any] = {option: r"(?<host>a) (?<clock>.*)\n(?<event>.*)(?<message>)"}
    source = Source(path, form=form, **options)
    if form == "shiviz":
        read_logs([source])
        return
    with pytest.raises(UsageError, match=f"--{option} has no effect on the format {form}; leave"):
        read(source)


def test_hosts_may_have_other_names_elsewhere(tmp_path: Path) -> None:
    text = 'alice {"alice":1}\nto 10.0.0.2:80: hi\nbob {"bob":1, "alice":1}\nfrom 10.0.0.1: hi\n'
    patterns = {"send": r"to (?<to>[\d.]+):80: (?<message>.*)",
                "deliver": r"from (?<from>[\d.]+): (?<message>.*)"}  # fmt: skip
    apart = read(_written(tmp_path / "x.log", text, patterns))
    assert apart.undecidable is not None
    aliases = {"aliases": aliases_of(["10.0.0.1=alice", "10.0.0.2=bob"])}
    found = read(_written(tmp_path / "x.log", text, patterns | aliases))
    assert found.undecidable is None
    assert found.events.column("message").to_pylist() == ["alice>bob hi"] * 2
    rows = '{"process":"10.0.0.1","seq":1,"kind":"send","message":"m","dests":["10.0.0.2","c"]}'
    (row,) = read(_written(tmp_path / "x.jsonl", rows, aliases)).events.to_pylist()
    assert (row["process"], row["dests"]) == ("alice", ["bob", "c"])
    for bad, reason in (("x", "use NAME=PROCESS"), ("=x", "use NAME"), ("a=", "use NAME")):
        with pytest.raises(UsageError, match=reason):
            aliases_of([bad])
    with pytest.raises(UsageError, match="gives 'a' two names, 'b' and 'c'"):
        aliases_of(["a=b", "a=c"])


@pytest.mark.parametrize("form", list(TRACES))
def test_spans_may_link_to_those_of_another_file(tmp_path: Path, form: str) -> None:
    whole = tmp_path / "whole.json"
    whole.write_text(TRACES[form](REVERSED))
    folder = tmp_path / "traces"
    folder.mkdir()
    for service in ("checkout", "billing", "mail"):
        own = [span for span in REVERSED if span.service == service]
        (folder / f"{service}.json").write_text(TRACES[form](own))
    found = read(sources_in([folder], Source(Path())))
    keys = [("process", "ascending"), ("seq", "ascending")]
    assert found.form == form
    assert found.events.sort_by(keys).equals(read(Source(whole)).events.sort_by(keys))


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(content_of("jsonl"),))
    writer.start()
    found = read(sources_in([path], Source(Path())))
    writer.join()
    assert len(found.events) == len(LATE)


def test_every_format_is_told_by_content_but_those_with_options() -> None:
    assert {*KNOWN, "text", "records"} == set(FORMATS)


def test_a_list_of_objects_with_numbers_is_not_a_clock(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    span = {"traceId": "1", "id": "2", "localEndpoint": {"serviceName": "a"}, "tags": {"n": 5}}
    path.write_text(json.dumps([span]))
    assert form_of(Source(path)) == "zipkin"


def test_words_alone_tell_no_format(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("three words here\nand some more\n")
    with pytest.raises(UsageError, match="neither the name nor the content of 'notes' tells"):
        read(Source(path))
    with pytest.raises(UsageError, match="can be read only once"):
        sources_in([Path("-"), Path("-")], Source(Path()))
