"""Where a job's inputs may come from: judged by the worker that fetches them, never by the job.

`https:` from public addresses, and results of the fleet's own store in the job's own namespace, unless an operator
says otherwise. A local file is taken from a folder that is named, once others than this box may hand jobs in.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import SplitResult, unquote, urlsplit

from planrun.core.addresses import Allowed, allowed_from
from planrun.core.errors import Invalid

ANY_HOST = "*"
FETCHED = ("https", "http", "s3")
EVERY_FILE = "file:/"
DEFAULT = ("https://*",)
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Rule:
    """Attributes:
    host: A name, `*.` and a name, an address, or `*`: any public address. Empty for files.
    port: None: any.
    path: What the path begins with; for files, the folder.
    """

    scheme: str
    host: str
    port: int | None
    path: str

    def fits(self, parts: SplitResult) -> bool:
        """Does it allow this address of the network?"""
        host = (parts.hostname or "").rstrip(".")
        named = self.host in (ANY_HOST, host) or (self.host.startswith("*.") and host.endswith(self.host[1:]))
        below = f"{self.path.rstrip('/')}/"
        inside = (parts.path or "/").startswith(below) or parts.path == self.path
        inside = inside and ".." not in unquote(parts.path).split("/")
        return parts.scheme == self.scheme and bool(host) and named and self.port in (None, parts.port) and inside


@dataclass(frozen=True, slots=True)
class Rules:
    """Attributes:
    rules: One of them must fit.
    store: `s3://bucket/prefix` of the fleet's own results; empty: there is none.
    """

    rules: tuple[Rule, ...]
    store: str = ""

    @property
    def addresses(self) -> Allowed:
        """What a name may resolve to."""
        return allowed_from([rule.host for rule in self.rules if rule.host not in ("", ANY_HOST)])

    @property
    def folders(self) -> tuple[PurePosixPath, ...]:
        """Where local files may lie."""
        return tuple(PurePosixPath(rule.path) for rule in self.rules if rule.scheme == "file")

    def allow(self, uri: str) -> bool:
        """May it be asked for? What its name resolves to is judged apart, when it is connected to."""
        parts = split(uri)
        return parts is not None and any(rule.fits(parts) for rule in self.rules)

    def stored(self, uri: str, namespace: str) -> tuple[str, str] | None:
        """Key and digest of a result in the fleet's own store; None: this is none of that namespace."""
        key = uri.removeprefix(f"{self.store.rstrip('/')}/")
        pieces = key.split("/")
        is_own = self.store.startswith("s3:") and key != uri and pieces[:2] == [namespace, "jobs"]
        if not is_own or len(pieces) != 6 or ".." in pieces or not _DIGEST.fullmatch(pieces[4]):
            return None
        return key, pieces[4]


def rules_from(patterns: Sequence[str], *, store: str = "", is_fleet: bool) -> Rules:
    """Read what an operator allows.

    Args:
        patterns: `https://HOST/PATH`, `http://…`, `file:/FOLDER`; none: the default.
        is_fleet: Others than this box may hand jobs in, so that a file must be allowed by its folder.

    Raises:
        Invalid: None of these.
    """
    rules = [_rule(pattern) for pattern in patterns or DEFAULT]
    if not is_fleet and not any(rule.scheme == "file" for rule in rules):
        rules.append(_rule(EVERY_FILE))
    found = Rules(tuple(rules), store)
    _ = found.addresses  # a host that is none is said now
    return found


def split(uri: str) -> SplitResult | None:
    """The parts of an address; None: it is none."""
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return None
    return parts


def check_fetched(name: str, uri: str) -> None:
    """An input that a worker is to fetch.

    Raises:
        Invalid: Nothing can be fetched there; says what to write.
    """
    parts = split(uri)
    if parts is None or not parts.hostname or not uri.isprintable() or " " in uri:
        raise Invalid(f"input {name}: {shown(uri)}: write https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise Invalid(f"input {name}: a user or password would be stored with the job; sign the address instead")
    if parts.fragment:
        raise Invalid(f"input {name}: {shown(uri)}: leave out what follows the #")


def shown(uri: str) -> str:
    """An address as people see it: a signature in it lets others in."""
    bare = re.sub(r"//[^/@]*@", "//", uri.partition("?")[0].partition("#")[0])
    return f"{bare:.300}{'?…' if '?' in uri else ''}"


def _rule(pattern: str) -> Rule:
    parts = split(pattern)
    words = f"--allow-input {pattern:.200}: write https://HOST, https://*.example.org/PATH or file:/FOLDER"
    if parts is None or parts.query or parts.fragment or "@" in parts.netloc:
        raise Invalid(words)
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/") or ".." in parts.path.split("/"):
            raise Invalid(words)
        return Rule("file", "", None, parts.path)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid(words)
    return Rule(parts.scheme, parts.hostname.rstrip("."), parts.port, parts.path)
