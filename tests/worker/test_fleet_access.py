"""What a worker takes from its orchestrator, and what it knows better itself."""

from __future__ import annotations

from planrun.config import s3_access_from, s3_access_with

KEY = {"AWS_ACCESS_KEY_ID": "theirs", "AWS_SECRET_ACCESS_KEY": "their secret"}
SERVER = {"AWS_ENDPOINT_URL": "http://s3.lan:9000", "AWS_REGION": "eu-1"}


def test_server_region_and_lasting_keys_are_told_and_nothing_else_of_the_environment() -> None:
    assert s3_access_from({**KEY, **SERVER, "AWS_PROFILE": "x", "PLANRUN_TOKEN": "y"}) == KEY | SERVER


def test_keys_that_run_out_are_not_told() -> None:
    assert s3_access_from({**KEY, **SERVER, "AWS_SESSION_TOKEN": "z"}) == SERVER


def test_what_a_machine_knows_itself_goes_first_and_never_half_a_key_of_somebody_else() -> None:
    assert s3_access_with(KEY | SERVER, {}) == KEY | SERVER
    assert s3_access_with(KEY | SERVER, {"AWS_ACCESS_KEY_ID": "mine"}) == SERVER
    assert s3_access_with(KEY, {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}) == {}
    assert s3_access_with(SERVER, {"AWS_ENDPOINT_URL_S3": "http://mine"}) == {"AWS_REGION": "eu-1"}
