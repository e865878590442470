"""The collector: removes what lost attempts left behind, by the ledger's word only.

Nothing goes because it is old: the winner is old, too. Objects go if the ledger calls their attempt
garbage and does not name them; scratch folders go if their attempt is over and its process tree is
known to be dead. A dead worker needs no clean-up of its own.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path

from planrun.core.errors import StorageError
from planrun.core.keeping import Garbage
from planrun.core.names import attempt_prefix
from planrun.folders import remove_folder
from planrun.ledger.contract import Ledger
from planrun.storage.contract import Store

COLLECT_EVERY_MS = 20_000
AT_ONCE_MAX = 1_000
# As `f"{token:x}"` writes it. A token is never shorter, and other folders are nobody's but their owner's.
_TOKEN = re.compile(r"[1-9a-f][0-9a-f]{10,15}")

_log = logging.getLogger("planrun.collector")


class Collector:
    """Collects objects and scratch folders of one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        *,
        scratch: Path,
        gc_grace_s: float,
        dry_run: bool = False,
        tell: Callable[[str], None] = lambda name: None,
    ) -> None:
        """
        Args:
            scratch: Root of the attempts' folders *of this ledger*, each named by its token in hex. Two
                ledgers must never share one: their tokens are alike.
            gc_grace_s: How long objects of lost attempts stay, to help people look into them. Seconds.
            dry_run: Only tell, and remove nothing.
            tell: Called with the key of each object, and the path of each folder, that has gone.
        """
        self._ledger = ledger
        self._store = store
        self._scratch = scratch
        self._grace_ms = round(gc_grace_s * 1000)
        self._told: set[Path] = set()
        self._dry_run = dry_run
        self._tell = tell

    async def tick(self, now_ms: int) -> int:
        """Collect once.

        Returns:
            When to collect again, boottime milliseconds.
        """
        await self._collect_scratch()
        failed: StorageError | None = None
        gone = 0
        for garbage in await self._ledger.garbage(grace_ms=self._grace_ms, limit=AT_ONCE_MAX):
            try:
                await asyncio.to_thread(self._delete_objects, garbage)
            except StorageError as error:
                failed = error
                continue
            if garbage.final and not self._dry_run:  # else its prefix is visited again
                await self._ledger.collected(garbage.lease)
                gone += 1
        if failed is not None:
            raise failed
        # A page that was all garbage is followed by another one.
        return now_ms if gone == AT_ONCE_MAX else now_ms + COLLECT_EVERY_MS

    def _delete_objects(self, garbage: Garbage) -> None:
        lease = garbage.lease
        prefix = attempt_prefix(garbage.namespace, lease.job_id, lease.attempt, lease.token)
        for key in self._store.keys(prefix):
            if key not in garbage.keep:
                if not self._dry_run:
                    self._store.delete(key)
                self._tell(key)

    async def _collect_scratch(self) -> None:
        found = await asyncio.to_thread(self._folders)
        if not found:
            return
        live = await self._ledger.live_tokens(tuple(found))
        for token, folder in found.items():
            if token not in live:
                await asyncio.to_thread(self._remove, folder)

    def _folders(self) -> dict[int, Path]:
        """The attempts' folders by token. Links and files are not ours."""
        try:
            entries = list(self._scratch.iterdir())
        except FileNotFoundError:
            return {}
        return {
            int(path.name, 16): path
            for path in entries
            if _TOKEN.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
        }

    def _remove(self, folder: Path) -> None:
        try:
            if not self._dry_run:
                remove_folder(folder)
            self._tell(str(folder))
        except OSError as error:
            if folder not in self._told:
                self._told.add(folder)
                _log.warning("the scratch folder %s cannot be removed; remove it by hand: %s", folder, error)
