"""Where inputs may come from."""

from __future__ import annotations

import pytest

from planrun.core.errors import Invalid
from planrun.core.inputs import check_fetched, rules_from, shown

SHA = "a" * 64


@pytest.mark.parametrize(
    ("patterns", "uri", "allowed"),
    [
        ([], "https://example.org/a.mov", True),
        ([], "https://example.org:8443/a.mov?signature=x", True),
        ([], "http://example.org/a.mov", False),
        ([], "ftp://example.org/a.mov", False),
        ([], "https:///a.mov", False),
        (["https://*.example.org"], "https://a.example.org/x", True),
        (["https://*.example.org"], "https://A.Example.ORG./x", True),
        (["https://*.example.org"], "https://example.org.evil/x", False),
        (["https://*.example.org"], "https://evilexample.org/x", False),
        (["https://a.org"], "https://a.org@evil.org/x", False),
        (["https://a.org"], "https://a.org:1/x", True),
        (["https://a.org:443"], "https://a.org:1/x", False),
        (["http://a.org/media"], "http://a.org/media/x", True),
        (["http://a.org/media"], "http://a.org/media", True),
        (["http://a.org/media/"], "http://a.org/mediaeval/x", False),
        (["http://a.org/media"], "http://a.org/mediaeval/x", False),
        (["http://a.org/media"], "http://a.org/media/../secret", False),
        (["http://a.org/media"], "http://a.org/media/%2e%2e/secret", False),
        (["http://a.org/media"], "https://a.org/media/x", False),
        (["file:/srv/media"], "https://example.org/a.mov", False),
        (["https://*"], "https://example.org:99999/a", False),
    ],
)
def test_an_address_is_asked_only_where_a_rule_fits(patterns: list[str], uri: str, allowed: bool) -> None:
    assert rules_from(patterns, is_fleet=True).allow(uri) is allowed


@pytest.mark.parametrize(
    ("patterns", "is_fleet", "folders"),
    [([], False, ["/"]), ([], True, []), (["file:/srv/media"], True, ["/srv/media"]), (["https://*"], False, ["/"])],
)
def test_files_are_taken_from_everywhere_only_where_this_box_alone_hands_jobs_in(
    patterns: list[str], is_fleet: bool, folders: list[str]
) -> None:
    assert [str(folder) for folder in rules_from(patterns, is_fleet=is_fleet).folders] == folders


@pytest.mark.parametrize(
    ("key", "is_taken"),
    [
        (f"ads/jobs/j/1-21/{SHA}/out.mp4", True),
        (f"other/jobs/j/1-21/{SHA}/out.mp4", False),
        (f"ads/jobs/../../other/{SHA}/out.mp4", False),
        (f"ads/jobs/j/1-21/{SHA}/..", False),
        ("ads/jobs/j/1-21/abc/out.mp4", False),
        ("_public/ads/out.mp4", False),
    ],
)
def test_of_the_store_only_results_of_the_job_s_own_namespace_are_taken(key: str, is_taken: bool) -> None:
    rules = rules_from([], store="s3://bucket/prefix", is_fleet=True)

    assert rules.stored(f"s3://bucket/prefix/{key}", "ads") == ((key, SHA) if is_taken else None)
    assert rules.stored(f"s3://bucket/prefixed/{key}", "ads") is None
    assert rules_from([], is_fleet=True).stored(f"s3://bucket/prefix/{key}", "ads") is None


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "example.org",
        "ftp://a",
        "https://",
        "https://u:p@a",
        "https://a?b",
        "file:srv",
        "file:/a/../b",
        "file://h/a",
        "https://a b",
    ],
)
def test_a_pattern_that_allows_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid):
        rules_from([pattern], is_fleet=True)


@pytest.mark.parametrize(
    "uri",
    [
        "https://",
        "https:///x",
        "https://u:secret@h/x",
        "https://u@h/x",
        "https://h/x#y",
        "https://h/a b",
        "https://h:x/",
    ],
)
def test_an_address_that_cannot_be_right_is_refused_without_its_secret(uri: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_fetched("video", uri)
    assert "secret" not in str(caught.value)


def test_an_address_is_shown_without_what_signs_it() -> None:
    assert shown("https://h/x.mov?signature=abc") == "https://h/x.mov?…"
    assert shown("https://u:secret@h/x.mov#part") == "https://h/x.mov"
