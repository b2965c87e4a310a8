"""A receiver of OTLP over HTTP, which writes the spans of OpenTelemetry exporters to a file."""

from __future__ import annotations

import gzip
import io
import json
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from antecede.errors import LogError, UsageError
from antecede.events.formats.otlp import text_of

#: The most bytes of one request, packed or not.
BODY_MAX = 64 << 20
#: Seconds after which a silent client is disconnected.
PATIENCE = 30
PATH = "/v1/traces"


def address_of(text: str) -> tuple[str, int]:
    """Parse HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        msg = f"cannot read the address {text!r}; use HOST:PORT, such as 127.0.0.1:4318"
        raise UsageError(msg)
    return host.strip("[]"), int(port)


class Listener:
    """Listens at an address and appends what arrives to a file; use as a context manager."""

    def __init__(self, address: str, path: Path) -> None:
        self.path = path
        self.requests = 0
        self._lock = threading.Lock()
        host, port = address_of(address)
        listener = self

        class Handler(_Handler):
            owner = listener

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            msg = f"cannot listen at {address}: {error.strerror or error}; choose another address"
            raise UsageError(msg) from None
        self._server.daemon_threads = True
        self.address = f"{host}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self.path.touch()
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, text: str) -> None:
        """Append a document to the file."""
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
            self.requests += 1


class _RefusedError(Exception):
    """A request is refused with a status."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    """Accepts POST /v1/traces, protobuf or JSON, gzipped or not."""

    protocol_version = "HTTP/1.1"
    timeout = PATIENCE
    owner: Listener

    def do_POST(self) -> None:
        """Accept a request of an exporter."""
        status, answer, kind = self._taken()
        body = answer.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status != 200:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def _taken(self) -> tuple[int, str, str]:
        """Return the status, body and type of the answer."""
        is_json = "json" in self.headers.get("Content-Type", "")
        try:
            text = self._document(is_json=is_json)
        except _RefusedError as refused:
            return refused.status, f"{refused}\n", "text/plain"
        except LogError as error:
            return 400, f"{error.reason}\n", "text/plain"
        except (ValueError, RecursionError, OSError, EOFError, zlib.error) as error:
            return 400, f"cannot read the request: {error}\n", "text/plain"
        if text:
            self.owner.add(text)
        # An empty message says that everything was accepted.
        return (200, "{}", "application/json") if is_json else (200, "", "application/x-protobuf")

    def _document(self, *, is_json: bool) -> str:
        """Return the request as a line of JSON."""
        if self.path.partition("?")[0] != PATH:
            raise _RefusedError(404, f"only {PATH} is taken here")
        data = self._body()
        if self.headers.get("Content-Encoding") == "gzip":
            data = _unpacked(data)
        if is_json:
            return json.dumps(json.loads(data))
        text = text_of(data)
        if text is None and data:
            raise _RefusedError(400, "the request is neither protobuf nor JSON of OTLP")
        return text or ""

    def _body(self) -> bytes:
        """Return the body of the request, in one piece or, as from JavaScript, in chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal():
                raise _RefusedError(411, "the request has no Content-Length")
            return self._read(int(length))
        data = b""
        while size := int(self.rfile.readline(100).partition(b";")[0], 16):
            data += self._read(size, len(data))
            self.rfile.readline(100)
        while self.rfile.readline(BODY_MAX).strip():
            pass
        return data

    def _read(self, size: int, before: int = 0) -> bytes:
        if not 0 <= size <= BODY_MAX - before:
            raise _RefusedError(413, f"a request may have {BODY_MAX:,} bytes")
        return self.rfile.read(size)

    def log_message(self, *_: object) -> None:
        """Log nothing about single requests."""


def _unpacked(data: bytes) -> bytes:
    with gzip.open(io.BytesIO(data)) as file:
        unpacked = file.read(BODY_MAX + 1)
    if len(unpacked) > BODY_MAX:
        msg = f"unpacked, a request may have {BODY_MAX:,} bytes"
        raise ValueError(msg)
    return unpacked
