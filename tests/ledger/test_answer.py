"""The answer to one call: who has it, and that nobody who waits for it is forgotten."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from planrun.ledger.sqlite.answer import Answer, announce

pytestmark = pytest.mark.anyio


def test_a_call_is_claimed_by_one_of_all_who_try_at_once() -> None:
    with ThreadPoolExecutor(8) as threads:
        for _ in range(200):
            answer: Answer[int] = Answer()
            assert sum(threads.map(lambda answer: answer.claim(), [answer] * 8)) == 1


async def test_all_who_wait_are_woken_together_and_get_their_own() -> None:
    answers: list[Answer[int]] = [Answer() for _ in range(3)]
    waiting = [asyncio.create_task(answer.arrive(60)) for answer in answers]
    await asyncio.sleep(0)
    answers[0].give(1)
    answers[1].give(2)
    answers[2].refuse(ValueError("no"))
    await asyncio.to_thread(announce, answers)
    await asyncio.gather(*waiting)

    assert [answer.result() for answer in answers[:2]] == [1, 2]
    with pytest.raises(ValueError, match="no"):
        answers[2].result()


async def test_whoever_is_canceled_has_given_up() -> None:
    answer: Answer[int] = Answer()
    waiting = asyncio.create_task(answer.arrive(60))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert not answer.claim()


async def test_after_its_time_nobody_waits_any_more() -> None:
    answer: Answer[int] = Answer()
    await answer.arrive(0)
    await asyncio.to_thread(answer.wait, 0)

    assert not answer.done
    assert answer.claim()


def test_a_loop_that_is_closed_keeps_no_other_from_its_answer() -> None:
    gone, here = Answer[int](), Answer[int]()
    loop = asyncio.new_event_loop()
    task = loop.create_task(gone.arrive(60))
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(here.wait, 60)
        here.give(1)
        announce([gone, here])
        waiting.result(60)

    assert here.result() == 1
