"""Where planrun lives: one address, and everything else beside it.

`sqlite:///media.db` is a file in the current folder, `sqlite:////srv/media.db` an absolute one. A bare
path works too. All that planrun keeps lies beside the file and starts with its name.

`https://planrun.example:8470` is an orchestrator's. The ledger is there; what a process on this box keeps for it lies
in a folder of the user's cache, one for each such address.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from planrun.core.errors import Invalid

TRUSTED = "?filesystem=trusted"  # at the end of an address: the ledger may lie on a filesystem that looks shared
URL_VARIABLE = "PLANRUN_URL"
TOKEN_VARIABLE = "PLANRUN_TOKEN"
TOKEN_CHARS_MIN = 16
STORE_VARIABLE = "PLANRUN_STORE"
BROKER_VARIABLE = "PLANRUN_BROKER"
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")  # the S3 client reads all other AWS_* variables
S3_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
S3_KEY_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
S3_ROLE_VARIABLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
CACHE_VARIABLE = "XDG_CACHE_HOME"
REMOTE = ("http://", "https://")
VALUE_BYTES_MAX = 256 * 1024


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one ledger on this box.

    Attributes:
        ledger: The SQLite file; of an orchestrator's ledger nothing but a name for the others.
        url: Of the orchestrator; empty: the ledger is the file.
        alone: Lock file of whoever has the ledger open: workers share it, an orchestrator has it alone.
        turn: Lock file of the turnstile between writing processes; holds the pid of the last holder.
        wake: Touched after every commit; readers watch it.
        wakes: The same for those who wait for one job: a folder of files, touched when something happened to it.
        workers: One lock file per worker incarnation.
        store: Results, as `storage.filesystem` lays them out, unless they are somewhere else.
        store_address: A file that says where else.
        scratch: Default root of the attempts' folders.
        archive: Records of jobs that have left the ledger, a file per day.
        public: Files under their public names, `<namespace>/<name>`.
        logs: What the jobs printed, `<job>/<attempt>.log`.
        filesystem_trusted: Somebody vouches that locks on its filesystem reach everybody who writes there.
    """

    ledger: Path
    filesystem_trusted: bool = False
    url: str = ""

    @property
    def is_remote(self) -> bool:
        return bool(self.url)

    @property
    def shown(self) -> str:
        """What people call it."""
        return self.url or str(self.ledger)

    @property
    def alone(self) -> Path:
        return self._beside("alone")

    @property
    def turn(self) -> Path:
        return self._beside("turn")

    @property
    def wake(self) -> Path:
        return self._beside("wake")

    @property
    def wakes(self) -> Path:
        return self._beside("wakes")

    @property
    def workers(self) -> Path:
        return self._beside("workers")

    @property
    def store(self) -> Path:
        return self._beside("store")

    @property
    def store_address(self) -> Path:
        return self._beside("store-address")

    @property
    def scratch(self) -> Path:
        return self._beside("scratch")

    @property
    def archive(self) -> Path:
        return self._beside("archive")

    @property
    def public(self) -> Path:
        return self._beside("public")

    @property
    def logs(self) -> Path:
        return self._beside("logs")

    def log_of(self, job_id: str, attempt: int) -> Path:
        return self.logs / job_id / f"{attempt}.log"

    def _beside(self, suffix: str) -> Path:
        return self.ledger.with_name(f"{self.ledger.name}.{suffix}")


def place_of(url: str, environment: Mapping[str, str] = os.environ) -> Place:
    """Read an address. Nothing is made there.

    Raises:
        Invalid: Not an address that this planrun knows.
    """
    if url.startswith(REMOTE):
        return _remote_place(url, environment)
    is_trusted = url.endswith(TRUSTED)
    url = url.removesuffix(TRUSTED)
    if url.startswith("sqlite://"):
        if "?" in url:
            raise Invalid(f"{url}: an address has no options but {TRUSTED}")
        path = url.removeprefix("sqlite://")
        if not path.startswith("/") or path == "/":
            raise Invalid(f"{url}: write sqlite:///file.db (in this folder) or sqlite:////absolute/file.db")
        path = path[1:]
    elif "://" in url:
        raise Invalid(f"{url}: unknown scheme; use sqlite:///path/to/file.db")
    else:
        path = url
    if not path:
        raise Invalid("the address is empty; use sqlite:///path/to/file.db")
    return Place(Path(path).expanduser().absolute(), is_trusted)


