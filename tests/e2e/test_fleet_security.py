"""A fleet with tokens and TLS, as its users have it; and that no secret gets where it does not belong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from planrun import Client, Invalid, LedgerUnavailable, PlanrunError, UnknownJob
from planrun.cli.app import run
from planrun.cli.exits import Exit
from tests.web.papers import Papers
from tests.worker.test_inputs import FILM, open_site

from .fleet import FleetOfOneBox, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.needs("openssl")]

JOBS = """
import os
from pathlib import Path
from planrun.jobs import JobContext, job

@job("look")
def look(j: JobContext):
    own = Path("/proc/self")
    said = [f"{name}={value}" for name, value in os.environ.items()]
    said += [(own / name).read_bytes().decode(errors="replace") for name in ("environ", "cmdline")]
    said += [os.readlink(each) for each in (own / "fd").iterdir() if each.is_symlink()]
    print("\\n".join(said), flush=True)
    size = j.inputs["film"].stat().st_size if "film" in j.inputs else 0
    return {"said": said, "bytes": size, "writable": os.access(j.inputs.get("film", "/"), os.W_OK)}
"""
SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "aws-secret-0123456789",
    "AWS_SESSION_TOKEN": "aws-session-0123456789",
    "AMQP_URL": "amqp://user:broker-secret-0123456789@127.0.0.1:1/",
}


@dataclass
class Guarded:
    """Attributes:
    tokens: By scope; `work` and `submit` are for the namespace `ads`.
    """

    fleet: FleetOfOneBox
    papers: Papers
    tokens: dict[str, str]

    @property
    def url(self) -> str:
        return self.fleet.url.replace("http:", "https:")


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Guarded]:
    (tmp_path / "film_jobs.py").write_text(JOBS)
    (tmp_path / "papers").mkdir()
    papers = Papers(tmp_path / "papers")
    cert, key = papers.sign("server")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PLANRUN_CA", str(papers.ca))
    monkeypatch.delenv("PLANRUN_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    file, tokens = f"sqlite:///{tmp_path}/ledger.db", {}
    for scope, namespace in (("submit", "ads"), ("work", "ads"), ("operate", "*")):
        capsys.readouterr()
        assert run(["token", "create", "--scope", scope, "--namespace", namespace, "--url", file]) == 0
        tokens[scope] = capsys.readouterr().out.strip()
    with opened(tmp_path, os.environ | SECRETS | {"PLANRUN_TOKEN": tokens["work"]}) as fleet:
        orchestrator = FleetOfOneBox(tmp_path, os.environ, fleet.port)
        orchestrator.orchestrate("--tls-cert", str(cert), "--tls-key", str(key))
        fleet.start(
            "worker", "film_jobs", "--url", fleet.url.replace("http:", "https:"), "--namespace", "ads",
            "--allow-input", "http://127.0.0.1",
        )  # fmt: skip
        try:
            yield Guarded(fleet, papers, tokens)
        finally:
            fleet.close()
            orchestrator.close()


def look(client: Client) -> object:
    return client.counts()


def refusal(ask: Callable[[Client], object], url: str) -> str:
    with pytest.raises(PlanrunError) as caught, Client(url) as client:
        ask(client)
    assert len(str(caught.value).splitlines()) <= 2
    return str(caught.value)


def test_a_job_runs_with_an_input_of_an_address_and_sees_no_secret(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANRUN_TOKEN", guarded.tokens["submit"])
    with open_site() as site, Client(guarded.url) as client:
        job = client.submit("look", namespace="ads", inputs={"film": site.url("/film.mov?signature=sign-0123")})
        answer = job.wait(timeout_s=90)
        assert answer.ok, answer.error
        bad = client.submit("look", namespace="ads", inputs={"film": site.url("/status/404?signature=sign-0123")})
        error = bad.wait(timeout_s=90).error
        log = job.logs()
    assert (answer.value["bytes"], len(site.asked)) == (len(FILM), 2)
    assert error is not None and error.code == "input-refused"
    told = [json.dumps(answer.value), str(error), log, guarded.fleet.log("worker"), guarded.fleet.log("orchestrator")]
    secrets = [
        *SECRETS.values(),
        *(token.split("_")[2] for token in guarded.tokens.values()),
        "secret-0123",
        "sign-0123",
    ]
    assert [secret for secret in secrets if any(secret in text for text in told)] == []
    assert "Traceback" not in "".join(told[2:])


def test_whoever_has_no_right_is_told_so_in_words_without_a_secret(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = guarded.tokens["submit"]
    forged = token[:-4] + "0000"
    for sent, ask, says in [
        ("", look, "Authorization: Bearer"),
        (forged, look, "unknown here"),
        (guarded.tokens["work"], look, "scope submit"),
        (token, lambda client: client.submit("look"), "namespace 'default'"),
        (token, lambda client: client.pause(), "scope operate"),
    ]:
        monkeypatch.setenv("PLANRUN_TOKEN", sent)
        said = refusal(ask, guarded.url)
        assert says in said
        assert token.split("_")[2] not in said and forged.split("_")[2] not in said
    monkeypatch.setenv("PLANRUN_TOKEN", guarded.tokens["operate"])
    with Client(guarded.url) as client:
        job = client.submit("look")
    monkeypatch.setenv("PLANRUN_TOKEN", token)
    with pytest.raises(UnknownJob), Client(guarded.url) as client:
        client.show(job.id)


def test_ends_that_do_not_fit_are_said_in_words(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLANRUN_TOKEN", guarded.tokens["submit"])
    monkeypatch.setenv("PLANRUN_CA", str(Papers(tmp_path / "papers", "other").ca))
    with pytest.raises(LedgerUnavailable, match="PLANRUN_CA"), Client(guarded.url) as client:
        look(client)
    assert "https://" in refusal(look, guarded.fleet.url)
    monkeypatch.setenv("PLANRUN_CA", str(tmp_path / "no.pem"))
    with pytest.raises(Invalid, match="PLANRUN_CA"), Client(guarded.url) as client:
        look(client)


def test_an_orchestrator_that_others_can_reach_wants_a_token_and_tls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PLANRUN_TOKEN", raising=False)
    start = ["orchestrator", "--url", f"sqlite:///{tmp_path}/ledger.db", "--listen", "0.0.0.0:0"]
    assert run(start) == Exit.USAGE
    assert "planrun token create" in capsys.readouterr().err
    assert run(["token", "create", "--scope", "work", "--url", start[2]]) == 0
    capsys.readouterr()
    assert run(start) == Exit.USAGE
    assert "--tls-cert" in capsys.readouterr().err
