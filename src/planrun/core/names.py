"""Ids, keys and tokens: how things are called, and why two of them can never collide."""

from __future__ import annotations

import hashlib
import uuid
from functools import lru_cache
from typing import Any

import msgspec

from planrun.core.spelling import NAME_RULE, is_name

__all__ = [
    "CONTENT_KEY",
    "NAME_RULE",
    "attempt_prefix",
    "digest",
    "is_name",
    "job_id_of",
    "live_log_prefix",
    "log_key",
    "object_key",
    "token_of",
    "token_shown",
]

_ROOT = uuid.uuid5(uuid.NAMESPACE_URL, "planrun:namespaces")
_GENERATION_SHIFT = 40

CONTENT_KEY = "content"


def job_id_of(namespace: str, request_id: str) -> str:
    """The id of the job that this request creates: the same on every retry, on every machine."""
    # RFC 9562, version 5, as uuid.uuid5 makes it; the module takes longer for it than a ledger for an insert.
    hashed = bytearray(
        hashlib.sha1(_namespace_id(namespace) + request_id.encode(), usedforsecurity=False).digest()[:16]
    )
    hashed[6] = hashed[6] & 0x0F | 0x50
    hashed[8] = hashed[8] & 0x3F | 0x80
    text = hashed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@lru_cache(maxsize=64)
def _namespace_id(namespace: str) -> bytes:
    return uuid.uuid5(_ROOT, namespace).bytes


def token_of(generation: int, n: int) -> int:
    """A fencing token. Strictly grows over the life of a ledger, including restores (a new generation)."""
    return generation << _GENERATION_SHIFT | n


def token_shown(token: int) -> int:
    """The token as people see it: 33, then 34."""
    return token & ((1 << _GENERATION_SHIFT) - 1)


def attempt_prefix(namespace: str, job_id: str, attempt: int, token: int) -> str:
    """Where one attempt's objects lie. Two attempts never share it, so a late write reaches nobody else's bytes."""
    return f"{namespace}/jobs/{job_id}/{attempt}-{token:x}/"


def object_key(prefix: str, sha256: str, name: str) -> str:
    """One object of an attempt. The digest in the key makes a repeated upload rewrite equal bytes."""
    return f"{prefix}{sha256}/{name}"


def log_key(prefix: str) -> str:
    """What the job printed, beside the objects of its attempt."""
    return f"{prefix}log"


def live_log_prefix(prefix: str) -> str:
    """What it has printed so far, piece by piece: each is named by how many bytes come before it."""
    return f"{prefix}live/"


def digest(value: Any) -> str:
    """A hex digest of plain data, equal for equal data whatever the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
