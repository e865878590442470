"""A history from the facts of a run: what lasted from when to when, and where the picture ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planrun.sim.lab.history import Bar, Fact, History, Lane, Span, What
from planrun.sim.lab.settings import Settings, command_of, link_of
from planrun.sim.lab.telling import ENDS, FILES, Plot, points_of, tally_of

MARGIN = 0.08  # of the picture, behind the last thing that happens
DONE = (
    What.HELD,
    What.TRUSTS,
    What.NOT_HELD,
    What.UPLOAD,
    What.NEWS,
    What.CRASH,
    What.BACK,
    What.WON,
    What.LOST,
    What.RETRY,
)
WRITTEN = (*FILES, What.REFUSE, What.STOPPED, What.CRASH)


def history_of(facts: Iterable[Fact], settings: Settings) -> History:
    """All of it. The facts may come in any order; those of one moment keep theirs."""
    told = sorted(facts, key=lambda fact: fact.at_ms)
    last_ms = max((fact.at_ms for fact in told if fact.what is not What.RENEW), default=0)
    until_ms = max(1000, -(-round(last_ms * (1 + MARGIN)) // 500) * 500)
    sentence, tone = Plot(told, settings).sentence()
    return History(
        settings=settings,
        until_ms=until_ms,
        spans=tuple(_spans(told, until_ms, has_attempt_keys=settings.attempt_keys)),
        points=points_of([fact for fact in told if fact.at_ms <= until_ms], settings),
        sentence=sentence,
        tone=tone,
        tally=tally_of(told),
        is_lab_store=not settings.attempt_keys,
        is_fleet=settings.is_fleet,
        link=link_of(settings),
        command=command_of(settings),
    )


def _spans(facts: Sequence[Fact], until_ms: int, *, has_attempt_keys: bool) -> Iterable[Span]:
    for index, fact in enumerate(facts):
        later = facts[index + 1 :]
        owner = fact.by or fact.lane
        match fact.what:
            case What.GRANT:
                held = _end(later, (*ENDS, What.WON), until_ms, token=fact.token)
                yield Span(lane=Lane.LEDGER, bar=Bar.HOLDS, from_ms=fact.at_ms, to_ms=held, token=fact.token, by=owner)
                ran = _end(later, DONE, until_ms, token=fact.token, owner=owner)
                yield Span(lane=owner, bar=Bar.RUNS, from_ms=fact.at_ms, to_ms=ran, token=fact.token, by=owner)
            case What.UPLOAD:
                wrote = _end(later, WRITTEN, until_ms, token=fact.token, owner=owner)
                yield Span(lane=owner, bar=Bar.UPLOADS, from_ms=fact.at_ms, to_ms=wrote, token=fact.token, by=owner)
            case What.FREEZE | What.CRASH | What.CUT:
                bar, over = LASTING[fact.what]
                back = _end(later, over, until_ms, lane=fact.lane)
                yield Span(lane=fact.lane, bar=bar, from_ms=fact.at_ms, to_ms=back)
            case What.STORE | What.REPLACE | What.OVERWRITE if not has_attempt_keys:
                read = _end(later, (What.REPLACE, What.OVERWRITE), until_ms)
                yield Span(lane=Lane.STORE, bar=Bar.READS, from_ms=fact.at_ms, to_ms=read, token=fact.token, by=owner)
            case What.WON if has_attempt_keys:
                yield Span(
                    lane=Lane.STORE, bar=Bar.READS, from_ms=fact.at_ms, to_ms=until_ms, token=fact.token, by=owner
                )


LASTING = {
    What.FREEZE: (Bar.FROZEN, (What.THAW,)),
    What.CRASH: (Bar.DOWN, (What.START,)),
    What.CUT: (Bar.CUT, (What.HEAL,)),
}


def _end(
    later: Iterable[Fact],
    kinds: Sequence[What],
    until_ms: int,
    *,
    token: int | None = None,
    owner: Lane | None = None,
    lane: Lane | None = None,
) -> int:
    """When it was over: the first fact of these kinds, of this token, worker or lane."""
    for fact in later:
        if fact.what not in kinds or (lane is not None and fact.lane is not lane):
            continue
        is_crash_of_owner = fact.what is What.CRASH and fact.lane is owner
        if token is None or fact.token == token or is_crash_of_owner:
            return fact.at_ms
    return until_ms
