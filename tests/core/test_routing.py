"""Who could run a job, and what is said when nobody could."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrun.core.messages import Handler, WorkerRow
from planrun.core.routing import CAPABILITY_TTL_MS, Cold, Missing, Offered, find_route

NOW = 10 * CAPABILITY_TTL_MS


def worker(
    incarnation: str = "w1", *handlers: Handler, has: tuple[str, ...] = (), namespaces: tuple[str, ...] = ("default",)
) -> WorkerRow:
    return WorkerRow(
        incarnation=incarnation,
        name=incarnation,
        host="box",
        slots=1,
        namespaces=namespaces,
        capabilities=has,
        handlers=handlers or (Handler(kind="preview", version="v1"),),
        seen_at_ms=NOW,
    )


def route(
    *workers: WorkerRow, namespace: str = "default", version: str = "v1", needs: tuple[str, ...] = ()
) -> Offered | Missing | Cold:
    return find_route(workers, namespace=namespace, kind="preview", version=version, needs=needs, now_ms=NOW)


def test_every_worker_that_has_all_of_it_is_offered() -> None:
    found = route(worker("w1"), worker("w2", has=("gpu",)), worker("w3", has=("gpu",)), needs=("gpu",))

    assert found == Offered(("w2", "w3"))


def test_without_workers_nothing_can_be_said() -> None:
    """A new ledger, where people submit before they start the first worker: the job waits."""
    assert route() == Cold()


@pytest.mark.parametrize("state", ["ready", "draining", "broken"])
def test_a_worker_that_drains_or_is_broken_still_counts(state: str) -> None:
    assert route(msgspec.structs.replace(worker(), state=state)) == Offered(("w1",))


def test_a_retired_worker_counts_no_more() -> None:
    assert route(msgspec.structs.replace(worker(), state="gone")) == Cold()


@pytest.mark.parametrize(
    ("age_ms", "found"),
    [(CAPABILITY_TTL_MS - 1, Offered(("w1",))), (CAPABILITY_TTL_MS, Cold()), (-CAPABILITY_TTL_MS, Offered(("w1",)))],
)
def test_a_worker_counts_for_an_hour_after_it_was_seen(age_ms: int, found: Offered | Cold) -> None:
    assert route(msgspec.structs.replace(worker(), seen_at_ms=NOW - age_ms)) == found


def test_a_need_of_the_kind_that_no_machine_meets_is_named() -> None:
    lacking = Handler(kind="preview", version="v1", needs=("ffmpeg",), missing=("ffmpeg",))

    found = route(worker("w1", lacking))

    assert found == Missing(("ffmpeg",), "kind preview v1 needs ffmpeg, which no worker has")


def test_a_need_of_the_job_that_only_workers_without_the_kind_meet_is_named() -> None:
    other = worker("w2", Handler(kind="train", version="v1"), has=("gpu",))

    found = route(worker("w1"), other, needs=("gpu",))

    assert found == Missing(("gpu",), "kind preview v1 needs gpu, which no worker with that kind has")


def test_needs_must_come_together_from_one_worker() -> None:
    found = route(worker("w1", has=("gpu",)), worker("w2", has=("disk",)), needs=("gpu", "disk"))

    assert found == Missing(
        ("disk", "gpu"), "kind preview v1 needs disk and gpu on one worker, which no single worker has"
    )


def test_an_unknown_version_names_those_that_exist() -> None:
    found = route(worker("w1"), worker("w2", Handler(kind="preview", version="v2")), version="v3")

    assert found == Missing(("v3",), "no worker has kind preview v3; versions that exist: v1, v2")


def test_an_unknown_kind_names_those_that_exist() -> None:
    found = route(worker("w1", Handler(kind="train", version="v1"), Handler(kind="export", version="v1")))

    assert found == Missing(("preview",), "no worker has a kind preview; kinds that exist: export, train")


def test_a_namespace_that_nobody_serves_names_those_that_are() -> None:
    found = route(worker("w1", namespaces=("media", "lab")), namespace="default")

    assert found == Missing(("default",), "no worker serves namespace default: start one with --namespace default")


names = st.sampled_from(["a", "b", "c"])
sets = st.frozensets(names)


@given(fleet=st.lists(st.tuples(sets, sets), min_size=1, max_size=4), needs=sets)
def test_a_job_is_offered_exactly_if_one_worker_has_everything(
    fleet: list[tuple[frozenset[str], frozenset[str]]], needs: frozenset[str]
) -> None:
    """Each worker: what it has, and what its handler lacks."""
    workers = [
        worker(f"w{n}", Handler(kind="preview", version="v1", missing=tuple(lacking)), has=tuple(has))
        for n, (has, lacking) in enumerate(fleet)
    ]

    found = route(*workers, needs=tuple(needs))

    able = tuple(f"w{n}" for n, (has, lacking) in enumerate(fleet) if not lacking and needs <= has)
    if able:
        assert found == Offered(able)
    else:
        assert isinstance(found, Missing)
        assert found.what
