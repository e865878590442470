"""The store in a bucket, on two independent servers: the contract, and what only a network can do to it."""

from __future__ import annotations

import hashlib
import http.client
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from deploy.local.s3 import BUCKET, Ministack, S3Server, Seaweed
from planrun.core.errors import LostLease, StorageError
from planrun.storage.probe import probe
from planrun.storage.s3 import S3Store
from tests.contract.store_contract import LATER, MIB, PREFIX, StoreContract, yes


@pytest.fixture(scope="module", params=[Ministack, Seaweed], ids=["ministack", "seaweedfs"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    if request.param is Ministack:
        yield request.getfixturevalue("ministack")
        return
    started = Seaweed(tmp_path_factory.mktemp("s3"))
    started.start()
    yield started
    started.kill()  # it takes seconds to end


@pytest.fixture
def store(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Store:
    """In a folder of its own of the bucket."""
    return open_on(server, monkeypatch)


def open_on(server: S3Server, monkeypatch: pytest.MonkeyPatch, *, timeout_s: float = 20.0) -> S3Store:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return S3Store(BUCKET, f"planrun/{uuid.uuid4().hex}", endpoint=server.endpoint, timeout_s=timeout_s, retry_s=1.0)


class TestS3Store(StoreContract):
    @pytest.fixture
    def store(self, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Store:
        return open_on(server, monkeypatch)


ministack_alone = pytest.mark.parametrize("server", [Ministack], indirect=True, ids=["ministack"])
seaweed_alone = pytest.mark.parametrize("server", [Seaweed], indirect=True, ids=["seaweedfs"])


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Twenty chunks in three parts: asked 21 times for its digest, then 22 times while it is sent."""
    path = tmp_path / "large.mp4"
    with path.open("wb") as file:
        for chunk in range(20):
            file.write(bytes([chunk]) * MIB)
    return path


def once(act: Callable[[], object], *, at: int, then: bool = True) -> Callable[[], bool]:
    """Says yes, and does something when it is asked for the n-th time."""
    asked = 0

    def may_go_on() -> bool:
        nonlocal asked
        asked += 1
        if asked == at:
            act()
        return then or asked < at

    return may_go_on


def unfinished(server: S3Server) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    try:
        connection.request("GET", f"/{BUCKET}?uploads")
        return connection.getresponse().read().count(b"<UploadId>")
    finally:
        connection.close()


def test_a_server_that_is_killed_in_the_middle_is_away_and_nothing_becomes_visible(
    server: S3Server, store: S3Store, large: Path
) -> None:
    with pytest.raises(StorageError, match="no connection") as raised:
        store.put(PREFIX, "out.mp4", large, may_go_on=once(server.kill, at=40))

    assert raised.value.is_away
    server.start()
    assert list(store.keys("")) == []
    stored = store.put(PREFIX, "out.mp4", large, may_go_on=yes)
    assert list(store.keys("")) == [stored.key]


def test_a_frozen_server_is_away_until_it_goes_on(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, large: Path
) -> None:
    store = open_on(server, monkeypatch, timeout_s=1.0)
    try:
        with pytest.raises(StorageError, match="no answer in time") as raised:
            store.put(PREFIX, "out.mp4", large, may_go_on=once(server.freeze, at=40))
    finally:
        server.thaw()

    assert raised.value.is_away
    patient = open_on(server, monkeypatch)
    stored = patient.put(PREFIX, "out.mp4", large, may_go_on=yes)
    assert patient.head(stored.key) == stored.bytes


@ministack_alone  # it lists uploads to anybody
def test_an_upload_that_is_given_up_is_aborted(server: S3Server, store: S3Store, large: Path) -> None:
    """Else its parts would be paid for, and shown to nobody."""
    before = unfinished(server)
    during: list[int] = []

    with pytest.raises(LostLease):
        store.put(
            PREFIX, "out.mp4", large, may_go_on=once(lambda: during.append(unfinished(server)), at=40, then=False)
        )

    assert during == [before + 1]
    assert unfinished(server) == before


def test_a_source_that_changes_between_its_digest_and_its_upload_is_refused(store: S3Store, large: Path) -> None:
    """The digest is in the key: other bytes must never lie there."""

    def rewrite() -> None:
        with large.open("r+b") as late:
            late.write(b"late")

    with pytest.raises(StorageError, match="still writes to it") as raised:
        store.put(PREFIX, "out.mp4", large, may_go_on=once(rewrite, at=21))

    assert not raised.value.is_away
    assert list(store.keys("")) == []


def test_a_link_serves_the_bytes_to_somebody_without_credentials(store: S3Store, large: Path) -> None:
    stored = store.put(PREFIX, "füße & co.mp4", large, may_go_on=yes)

    link = store.url_of(stored.key, ttl_s=60)

    assert link is not None
    with urlopen(link, timeout=20) as answer:
        assert hashlib.sha256(answer.read()).hexdigest() == stored.sha256


def test_a_copy_under_a_public_name_is_made_by_the_server_and_replaces_the_one_before(
    store: S3Store, large: Path, tmp_path: Path
) -> None:
    (tmp_path / "small").write_bytes(b"newer")
    older = store.put(PREFIX, "out.mp4", large, may_go_on=yes)
    newer = store.put(LATER, "out.mp4", tmp_path / "small", may_go_on=yes)

    store.copy_public(older.key, "media/film/out.mp4")
    store.copy_public(newer.key, "media/film/out.mp4")

    assert store.read("_public/media/film/out.mp4") == b"newer"
    assert store.head(older.key) == older.bytes


def test_both_servers_do_what_the_protocol_needs(store: S3Store) -> None:
    assert probe(store, "p1").problems == ()
    assert list(store.keys("")) == []


@seaweed_alone  # the other one believes everybody
def test_wrong_credentials_are_a_refusal_that_names_the_variable(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    open_on(server, monkeypatch)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    (tmp_path / "f").write_bytes(b"x")

    with pytest.raises(StorageError, match="correct AWS_SECRET_ACCESS_KEY") as raised:
        S3Store(BUCKET, endpoint=server.endpoint).put(PREFIX, "f", tmp_path / "f", may_go_on=yes)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    with pytest.raises(StorageError, match="correct AWS_ACCESS_KEY_ID"):
        list(S3Store(BUCKET, endpoint=server.endpoint).keys(""))

    assert not raised.value.is_away
    assert "not-the-secret" not in str(raised.value)


@ministack_alone  # the other one makes the bucket
def test_a_missing_bucket_is_a_refusal_that_says_so(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    open_on(server, monkeypatch)
    (tmp_path / "f").write_bytes(b"x")
    store = S3Store("no-such-bucket", endpoint=server.endpoint)

    for ask in (
        lambda: store.put(PREFIX, "f", tmp_path / "f", may_go_on=yes),
        lambda: store.put_if_absent("a/b", b""),
        lambda: store.read("a/b"),
        lambda: list(store.keys("")),
    ):
        with pytest.raises(StorageError, match=r"bucket no-such-bucket at 127\.0\.0\.1.*no such bucket") as raised:
            ask()

        assert not raised.value.is_away
