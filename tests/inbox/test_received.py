"""An answer is read as it was sent, and a webhook only if it was signed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest
from standardwebhooks import Webhook

from planrun.core.errors import Invalid
from planrun.core.life import State
from planrun.core.messages import Output, Result
from planrun.inbox import Received, read, verify

SECRET = "whsec_cGxhbnJ1biB0ZXN0cyBzaWduIHRoZWlyIG93bg=="
OTHER = "whsec_c29tZWJvZHkgZWxzZSBzaWducyB3aXRoIHRoaXM="
ANSWER = Received(
    msg_id="result:j:webhook:https://app.example/",
    result=Result(
        job_id="j",
        namespace="default",
        kind="preview",
        version="v1",
        state=State.FINISHED,
        key="k",
        reason=None,
        attempt=1,
        token=7,
        outputs=(Output(name="film", key="default/j/1-7/film", sha256="0" * 64, bytes=3),),
        value={"frames": 24, "name": "Grüße 🎬"},
        error=None,
        ended_at_ms=1,
    ),
    public_names=("campaign/master.mp4",),
)
BODY = msgspec.json.encode(ANSWER)


def signed(secret: str = SECRET, *, age_s: int = 0, body: bytes = BODY) -> dict[str, str]:
    at_s = int(time.time()) - age_s
    signature = Webhook(secret).sign("msg_1", datetime.fromtimestamp(at_s, UTC), body.decode())
    return {"Webhook-Id": "msg_1", "webhook-timestamp": str(at_s), "WEBHOOK-SIGNATURE": signature}


def test_what_was_sent_is_what_is_read() -> None:
    assert read(BODY) == read(BODY.decode()) == ANSWER


def test_what_a_later_planrun_adds_is_passed_over() -> None:
    assert read(json.dumps(json.loads(BODY) | {"weather": "fine"})) == ANSWER


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"\xff", b'{"msg_id": 1}', b'{"msg_id": "m", "result": {}}'])
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(Invalid, match="no answer of planrun's"):
        read(body)


def test_a_signed_webhook_is_read() -> None:
    assert verify(signed(), BODY, SECRET) == ANSWER


@pytest.mark.parametrize("secret", [f"{OTHER} {SECRET}", f"{SECRET}\n{OTHER}"])
def test_while_a_secret_is_exchanged_both_are_believed(secret: str) -> None:
    assert verify(signed(), BODY, secret) == ANSWER


@pytest.mark.parametrize(
    ("headers", "body", "secret"),
    [
        pytest.param(lambda: signed(OTHER), BODY, SECRET, id="another-secret"),
        pytest.param(signed, BODY.replace(b"finished", b"canceled"), SECRET, id="another-body"),
        pytest.param(lambda: signed() | {"Webhook-Id": "msg_2"}, BODY, SECRET, id="another-id"),
        pytest.param(lambda: signed(age_s=301), BODY, SECRET, id="old"),
        pytest.param(lambda: signed(age_s=-900), BODY, SECRET, id="from-the-future"),
        pytest.param(dict, BODY, SECRET, id="no-headers"),
        pytest.param(lambda: signed() | {"WEBHOOK-SIGNATURE": "garbage"}, BODY, SECRET, id="garbage"),
        pytest.param(lambda: signed() | {"webhook-timestamp": "soon"}, BODY, SECRET, id="no-time"),
        pytest.param(lambda: signed(body=b"\xc3\xa4"), b"\xff", SECRET, id="no-text"),
        pytest.param(signed, BODY, "", id="no-secret"),
        pytest.param(signed, BODY, "whsec_", id="empty-secret"),
        pytest.param(signed, BODY, "whsec_%", id="bad-secret"),
    ],
)
def test_anything_else_is_refused_with_words(headers: Callable[[], dict[str, str]], body: bytes, secret: str) -> None:
    with pytest.raises(Invalid, match="the webhook is not verified: ") as refused:
        verify(headers(), body, secret)

    assert "cGxhbn" not in str(refused.value)


def test_an_application_that_receives_loads_neither_ledger_nor_client() -> None:
    heavy = ("planrun", "apsw", "httpx", "rich", "cyclopts", "sqlite3", "psycopg")
    code = f"import sys, planrun.inbox; print(*(name for name in sys.modules if name.startswith({heavy})))"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert {name for name in loaded if not name.startswith("planrun.core")} == {"planrun", "planrun.inbox"}
