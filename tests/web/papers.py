"""Certificates of a CA of a test's own, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Papers:
    """A private CA, and what it has signed."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.ca, self.ca_key = folder / f"{name}.pem", folder / f"{name}.key"
        self._openssl(
            "req",
            "-x509",
            "-subj",
            f"/CN=planrun test {name}",
            "-days",
            "2",
            "-keyout",
            str(self.ca_key),
            "-out",
            str(self.ca),
        )

    def sign(self, name: str, *, san: str = "DNS:localhost,IP:127.0.0.1") -> tuple[Path, Path]:
        cert, key, wish = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
        self._openssl(
            "req", "-subj", f"/CN={name}", "-addext", f"subjectAltName={san}", "-keyout", str(key), "-out", str(wish)
        )
        subprocess.run(
            f"openssl x509 -req -in {wish} -CA {self.ca} -CAkey {self.ca_key} -CAcreateserial -days 2"
            f" -copy_extensions copy -out {cert}".split(),
            check=True,
            capture_output=True,
        )
        return cert, key

    @staticmethod
    def _openssl(*arguments: str) -> None:
        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        subprocess.run(["openssl", arguments[0], *new_key, *arguments[1:]], check=True, capture_output=True)
