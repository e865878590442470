"""A history that breaks a rule, made as small as it can be while it still breaks the same one, or has the same fault.

Whatever a plan is made of is left out, in ever smaller portions: calls, acts, deeds and settings that are not plain;
then all is moved to an earlier time, and numbers are rounded. Each try is a whole history, so their number has a bound.
The same report gives the same small plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from planrun.sim.faults import Plan
from planrun.sim.findings import Violation
from planrun.sim.history import Report, run_plan
from planrun.sim.script import Act
from planrun.sim.scripted import differing, plain, script_of
from planrun.sim.settings import Order, Settings, deeds

TRIES_MAX = 300
KEPT = ("mode", "workers", "orders", "deed_of", "end_s")  # settings that are not left out here
MOMENTS = ("from_s", "copied_s", "at_s", "until_s", "recover_s")  # as those of one act follow each other
ONCE = ("nth", "times")
TYPES = re.compile(r"\b[A-Z]\w*(?=\()")
CALLS = re.compile(r'File "(.+)", line (\d+), in (.+)')

Item = Any


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Attributes:
    report: Of the small plan, with its trace.
    script: The test that it is.
    tries: How many histories that took.
    """

    report: Report
    script: str
    tries: int


def shrink(report: Report, *, tries_max: int = TRIES_MAX) -> Shrunk:
    """Make the plan of a report with a violation smaller.

    Args:
        tries_max: How many histories may be run for it.
    """
    hunt = _Hunt(report, tries_max)
    is_new = True
    while is_new:  # what could not be left out at first can be, perhaps, when something else is gone
        before = hunt.plan
        for items_of, keep in PARTS:
            hunt.leave_out(items_of, keep)
        hunt.simplify()
        is_new = hunt.plan is not before
    small = run_plan(hunt.plan, traced=True)
    return Shrunk(small, script_of(hunt.plan, hunt.rule), hunt.tries)


class _Hunt:
    """Attributes:
    plan: The smallest one so far.
    rule: What it has to break.
    sign: What tells it from others that break it.
    """

    def __init__(self, report: Report, tries_max: int) -> None:
        self.plan = report.plan
        self.rule = report.violations[0].rule
        self.sign = _sign(report.violations[0])
        self.tries = 0
        self._tries_max = tries_max
        self._tried = {script_of(report.plan)}

    def leave_out(self, items_of: Callable[[Plan], list[Item]], keep: Callable[[Plan, list[Item]], Plan]) -> None:
        """Leave out all, the halves, the quarters … each one, as long as the rule stays broken."""
        size = len(items_of(self.plan))
        while size:
            start = 0
            while start < len(items := items_of(self.plan)):
                if not self._takes(keep(self.plan, items[:start] + items[start + size :])):
                    start += size
            size //= 2

    def simplify(self) -> None:
        """Take what is simpler, one thing at a time."""
        for candidates in (_fewer_workers, _sooner, _shorter, _rounder):
            seen = None
            while seen is not self.plan:
                seen = self.plan
                any(self._takes(candidate) for candidate in candidates(self.plan))

    def _takes(self, candidate: Plan) -> bool:
        script = script_of(candidate)
        if script in self._tried or self.tries >= self._tries_max:
            return False
        self._tried.add(script)
        self.tries += 1
        violations = run_plan(candidate).violations
        if not violations or _sign(violations[0]) != self.sign:
            return False
        self.plan = candidate
        return True


def _sign(violation: Violation) -> tuple[object, ...]:
    """The rule; of an exception that nobody took also its types, and the way there through the code.

    What it speaks of, and whose it was, has other names in each plan.
    """
    if violation.rule != "fault":
        return (violation.rule,)
    said, _, calls = violation.what.partition("Traceback (")
    return (violation.rule, frozenset(TYPES.findall(said)), frozenset(CALLS.findall(calls)))


# --- what can be left out ---


def _changed(plan: Plan, **settings: Any) -> Plan:
    """Its settings are others; it has as long to come to rest as before, once nothing is broken any more."""
    before = plan.settings
    after: Settings = replace(before, **settings)
    return replace(plan, settings=replace(after, end_s=before.end_s - before.honest_s + after.honest_s))


def _orders(plan: Plan) -> list[Item]:
    return list(plan.settings.orders)


def _keep_orders(plan: Plan, items: list[Item]) -> Plan:
    numbers = {order.n for order in items}
    table = {key: deed for key, deed in plan.table.items() if key[0] in numbers}
    return _tabled(_changed(plan, orders=tuple(items)), table)


def _acts(plan: Plan) -> list[Item]:
    return list(plan.acts)


