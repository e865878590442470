"""What crosses arrives equal; what would not is refused with its path."""

from __future__ import annotations

import enum
import json
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrun.core.errors import Invalid
from planrun.core.values import DEPTH_MAX, check_json

BYTES_MAX = 1000


class Shade(enum.IntEnum):
    DARK = 3


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def cycle() -> dict[str, Any]:
    value: dict[str, Any] = {"a": [1]}
    value["a"].append({"again": value})
    return value


def doubled(times: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**64),
        10**400,
        1e308,
        5e-324,
        -0.0,
        "",
        "ü\u0000\n€",
        None,
        True,
        [],
        {},
        {"": [{"a": 1.5}]},
        nested(100),
    ],
)
def test_c90_what_is_accepted_arrives_equal(value: Any) -> None:
    text = check_json(value, bytes_max=BYTES_MAX, what="params")
    back = msgspec.json.decode(text)

    assert (repr(back), repr(json.loads(text))) == (repr(value), repr(value))


def test_a_number_with_a_name_arrives_as_the_number() -> None:
    assert check_json({"shade": Shade.DARK}, bytes_max=BYTES_MAX, what="params") == '{"shade":3}'


@pytest.mark.parametrize(
    ("value", "refusal"),
    [
        ({"a": {"b": [0, float("nan")]}}, "params.a.b[1]: nan is not JSON; use None or text"),
        (float("-inf"), "params: -inf is not JSON; use None or text"),
        ({"a": b"x"}, "params.a: bytes is not JSON; write the bytes to a file, or encode them as text"),
        ([(1, 2)], "params[0]: tuple is not JSON; use a list"),
        ({"a": {1, 2}}, "params.a: set is not JSON; use a list"),
        ({"a": {1: 2}}, "params.a: a key of type int would arrive as text; use text keys"),
        (
            {"when": date(2026, 1, 1)},
            "params.when: date is not JSON; use text, numbers, lists and dicts with text keys",
        ),
        (Decimal("1"), "params: Decimal is not JSON; use text, numbers, lists and dicts with text keys"),
        (UUID(int=1), "params: UUID is not JSON; use text, numbers, lists and dicts with text keys"),
        ({"a": "\ud800"}, "params.a: text with a lone surrogate cannot be written as UTF-8"),
        ({"\ud800": 1}, "params, a key: text with a lone surrogate cannot be written as UTF-8"),
        (
            {"line\nbreak": 1j},
            "params.line\\nbreak: complex is not JSON; use text, numbers, lists and dicts with text keys",
        ),
        (10**5000, "params: an integer of more than 3 900 digits; write it as text"),
        (cycle(), "params.a[1].again: contains itself"),
        (nested(DEPTH_MAX + 1), "nested deeper than 100 levels"),
        (nested(10_000), "nested deeper than 100 levels"),
    ],
    ids=lambda case: case.partition(":")[2].partition(";")[0].strip() if isinstance(case, str) else "",
)
def test_c86_what_would_change_is_refused_in_one_line_with_its_path(value: Any, refusal: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_json(value, bytes_max=BYTES_MAX, what="params")

    assert str(refused.value).endswith(refusal)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["x", "ü", "€", "\n", "\U0001f3ac"])
def test_c88_the_limit_counts_the_bytes_that_are_written(text: str) -> None:
    size = len(json.dumps(text, ensure_ascii=False).encode())

    assert check_json(text, bytes_max=size, what="value")

    with pytest.raises(Invalid, match=f"value is larger than {size - 1} bytes of JSON"):
        check_json(text, bytes_max=size - 1, what="value")


def test_a_small_structure_that_unfolds_to_a_huge_one_is_refused_early() -> None:
    with pytest.raises(Invalid, match="larger than 1000 bytes"):
        check_json(doubled(90), bytes_max=BYTES_MAX, what="params")


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(plain)
def test_every_plain_value_is_accepted_and_arrives_equal(value: Any) -> None:
    text = check_json(value, bytes_max=10_000_000, what="params")

    assert repr(msgspec.json.decode(text)) == repr(value)
