"""Read by schemathesis: random calls meet jobs that exist, and every error says what to do."""

from __future__ import annotations

import json
import os
import zlib
from typing import Any

import schemathesis

from planrun.sim.lab.settings import Settings

JOBS: dict[str, list[str]] = json.loads(os.environ.get("PLANRUN_FUZZ_JOBS", '{"all": [], "ended": []}'))
WAIT_S_MAX = 0.05
OF_LAB = frozenset(Settings.__struct_fields__)


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Three of four calls name a job that exists; a stream only such that ends."""
    if path_parameters and "job" in path_parameters:
        known = JOBS["ended" if context.operation.path.endswith("/stream") else "all"]
        chance = zlib.crc32(repr(path_parameters).encode())
        if chance % 4:
            path_parameters["job"] = known[chance // 4 % len(known)]
            if "output" in path_parameters and chance % 3:
                path_parameters["output"] = "preview"
    return path_parameters


@schemathesis.hook
def map_query(context: Any, query: dict[str, Any] | None) -> dict[str, Any] | None:
    """Nobody waits for long, and the lab has few runs to do."""
    if context.operation.path == "/v1/lab" and query:
        query = {name: value for name, value in query.items() if name in ("preset", "fencing") or name not in OF_LAB}
    if context.operation.path.endswith("/wait"):
        query = query or {}
        asked = query.get("timeout_s", WAIT_S_MAX)
        if isinstance(asked, int | float) and WAIT_S_MAX < asked <= 600:
            asked = WAIT_S_MAX
        query["timeout_s"] = asked
    return query


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """The ledger's verbs meet jobs that exist, too, and nobody polls for long."""
    if context.operation.path.endswith("/changed") and isinstance(body, dict):
        asked = body.get("timeout_s")
        if isinstance(asked, int | float) and asked > WAIT_S_MAX:
            body["timeout_s"] = WAIT_S_MAX
    if "/v1/ledger/" in context.operation.path:
        _name_jobs(body)
    return body


def _name_jobs(value: Any) -> None:
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _name_jobs(member)
    if isinstance(value, dict) and isinstance(value.get("job_id"), str):
        chance = zlib.crc32(value["job_id"].encode())
        if chance % 4:
            value["job_id"] = JOBS["all"][chance // 4 % len(JOBS["all"])]


@schemathesis.check
def every_error_says_what_to_do(context: Any, response: Any, case: Any) -> None:
    if response.status_code >= 400 and case.method != "HEAD":
        problem = response.json()
        assert response.headers["content-type"][0] == "application/problem+json", response.headers
        assert problem["type"] and problem["title"], problem
        assert len(problem["detail"]) > 10, problem
        assert len(problem["detail"].splitlines()) <= 2, problem
        assert "Traceback" not in problem["detail"], problem
