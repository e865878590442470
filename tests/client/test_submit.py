"""Submit: one call is one job, whatever happens to the replies."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from planrun.client import Submit
from planrun.core.errors import Conflict, Invalid, LedgerBusy, LedgerUnavailable
from planrun.core.messages import Failure
from tests.client.stand_in import Locked, Lossy, open_world, over

pytestmark = pytest.mark.anyio


async def test_c59_lost_replies_make_no_second_job(url: str) -> None:
    async with open_world(url) as (_, hands):
        lossy = over(Lossy(hands.ledger), url)

        jobs = await asyncio.gather(*(lossy.submit("preview", params={"n": n}) for n in range(100)))

        assert len({job.id for job in jobs}) == 100
        assert sum((await lossy.counts()).values()) == 100


async def test_c59_a_repeated_request_is_the_same_job_also_after_it_finished(url: str) -> None:
    async with open_world(url) as (client, hands):
        first = await client.submit("preview", request_id="r1")
        await hands.finish(first.id, value=7)
        again = await client.submit("preview", request_id="r1")

        assert (again.id, again.disposition) == (first.id, "repeated")
        assert (await again.wait()).value == 7


async def test_a_repeated_request_is_recognised_although_its_file_is_gone(url: str, tmp_path: Path) -> None:
    film = tmp_path / "film.mov"
    film.write_text("x")
    async with open_world(url) as (client, _):
        first = await client.submit("preview", request_id="r1", inputs={"upload": film}, key="content")
        film.unlink()
        again = await client.submit("preview", request_id="r1", inputs={"upload": film}, key="content")

        assert (again.id, again.disposition) == (first.id, "repeated")
        with pytest.raises(Invalid, match="no such file"):
            await client.submit("preview", request_id="r2", inputs={"upload": film})
        assert sum((await client.counts()).values()) == 1


async def test_c59_a_request_id_used_for_something_else_is_a_conflict(url: str) -> None:
    async with open_world(url) as (client, _):
        first = await client.submit("preview", request_id="r1", params={"n": 1})
        with pytest.raises(Conflict) as error:
            await client.submit("preview", request_id="r1", params={"n": 2})

        assert error.value.job_id == first.id
        assert (await first.show()).params == {"n": 1}


async def test_equal_keys_join_then_get_the_stored_answer(url: str) -> None:
    async with open_world(url) as (client, hands):
        first = await client.submit("preview", key="k")
        joined = await client.submit("preview", key="k")
        await hands.finish(first.id, value="done")
        answered = await client.submit("preview", key="k")

        assert [first.disposition, joined.disposition, answered.disposition] == ["new", "joined", "answered"]
        assert {first.id} == {joined.id, answered.id}
        assert (await answered.wait(timeout_s=0)).value == "done"


async def test_after_a_failure_the_key_makes_a_new_job(url: str) -> None:
    async with open_world(url) as (client, hands):
        first = await client.submit("preview", key="k")
        await hands.fail(first.id, Failure(message="bad"))
        second = await client.submit("preview", key="k")

        assert (second.disposition, second.id != first.id) == ("new", True)


async def test_what_is_accepted_arrives_equal(url: str) -> None:
    params = {
        "big": 2**63,
        "bigger": 10**40,
        "float": 1e308,
        "minus": -0.0,
        "empty": "",
        "none": None,
        "nested": {"a": [1, {"b": [True, False, 0.1]}]},
        "text": "Grüße 🎬 \u2028",
    }
    async with open_world(url) as (client, hands):
        job = await client.submit("preview", params=params)
        granted = await hands.take(job.id)

        # As text, where True is not 1 and -0.0 is not 0.0.
        assert json.dumps(granted.params, sort_keys=True) == json.dumps(params, sort_keys=True)


async def test_many_submits_go_in_slices_and_in_order(url: str) -> None:
    async with open_world(url) as (client, _):
        jobs = await client.submit_many(Submit("preview", params={"n": n}) for n in range(250))
        last = await client.show(jobs[-1].id)

        assert (len({job.id for job in jobs}), last.params) == (250, {"n": 249})


async def test_one_wrong_submit_of_many_refuses_all(url: str) -> None:
    async with open_world(url) as (client, _):
        with pytest.raises(Invalid):
            await client.submit_many([Submit("preview"), Submit("two words")])

        assert sum((await client.counts()).values()) == 0


async def test_a_locked_ledger_is_reported_with_its_holder_and_the_request_to_repeat(url: str) -> None:
    async with open_world(url) as (client, hands):
        locked = over(Locked(hands.ledger), url)
        with pytest.raises(LedgerBusy, match="my-call") as error:
            await locked.submit("preview", request_id="my-call", timeout_s=0.1)

        assert error.value.holder_pid == 7
        assert sum((await client.counts()).values()) == 0


async def test_a_submit_that_may_have_happened_is_not_called_undone(url: str) -> None:
    errors = (LedgerUnavailable("no answer"), LedgerBusy("locked", holder_pid=7))
    async with open_world(url) as (_, hands):
        locked = over(Locked(hands.ledger, *errors), url)
        with pytest.raises(LedgerUnavailable) as error:
            await locked.submit("preview", timeout_s=0.1)

        assert not isinstance(error.value, LedgerBusy)


async def test_what_is_no_submit_and_no_id_is_refused(url: str) -> None:
    async with open_world(url) as (client, _):
        job = await client.submit("preview")
        with pytest.raises(Invalid, match="pass a Submit"):
            await client.submit_many(["preview"])  # type: ignore[list-item]
        with pytest.raises(Invalid, match="job: pass text"):
            await client.wait(job)  # type: ignore[arg-type]


async def test_a_conflict_with_an_ended_job_does_not_advise_to_cancel_it(url: str) -> None:
    async with open_world(url) as (client, hands):
        first = await client.submit("preview", key="k")
        with pytest.raises(Conflict, match="or cancel that job"):
            await client.submit("preview", key="k", params={"n": 2})
        await hands.finish(first.id, value=1)
        with pytest.raises(Conflict, match=r"use another key$"):
            await client.submit("preview", key="k", params={"n": 2})
