"""`planrun rate`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Url, offer_kinds, with_client
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json, print_table
from planrun.client import AsyncClient
from planrun.core.rates import parse_rate, rate_in_words

Kind = Annotated[str, Parameter(name="KIND", show_default=False, completer=offer_kinds, help="A kind of jobs.")]
Amount = Annotated[str, Parameter(name="RATE", show_default=False, help="5/s, 30/min or 100/h; any: no limit.")]


def rate(kind: Kind = "", amount: Amount = "", /, *, json: AsJson = False, url: Url = None) -> int:
    """Offer no more than so many jobs of a kind in a time, or list what is set. An orchestrator with a broker does it.

    For example:

      planrun rate
      planrun rate preview 30/min
      planrun rate preview any
    """

    async def run(client: AsyncClient) -> dict[str, float]:
        if kind:
            await client.set_rate(*parse_rate(f"{kind}={amount}"))
        return await client.rates()

    found = with_client(url, run)
    if json:
        print_json([{"kind": name, "per_s": per_s} for name, per_s in sorted(found.items())])
    else:
        print_table(("kind", "at most"), ((name, rate_in_words(per_s)) for name, per_s in sorted(found.items())))
    return Exit.FINISHED
