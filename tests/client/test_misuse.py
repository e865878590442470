"""Whatever is passed to a client: it works, or one error says what is wrong, and nothing was done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from planrun.client import Client
from planrun.core.errors import PlanrunError

WRONG = [
    None, 5, 1.5, float("nan"), float("inf"), b"x", [], {}, object(), "", "\0", "\ud800", "x" * 5000, -1, 10**30, True,
]  # fmt: skip

CALLS: dict[str, Callable[[Client, Any], Any]] = {
    "submit": lambda client, it: client.submit(it),
    "submit_many": lambda client, it: client.submit_many(it),
    "submit_many of": lambda client, it: client.submit_many([it]),
    "cancel": lambda client, it: client.cancel(it),
    "cancel why": lambda client, it: client.cancel("r1", why=it),
    "retry": lambda client, it: client.retry(it),
    "retry who": lambda client, it: client.retry("r1", who=it),
    "job": lambda client, it: client.job(it),
    "job namespace": lambda client, it: client.job("r1", namespace=it),
    "wait": lambda client, it: client.wait(it, timeout_s=0),
    "wait timeout_s": lambda client, it: client.wait("ended", timeout_s=it),
    "stream": lambda client, it: next(client.stream(it)),
    "stream every_s": lambda client, it: list(client.stream("ended", every_s=it)),
    "follow_events": lambda client, it: next(client.follow_events(it)),
    "follow_logs": lambda client, it: next(client.follow_logs(it)),
    "follow_logs attempt": lambda client, it: list(client.follow_logs("ended", attempt=it)),
    "result": lambda client, it: client.result(it),
    "show": lambda client, it: client.show(it),
    "events": lambda client, it: client.events(it),
    "attempts": lambda client, it: client.attempts(it),
    "logs": lambda client, it: client.logs(it),
    "logs attempt": lambda client, it: client.logs("r1", attempt=it),
    "why": lambda client, it: client.why(it),
    "list namespace": lambda client, it: client.list(namespace=it),
    "list kind": lambda client, it: client.list(kind=it),
    "list state": lambda client, it: client.list(state=it),
    "list since_s": lambda client, it: client.list(since_s=it),
    "list limit": lambda client, it: client.list(limit=it),
    "list before": lambda client, it: client.list(before=it),
    "counts": lambda client, it: client.counts(namespace=it),
    "ended": lambda client, it: client.ended(within_s=it),
    "pause kind": lambda client, it: client.pause(kind=it),
    "pause why": lambda client, it: client.pause(kind="k", why=it),
    "resume": lambda client, it: client.resume(namespace=it),
    "pauses": lambda client, it: client.pauses(limit=it),
    "drain": lambda client, it: client.drain(it),
    "undrain": lambda client, it: client.undrain(it),
    "drains": lambda client, it: client.drains(limit=it),
    "backup": lambda client, it: client.backup(it) if not isinstance(it, str) or "\ud800" in it else None,
    "collect": lambda client, it: client.collect(grace_s=it),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_wrong_argument_is_an_error_of_planrun(
    url: str, call: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))  # backup(5) is a file named 5
    with Client(url) as client:
        client.submit("preview", request_id="r1")
        client.submit("preview", request_id="ended").cancel()
        for wrong in WRONG:
            try:
                CALLS[call](client, wrong)
            except PlanrunError as error:
                assert str(error)
                assert len(str(error)) < 6000

        assert client.show("r1").state == ("canceled" if call == "cancel why" else "queued")
