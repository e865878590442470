"""What is written into messages, and what becomes of those that nobody here has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from deploy.local.rabbitmq import NEEDS, RabbitMQ
from planrun.core.errors import TransportUnavailable
from planrun.core.flows import Marker, Notice
from planrun.core.messages import Beat, RenewRequest, Standing
from planrun.core.offers import Offer
from planrun.transport.rabbitmq.address import broker_at
from planrun.transport.rabbitmq.asyncapi import document
from planrun.transport.rabbitmq.fleet import RabbitFleet
from planrun.transport.rabbitmq.link import declare
from planrun.transport.rabbitmq.probe import probe
from planrun.transport.rabbitmq.topology import Queue
from planrun.transport.rabbitmq.wire import HEADER, READ, Unreadable, read
from planrun.transport.rabbitmq.worker import REASON
from planrun.wiring import open_ledger
from tests.contract.actors import Actors
from tests.contract.broker_faults_contract import BEAT, next_job
from tests.contract.fleet_transport_contract import an_offer, some
from tests.contract.manual_clock import ManualClock
from tests.contract.transport_contract import soon
from tests.transport.stage import CLOCK, Stage

pytestmark = [pytest.mark.needs(NEEDS), pytest.mark.anyio]

OFFER = {HEADER: "offer/1"}
GARBAGE: list[tuple[bytes, dict[str, Any] | None]] = [
    (b"\xff\x00garbage", OFFER),
    (b"", OFFER),
    (b"[1,2]", OFFER),
    (b'{"job_id":"j1"}', OFFER),
    (msgspec.json.encode(an_offer()), {HEADER: "offer/2"}),
    (msgspec.json.encode(an_offer()), {HEADER: 7}),
    (msgspec.json.encode(an_offer()), None),
    (msgspec.json.encode(BEAT), {HEADER: "beat/1"}),
]


async def test_what_cannot_be_read_is_put_aside_and_stops_nobody(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await stage.join()
    await stage.offer("before")
    await (await next_job(worker)).done()
    for body, headers in GARBAGE:
        await stage.put(stage.lane, body, headers)
    await stage.offer("after")

    assert (await next_job(worker)).offer.job_id == "after"
    dead = [body for body, _ in await stage.taken_from(stage.topology.dead)]
    assert sorted(dead) == sorted(body for body, _ in GARBAGE)
    assert caplog.text.count("was put aside as dead") == 1  # and not a line for each


async def test_a_heartbeat_that_cannot_be_read_is_put_aside_and_the_next_ones_come(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    await stage.epoch(1)
    beats = stage.topology.beats(1, 1)
    await stage.put(beats, b"garbage", {HEADER: "beat/1"})
    await stage.put(beats, msgspec.json.encode(BEAT), {HEADER: "beat/9"})
    await stage.fleet.mark(Marker(stamp_ms=1, nonce="n"))

    assert await some(stage.fleet, 1) == [Marker(stamp_ms=1, nonce="n")]
    assert len(await stage.taken_from(stage.topology.dead)) >= 1
    assert stage.fleet.breaks == 0
    assert caplog.text.count("a heartbeat was put aside as dead") == 1


async def test_a_word_that_cannot_be_read_is_no_word(stage: Stage) -> None:
    worker = await stage.join()
    control = stage.topology.control("w1")
    await stage.put(control, b"garbage", {HEADER: "notice/1"})
    await stage.fleet.tell("w1", Notice(drained=True))

    async def hear() -> list[Notice]:
        return list(await worker.notices([]))

    assert await soon(hear) == [Notice(drained=True)]


async def test_an_offer_of_a_newer_planrun_is_understood_and_kept_byte_for_byte(stage: Stage) -> None:
    """Fields that this version does not know are left alone, and are there for whoever looks later."""
    worker = await stage.join()
    known = json.loads(msgspec.json.encode(an_offer()))
    body = json.dumps({**known, "colour": {"of": "money \u2603"}}, indent=3).encode()
    await stage.put(stage.lane, body, {**OFFER, "theirs": "too"})

    offer = await next_job(worker)
    assert offer.offer == an_offer()
    await offer.strange("the ledger says unknown")

    [(kept, headers)] = await stage.taken_from(stage.topology.orphans)
    assert kept == body
    assert headers.items() >= {**OFFER, "theirs": "too", REASON: "the ledger says unknown"}.items()


async def test_what_was_put_aside_is_counted_by_whoever_checks(stage: Stage) -> None:
    await declare(stage.outside, stage.topology.dead)
    await declare(stage.outside, stage.topology.orphans)
    assert (await probe(stage.broker, CLOCK, owns=True)).problems == ()

    for queue in (stage.topology.dead, stage.topology.dead, stage.topology.orphans):
        await stage.put(queue, b"garbage", OFFER)

    async def is_said() -> bool:
        problems = (await probe(stage.broker, CLOCK, owns=False)).problems
        counts = [problem.partition(";")[0].rpartition(" ")[2] for problem in problems]
        return counts == ["2", "1"]

    assert await soon(is_said)


async def test_an_offer_that_was_delivered_too_often_is_put_aside(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planrun.transport.intake.REST_S", (0.0,))
    monkeypatch.setattr("planrun.transport.rabbitmq.topology.DELIVERIES_MAX", 3)
    worker = await stage.join()
    await stage.offer("j1")

    async def is_dead() -> bool:
        for offer in await worker.offers(1):
            await offer.back()
        return await stage.count(stage.topology.dead) == 1

    assert await soon(is_dead)


async def test_a_queue_that_was_declared_otherwise_is_named_with_what_to_do(stage: Stage) -> None:
    beats = stage.topology.beats(1, 1)
    await declare(stage.outside, Queue(beats.name, {"x-queue-type": "classic"}))

    with pytest.raises(TransportUnavailable, match=f"{beats.name}.*delete it") as refused:
        await stage.fleet.begin_epoch(1)

    assert "guest:guest" not in str(refused.value)


@pytest.mark.parametrize("message", [an_offer(), BEAT, Marker(stamp_ms=1, nonce="n"), Notice(drained=False)])
def test_every_version_reads_what_it_has_written(message: Offer | RenewRequest | Marker | Notice) -> None:
    [name] = [name for name, kind in READ.items() if kind is type(message)]

    assert read({HEADER: name}, msgspec.json.encode(message), type(message)) == message


def test_a_message_that_does_not_belong_here_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="known here: marker/1"):
        read(OFFER, msgspec.json.encode(an_offer()), Marker)


async def test_the_asyncapi_document_describes_what_is_sent(stage: Stage, tmp_path: Path) -> None:
    """Each message as it lies on the broker, against the schema that the document gives it."""
    they = Actors(open_ledger(f"sqlite:///{tmp_path}/ledger.db", clock=(clock := ManualClock())), clock)
    lease = await they.running(subscribers=("webhook:https://app.example/",))
    await they.succeed(lease, value={"frames": 7})
    [answer] = await they.ledger.take_messages(limit=1, retry_ms=1_000)
    await they.ledger.close()
    worker = await stage.join()
    await worker.close()  # what it would take in is looked at here
    await stage.epoch(1)
    answers = Queue(f"{stage.topology.prefix}-answers", {})
    await declare(stage.outside, answers)
    beats = Queue(f"{stage.topology.prefix}-beats", {})
    await declare(stage.outside, beats)
    async with stage.outside.borrowed() as channel:
        await channel.queue_bind(beats.name, stage.topology.beat_exchange)

    await stage.offer("j1")
    await stage.fleet.deliver(answers.name, answer)
    await stage.fleet.tell("w1", Notice(lease=lease, standing=Standing(status="lost", why="it ran out")))
    beat = Beat(lease=lease, fraction=0.5, message="half")
    await worker.beat(RenewRequest(incarnation="w1", beats=(beat,), lease_ms=90_000))
    await stage.fleet.mark(Marker(stamp_ms=1, nonce="n"))

    flows = {
        "offers": stage.lane,
        "answers": answers,
        "control": stage.topology.control("w1"),
        "beats": beats,
    }
    described = document()
    seen = set()
    for flow, queue in flows.items():
        for body, headers in await stage.taken_from(queue):
            key = headers[HEADER].replace("/", "-")
            assert key in described["channels"][flow]["messages"]
            schema = {**described["components"]["messages"][key]["payload"], "components": described["components"]}
            jsonschema_rs.validator_for(schema).validate(json.loads(body))
            seen.add(key)
    assert seen == set(described["components"]["messages"])


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("guest:secret@127.0.0.1:{port}/", "Login was refused"),
        ("guest:guest@127.0.0.1:{port}/nowhere", "no such virtual host"),
        ("guest:secret@127.0.0.1:1/", "Connect call failed"),
    ],
)
async def test_a_broker_that_does_not_let_us_in_is_named_without_the_password(
    rabbitmq: RabbitMQ, address: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = broker_at(f"amqp://{address.format(port=rabbitmq.port)}", "pr")
    fleet = RabbitFleet(broker, CLOCK, generation=1)

    with pytest.raises(TransportUnavailable, match="cannot be reached") as refused:
        await fleet.begin_epoch(1)
    await fleet.close()

    assert str(broker) in str(refused.value)
    assert "secret" not in f"{refused.value}{caplog.text}"
    assert "\n" not in str(refused.value)
    assert why in str(refused.value)
