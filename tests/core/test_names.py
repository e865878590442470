"""Ids, tokens and keys: stable where they must be, and never the same for two things."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrun.core.names import attempt_prefix, digest, is_name, job_id_of, object_key, token_of, token_shown

generations = st.integers(1, 2**20)
counts = st.integers(0, 2**40 - 1)
name_texts = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
attempts = st.tuples(name_texts, st.uuids().map(str), st.integers(1, 10_000), st.builds(token_of, generations, counts))
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_a_request_gives_the_same_job_id_on_every_machine() -> None:
    """The value is fixed: a client that retries after an upgrade must not make a second job."""
    first = job_id_of("default", "r-1")

    assert first == job_id_of("default", "r-1")
    assert first == str(uuid.uuid5(uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_URL, "planrun:namespaces"), "default"), "r-1"))


@given(st.tuples(name_texts, st.text()), st.tuples(name_texts, st.text()))
def test_two_requests_never_share_a_job_id(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (job_id_of(*one) == job_id_of(*other)) == (one == other)


@given(generations, counts, generations, counts)
def test_tokens_are_ordered_by_generation_and_then_by_count(g1: int, n1: int, g2: int, n2: int) -> None:
    """After a restore the generation is new, so even a lower count gives a higher token."""
    assert (token_of(g1, n1) < token_of(g2, n2)) == ((g1, n1) < (g2, n2))


@given(generations, counts)
def test_people_see_the_count_alone(generation: int, n: int) -> None:
    assert token_shown(token_of(generation, n)) == n


@given(generations, counts)
def test_a_token_fits_a_column_of_64_bits(generation: int, n: int) -> None:
    assert 0 <= token_of(generation, n) < 2**63


@given(attempts, attempts)
def test_no_attempts_prefix_lies_inside_another_ones(
    one: tuple[str, str, int, int], other: tuple[str, str, int, int]
) -> None:
    prefix, foreign = attempt_prefix(*one), attempt_prefix(*other)

    assert (prefix == foreign) == (one == other)
    assert prefix == foreign or not prefix.startswith(foreign)


def test_attempt_1_with_token_11_and_attempt_11_with_token_1_do_not_meet() -> None:
    assert attempt_prefix("n", "j", 1, 0x11) != attempt_prefix("n", "j", 11, 0x1)


def test_the_same_attempt_granted_again_after_a_restore_has_its_own_prefix() -> None:
    """The attempt number alone comes back with an old backup; the token does not."""
    assert attempt_prefix("n", "j", 1, token_of(1, 7)) != attempt_prefix("n", "j", 1, token_of(2, 7))


def test_an_object_lies_below_its_attempt_by_digest_and_name() -> None:
    prefix = attempt_prefix("media", "j1", 2, 0x22)

    assert object_key(prefix, "ab12", "out.mp4") == "media/jobs/j1/2-22/ab12/out.mp4"


@given(st.dictionaries(st.text(), plain, max_size=6))
def test_equal_data_has_an_equal_digest_whatever_its_order(value: dict[str, object]) -> None:
    assert digest(dict(reversed(value.items()))) == digest(value)


@given(plain, plain)
def test_other_data_has_another_digest(one: object, other: object) -> None:
    if one != other:
        assert digest(one) != digest(other)


@pytest.mark.parametrize("text", ["default", "preview-1080p", "v2", "a", "0", "A.b_c-d", "x" * 128])
def test_a_plain_word_is_a_name(text: str) -> None:
    assert is_name(text)


@pytest.mark.parametrize("text", ["", ".", "..", ".hidden", "-v", "a/b", "a b", "a\n", "é", "x" * 129, "a\0", "../etc"])
def test_what_could_leave_a_folder_or_break_a_line_is_no_name(text: str) -> None:
    assert not is_name(text)


def test_the_first_token_of_a_generation_is_above_the_last_of_the_one_before() -> None:
    """A restored ledger counts again from an older number, under a new generation."""
    assert token_of(2, 0) > token_of(1, 1_000_000_000)


@given(name_texts, st.text(st.characters(exclude_categories=["Cs"])))
def test_a_job_id_is_a_uuid_of_version_5(namespace: str, request_id: str) -> None:
    root = uuid.uuid5(uuid.NAMESPACE_URL, "planrun:namespaces")

    assert job_id_of(namespace, request_id) == str(uuid.uuid5(uuid.uuid5(root, namespace), request_id))
