"""Causal order over HTTP: webhooks that never arrive before their cause.

A header has to be text, so the stamp is in base64 in ``Antecede-Stamp``. The receiver answers 202
and handles what is ready: nothing, this request, or this one and others that waited for it. With
the standard library alone; any HTTP client and server will do.
"""

import base64
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import antecede
from antecede import Delivery
from antecede.net import Stamp

HEADER = "Antecede-Stamp"
BODY_BYTES_MAX = 1 << 20


def post(stamp: Stamp, urls: dict[str, str], dests: list[str], payload: bytes) -> None:
    """Send a message to the URLs of other processes."""
    for copy in stamp.send(dests, payload):
        header = base64.b64encode(copy.header).decode()
        url, headers = urls[copy.dest], {HEADER: header}
        request = Request(url, data=copy.payload, headers=headers)  # noqa: S310 - our own address
        with urlopen(request, timeout=30) as answer:  # noqa: S310 - our own address
            answer.read()


def server(stamp: Stamp, handle: Callable[[Delivery], None]) -> ThreadingHTTPServer:
    """Return a server on a free port of loopback that hands messages out in causal order."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        """Takes one message."""

        def do_POST(self) -> None:
            """Take the message, and handle what is ready."""
            length = int(self.headers.get("Content-Length", 0))
            if length > BODY_BYTES_MAX:
                self.send_error(413)
                return
            body = self.rfile.read(length)
            try:
                header = base64.b64decode(self.headers.get(HEADER, ""), validate=True)
                with lock:
                    for delivery in stamp.receive(header, body).deliveries:
                        handle(delivery)
            except antecede.HoldFullError:
                self.send_error(503)
                return
            except (ValueError, antecede.PeerError, antecede.UsageError) as error:
                self.send_error(400, str(error).splitlines()[0][:200])
                return
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
