"""`@job` and `@capability`: good declarations become kinds, bad ones are an error at import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from planrun.core.errors import Invalid
from planrun.core.kinds import GIB, MIB, Kind
from planrun.jobs import JobContext, capability, declaration, job


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(declaration, "_jobs", {})
    monkeypatch.setattr(declaration, "_probes", {})
    return iter(())


def render(j: JobContext) -> str:
    return "rendered"


def test_a_declared_function_stays_callable_and_becomes_a_kind() -> None:
    decorated = job(
        "preview",
        version="v2",
        needs=["ffmpeg"],
        resumable="fmt-1",
        output_bytes_max="2GiB",
        memory_bytes_max="1.5 MiB",
    )(render)

    assert decorated is render
    assert declaration.declared_kinds() == (
        Kind(
            kind="preview",
            version="v2",
            module=__name__,
            needs=("ffmpeg",),
            resumable="fmt-1",
            output_bytes_max=2 * GIB,
            memory_bytes_max=3 * MIB // 2,
        ),
    )
    assert declaration.function_of("preview", "v2") is render
    assert declaration.function_of("preview", "v1") is None


def test_what_is_not_said_is_the_default_of_a_kind() -> None:
    job("plain")(render)

    assert declaration.declared_kinds() == (Kind(kind="plain", version="v1", module=__name__),)


@pytest.mark.parametrize(("said", "seconds"), [("30d", 2_592_000), ("1.5h", 5400), ("90 min", 5400), ("7s", 7), (7, 7)])
def test_how_long_results_are_kept_is_seconds_or_a_text_with_its_unit(said: float | str, seconds: float) -> None:
    job("kept", result_ttl=said)(render)

    assert declaration.declared_kinds()[0].result_ttl_s == seconds


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: job("two words"), "kind 'two words' is not a name"),
        (lambda: job("k", version=""), "version '' is not a name"),
        (lambda: job("k", needs="ffmpeg"), 'write needs=["ffmpeg"]'),
        (lambda: job("k", needs=["a b"]), "needs 'a b' is not a name"),
        (lambda: job("k", max_runtime_s=0), "max_runtime_s is 0; use seconds above 0"),
        (lambda: job("k", stall_s=float("nan")), "stall_s is nan"),
        (lambda: job("k", output_bytes_max="2GB"), "output_bytes_max is '2GB'"),
        (lambda: job("k", output_bytes_max=0), "output_bytes_max is 0"),
        (lambda: job("k", memory_bytes_max=-1), "memory_bytes_max is -1"),
        (lambda: job("k", log_bytes_max=True), "log_bytes_max is True"),
        (lambda: job("k", result_ttl="30 days"), "result_ttl is '30 days'; use seconds, or text such as"),
        (lambda: job("k", result_ttl="0d"), "result_ttl is 0.0; use seconds above 0"),
        (lambda: job("k")(JobContext), "must stand on a function"),
        (lambda: job(render), 'write @job("render")'),  # type: ignore[arg-type]
        (lambda: job("k")(lambda: None), "must take one argument"),
        (lambda: capability("a b"), "name 'a b' is not a name"),
    ],
)
def test_a_bad_declaration_says_what_is_wrong(declare: Callable[[], Any], words: str) -> None:
    with pytest.raises(Invalid) as refused:
        declare()

    assert words in str(refused.value)


def test_declaring_a_kind_and_version_twice_is_refused_and_names_both() -> None:
    job("twice")(render)
    job("twice", version="v2")(render)
    with pytest.raises(Invalid, match=r"declared twice, by tests\.jobs\.test_declaration\.render and"):
        job("twice")(render)


def test_a_capability_can_be_probed_by_one_function_only() -> None:
    capability("gpu")(lambda: True)
    with pytest.raises(Invalid, match="declared twice"):
        capability("gpu")(lambda: False)
