"""Jobs over HTTP: the client's rules, and its words in every refusal."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import msgspec
import pytest

from planrun.client import AsyncClient, Submit
from planrun.clock import SystemClock
from planrun.config import place_of
from planrun.core.errors import LedgerBusy, LedgerUnavailable
from planrun.core.messages import Failure
from planrun.web import jobs
from planrun.web.app import build_app
from planrun.web.asked import SubmitBody
from planrun.web.calls import BODY_BYTES_MAX
from tests.client.stand_in import Locked
from tests.web.stage import open_stage, refused

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}


def test_a_submit_over_http_takes_what_the_client_takes_with_its_defaults() -> None:
    def default(field: Any) -> object:
        return field.default_factory() if field.default_factory is not MISSING else field.default

    over_http = {field.name: field.default for field in msgspec.structs.fields(SubmitBody) if not field.required}
    over_http |= {"inputs": {}, "params": {}}  # msgspec keeps empty ones as factories
    of_client = {field.name: default(field) for field in fields(Submit) if field.name != "kind"}

    assert over_http == of_client


async def test_a_caller_that_leaves_within_its_body_is_no_mistake_of_the_server(url: str) -> None:
    """Else the log of the server has a traceback for each."""
    async with open_stage(url) as stage:
        told: list[Any] = []
        heard = iter(({"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}))

        async def receive() -> dict[str, Any]:
            return next(heard)

        async def send(message: Any) -> None:
            told.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/jobs", "headers": headers, "query_string": b""}
        await build_app(stage.client)(scope, receive, send)

        assert told[0]["status"] == 400
        assert (await stage.got("/v1/jobs"))["jobs"] == []


async def test_a_job_is_handed_in_once_however_often_it_is_asked_for(url: str) -> None:
    async with open_stage(url) as stage:
        first = await stage.http.post("/v1/jobs", json={"kind": "preview", "key": "k", "request_id": "r1"})
        again = await stage.http.post("/v1/jobs", json={"kind": "preview", "key": "k", "request_id": "r1"})
        joined = await stage.http.post("/v1/jobs", json={"kind": "preview", "key": "k"})
        await stage.hands.finish("r1")
        answered = await stage.http.post("/v1/jobs", json={"kind": "preview", "key": "k"})
        replies = (first, again, joined, answered)

        assert [reply.status_code for reply in replies] == [201, 200, 200, 200]
        assert [reply.json()["disposition"] for reply in replies] == ["new", "repeated", "joined", "answered"]
        assert len({reply.json()["job_id"] for reply in replies}) == 1
        assert (await stage.got(first.headers["location"]))["state"] == "finished"


async def test_an_idempotency_key_is_the_request_id(url: str) -> None:
    async with open_stage(url) as stage:
        named = {"Idempotency-Key": "r1"}
        first = await stage.http.post("/v1/jobs", json={"kind": "preview"}, headers=named)
        again = await stage.http.post("/v1/jobs", json={"kind": "preview", "request_id": "r1"})
        both = await stage.http.post("/v1/jobs", json={"kind": "preview", "request_id": "r2"}, headers=named)
        other = await stage.http.post("/v1/jobs", json={"kind": "preview", "params": {"x": 1}}, headers=named)

        assert (first.json()["disposition"], again.json()["disposition"]) == ("new", "repeated")
        assert refused(both) == (422, "invalid")
        assert refused(other) == (409, "conflict")
        assert other.json()["job_id"] == first.json()["job_id"]


async def test_a_bulk_is_taken_in_whole_or_not_at_all(url: str) -> None:
    async with open_stage(url) as stage:
        one = {"kind": "preview", "request_id": "r1"}
        good = await stage.http.post("/v1/bulk", json={"jobs": [one, {"kind": "preview"}]})
        bad = await stage.http.post("/v1/bulk", json={"jobs": [{"kind": "preview"}, {**one, "params": {"x": 1}}]})
        many = await stage.http.post("/v1/bulk", json={"jobs": [{"kind": "preview"}] * 101})

        assert [job["disposition"] for job in good.json()["jobs"]] == ["new", "new"]
        assert (refused(bad), refused(many)) == ((409, "conflict"), (422, "invalid"))
        assert (await stage.got("/v1/counts"))["counts"]["queued"] == 2


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "kind"),
        ({"kind": "two words"}, "use letters"),
        ({"kind": "preview", "prority": 1}, "unknown field `prority`"),
        ({"kind": "preview", "priority": "high"}, "Expected `int`"),
        ({"kind": "preview", "priority": 2**40}, "use a whole number"),
        ({"kind": "preview", "delay_s": -1}, "use seconds"),
        ({"kind": "preview", "request_id": ""}, "1 to 512"),
        ({"kind": "preview", "who": "a\0b"}, "pass text"),
        ({"kind": "preview", "inputs": {"upload": "in/42.mov"}}, "absolute path"),
        ({"kind": "preview", "inputs": {"upload": "~/42.mov"}}, "absolute path"),
        ({"kind": "preview", "inputs": {"upload": "gs://bucket/x"}}, "absolute path"),
        ({"kind": "preview", "inputs": {"upload": "https://u:p@example.org/x"}}, "sign the address"),
        ({"kind": "preview", "inputs": {"upload": "/no/such/file"}}, "no such file"),
        ({"kind": "preview", "inputs": {"upload": "file://["}}, "names no file of this box"),
        ({"kind": "preview", "params": {"x": "a" * 300_000}}, "larger than"),
        ({"kind": "preview", "subscribers": ["command:touch /tmp/owned"]}, "never a program"),
        ({"kind": "preview", "subscribers": ["webhook:nowhere"]}, "full address"),
        ({"kind": "preview", "needs": "gpu"}, "Expected `array`"),
    ],
)
async def test_what_cannot_be_right_is_refused_in_words_and_nothing_is_submitted(
    url: str, body: dict[str, Any], says: str
) -> None:
    async with open_stage(url) as stage:
        reply = await stage.http.post("/v1/jobs", json=body)

        assert refused(reply) == (422, "invalid")
        assert says in reply.json()["detail"]
        assert (await stage.got("/v1/jobs"))["jobs"] == []


@pytest.mark.parametrize(
    ("content", "headers", "expected"),
    [
        (b'{"kind":', JSON, (400, "bad-json")),
        (b'{"kind":"\xff"}', JSON, (400, "bad-json")),
        (b'{"kind":"preview","params":{"x":NaN}}', JSON, (400, "bad-json")),
        (b'{"kind":"preview"}', {}, (415, "not-json")),
        (b"kind=preview", {"content-type": "application/x-www-form-urlencoded"}, (415, "not-json")),
        (b'{"kind":"preview"}', {"content-type": "text/plain"}, (415, "not-json")),
        (b"[" * 100_000, JSON, (422, "invalid")),
        (b'{"kind":"preview","params":{"x":' + b"1" * 5000 + b"}}", JSON, (422, "invalid")),
        (b" " * (BODY_BYTES_MAX + 1), JSON, (413, "too-large")),
    ],
)
async def test_a_body_that_is_no_json_or_too_large_is_refused(
    url: str, content: bytes, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    async with open_stage(url) as stage:
        assert refused(await stage.http.post("/v1/jobs", content=content, headers=headers)) == expected


async def test_a_listing_has_filters_and_pages(url: str) -> None:
    async with open_stage(url) as stage:
        ids = [await stage.submit(key=f"k{n}") for n in range(5)]
        await stage.http.post(f"/v1/jobs/{ids[0]}/cancel")
        first = await stage.got("/v1/jobs", params={"limit": 2, "state": "queued"})
        second = await stage.got("/v1/jobs", params={"limit": 2, "state": "queued", "before": first["before"]})

        assert [job["job_id"] for page in (first, second) for job in page["jobs"]] == ids[:0:-1]
        assert [job["job_id"] for job in (await stage.got("/v1/jobs", params={"key": "k3"}))["jobs"]] == [ids[3]]
        assert {"worker", "fraction", "reason"} <= first["jobs"][0].keys()  # every field, nulls too
        for bad in (
            "state=done",
            "limit=0",
            "limit=x",
            "stat=failed",
            "limit=1&limit=2",
            "state=null",
            f"before={10**30}",
        ):
            assert refused(await stage.http.get(f"/v1/jobs?{bad}")) == (422, "invalid"), bad


async def test_a_job_can_be_looked_at_from_all_sides(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit(request_id="r1")
        assert (await stage.got(f"/v1/jobs/{job}/why"))["cause"]
        granted = await stage.hands.take(job)
        log = place_of(url).log_of(job, 1)
        log.parent.mkdir(parents=True)
        log.write_bytes(b"step 1\n\xff")

        assert granted.lease.attempt == (await stage.got(f"/v1/jobs/{job}/attempts"))["attempts"][0]["attempt"] == 1
        assert (await stage.http.get(f"/v1/jobs/{job}/logs")).text == "step 1\n\N{REPLACEMENT CHARACTER}"
        assert (await stage.got("/v1/jobs/r1?namespace=default"))["job_id"] == job
        assert refused(await stage.http.get("/v1/jobs/r1?namespace=other")) == (404, "unknown-job")
        assert refused(await stage.http.get(f"/v1/jobs/{job}/logs?attempt=7")) == (422, "invalid")
        for side in ("", "/wait", "/stream", "/result", "/outputs/x", "/events", "/attempts", "/logs", "/why"):
            assert refused(await stage.http.get(f"/v1/jobs/nowhere{side}")) == (404, "unknown-job")


async def test_the_history_comes_in_pages(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit()
        await stage.hands.finish(job)
        whole = (await stage.got(f"/v1/jobs/{job}/events"))["events"]
        page = await stage.got(f"/v1/jobs/{job}/events", params={"limit": 1})
        read = page["events"]
        while (after := page["after"]) is not None:
            page = await stage.got(f"/v1/jobs/{job}/events", params={"limit": 1, "after": after})
            read += page["events"]

        assert read == whole
        assert [event["what"] for event in whole] == ["submitted", "granted", "success"]


async def test_cancel_and_retry_carry_who_and_why(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit(key="k")
        early = await stage.http.post(f"/v1/jobs/{job}/retry")
        said = {"who": "ann", "why": "wrong file"}
        first = await stage.http.post(f"/v1/jobs/{job}/cancel", json=said)
        again = await stage.http.post(f"/v1/jobs/{job}/cancel", json=said)
        new = await stage.http.post(f"/v1/jobs/{job}/retry", json=said)
        twice = await stage.http.post(f"/v1/jobs/{job}/retry")
        await stage.http.post(f"/v1/jobs/{new.json()['job_id']}/cancel")
        taken = await stage.submit(key="k", params={"other": 1})
        other = await stage.http.post(f"/v1/jobs/{job}/retry")
        events = (await stage.got(f"/v1/jobs/{job}/events"))["events"]

        assert refused(early) == (422, "invalid")
        assert (first.json(), again.json()["canceled"]) == ({"canceled": True, "state": "canceled"}, False)
        assert any(event["who"] == "ann" and "wrong file" in event["detail"] for event in events)
        assert (new.status_code, new.json()["retry_of"], new.json()["key_taken"]) == (201, job, False)
        assert (refused(twice), twice.json()["job_id"]) == ((409, "conflict"), new.json()["job_id"])
        assert (other.json()["key_taken"], other.json()["job_id"] != taken) == (True, True)


async def test_the_answer_comes_with_files_by_name(url: str, tmp_path: Path) -> None:
    (tmp_path / "out.mp4").write_bytes(b"0123456789")
    async with open_stage(url) as stage:
        job = await stage.submit()
        early = await stage.http.get(f"/v1/jobs/{job}/result")
        await stage.hands.finish(job, value={"frames": 9}, files={"preview.mp4": tmp_path / "out.mp4"})
        answer = await stage.got(f"/v1/jobs/{job}/result")
        file = answer["outputs"]["preview.mp4"]

        async def part(asked: str) -> tuple[int, bytes]:
            reply = await stage.http.get(file["href"], headers={"range": asked})
            return reply.status_code, reply.content

        whole = await stage.http.get(file["href"])
        known = await stage.http.get(file["href"], headers={"if-none-match": whole.headers["etag"]})

        assert refused(early) == (409, "not-ended")
        assert (answer["ok"], answer["value"], file["bytes"]) == (True, {"frames": 9}, 10)
        assert (whole.content, whole.headers["content-type"]) == (b"0123456789", "video/mp4")
        assert "sandbox" in whole.headers["content-security-policy"]  # bytes of a job may be a page with a script
        assert (known.status_code, known.content) == (304, b"")
        assert [await part("bytes=2-4"), await part("bytes=-3"), await part("bytes=8-")] == [
            (206, b"234"),
            (206, b"789"),
            (206, b"89"),
        ]
        for odd in ("bytes=4-2", "bytes=-", "lines=1-2", "bytes=1-2,4-5", "bytes=a-b", ""):
            assert await part(odd) == (200, b"0123456789")
        for outside in ("bytes=10-", "bytes=99-100", "bytes=-0"):
            reply = await stage.http.get(file["href"], headers={"range": outside})
            assert refused(reply) == (416, "no-such-range")
            assert reply.headers["content-range"] == "bytes */10"


@pytest.mark.parametrize("name", ["nothing", "%2e%2e", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "preview%00", "/etc/passwd"])
async def test_a_file_that_the_answer_does_not_name_is_never_found(url: str, tmp_path: Path, name: str) -> None:
    (tmp_path / "out").write_bytes(b"film")
    async with open_stage(url) as stage:
        job = await stage.submit()
        await stage.hands.finish(job, files={"preview": tmp_path / "out"})

        assert (await stage.http.get(f"/v1/jobs/{job}/outputs/{name}")).status_code == 404


async def test_a_file_that_has_gone_is_gone_and_not_a_mistake_of_the_server(url: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"film")
    async with open_stage(url) as stage:
        job = await stage.submit()
        await stage.hands.finish(job, files={"preview": tmp_path / "out"})
        stage.hands.store.delete((await stage.client.result(job)).outputs["preview"].key)

        assert refused(await stage.http.get(f"/v1/jobs/{job}/outputs/preview")) == (410, "result-gone")


async def test_a_file_that_was_cut_off_is_not_handed_out_to_be_kept_for_ever(url: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"film")
    async with open_stage(url) as stage:
        job = await stage.submit()
        await stage.hands.finish(job, files={"preview": tmp_path / "out"})
        path = (await stage.client.result(job)).outputs["preview"].path
        path.chmod(0o600)
        path.write_bytes(b"fi")

        reply = await stage.http.get(f"/v1/jobs/{job}/outputs/preview")
        assert refused(reply) == (503, "storage")
        assert "immutable" not in reply.headers.get("cache-control", "")


async def test_a_failed_job_answers_with_what_went_wrong(url: str) -> None:
    async with open_stage(url) as stage:
        job = await stage.submit()
        await stage.hands.fail(job, Failure(message="no such filter", code="bad-filter", tail="last line"))
        answer = await stage.got(f"/v1/jobs/{job}/wait")

        assert (answer["state"], answer["reason"], answer["ok"]) == ("failed", "permanent", False)
        assert answer["error"] == {"message": "no such filter", "code": "bad-filter", "tail": "last line"}


@pytest.mark.parametrize(
    ("error", "slug"),
    [
        (LedgerBusy("process 7 holds the lock", holder_pid=7), "ledger-busy"),
        (LedgerUnavailable("no answer"), "ledger-unavailable"),
    ],
)
async def test_a_ledger_that_does_not_answer_is_said_with_the_id_to_ask_again_with(
    url: str, monkeypatch: pytest.MonkeyPatch, error: LedgerUnavailable, slug: str
) -> None:
    monkeypatch.setattr(jobs, "SUBMIT_TIMEOUT_S", 0)
    async with open_stage(url) as stage:
        locked = AsyncClient.over(
            Locked(stage.hands.ledger, error), stage.hands.store, url=url, clock=SystemClock.open_system()
        )
        stage.client.submit_many = locked.submit_many  # type: ignore[method-assign]
        reply = await stage.http.post("/v1/jobs", json={"kind": "preview", "request_id": "r1"})

        assert refused(reply) == (503, slug)
        assert reply.headers["retry-after"] == "1"
        assert "r1" in reply.json()["detail"]
