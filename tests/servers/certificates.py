"""Certificates for servers of tests: an authority, and what it has signed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import program


@dataclass(frozen=True)
class Certificate:
    """The files of a server's certificate, and of the authority that signed it."""

    authority: Path
    certificate: Path
    key: Path


def make_certificate(folder: Path, name: str = "localhost") -> Certificate:
    """Make an authority, and a certificate of it for a host."""
    made = Certificate(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")
    authority_key, request = folder / "ca.key", folder / "request.pem"
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-days", "2", "-subj", "/CN=An authority of tests"),
        *("-keyout", authority_key, "-out", made.authority),
    )
    _openssl(
        *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
        *("-subj", f"/CN={name}", "-keyout", made.key, "-out", request),
    )
    extensions = folder / "extensions"
    extensions.write_text(f"subjectAltName=DNS:{name}\n")
    _openssl(
        *("x509", "-req", "-days", "2", "-in", request, "-out", made.certificate),
        *("-CA", made.authority, "-CAkey", authority_key, "-CAcreateserial"),
        *("-extfile", extensions),
    )
    return made


def _openssl(*words: object) -> None:
    subprocess.run([program("openssl"), *map(str, words)], check=True, capture_output=True)
