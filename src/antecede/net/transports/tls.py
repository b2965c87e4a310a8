"""Mutual TLS: a process is who its certificate says it is.

The process's name is the certificate's common name. Both sides show a certificate of the same
authority; whoever cannot is turned away in the handshake, before a byte of theirs is parsed.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

    def context(self, *, is_server: bool) -> ssl.SSLContext:
        """Return the context for one side of a connection; both sides must show a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Names are processes, not hosts: the transport compares the common name itself.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(self.authority)
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            paths = f"{self.authority}, {self.certificate} and {self.key}"
            reason = getattr(error, "strerror", None) or str(error)
            msg = (
                f"cannot use the certificates {paths}: {reason}; "
                "`antecede node certs` makes some to try with"
            )
            raise UsageError(msg) from error
        return context


def common_name(certificate: dict[str, Any] | None) -> str | None:
    """Return the one common name of a verified certificate; None if it has none, or several."""
    subject = (certificate or {}).get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    return names[0] if len(names) == 1 else None
