"""A ledger that is an older copy: what the store knows is taken over, no token comes twice, and proof is heeded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from planrun.core.life import Outcome, State
from planrun.core.manifests import Manifest, Subscriber
from planrun.core.messages import Granted, Lease, Refused, Result
from planrun.core.names import job_id_of, token_of
from planrun.core.seals import seal_of
from planrun.ledger.chronicle import Chronicle
from planrun.ledger.contract import Ledger

from .actors import Actors, a_request, an_output
from .closing_contract import DAY_S, ChronicleContract
from .manual_clock import ManualClock


class RecoveryContract(ChronicleContract):
    @pytest.mark.parametrize("state", ["queued", "running", "mine"])
    async def test_a_job_that_is_open_here_ends_as_its_manifest_says(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle, state: str
    ) -> None:
        await chronicle.be_strict()
        lease = await they.running(subscribers=("webhook:https://x.example",))
        manifest = a_manifest(lease, token=lease.token if state == "mine" else token_of(1, 99), attempt=1)
        if state == "queued":
            await they.release(lease)
            manifest = a_manifest(lease, token=token_of(1, 99), attempt=3)

        assert await chronicle.unadopted([lease.job_id, "nobody"]) == [lease.job_id, "nobody"]
        await chronicle.adopt([manifest])

        assert await chronicle.unadopted([lease.job_id]) == []
        assert await they.result(lease.job_id) == manifest.result
        row = await they.row(lease.job_id)
        assert (row.state, row.closing, row.attempt) == (State.FINISHED, False, manifest.result.attempt)
        assert list(await they.bodies()) == [f"result:{lease.job_id}:webhook:https://x.example"]
        assert await they.standing(lease) == "lost"
        assert (await they.succeed(lease)).status == ("won" if state == "mine" else "lost")
        assert await they.result(lease.job_id) == manifest.result
        assert await ledger.violations() == []

    async def test_a_job_that_only_the_store_knows_answers_under_its_ids_and_its_key(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle
    ) -> None:
        await chronicle.be_strict()
        asked = a_request(request_id="r", key="k")
        lease = Lease(job_id=job_id_of("default", "r"), attempt=2, token=token_of(1, 9))
        plain = a_manifest(lease, token=lease.token, attempt=2)
        manifest = structs.replace(
            plain,
            result=structs.replace(plain.result, key="k", ended_at_ms=they.clock.wall_ms),
            request_id="r",
            request_hash=asked.request_hash,
            content_hash=asked.content_hash,
            subscribers=(Subscriber(route="webhook:https://x.example"), Subscriber(route="publish:a.mp4", seq=4)),
        )

        await chronicle.adopt([manifest])

        assert await they.result(lease.job_id) == manifest.result
        row = await ledger.job(None, "r")
        assert row is not None
        assert (row.job_id, row.state, row.attempt) == (lease.job_id, State.FINISHED, 2)
        assert [attempt.token for attempt in await ledger.attempts(lease.job_id)] == [lease.token]
        [again] = await ledger.submit([asked])
        assert (again.disposition, again.job_id) == ("repeated", lease.job_id)
        assert (await they.submit(key="k")).job_id == lease.job_id
        assert list(await they.bodies()) == [f"result:{lease.job_id}:publish:a.mp4"]  # the other waits for it
        assert await ledger.holder_of("default", "a.mp4") == lease.job_id
        assert await ledger.violations() == []

    async def test_the_key_of_a_job_that_is_open_here_stays_with_it(self, they: Actors, chronicle: Chronicle) -> None:
        await chronicle.be_strict()
        holder = await they.running(key="k")
        lease = Lease(job_id=job_id_of("default", "r"), attempt=1, token=token_of(1, 9))
        plain = a_manifest(lease, token=lease.token, attempt=1)
        result = structs.replace(plain.result, key="k", ended_at_ms=they.clock.wall_ms)

        assert await chronicle.adopt([structs.replace(plain, result=result)]) == 1
        await chronicle.end_recovery()

        reply = await they.submit(key="k")
        assert (reply.disposition, reply.job_id) == ("joined", holder.job_id)

    async def test_while_recovering_and_of_an_open_job_of_older_tokens_nothing_is_garbage(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle, clock: ManualClock
    ) -> None:
        """A manifest may name what an older generation stored, until the job's own manifest stands."""
        await chronicle.be_strict()
        old = await they.running()
        await they.expire_all()
        await chronicle.take_generation(2, "me", seal_key="k2", recovering=True)
        new = await they.grant(old.job_id, by="w2")
        await they.release(new)
        clock.advance(8 * DAY_S)

        async def rubbish() -> Sequence[int]:
            return [garbage.lease.token for garbage in await ledger.garbage(grace_ms=0, limit=9)]

        assert await rubbish() == []
        await chronicle.end_recovery()
        assert await rubbish() == [new.token]
        await they.succeed(await they.grant(old.job_id, by="w2"))
        await chronicle.adopt((await chronicle.closing(limit=9)).manifests)
        assert old.token in await rubbish()

    async def test_what_runs_and_was_forgotten_may_write_on_for_as_long_as_any_attempt(
        self, ledger: Ledger, chronicle: Chronicle, clock: ManualClock
    ) -> None:
        """Its holder has not heard yet; nobody shall take its scratch away before."""
        forgotten = token_of(1, 4711)
        assert await ledger.live_tokens([forgotten]) == set()  # of this very history: archived long ago
        await chronicle.take_generation(2, "me", seal_key="k2", recovering=True)

        assert await ledger.live_tokens([forgotten, token_of(2, 4711)]) == {forgotten}
        clock.advance(8 * DAY_S)
        assert await ledger.live_tokens([forgotten]) == set()

    async def test_a_new_generation_has_higher_tokens_and_never_goes_back(
        self, they: Actors, chronicle: Chronicle
    ) -> None:
        old = await they.running()
        await chronicle.take_generation(5, "me", seal_key="k5", recovering=True)
        await chronicle.take_generation(4, "other", seal_key="k4", recovering=False)

        known = await chronicle.history()
        assert (known.generation, known.owner, known.recovering) == (5, "me", True)
        new = await they.running()
        assert new.token >= token_of(5, 0) > old.token
        assert await they.standing(old) == "held"

    # --- proof that this ledger is behind ---

    async def test_a_sealed_token_that_was_not_given_out_is_proof_that_the_ledger_was_rolled_back(
        self, they: Actors, ledger: Ledger, chronicle: Chronicle
    ) -> None:
        await chronicle.take_generation(1, "me", seal_key="k1", recovering=False)
        lease = await they.running()
        assert await they.renew(later(lease, seal_key="k1")) == ["lost"]

        assert "behind its workers" in (await chronicle.history()).rolled_back
        assert "behind its workers" in str(await ledger.violations())
        job = await they.submit()
        assert await they.ask(job.job_id) == Refused(why="not-ready")
        assert await they.renew(lease) == ["held"]
        await chronicle.take_generation(2, "me", seal_key="k2", recovering=True)
        assert isinstance(await they.ask(job.job_id), Granted)

    async def test_a_sealed_token_of_a_job_that_is_not_known_is_proof_too(
        self, they: Actors, chronicle: Chronicle
    ) -> None:
        """What was submitted after the copy was made is forgotten as a whole."""
        await chronicle.take_generation(1, "me", seal_key="k1", recovering=False)
        lease = structs.replace(await they.running(), job_id=job_id_of("default", "forgotten"))
        assert await they.renew(lease) == ["lost"]
        assert (await chronicle.history()).rolled_back == ""

        assert await they.renew(later(lease, seal_key="k1")) == ["lost"]
        assert "behind its workers" in (await chronicle.history()).rolled_back

    async def test_a_high_number_without_its_seal_proves_nothing(self, they: Actors, chronicle: Chronicle) -> None:
        """Whoever has a token for workers can say any number, in every verb that takes a lease."""
        await chronicle.take_generation(1, "me", seal_key="k1", recovering=False)
        lease = await they.running()
        other = await they.running()
        foreign = later(other, seal_key="k1")
        for said in (
            structs.replace(lease, token=lease.token + 5),
            structs.replace(lease, token=2**62, seal=""),
            structs.replace(lease, attempt=9, token=lease.token + 5, seal="\ud800"),
            structs.replace(lease, token=foreign.token, seal=foreign.seal),
            later(lease, seal_key="k2"),
            later(lease, seal_key=""),
        ):
            assert await they.renew(said) == ["lost"]
            assert await they.standing(said) == "lost"
            assert (await they.succeed(said)).status == "lost"
            assert (await they.release(said)).status == "lost"

        assert (await chronicle.history()).rolled_back == ""
        assert isinstance(await they.ask((await they.submit()).job_id), Granted)

    async def test_an_attempt_that_was_not_offered_proves_nothing(self, they: Actors, chronicle: Chronicle) -> None:
        await chronicle.take_generation(1, "me", seal_key="k1", recovering=False)
        job = await they.submit()
        [offer] = await they.offers()
        for seal in ("", offer.seal, seal_of("k2", job.job_id, 7), seal_of("", job.job_id, 7)):
            assert await they.ask(job.job_id, 7, seal=seal) == Refused(why="ahead")
        assert isinstance(await they.ask(job.job_id), Granted)

    async def test_a_sealed_offer_of_an_attempt_ahead_of_the_ledger_stops_all_grants(
        self, they: Actors, chronicle: Chronicle
    ) -> None:
        await chronicle.take_generation(1, "me", seal_key="k1", recovering=False)
        job = await they.submit()
        [offer] = await they.offers()
        assert offer.seal == seal_of("k1", job.job_id, 1)
        assert await they.ask(job.job_id, 7, seal=seal_of("k1", job.job_id, 7)) == Refused(why="ahead")
        assert await they.ask(job.job_id) == Refused(why="not-ready")

    async def test_what_another_generation_has_sealed_proves_nothing(self, they: Actors, chronicle: Chronicle) -> None:
        """After a recovery an attempt may well be ahead: of the history that was left behind."""
        await chronicle.take_generation(1, "me", seal_key="k1", recovering=False)
        job = await they.submit()
        await chronicle.take_generation(2, "me", seal_key="k2", recovering=True)
        assert await they.ask(job.job_id, 7, seal=seal_of("k1", job.job_id, 7)) == Refused(why="ahead")
        assert (await chronicle.history()).rolled_back == ""

    async def test_a_lease_is_sealed_also_when_its_grant_is_asked_for_again(
        self, they: Actors, chronicle: Chronicle
    ) -> None:
        await chronicle.take_generation(1, "me", seal_key="k1", recovering=False)
        job = await they.submit()
        first, again = [await they.granted(job.job_id, nonce="n") for _ in range(2)]
        assert first.lease.seal == again.lease.seal == seal_of("k1", job.job_id, 1, first.lease.token)

    async def test_a_ledger_without_an_orchestrator_seals_nothing_and_suspects_nobody(
        self, they: Actors, chronicle: Chronicle
    ) -> None:
        lease = await they.running()
        assert lease.seal == ""
        await they.renew(later(lease, seal_key=""))
        await they.ask(lease.job_id, 7, seal=seal_of("", lease.job_id, 7))

        assert (await chronicle.history()).rolled_back == ""


def later(lease: Lease, *, seal_key: str) -> Lease:
    """A lease of this job that a ledger with this key would give out later."""
    token = lease.token + 5
    return structs.replace(lease, token=token, seal=seal_of(seal_key, lease.job_id, lease.attempt, token))


def a_manifest(lease: Lease, *, token: int, attempt: int) -> Manifest:
    """As another history wrote it down for this job."""
    won = Lease(job_id=lease.job_id, attempt=attempt, token=token)
    result = Result(
        job_id=lease.job_id,
        namespace="default",
        kind="preview",
        version="v1",
        state=State.FINISHED,
        attempt=attempt,
        token=token,
        outputs=(an_output(won),),
        ended_at_ms=5,
    )
    return Manifest(result=result, outcome=Outcome.SUCCESS, inputs={}, params={}, content_hash="c", created_at_ms=1)
