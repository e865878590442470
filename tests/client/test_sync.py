"""The synchronous facade: threads, loops, forks and closing."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from planrun.client import Client, Submit
from planrun.core.errors import LedgerUnusable, PlanrunError, UnknownJob, WaitTimeout
from planrun.core.life import State


def test_every_verb_works_without_a_loop(url: str) -> None:
    with Client(url) as client:
        job = client.submit("preview", request_id="r1", params={"n": 1})
        client.submit_many([Submit("other"), Submit("other")])

        assert client.job("r1").id == job.id
        assert job.show().params == client.show("r1").params == {"n": 1}
        assert client.counts()["queued"] == 3
        assert len(client.list(kind="other").jobs) == 2
        assert [event.what for event in job.events()] == ["submitted"]
        assert (list(job.attempts()), job.logs(), list(client.workers())) == ([], "", [])
        with pytest.raises(WaitTimeout):
            job.wait(timeout_s=0.05)
        with pytest.raises(WaitTimeout):
            job.result()
        assert job.cancel(why="enough").canceled
        assert job.wait().state is State.CANCELED
        with pytest.raises(UnknownJob):
            client.wait("nowhere")


def test_a_stream_that_is_left_early_leaves_nothing_behind_and_the_job_goes_on(url: str) -> None:
    with Client(url) as client:
        job = client.submit("preview")
        for _ in job.stream():
            break
        for _ in client.follow_events(job.id):
            break

        assert job.show().state is State.QUEUED
    with pytest.raises(PlanrunError, match="closed"):
        next(client.stream(job.id))


def test_threads_share_one_client(url: str) -> None:
    with Client(url) as client, ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda n: client.submit("preview", key=f"k{n % 10}"), range(80)))

        assert len({job.id for job in jobs}) == 10
        assert client.counts()["queued"] == 10


def test_it_works_in_a_thread_whose_own_loop_runs(url: str) -> None:
    async def caller() -> State:
        with Client(url) as client:
            return client.submit("preview").show().state

    assert asyncio.run(caller()) is State.QUEUED


def test_closing_twice_is_closing_once_and_ends_the_thread(url: str) -> None:
    client = Client(url)
    client.close()
    client.close()

    assert "planrun-client" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(PlanrunError, match="closed"):
        client.counts()


def test_closing_ends_a_wait_in_another_thread_with_an_error(url: str) -> None:
    client = Client(url)
    job = client.submit("preview")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(job.wait)
        while not waiting.running():
            pass
        client.close()

        with pytest.raises(PlanrunError, match="closed"):
            waiting.result(timeout=10)


def test_a_ledger_that_cannot_be_opened_leaves_no_thread_behind(tmp_path: object) -> None:
    with pytest.raises(LedgerUnusable):
        Client(f"sqlite:///{tmp_path}/no/such/folder/ledger.db")

    assert "planrun-client" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_is_told_to_open_its_own(url: str) -> None:
    with Client(url) as client:
        client.submit("preview")
        child = os.fork()
        if child == 0:
            try:
                client.counts()
            except PlanrunError as error:
                os._exit(0 if "fork" in str(error) else 1)
            os._exit(2)

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.counts()["queued"] == 1
