"""Where the results of a ledger lie: beside it, in another folder, or in a bucket; and that all agree on it.

A collector that looks into the wrong store would find nothing there and call it clean. So the first worker or
orchestrator that is told another place than the default writes it down beside the ledger; who is told nothing
reads it there, and who is told something else is refused.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from planrun.config import STORE_VARIABLE, Place
from planrun.core.errors import Invalid
from planrun.folders import fsync_folder

S3 = "s3://"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """`s3://<bucket>/<prefix>`; the prefix without slashes at its ends, and may be empty."""

    bucket: str
    prefix: str


def read_address(address: str) -> BucketAddress | Path:
    """A bucket, or a folder that everybody who uses the ledger sees.

    Raises:
        Invalid: Neither.
    """
    if address.startswith(S3):
        bucket, _, prefix = address.removeprefix(S3).partition("/")
        if "@" in bucket:
            raise Invalid(
                "the address of a store has no key or secret in it; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        parts = prefix.strip("/").split("/") if prefix.strip("/") else []
        if not _BUCKET.fullmatch(bucket) or any(part in ("", ".", "..") for part in parts) or "?" in prefix:
            raise Invalid(f"store {address}: write s3://BUCKET or s3://BUCKET/PREFIX")
        return BucketAddress(bucket, "/".join(parts))
    folder = Path(address).expanduser()
    if "://" in address or not folder.is_absolute():
        raise Invalid(f"store {address}: use s3://BUCKET/PREFIX, or the absolute path of a folder")
    return folder


def address_for(place: Place, given: str, *, settle: bool) -> str:
    """The store of the ledger at a place.

    Args:
        given: What this process was told; empty: nothing.
        settle: Write it down if nobody has yet: this process will store there.

    Raises:
        Invalid: Not an address, or the ledger's results are somewhere else; says what to do.
    """
    if given:
        read_address(given)
    note = place.store_address
    try:
        noted = note.read_text().strip()
    except FileNotFoundError:
        noted = ""
    if noted and given and noted != given:
        raise Invalid(
            f"the results of {place.ledger} are in {noted}, not in {given}; mend {STORE_VARIABLE} or --store, "
            f"or, once all objects have been copied there, write {given} into {note}"
        )
    if noted or not given:
        return noted or str(place.store)
    if given != str(place.store) and place.store.exists() and any(place.store.iterdir()):
        raise Invalid(
            f"the results of {place.ledger} are in {place.store} so far; copy them to {given}, "
            f"keeping their paths, and write {given} into {note}"
        )
    if settle:
        _write(note, given)
        return address_for(place, given, settle=False)  # another may have been the first
    return given


def _write(note: Path, address: str) -> None:
    """Write it down, whole at once. A note that is there stays as it is: of any number of writers one is the first."""
    note.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".planrun-", dir=note.parent) as folder:
        written = Path(folder) / note.name
        with written.open("w") as file:
            file.write(f"{address}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(written, note)
    fsync_folder(note.parent)
