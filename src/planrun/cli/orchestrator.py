"""`planrun orchestrator`: owns a ledger, and serves it to workers and clients on other machines."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
from contextlib import aclosing
from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import Flag, Url, with_keyring
from planrun.cli.exits import Exit
from planrun.cli.listening import LISTEN, ListenFlags
from planrun.cli.saying import say
from planrun.client import AsyncClient
from planrun.config import secret_from, url_from
from planrun.orchestrator.options import OrchestratorOptions
from planrun.service import Overseer
from planrun.wiring import open_keyring

DEFAULTS = OrchestratorOptions()


def orchestrator(
    *,
    listening: ListenFlags = ListenFlags(),  # noqa: B008
    store: Annotated[str, Parameter(env_var="PLANRUN_STORE", show_default=False)] = DEFAULTS.store,
    broker: Annotated[str, Parameter(env_var="PLANRUN_BROKER", show_default=False)] = DEFAULTS.broker,
    worker_broker: Annotated[
        str, Parameter(env_var="PLANRUN_WORKER_BROKER", show_default=False)
    ] = DEFAULTS.worker_broker,
    broker_prefix: Annotated[str, Parameter(env_var="PLANRUN_BROKER_PREFIX")] = DEFAULTS.broker_prefix,
    lease_s: float = DEFAULTS.lease_s,
    fleet: Annotated[str, Parameter(show_default=False)] = DEFAULTS.fleet,
    rate: Annotated[tuple[str, ...], Parameter(show_default=False)] = (),
    warm_after_s: float = DEFAULTS.warm_after_s,
    allow_webhook: Annotated[tuple[str, ...], Parameter(name="--allow-webhook", show_default=False)] = (),
    gc_grace_s: float = DEFAULTS.gc_grace_s,
    job_ttl_s: float = DEFAULTS.job_ttl_s,
    ids_ttl_s: float = DEFAULTS.ids_ttl_s,
    recover: Flag = False,
    url: Url = None,
) -> int:
    """Own a ledger, and serve it over HTTP to workers and clients on other machines, until SIGTERM or Ctrl-C.

    It has the ledger's file alone: workers join with --url http://HOST:PORT. Started again, it goes on where it was.

    For example:

      planrun orchestrator --url sqlite:////srv/planrun.db --listen 0.0.0.0:8470 --tls-cert box.pem --tls-key box.key

    Args:
        store: Where results go: s3://BUCKET/PREFIX, or a folder that every machine sees; without it, beside the ledger.
        broker: amqp://… or amqps://… of a RabbitMQ; without it, workers ask for jobs over HTTP.
        worker_broker: The address that workers are told instead, such as one with an account that may do less.
        broker_prefix: What the names of its queues begin with.
        fleet: A TOML file with classes of machines that belong to the fleet even while none of them is up.
        rate: KIND=N/s (or /min, /h): offer no more of a kind; KIND=any lifts it. Kept until set anew. Repeat for more.
        warm_after_s: Seconds that workers have to register before a job fails at once that none of them could run.
        allow_webhook: A name, address or network that webhooks may go to, beside public addresses. Repeat it for more.
        lease_s: Seconds without a sign of a worker after which others take its jobs over.
        gc_grace_s: Seconds that files of lost attempts are kept.
        job_ttl_s: Seconds that ended jobs stay in the ledger before they are archived.
        ids_ttl_s: Seconds that the ids of archived jobs are still known.
        recover: The ledger is an older copy, such as a restored backup: take over which answers were given since.
    """
    options = OrchestratorOptions(
        store=store,
        broker=broker,
        worker_broker=worker_broker,
        broker_prefix=broker_prefix,
        lease_s=lease_s,
        fleet=fleet,
        rate=rate,
        warm_after_s=warm_after_s,
        allow_webhook=allow_webhook,
        gc_grace_s=gc_grace_s,
        job_ttl_s=job_ttl_s,
        ids_ttl_s=ids_ttl_s,
        recover=recover,
    )
    logging.basicConfig(format="planrun: %(message)s")
    logging.getLogger("planrun").setLevel(logging.INFO)
    token = secret_from()

    from planrun.web.server import open_socket  # noqa: PLC0415 - not everybody has its packages

    known = with_keyring(url, lambda keyring: keyring.access_tokens(), may_create=True)
    is_guarded = bool(token or known)
    tls = listening.tls
    is_secure = tls is not None or listening.insecure_http
    with open_socket(listening.listen or LISTEN, is_guarded=is_guarded, is_secure=is_secure) as opened:
        return asyncio.run(_serve(url_from(url), options, opened, token, tls))


async def _serve(
    url: str, options: OrchestratorOptions, listening: socket.socket, token: str, tls: ssl.SSLContext | None
) -> int:
    from planrun.web.guard import Guard  # noqa: PLC0415
    from planrun.web.ledger import Served  # noqa: PLC0415
    from planrun.web.server import address_of, server_of  # noqa: PLC0415
    from planrun.wiring.orchestrator import open_orchestrator  # noqa: PLC0415

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    guard = Guard(secret=token, keyring=open_keyring(url))
    async with aclosing(guard), open_orchestrator(url, options) as opened:
        client = AsyncClient.over(opened.ledger, opened.store, url=url, clock=opened.clock)
        served = Served.over(opened.ledger, opened.clock, opened.fleet, opened.generations)
        server = server_of(client, guard, served=served, tls=tls)
        serving = asyncio.create_task(server.serve([listening]))
        working = asyncio.create_task(opened.run(stop))
        say(
            f"planrun orchestrator: {address_of(listening, tls)}{', with a token' if await guard.asks() else ''}, "
            f"ledger {opened.place.ledger}, results {opened.fleet.store}"
        )
        stopping = asyncio.create_task(stop.wait())
        async with Overseer.of(os.environ).watching(opened.duties.returns, opened.clock):
            await asyncio.wait({stopping, serving, working}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        server.should_exit = True
        await asyncio.gather(serving, working)
        stopping.cancel()
    return Exit.FINISHED
