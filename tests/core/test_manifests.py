"""A manifest is what stands under the key of its job, and nothing else in a store."""

from __future__ import annotations

import msgspec
import pytest

from planrun.core.life import State
from planrun.core.manifests import Manifest, manifest_key, manifest_of, named_in
from planrun.core.messages import Result

RESULT = Result(
    job_id="j1", namespace="films", kind="preview", version="v1", state=State.CANCELED, attempt=1, ended_at_ms=5
)
WRITTEN = msgspec.json.encode(Manifest(result=RESULT, inputs={}, params={}, content_hash="c", created_at_ms=1))


@pytest.mark.parametrize(
    "key",
    [
        "_public/results/index.json",
        "films/jobs/index.json",
        "films/results/j1.txt",
        "films/results/j1/x.json",
        "results/j1.json",
    ],
)
def test_another_object_is_nobodys_manifest(key: str) -> None:
    """A namespace may be called `results`, and publish what it likes."""
    assert named_in(key) is None
    assert named_in(manifest_key("results", "j1")) == "j1"


def test_what_is_written_down_is_believed_under_the_key_of_its_job_alone() -> None:
    manifest = manifest_of(manifest_key("films", "j1"), WRITTEN)

    assert manifest is not None
    assert manifest.result == RESULT
    assert manifest_of(manifest_key("films", "j2"), WRITTEN) is None
    assert manifest_of(manifest_key("plays", "j1"), WRITTEN) is None
    assert manifest_of(manifest_key("films", "j1"), b"{}") is None
