"""What may be submitted, and what makes two submits the same."""

from __future__ import annotations

import os
import uuid
from dataclasses import fields
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from planrun.client.content import Asked, Submit, SubmitOptions, ask
from planrun.core.errors import Invalid
from planrun.core.requests import PARAMS_BYTES_MAX


def asked(submit: Submit) -> Asked:
    return ask(submit, request_id="r", wall_ms=1_000)


def test_the_keyword_options_are_the_fields_of_a_submit() -> None:
    assert {"kind", *SubmitOptions.__annotations__} == {field.name for field in fields(Submit)}


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ((1, 2), "params.deep[0].x"),
        (b"bytes", "params.deep[0].x"),
        (date(2026, 1, 1), "params.deep[0].x"),
        (uuid.uuid4(), "params.deep[0].x"),
        (Decimal("1.5"), "params.deep[0].x"),
        ({1: "one"}, "params.deep[0].x"),
        ({1, 2}, "params.deep[0].x"),
        (float("nan"), "params.deep[0].x"),
        (float("inf"), "params.deep[0].x"),
        ("\ud800", "params.deep[0].x"),
    ],
)
def test_c90_a_param_that_would_arrive_changed_is_refused_with_its_path(value: Any, named: str) -> None:
    with pytest.raises(Invalid) as error:
        asked(Submit("preview", params={"deep": [{"x": value}]}))

    assert named in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("over", [-1, 0, 1, 100_000_000])
def test_c88_params_have_a_limit_that_is_named(over: int) -> None:
    params = {"x": "a" * (PARAMS_BYTES_MAX - len('{"x":""}') + over)}

    if over <= 0:
        assert asked(Submit("preview", params=params)).request.params == params
        return
    with pytest.raises(Invalid, match=str(PARAMS_BYTES_MAX)):
        asked(Submit("preview", params=params))


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "two words"},
        {"kind": ""},
        {"version": "v/1"},
        {"namespace": "../x"},
        {"inputs": {"a b": "x"}},
        {"inputs": ["x"]},
        {"inputs": {"x": 7}},
        {"inputs": {"x": ""}},
        {"inputs": {"x": "gs://bucket/x"}},
        {"inputs": {"x": "https:///file"}},
        {"inputs": {"x": "file://elsewhere/file"}},
        {"params": [1]},
        {"needs": "gpu"},
        {"needs": [7]},
        {"key": ""},
        {"key": "x" * 10_000},
        {"request_id": ""},
        {"request_id": "a\0b"},
        {"priority": 1.5},
        {"priority": True},
        {"priority": 2**70},
        {"delay_s": -1},
        {"delay_s": float("nan")},
        {"delay_s": "soon"},
        {"deadline_s": 0},
        {"deadline_s": float("inf")},
        {"max_attempts": 0},
        {"subscribers": ["mail:me"]},
        {"subscribers": "webhook:https://app.example/x"},
        {"who": 7},
    ],
)
def test_what_cannot_be_right_is_refused_in_one_line(wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as error:
        asked(Submit(**({"kind": "preview"} | wrong)))

    assert "\n" not in str(error.value)


def test_local_inputs_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a film.mov").write_text("film")
    monkeypatch.chdir(tmp_path)
    given: dict[str, str | Path] = {
        "path": Path("a film.mov"),
        "text": "a film.mov",
        "uri": f"file://{tmp_path}/a%20film.mov",
    }

    checked = asked(Submit("preview", inputs=given))

    assert set(checked.request.inputs.values()) == {f"{tmp_path}/a film.mov"}
    assert checked.unreadable == ""


def test_inputs_that_cannot_be_read_are_explained(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "secret").write_text("x")

    for name, words in (("nowhere", "no such file"), ("pipe", "not a regular file"), ("", "folder")):
        assert words in asked(Submit("preview", inputs={"upload": tmp_path / name})).unreadable


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_input_without_permission_is_explained(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0)

    assert "permissions" in asked(Submit("preview", inputs={"upload": tmp_path / "secret"})).unreadable


def test_a_replaced_input_is_other_content_but_the_same_call(tmp_path: Path) -> None:
    film = tmp_path / "film.mov"
    film.write_text("one")
    submit = Submit("preview", inputs={"upload": film}, key="content")
    first, again = asked(submit).request, asked(submit).request
    film.write_text("another")
    replaced = asked(submit).request

    assert first.content_hash == again.content_hash != replaced.content_hash
    assert first.request_hash == replaced.request_hash
    assert (first.key, replaced.key) == (first.content_hash, replaced.content_hash)


def test_the_order_of_params_and_inputs_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    one = asked(Submit("preview", params={"a": 1, "b": 2}, inputs={"x": tmp_path / "f", "y": tmp_path / "f"})).request
    two = asked(Submit("preview", params={"b": 2, "a": 1}, inputs={"y": tmp_path / "f", "x": tmp_path / "f"})).request

    assert (one.content_hash, one.request_hash) == (two.content_hash, two.request_hash)


@pytest.mark.parametrize(
    ("change", "content_changes", "request_changes"),
    [
        ({"version": "v2"}, True, True),
        ({"params": {"x": 1}}, True, True),
        ({"params": {"x": 1.0}}, True, True),
        ({"key": "k"}, False, True),
        ({"priority": 1}, False, True),
        ({"delay_s": 5}, False, True),
        ({"deadline_s": 5}, False, True),
        ({"needs": ["gpu"]}, False, True),
        ({"subscribers": ["webhook:https://app.example/x"]}, False, False),
        ({"who": "ann"}, False, False),
    ],
)
def test_each_digest_covers_what_it_says(change: dict[str, Any], content_changes: bool, request_changes: bool) -> None:
    plain, changed = asked(Submit("preview")).request, asked(Submit("preview", **change)).request

    assert (changed.content_hash != plain.content_hash) is content_changes
    assert (changed.request_hash != plain.request_hash) is request_changes
