"""Writing on the calling thread: as good as on the writer's, and an interrupt anywhere leaves nothing behind."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from planrun.core.errors import LedgerBusy, LedgerUnavailable
from planrun.core.messages import SubmitReply, SubmitRequest
from planrun.ledger.contract import Ledger
from planrun.ledger.sqlite import writer
from planrun.ledger.sqlite.answer import Answer
from planrun.ledger.sqlite.blocking import BlockingLedger
from planrun.ledger.sqlite.turnstile import Turnstile
from planrun.ledger.tx import Tx
from planrun.ledger.verbs import intake
from planrun.wiring import blocking_view, open_ledger

from .plain import a_request

HERE = str(Path(writer.__file__).parent)


def finish(verb: Coroutine[Any, Any, Any]) -> Any:
    """Run a verb that never suspends."""
    try:
        verb.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it has suspended")


def a_view(url: str) -> Ledger:
    view = blocking_view(open_ledger(url, wait_s=2))
    assert view is not None
    return view


@pytest.fixture
def blocking(url: str) -> Iterator[Ledger]:
    ledger = a_view(url)
    yield ledger
    asyncio.run(ledger.close())


def elsewhere(call: Callable[[], Any]) -> Any:
    """On another thread, which needs what the interrupted one must have let go."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call).result()


@contextmanager
def interrupted(at: int) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at the n-th line that this thread runs in the ledger's code. Yields the lines seen."""
    seen = [0]

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            seen[0] += 1
            if seen[0] == at:
                raise KeyboardInterrupt
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        return on_line if frame.f_code.co_filename.startswith(HERE) else None

    sys.settrace(on_call)
    try:
        yield seen
    finally:
        sys.settrace(None)


def test_a_verb_is_done_when_its_coroutine_ends_without_a_loop(blocking: Ledger) -> None:
    [reply] = finish(blocking.submit([a_request("one")]))

    assert reply.disposition == "new"
    assert finish(blocking.job(None, reply.job_id)).job_id == reply.job_id


def test_whoever_blocks_needs_no_event_loop_for_any_look(blocking: Ledger) -> None:
    finish(blocking.submit([a_request("r1")]))

    assert finish(blocking.counts(None))["queued"] == 1
    assert (finish(blocking.ended(0)), finish(blocking.violations())) == ({}, [])
    assert finish(blocking.owed()) is None
    assert finish(blocking.stale(limit=10)).jobs == ()
    assert finish(blocking.records(["nobody"])) == []


def test_an_interrupt_at_any_line_leaves_the_ledger_free_and_nobody_without_an_answer(
    blocking: Ledger, url: str, tmp_path: Path
) -> None:
    other = a_view(url)
    turnstile = Turnstile(next(tmp_path.glob("*.turn")))
    writer = cast("BlockingLedger", blocking)._writer
    for at in itertools.count(1):
        for n in range(20):  # now and then the writer's own thread does it: then no interrupt can hit it here
            with interrupted(at) as seen, suppress(KeyboardInterrupt, LedgerUnavailable):
                finish(blocking.submit([a_request(f"cut-{at}-{n}")]))
            if seen[0] >= at:
                break
        else:
            break
        with writer._writing:
            assert not writer._connection.in_transaction, at
        assert finish(other.submit([a_request(f"other-{at}")]))[0].disposition == "new", at
        again = elsewhere(lambda: finish(blocking.submit([a_request(f"cut-{at}-{n}")])))[0].disposition  # noqa: B023
        assert again in ("new", "repeated"), at
        assert finish(blocking.submit([a_request(f"cut-{at}-{n}")]))[0].disposition == "repeated", at
        assert not turnstile.is_held(), at
    assert at > 40  # it has really gone through the whole of it
    assert finish(blocking.violations()) == []
    asyncio.run(other.close())


def test_a_call_in_the_middle_of_a_call_of_the_same_thread_leaves_that_one_whole(
    blocking: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler that submits: it may wait for its own answer, but must not end the transaction under it."""
    inner: list[Answer[Any]] = []

    def handler(tx: Tx, requests: Sequence[SubmitRequest], *, is_warm: bool) -> list[SubmitReply]:
        replies = submit(tx, requests, is_warm=is_warm)
        if not inner:
            writer = cast("BlockingLedger", blocking)._writer
            inner.append(writer.call_here(partial(submit, requests=[a_request("inner")])))
            assert not inner[0].done
        return [*replies, *submit(tx, [a_request("behind")])]

    submit = intake.submit
    monkeypatch.setattr(intake, "submit", handler)
    replies = finish(blocking.submit([a_request("outer")]))

    assert [reply.disposition for reply in replies] == ["new", "new"]
    inner[0].wait(5)
    [reply] = inner[0].result()
    assert reply.disposition == "new"
    assert finish(blocking.counts(None))["queued"] == 3


def test_threads_share_the_writer_and_each_gets_its_own_answer(blocking: Ledger) -> None:
    replies: list[str] = []

    def submit(name: str) -> None:
        for n in range(50):
            [reply] = finish(blocking.submit([a_request(f"{name}-{n}")]))
            replies.append(reply.disposition)

    threads = [threading.Thread(target=submit, args=(f"thread{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert replies == ["new"] * 300


def test_somebody_else_s_turn_is_waited_for_no_longer_than_allowed(blocking: Ledger, tmp_path: Path) -> None:
    """Then it is certain that nothing was done."""
    with Turnstile(next(tmp_path.glob("*.turn"))).turn(), pytest.raises(LedgerBusy, match="nothing was done"):
        finish(blocking.submit([a_request("late")]))

    assert finish(blocking.submit([a_request("late")]))[0].disposition == "new"
