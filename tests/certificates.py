"""Certificates of a test's own authority, made by the program ``openssl``."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """Files of an authority and of a server on 127.0.0.1."""

    authority: Path
    certificate: Path
    key: Path


def make(folder: Path, name: str = "IP:127.0.0.1,DNS:localhost") -> Certificates:
    """Write an authority and a certificate for a server with this name, valid for a day."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    (folder / "names").write_text(f"subjectAltName={name}\n")
    new = ("-newkey", "rsa:2048", "-nodes", "-days", "1")
    openssl("req", "-x509", *new, "-subj", "/CN=authority", "-keyout", "authority.key", "-out", "authority.pem")
    openssl("req", *new[:3], "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.request")
    signed = ("-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-days", "1")
    openssl("x509", "-req", "-in", "server.request", *signed, "-extfile", "names", "-out", "server.pem")
    return Certificates(folder / "authority.pem", folder / "server.pem", folder / "server.key")