def file_of(url: str) -> Place:
    """Read the address of a ledger's file, for what can be done there alone.

    Raises:
        Invalid: Not an address, or an orchestrator's.
    """
    place = place_of(url)
    if place.is_remote:
        raise Invalid(
            f"{url} is an orchestrator: do this on its box, at its ledger's file, with --url sqlite:///path/to/file.db"
        )
    return place


def _remote_place(url: str, environment: Mapping[str, str]) -> Place:
    parts = urlsplit(url)
    try:
        is_whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_whole = False
    if "@" in parts.netloc:
        raise Invalid(f"an address has no user or password in it; send a token with {TOKEN_VARIABLE}")
    if not is_whole or parts.query or parts.fragment:
        raise Invalid(f"{url}: write http(s)://HOST:PORT of an orchestrator")
    url = url.rstrip("/")
    cache = Path(environment.get(CACHE_VARIABLE) or "~/.cache").expanduser()
    return Place(
        cache.absolute() / "planrun" / f"{parts.hostname}-{hashlib.sha256(url.encode()).hexdigest()[:8]}" / "remote",
        url=url,
    )


def url_from(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The address to use: the given one, else PLANRUN_URL, else planrun.db in this folder."""
    return given or environment.get(URL_VARIABLE) or "sqlite:///planrun.db"


def token_from(environment: Mapping[str, str] = os.environ) -> str:
    """The secret that the HTTP API asks for; empty: it asks for none.

    Raises:
        Invalid: It could be guessed, or not be sent in a header.
    """
    token = environment.get(TOKEN_VARIABLE, "")
    if token and not (len(token) >= TOKEN_CHARS_MIN and token.isascii() and token.isprintable() and " " not in token):
        raise Invalid(
            f"{TOKEN_VARIABLE}: use at least {TOKEN_CHARS_MIN} ASCII characters without spaces, "
            "such as the output of: openssl rand -hex 16; for an orchestrator, what `planrun token create` has shown"
        )
    return token


def secret_from(environment: Mapping[str, str] = os.environ) -> str:
    """The secret that a server asks for, and that opens everything; empty: it has none of its own.

    A token that `planrun token create` has made is a caller's, in an environment that both share: the ledger knows what
    it opens, and that it was revoked.

    Raises:
        Invalid: As `token_from`.
    """
    from planrun.core.access import token_id_of  # noqa: PLC0415 - this module takes the standard library alone

    token = token_from(environment)
    return "" if token_id_of(token) is not None else token


def broker_from(fleet: str, environment: Mapping[str, str] = os.environ) -> str:
    """The broker that a worker of a fleet goes to: the fleet's own, or that one under the name known here."""
    return (environment.get(BROKER_VARIABLE) or fleet) if fleet else ""


def store_from(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Where results shall lie: as given, else PLANRUN_STORE; empty: nobody said."""
    return given or environment.get(STORE_VARIABLE, "")


def s3_access_from(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What others need to get at the same bucket. Credentials that run out are nobody else's."""
    keys = () if environment.get("AWS_SESSION_TOKEN") else S3_KEY_VARIABLES
    names = (*ENDPOINT_VARIABLES, *S3_REGION_VARIABLES, *keys)
    return {name: environment[name] for name in names if environment.get(name)}


def s3_access_with(told: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What was told, without what this machine knows by itself: a key never goes with the secret of another."""
    groups = (ENDPOINT_VARIABLES, S3_REGION_VARIABLES, (*S3_KEY_VARIABLES, *S3_ROLE_VARIABLES))
    own = {name for group in groups for name in group if any(map(environment.get, group))}
    return {name: value for name, value in told.items() if name not in own}


def s3_endpoint_from(environment: Mapping[str, str] = os.environ) -> str:
    """The address of the S3 server; empty: Amazon's.

    Raises:
        Invalid: Not an address.
    """
    for variable in ENDPOINT_VARIABLES:
        endpoint = environment.get(variable, "")
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise Invalid(f"{variable}: write http(s)://HOST:PORT of the S3 server")
        if endpoint:
            return endpoint
    return ""
