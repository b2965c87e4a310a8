"""Mutual TLS: a process is who its certificate says it is.

The process's name is the certificate's common name. Both sides show a certificate of the same
authority; a peer that cannot is turned away in the handshake, before any of its bytes is parsed.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from antecede.errors import UsageError


@dataclass(frozen=True, slots=True)
class Tls:
    """The files that prove who a process is: authority, certificate and key, in PEM form."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def of(cls, given: Tls | str | os.PathLike[str] | None, process: str) -> Tls | None:
        """Return the files of ``process`` in a folder made by ``antecede node certs``."""
        if given is None or isinstance(given, Tls):
            return given
        folder = Path(given)
        return cls(folder / "ca.pem", folder / f"{process}.pem", folder / f"{process}-key.pem")

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Return a value that changes when one of the files does."""
        found = []
        for path in (self.authority, self.certificate, self.key):
            try:
                about = path.stat()
            except (OSError, ValueError):
                found.append((0, 0))
            else:
                found.append((about.st_mtime_ns, about.st_ino))
        return tuple(found)

    def context(self, *, is_server: bool, checks_time: bool = True) -> ssl.SSLContext:
        """Return the context for one side of a connection; both sides must show a certificate.

        By default, refuse our own certificate if it is not valid now: all peers would turn us
        away.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Names are processes, not hosts: the transport compares the common name itself.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(self.authority)
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError, ValueError) as error:
            paths = f"{self.authority}, {self.certificate} and {self.key}"
            reason = getattr(error, "strerror", None) or str(error)
            msg = (
                f"cannot use the certificates {paths}: {reason}; "
                "`antecede node certs` makes some to try with"
            )
            raise UsageError(msg) from error
        if checks_time:
            self.check_time()
        return context

    def check_time(self) -> None:
        """Raise UsageError if our certificate is not valid now."""
        try:
            begin, end = validity(self.certificate)
        except (OSError, ValueError):
            return  # OpenSSL has accepted it
        now = dt.datetime.now(dt.UTC)
        if now > end:
            msg = f"the certificate {self.certificate} expired on {spelt(end)}; renew it"
            raise UsageError(msg)
        if now < begin:
            when = f"{begin:%Y-%m-%d %H:%M UTC}"
            msg = (
                f"the certificate {self.certificate} is not valid before {when}; check the clock "
                "of this machine"
            )
            raise UsageError(msg)


def validity(path: Path) -> tuple[dt.datetime, dt.datetime]:
    """Return from when to when the first certificate in a PEM file is valid.

    The standard library tells this only about certificates that others have shown.
    """
    text = path.read_text()
    end = text.find(_END) + len(_END)
    try:
        return times_of(ssl.PEM_cert_to_DER_cert(text[max(text.find(_BEGIN), 0) : end] + "\n"))
    except ValueError as error:
        msg = f"{path} is not a certificate"
        raise ValueError(msg) from error


def times_of(data: bytes) -> tuple[dt.datetime, dt.datetime]:
    """Return from when to when a certificate in DER form is valid; ValueError if it is none."""
    try:
        certificate = _parts(next(_parts(data))[1])
        fields = [part for part in _parts(next(certificate)[1]) if part[0] != _VERSION]
        begin, last = (_time(*part) for part in _parts(fields[3][1]))
    except (IndexError, StopIteration, RuntimeError) as error:
        msg = "these bytes are not a certificate"
        raise ValueError(msg) from error
    return begin, last


async def expiry(tls: Tls, host: str, port: int) -> dt.datetime:
    """Return when the certificate of a server expires or expired, without trusting it."""
    context = tls.context(is_server=False, checks_time=False)
    context.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return times_of(shown or b"")[1]
    finally:
        writer.close()


def spelt(when: dt.datetime) -> str:
    """Return a time as messages show it."""
    return f"{when:%Y-%m-%d at %H:%M UTC}"


HAS_EXPIRED: Final = 10
"""OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED."""

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_VERSION: Final = 0xA0
_SHORT: Final = 0x17
"""The kind of a time with a year of two digits: 1950 to 2049."""


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the kind and the content of each part of a DER sequence."""
    at = 0
    while at < len(data):
        kind, size, at = data[at], data[at + 1], at + 2
        if size >= 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(data[at : at + count], "big"), at + count
        yield kind, data[at : at + size]
        at += size


def _time(kind: int, text: bytes) -> dt.datetime:
    year = ("19" if text >= b"5" else "20") if kind == _SHORT else ""
    return dt.datetime.strptime(year + text.decode(), "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC)


def common_name(certificate: dict[str, Any] | None) -> str | None:
    """Return the only common name of a verified certificate; None if it has none or several."""
    subject = (certificate or {}).get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else None
