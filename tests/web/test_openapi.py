"""The description of the API is whole, and true."""

from __future__ import annotations

import pytest
import schemathesis
from starlette.routing import Route as PathRoute

from planrun.ledger.wire import VERBS
from planrun.web.app import EVERY_ROUTE, build_app
from planrun.web.openapi import document
from planrun.web.problems import FAULTS
from tests.client.stand_in import open_world
from tests.web.stage import open_stage, refused

pytestmark = pytest.mark.anyio


async def test_it_is_written_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has no token may ask for it, too, as often as he likes."""
    async with open_stage(url) as stage:
        first = await stage.http.get("/openapi.json")
        monkeypatch.setattr("planrun.web.app.document", None)
        assert (await stage.http.get("/openapi.json")).content == first.content


async def test_every_route_is_described_and_nothing_else(url: str) -> None:
    async with open_world(url) as (client, _):
        served = {
            (method, route.path)
            for route in build_app(client).routes
            if isinstance(route, PathRoute)
            for method in (route.methods or set()) - {"HEAD"}
        }
    described = {
        (method.upper(), path) for path, methods in document(EVERY_ROUTE)["paths"].items() for method in methods
    }
    verbs = {("POST", f"/v1/ledger/{verb}") for verb in VERBS}

    assert served - {("POST", "/v1/ledger/{verb}")} | verbs == described


def test_the_description_is_openapi_and_its_schemas_are_json_schema() -> None:
    schemathesis.openapi.from_dict(document(EVERY_ROUTE)).validate()


def test_everything_that_is_described_says_what_it_is() -> None:
    found = document(EVERY_ROUTE)
    operations = [operation for methods in found["paths"].values() for operation in methods.values()]
    parameters = [parameter for operation in operations for parameter in operation["parameters"]]

    assert [operation["operationId"] for operation in operations if not operation["summary"]] == []
    assert [parameter["name"] for parameter in parameters if not parameter["description"]] == []
    assert len({operation["operationId"] for operation in operations}) == len(operations)
    assert found["components"]["schemas"]["SubmitBody"]["properties"]["priority"]["description"]


def test_every_problem_belongs_to_a_route_or_to_none_at_all() -> None:
    named = {fault.slug for route in EVERY_ROUTE for fault in route.all_faults}

    assert {fault.slug for fault in FAULTS} - named == {"no-such-route", "wrong-method"}
    assert len({fault.slug for fault in FAULTS}) == len(FAULTS)


async def test_the_description_and_the_page_are_served(url: str) -> None:
    async with open_stage(url) as stage:
        page = await stage.http.get("/")

        assert (await stage.got("/openapi.json"))["openapi"] == "3.1.0"
        assert all(route.path in page.text for route in EVERY_ROUTE)
        assert "script" not in page.text


async def test_what_is_not_there_is_a_problem_too(url: str) -> None:
    async with open_stage(url) as stage:
        nowhere = await stage.http.get("/v2/jobs")
        wrong = await stage.http.delete("/v1/pauses")

        assert refused(nowhere) == (404, "no-such-route")
        assert refused(wrong) == (405, "wrong-method")
        assert wrong.headers["allow"] == "GET, HEAD, POST"
        assert (await stage.http.get("/v1/bulk")).headers["allow"] == "POST"


async def test_a_mistake_of_planrun_is_a_problem_and_no_traceback(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_stage(url) as stage:
        stage.client.kinds = None  # type: ignore[assignment, method-assign]
        stage.http._transport.raise_app_exceptions = False  # type: ignore[attr-defined]
        reply = await stage.http.get("/v1/kinds")

        assert refused(reply) == (500, "bug")
        assert "Traceback" not in reply.text


async def test_operators_pause_and_resume_over_http(url: str) -> None:
    async with open_stage(url) as stage:
        said = {"kind": "preview", "who": "ann", "why": "the card is being changed"}
        first = await stage.http.post("/v1/pauses", json=said)
        again = await stage.http.post("/v1/pauses", json=said)
        await stage.submit()
        [pause] = (await stage.got("/v1/pauses"))["pauses"]
        [kind] = (await stage.got("/v1/kinds"))["kinds"]
        other = await stage.http.post("/v1/pauses/resume", json={"namespace": "ads"})
        last = await stage.http.post("/v1/pauses/resume", json=said)

        assert (first.json()["paused"], again.json()["paused"]) == (True, False)
        assert (pause["who"], pause["why"]) == ("ann", "the card is being changed")
        assert (kind["queued"], kind["pause"]["kind"]) == (1, "preview")
        assert (other.json()["resumed"], len(other.json()["still_paused"])) == (False, 1)
        assert last.json() == {"resumed": True, "still_paused": []}
        assert (await stage.got("/v1/pauses?limit=5"))["pauses"][0]["resumed_who"] == "ann"
        assert [row["name"] for row in (await stage.got("/v1/workers"))["workers"]] == ["w1"]


async def test_operators_let_a_worker_run_empty_over_http(url: str) -> None:
    async with open_stage(url) as stage:
        await stage.submit()
        said = {"worker": "w1", "who": "ann", "why": "new disk"}
        unknown = await stage.http.post("/v1/drains", json={"worker": "w9"})
        last_one = await stage.http.post("/v1/drains", json=said)
        forced = await stage.http.post("/v1/drains", json={**said, "force": True})
        undone = await stage.http.post("/v1/drains/undo", json={"worker": "w1", "who": "bob"})
        [drain] = (await stage.got("/v1/drains"))["drains"]

        assert (refused(unknown)[0], refused(last_one)[0]) == (422, 422)
        assert "preview v1" in last_one.json()["detail"]
        assert (forced.json(), undone.json()) == ({"drained": ["w1"]}, {"undone": ["w1"]})
        assert (drain["who"], drain["why"], drain["undone_who"]) == ("ann", "new disk", "bob")
