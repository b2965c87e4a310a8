"""A small certificate authority for trying nodes.

Anyone who has ``ca-key.pem`` can pose as any process; keep it off the machines that run nodes.
Larger installations have an authority of their own: nodes only require that a certificate's common
name is the process's name, and that it is valid for clients and servers.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from antecede.errors import UsageError

NAME_MAX: Final = 64
"""X.509 allows no longer common name, in bytes."""

DAYS_MAX: Final = 36_500
"""A hundred years; X.509 cannot write dates after the year 9999."""


class Pair(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_certificates(
    folder: str | os.PathLike[str], names: Iterable[str], *, days: int = 365
) -> list[Path]:
    """Write an authority, unless the folder has one, and a certificate and key for each process.

    Return the files written. Existing files are never replaced; if not all can be written, none is.
    """
    wanted = list(names)
    target = Path(folder)
    _check_days(days)
    for name in wanted:
        _check_name(target, name)
    if len(set(wanted)) < len(wanted):
        twice = next(name for name in wanted if wanted.count(name) > 1)
        msg = f"{twice!r} is named twice; name each process once"
        raise UsageError(msg)
    made: list[Path] = []
    try:
        _make_folder(target, made)
        written: list[Path] = []
        authority = _authority(target, days, written, made)
        for name in wanted:
            _write(target, name, _process_pair(name, authority, days), written, made)
    except BaseException as error:
        _remove(made)
        if isinstance(error, OSError):
            msg = f"cannot write certificates to {str(target)!r}: {error.strerror or error}"
            raise UsageError(msg) from error
        raise
    return written


def _check_days(days: int) -> None:
    if not 1 <= days <= DAYS_MAX:
        msg = f"days={days} is not possible; use 1 to {DAYS_MAX:,}"
        raise UsageError(msg)


def _check_name(folder: Path, name: str) -> None:
    is_plain = name.isprintable() and 0 < len(name.encode()) <= NAME_MAX
    if not is_plain or Path(name).name != name or name == "ca" or name.endswith("-key"):
        msg = (
            f"{name!r} cannot be a certificate name; "
            f"use 1 to {NAME_MAX} bytes, not 'ca', and no '-key' at the end"
        )
        raise UsageError(msg)
    for path in (folder / f"{name}.pem", folder / f"{name}-key.pem"):
        if os.path.lexists(path):
            msg = f"{path} exists already; remove it first to replace it"
            raise UsageError(msg)


def _make_folder(folder: Path, made: list[Path]) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir()
        made.append(path)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))


def _remove(made: list[Path]) -> None:
    for path in reversed(made):
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()


def _authority(folder: Path, days: int, written: list[Path], made: list[Path]) -> Pair:
    paths = folder / "ca.pem", folder / "ca-key.pem"
    if not any(path.exists() for path in paths):
        pair = _authority_pair(days)
        _write(folder, "ca", pair, written, made)
        return pair
    try:
        certificate = x509.load_pem_x509_certificate(paths[0].read_bytes())
        key = serialization.load_pem_private_key(paths[1].read_bytes(), None)
    except (OSError, ValueError) as error:
        msg = f"cannot use the authority in {str(folder)!r}: {error}; use another folder"
        raise UsageError(msg) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        msg = f"{paths[1]} is not a key that `antecede node certs` made; use another folder"
        raise UsageError(msg)
    return Pair(certificate, key)


def _authority_pair(days: int) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "antecede test authority")])
    usage = _usage(is_authority=True)
    builder = (
        _builder(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def _process_pair(process: str, authority: Pair, days: int) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, process)])
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = (
        _builder(name, authority.certificate.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(issuer, critical=False)
    )
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(folder: Path, name: str, pair: Pair, written: list[Path], made: list[Path]) -> None:
    """Write certificate and key; only the owner can read the key."""
    key_path, path = folder / f"{name}-key.pem", folder / f"{name}.pem"
    key_bytes = pair.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificate_bytes = pair.certificate.public_bytes(serialization.Encoding.PEM)
    for target, mode, data in ((key_path, 0o600, key_bytes), (path, 0o666, certificate_bytes)):
        file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        made.append(target)
        with os.fdopen(file, "wb") as out:
            out.write(data)
    written += [path, key_path]
