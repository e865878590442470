"""What a token is for, and how it is written."""

from __future__ import annotations

import pytest

from planrun.core.access import (
    ANYBODY,
    AccessToken,
    Bearer,
    Scope,
    bearer_of,
    digest_of,
    token_id_of,
    token_text,
)


@pytest.mark.parametrize(
    ("own", "may"),
    [
        ({Scope.SUBMIT}, {Scope.SUBMIT}),
        ({Scope.WORK}, {Scope.WORK}),
        ({Scope.OPERATE}, {Scope.OPERATE, Scope.SUBMIT}),
        (set(Scope), set(Scope)),
        (set(), set()),
    ],
)
def test_a_scope_opens_what_it_says_and_operating_includes_asking(own: set[Scope], may: set[Scope]) -> None:
    bearer = Bearer(scopes=frozenset(own))

    assert {scope for scope in Scope if bearer.may(scope)} == may


def test_a_star_stands_for_every_namespace_and_nothing_else_does() -> None:
    fields = {"token_id": "x", "digest": "", "scopes": (Scope.SUBMIT,)}
    every = bearer_of(AccessToken(**fields, namespaces=("ads", "*")))  # type: ignore[arg-type]
    some = bearer_of(AccessToken(**fields, namespaces=("ads",)))  # type: ignore[arg-type]

    assert every.sees("other") and ANYBODY.sees("other")
    assert some.sees("ads") and not some.sees("other") and not some.sees("*")
    assert some.sees_any(["other", "ads"]) and not some.sees_any(["other"])


def test_a_token_has_256_bits_of_chance_beside_its_public_part() -> None:
    text = token_text("0123456789abcdef" * 6)

    assert text == "pr_01234567_" + "89abcdef01234567" * 4
    assert token_id_of(text) == "01234567"
    assert digest_of(text) != digest_of(text[:-1] + "8")


@pytest.mark.parametrize(
    "text", ["", "pr_", "pr_01234567_", "pr_0123456g_" + "0" * 64, "x" * 76, "pr_01234567_" + "é" * 64]
)
def test_what_is_no_token_has_no_id(text: str) -> None:
    assert token_id_of(text) is None
