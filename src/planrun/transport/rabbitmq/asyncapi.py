"""The AsyncAPI document of the messages on the broker, made of the structs and of the topology."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, NamedTuple

from planrun.core.shapes import REF, schemas_of
from planrun.transport.rabbitmq.topology import Topology
from planrun.transport.rabbitmq.wire import ANSWER, CONTENT_TYPE, HEADER, SENT

TOPOLOGY = Topology(prefix="{prefix}")


class Flow(NamedTuple):
    """One way that messages take."""

    name: str
    address: str
    messages: tuple[str, ...]
    about: str


FLOWS = (
    Flow(
        "offers",
        TOPOLOGY.offers("{lane}").name,
        ("offer/1",),
        "A job waits at an attempt. Sent by the orchestrator, taken by any worker of that lane, and acknowledged once "
        "the ledger has answered.",
    ),
    Flow(
        "beats",
        TOPOLOGY.beat_exchange,
        ("beat/1", "marker/1"),
        "An exchange. Heartbeats of workers, and markers of the orchestrator behind them; the queue of the present "
        "epoch alone is bound to it.",
    ),
    Flow(
        "control",
        TOPOLOGY.control("{incarnation}").name,
        ("notice/1",),
        "Words of the orchestrator to one worker. Lossy.",
    ),
    Flow(
        "answers",
        "{queue}",
        (ANSWER,),
        "The answer of a job, into an application's own queue (route `rabbitmq:QUEUE`). Its message id is the same "
        "at every repetition.",
    ),
    Flow("orphans", TOPOLOGY.orphans.name, ("offer/1",), "Offers that the ledger did not know, byte for byte."),
)


def document() -> dict[str, Any]:
    """All of it, as plain data. Sent and received are what planrun itself does."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "planrun on RabbitMQ",
            "version": version("planrun"),
            "description": "Hints only: the ledger decides. Every message may be lost or come twice. A header says "
            "what it is, and in which version; fields that a reader does not know are left alone.",
        },
        "defaultContentType": CONTENT_TYPE,
        "channels": {flow.name: _channel(flow) for flow in FLOWS},
        "operations": {f"send-{flow.name}": _sending(flow) for flow in FLOWS},
        "components": {
            "messages": {_key(name): _message(name) for name in SENT},
            "schemas": schemas_of(SENT.values()),
        },
    }


def _channel(flow: Flow) -> dict[str, Any]:
    names = [part.partition("}")[0] for part in flow.address.split("{")[1:]]
    return {
        "address": flow.address,
        "description": flow.about,
        "messages": {_key(name): {"$ref": f"#/components/messages/{_key(name)}"} for name in flow.messages},
        "parameters": {name: {"description": PARAMETERS[name]} for name in names},
    }


PARAMETERS = {
    "prefix": "What all names of a fleet begin with (`--broker-prefix`).",
    "lane": "A digest of what machines that can run the same have in common.",
    "incarnation": "One start of one worker.",
    "queue": "Declared by the application.",
}


def _sending(flow: Flow) -> dict[str, Any]:
    return {"action": "send", "channel": {"$ref": f"#/channels/{flow.name}"}}


def _message(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "headers": {
            "type": "object",
            "properties": {HEADER: {"const": name}},
            "required": [HEADER],
        },
        "payload": {"$ref": REF.format(name=SENT[name].__name__)},
    }


def _key(name: str) -> str:
    """AsyncAPI has no slashes in keys."""
    return name.replace("/", "-")
