"""What every store refuses: names that lead elsewhere, and uploads of an attempt whose lease has run out."""

from __future__ import annotations

from collections.abc import Callable

from planrun.core.errors import LostLease, StorageError


def check_key(key: str) -> None:
    """
    Raises:
        StorageError: It names no object.
    """
    parts = key.split("/")
    if key.startswith(".") or "\0" in key or any(part in ("", ".", "..") for part in parts):
        raise StorageError(f"{key!r} is no object key: write namespace/…/name, without '.', '..' or empty parts")


def check_prefix(prefix: str) -> None:
    """
    Raises:
        StorageError: It is no folder of keys.
    """
    if not prefix.endswith("/"):
        raise StorageError(f"{prefix!r} is no prefix of object keys: it must end with '/'")
    check_key(prefix[:-1])


def ask(may_go_on: Callable[[], bool]) -> None:
    """
    Raises:
        LostLease: The answer was no.
    """
    if not may_go_on():
        raise LostLease("the upload stopped: by this worker's clock its lease has run out")
