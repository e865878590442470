"""`planrun token`."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from planrun.cli.asking import AsJson, Url, Word, existing, offer_namespaces, with_keyring
from planrun.cli.exits import Exit
from planrun.cli.printing import print_json, print_table
from planrun.cli.saying import say
from planrun.cli.words import moment
from planrun.client.arguments import check_text
from planrun.clock import Instant, SystemClock
from planrun.config import place_of, url_from
from planrun.core.access import EVERY_NAMESPACE, AccessToken, Scope, digest_of, token_text
from planrun.core.durations import read_span
from planrun.core.errors import Invalid
from planrun.core.names import NAME_RULE, is_name

LASTS_S_MAX = 100 * 365.25 * 86_400


def token(
    action: Annotated[Literal["create", "list", "revoke"], Parameter(name="ACTION")] = "list",
    token_id: Annotated[str, Parameter(name="TOKEN", show_default=False, help="Which to revoke, as listed.")] = "",
    /,
    *,
    scope: Annotated[tuple[Literal["submit", "work", "operate"], ...], Parameter(show_default=False)] = (),
    namespace: Annotated[tuple[str, ...], Parameter(completer=offer_namespaces)] = ("default",),
    name: Word = "",
    expires: Word = "",
    json: AsJson = False,
    url: Url = None,
) -> int:
    """Make a token for the HTTP API, list all, or revoke one: a running orchestrator refuses it within a second.

    A token is shown once and kept nowhere. From the first one on, nobody gets in without.

    For example:

      planrun token create --scope submit --namespace ads --name web-shop --expires 90d
      planrun token create --scope work --namespace ads --namespace default --name render-box-7
      planrun token create --scope operate --namespace '*' --name ann
      planrun token revoke 5f0c21aa

    Args:
        scope: What it is for: submit (hand in, ask, cancel), work (run jobs), operate (pause, drain, and all of
            submit). Repeat it for more.
        namespace: Whose jobs it is for; '*': everybody's. Repeat it for more.
        name: Who gets it, for the list.
        expires: How long it opens anything, such as 12h or 90d; without it, until it is revoked.
    """
    if action != "revoke" and token_id:
        raise Invalid(f"{token_id}: only revoke takes a TOKEN")
    match action:
        case "create":
            return _create(scope, namespace, name, expires, json, url)
        case "list":
            return _list(json, url)
        case "revoke":
            return _revoke(token_id, json, url)


def _create(
    scopes: tuple[str, ...], namespaces: tuple[str, ...], name: str, expires: str, json: bool, url: str | None
) -> int:
    if not scopes:
        raise Invalid("say what the token is for: --scope submit, --scope work or --scope operate")
    for one in namespaces:
        if one != EVERY_NAMESPACE and not is_name(one):
            raise Invalid(f"namespace {one!r}: use {NAME_RULE}, or '{EVERY_NAMESPACE}' for all")
    check_text("name", name)
    lasts_s = read_span(expires) if expires else None
    if expires and not (lasts_s and lasts_s <= LASTS_S_MAX):
        raise Invalid(f"--expires {expires}: write a span of time, such as 12h or 90d; a century at most")
    clock = SystemClock.open_system()
    text = token_text(clock.new_id() + clock.new_id() + clock.new_id())
    made = AccessToken(
        token_id=text.split("_")[1],
        digest=digest_of(text),
        name=name,
        scopes=tuple(map(Scope, dict.fromkeys(scopes))),
        namespaces=tuple(dict.fromkeys(namespaces)),
        expires_at_ms=None if lasts_s is None else clock.now().wall_ms + round(lasts_s * 1000),
    )
    is_new = not place_of(url_from(url)).ledger.exists()
    with_keyring(url, lambda keyring: keyring.create(made), may_create=True)
    if json:
        print_json({"token": text, "token_id": made.token_id, "expires_at_ms": made.expires_at_ms})
        return Exit.FINISHED
    print(text)
    ledger = existing(url).ledger
    say(f"this is shown once; its TOKEN for list and revoke is {made.token_id}")
    if is_new:
        say(f"a new ledger was made for it: {ledger}")
    return Exit.FINISHED


def _list(json: bool, url: str | None) -> int:
    found = with_keyring(url, lambda keyring: keyring.access_tokens())
    if json:
        shown = [name for name in AccessToken.__struct_fields__ if name != "digest"]
        print_json([{name: getattr(row, name) for name in shown} for row in found])
        return Exit.FINISHED
    now = SystemClock.open_system().now()
    print_table(
        ("token", "name", "scopes", "namespaces", "state", "made", "last used"),
        (
            (
                row.token_id,
                row.name,
                ", ".join(row.scopes),
                ", ".join(row.namespaces),
                _state(row, now),
                moment(row.created_at_ms, now),
                "never" if row.seen_at_ms is None else moment(row.seen_at_ms, now),
            )
            for row in found
        ),
    )
    return Exit.FINISHED


def _state(row: AccessToken, now: Instant) -> str:
    if row.revoked_at_ms is not None:
        return f"revoked {moment(row.revoked_at_ms, now)}"
    if row.expires_at_ms is None:
        return "valid"
    return f"{'expired' if row.expires_at_ms <= now.wall_ms else 'valid, expires'} {moment(row.expires_at_ms, now)}"


def _revoke(token_id: str, json: bool, url: str | None) -> int:
    if not token_id:
        raise Invalid("name the TOKEN to revoke; `planrun token list` shows all")
    known = {row.token_id for row in with_keyring(url, lambda keyring: keyring.access_tokens())}
    if token_id not in known:
        raise Invalid(f"there is no token {token_id:.80}; `planrun token list` shows all")
    done = with_keyring(url, lambda keyring: keyring.revoke(token_id))
    if json:
        print_json({"revoked": done, "token_id": token_id})
    else:
        print(f"token {token_id} {'is revoked' if done else 'was revoked already'}")
    return Exit.FINISHED
