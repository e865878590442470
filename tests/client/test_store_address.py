"""All that use one ledger look for its results in one place, whatever each of them was told."""

from __future__ import annotations

from pathlib import Path

import pytest

from planrun.config import place_of
from planrun.core.errors import Invalid
from planrun.storage import address
from planrun.storage.address import BucketAddress, address_for, read_address
from planrun.wiring import open_store


@pytest.mark.parametrize(
    ("address", "meant"),
    [
        ("s3://results", BucketAddress("results", "")),
        ("s3://results/", BucketAddress("results", "")),
        ("s3://my.results-1/a/b/", BucketAddress("my.results-1", "a/b")),
        ("/srv/results", Path("/srv/results")),
    ],
)
def test_an_address_is_a_bucket_or_a_folder(address: str, meant: object) -> None:
    assert read_address(address) == meant


@pytest.mark.parametrize(
    "address",
    [
        "s3://",
        "s3:///x",
        "s3://a",
        "s3://results/x//y",
        "s3://results/../x",
        "s3://results/x?y",
        "gs://results",
        "results",
    ],
)
def test_anything_else_is_refused(address: str) -> None:
    with pytest.raises(Invalid, match="s3://BUCKET"):
        read_address(address)


def test_a_secret_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(Invalid, match="AWS_SECRET_ACCESS_KEY") as raised:
        read_address("s3://id:the-secret@results")

    assert "the-secret" not in str(raised.value)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("PLANRUN_STORE", raising=False)
    return f"sqlite:///{tmp_path}/ledger.db"


def test_what_the_first_worker_was_told_holds_for_all(url: str, tmp_path: Path) -> None:
    place, told = place_of(url), str(tmp_path / "elsewhere")
    assert address_for(place, "", settle=False) == str(place.store)
    assert address_for(place, told, settle=False) == told  # a client that only looks decides nothing
    assert address_for(place, "", settle=False) == str(place.store)

    open_store(url, told, settle=True)

    assert str(open_store(url)) == told
    assert str(open_store(url, told)) == told
    with pytest.raises(Invalid, match=f"are in {told}, not in s3://other"):
        open_store(url, "s3://other")


def test_of_two_that_are_the_first_at_once_one_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, write = place_of(url), address._write

    def write_late(note: Path, given: str) -> None:
        write(note, "s3://other")
        write(note, given)

    monkeypatch.setattr(address, "_write", write_late)

    with pytest.raises(Invalid, match="are in s3://other, not in s3://mine"):
        address_for(place, "s3://mine", settle=True)

    assert address_for(place, "", settle=False) == "s3://other"
    assert list(place.store_address.parent.iterdir()) == [place.store_address]


def test_a_ledger_that_has_results_does_not_lose_them_by_an_option(url: str) -> None:
    place = place_of(url)
    (place.store / "default").mkdir(parents=True)

    with pytest.raises(Invalid, match=r"so far; copy them to s3://new, keeping their paths, and write s3://new into"):
        open_store(url, "s3://new", settle=True)

    assert str(open_store(url)) == str(place.store)


def test_the_environment_says_it_where_nothing_else_does(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANRUN_STORE", str(tmp_path / "named"))

    assert str(open_store(url)) == str(tmp_path / "named")


def test_an_address_of_a_server_that_is_none_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:9000")

    with pytest.raises(Invalid, match="AWS_ENDPOINT_URL: write http"):
        open_store(url, "s3://results")