def _keep_acts(plan: Plan, items: list[Item]) -> Plan:
    return replace(plan, acts=tuple(items))


def _deeds(plan: Plan) -> list[Item]:
    return sorted(plan.table)


def _keep_deeds(plan: Plan, items: list[Item]) -> Plan:
    return _tabled(plan, {key: plan.table[key] for key in items})


def _tabled(plan: Plan, table: Any) -> Plan:
    return _changed(replace(plan, table=table), deed_of=deeds(table))


def _details(plan: Plan) -> list[Item]:
    settings, orders, table = plan.settings, plan.settings.orders, plan.table
    return [
        *(("settings", name) for name in differing(settings) if name not in KEPT),
        *((n, name) for n, order in enumerate(orders) for name in differing(order) if name not in ("n", "name")),
        *((key, name) for key, deed in sorted(table.items()) for name in differing(deed)),
    ]


def _keep_details(plan: Plan, items: list[Item]) -> Plan:
    gone = [item for item in _details(plan) if item not in items]

    def plainly(thing: Any, whose: Any) -> Any:
        names = [name for who, name in gone if who == whose]
        return replace(thing, **{field.name: plain(field) for field in fields(thing) if field.name in names})

    table = {key: plainly(deed, key) for key, deed in plan.table.items()}
    orders = tuple(plainly(order, n) for n, order in enumerate(plan.settings.orders))
    settings = plainly(plan.settings, "settings")
    others = {name: getattr(settings, name) for who, name in gone if who == "settings"}
    return _tabled(_changed(plan, orders=orders, **others), table)


PARTS: tuple[tuple[Callable[[Plan], list[Item]], Callable[[Plan, list[Item]], Plan]], ...] = (
    (_orders, _keep_orders),
    (_acts, _keep_acts),
    (_deeds, _keep_deeds),
    (_details, _keep_details),
)


# --- what can be simpler ---


def _fewer_workers(plan: Plan) -> Iterator[Plan]:
    last = plan.settings.workers
    if last > 1:
        others = [act for act in plan.acts if f"w{last}" not in act.args.values()]
        yield _changed(replace(plan, acts=tuple(others)), workers=last - 1)


def _sooner(plan: Plan) -> Iterator[Plan]:
    """All at once, by the time until the first of it."""
    times = [order.at_s for order in plan.settings.orders]
    times += [act.args[name] for act in plan.acts for name in MOMENTS if name in act.args]
    if by_s := min(times, default=0):
        orders = [replace(order, at_s=round(order.at_s - by_s, 3)) for order in plan.settings.orders]
        acts = [
            _with(act, {name: round(act.args[name] - by_s, 3) for name in MOMENTS if name in act.args})
            for act in plan.acts
        ]
        yield _changed(replace(plan, acts=tuple(acts)), orders=tuple(orders))


def _shorter(plan: Plan) -> Iterator[Plan]:
    if plan.settings.honest_s >= 2:
        yield _changed(plan, honest_s=plan.settings.honest_s // 2)


def _rounder(plan: Plan) -> Iterator[Plan]:
    orders = plan.settings.orders
    for n, order in enumerate(orders):
        for simple in _simple(order):
            yield _changed(plan, orders=(*orders[:n], simple, *orders[n + 1 :]))
    for n, act in enumerate(plan.acts):
        for name, value in act.args.items():
            for number in _numbers(name, value):
                simple_act = _with(act, {name: number})
                if _is_in_order(simple_act):
                    yield replace(plan, acts=(*plan.acts[:n], simple_act, *plan.acts[n + 1 :]))
    for key, deed in plan.table.items():
        for number in _numbers("runs_s", deed.runs_s):
            yield _tabled(plan, {**plan.table, key: replace(deed, runs_s=number)})


def _is_in_order(act: Act) -> bool:
    """What ends before it begins goes on for ever, and a copy cannot be restored before it is made."""
    moments = [act.args[name] for name in MOMENTS if name in act.args]
    return moments == sorted(moments)


def _simple(order: Order) -> Iterator[Order]:
    for name in ("at_s", "delay_s", "deadline_s", "cancel_after_s"):
        for number in _numbers(name, getattr(order, name)):
            yield replace(order, **{name: number})


def _numbers(name: str, value: Any) -> Iterable[Any]:
    if name in ONCE:
        return [1] if value > 1 else []
    if not name.endswith("_s") or value is None:
        return []
    return [number for number in (round(value), round(value, 1)) if number != value and number > 0]


def _with(act: Act, args: dict[str, Any]) -> Act:
    return Act(act.verb, {**act.args, **args})
