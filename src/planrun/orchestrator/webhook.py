"""One answer as an HTTP request, by the Standard Webhooks convention.

The id and the body are the same at every try; the time and, with it, the signature are not. A
receiver drops what it has seen by `webhook-id`, or by the `msg_id` in the body.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
from standardwebhooks import Webhook

from planrun.core.addresses import Allowed
from planrun.core.errors import Invalid
from planrun.core.messages import Message
from planrun.core.names import digest
from planrun.core.routes import ALLOW_OPTION
from planrun.outgoing import LIMITS, JudgedTransport

REST_S_MAX = 3600.0  # nobody keeps answers waiting for longer by asking


class NotAccepted(Exception):
    """The receiver did not answer with 2xx. The text says what happened instead.

    Attributes:
        rest_s: For so long it wants nothing more (`Retry-After`).
    """

    def __init__(self, text: str, *, rest_s: float = 0.0) -> None:
        super().__init__(text)
        self.rest_s = rest_s


class Gone(NotAccepted):
    """Who lives there wants no more of them, and says so (410)."""


class WebhookSender:
    """A pool of connections to receivers. Belongs to one event loop."""

    def __init__(self, *, secret: str = "", allowed: Allowed | None = None) -> None:
        """
        Args:
            secret: Signs every request (`whsec_…` or plain base64); several with spaces between: with each, while one
                is exchanged for another. Empty: not signed.
            allowed: Where requests may go; None: wherever this machine reaches, which whoever names an address can too.

        Raises:
            Invalid: Not a secret of that form.
        """
        self._signers = [_signer(each) for each in secret.split()]
        transport = None if allowed is None else JudgedTransport(allowed, option=ALLOW_OPTION)
        self._http = httpx2.AsyncClient(follow_redirects=False, timeout=None, limits=LIMITS, transport=transport)

    async def send(self, url: str, message: Message, *, wall_ms: int) -> None:
        """Ask once.

        Args:
            wall_ms: The time of this try, milliseconds.

        Raises:
            Gone: 410.
            NotAccepted: Anything else but a 2xx answer. A redirect is not followed: the sender named an address.
        """
        at = datetime.fromtimestamp(wall_ms // 1000, UTC)
        # What is signed is id.time.body: a full stop in the id, which holds the sender's own address, would blur where
        # the parts end.
        webhook_id = f"msg_{digest(message.msg_id)[:32]}"
        headers = {
            "content-type": "application/json",
            "webhook-id": webhook_id,
            "webhook-timestamp": str(wall_ms // 1000),
        }
        if self._signers:
            signatures = [signer.sign(webhook_id, at, message.body) for signer in self._signers]
            headers["webhook-signature"] = " ".join(signatures)
        try:
            # Streamed: only the status counts, whatever else a receiver may say.
            async with self._http.stream("POST", url, content=message.body.encode(), headers=headers) as response:
                status, rest = response.status_code, response.headers.get("retry-after", "")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise NotAccepted(f"{type(error).__name__}: {error}") from None
        except Invalid as error:
            raise NotAccepted(str(error)) from None
        if status == 410:
            raise Gone("it answered 410: it wants no more answers")
        if not 200 <= status < 300:
            raise NotAccepted(f"it answered {status}", rest_s=rest_s_of(rest, wall_ms=wall_ms))

    async def close(self) -> None:
        await self._http.aclose()


def rest_s_of(text: str, *, wall_ms: int) -> float:
    """Seconds that a `Retry-After` asks for, an hour at most; what is none of its two forms asks for nothing."""
    if text.isascii() and text.strip().isdigit():
        return min(float(text), REST_S_MAX)
    try:
        at = parsedate_to_datetime(text)
        return max(0.0, min(at.timestamp() - wall_ms / 1000, REST_S_MAX))
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _signer(secret: str) -> Webhook:
    try:
        return Webhook(secret)
    except Exception:
        raise Invalid("the webhook secret is not base64; write it as whsec_ and base64") from None
