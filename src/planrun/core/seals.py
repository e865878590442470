"""A seal proves that a ledger has given something out, also to an older copy of it, which has forgotten that it did.

Its key lies in the ledger, and so in every copy; it is another one in every generation. Whoever does not have it can
invent a token that is higher than the ledger's, but not the seal of it.
"""

from __future__ import annotations

import hmac

SEAL_CHARS = 32


def seal_of(key: str, job_id: str, attempt: int, token: int = 0) -> str:
    """The seal of a lease; without a token, of an offer."""
    text = f"{job_id}/{attempt}/{token}"
    return hmac.digest(key.encode(), text.encode(), "sha256").hex()[:SEAL_CHARS]


def is_seal(seal: str, key: str, job_id: str, attempt: int, token: int = 0) -> bool:
    """Was this made with the key? The comparison takes equally long wherever they differ."""
    return hmac.compare_digest(seal.encode(errors="replace"), seal_of(key, job_id, attempt, token).encode())
