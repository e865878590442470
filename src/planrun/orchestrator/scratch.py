"""Scratch folders of attempts that are over, and whose process tree is known to be dead: they go."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path

from planrun.folders import remove_folder
from planrun.ledger.contract import Ledger

# As `f"{token:x}"` writes it. A token is never shorter, and other folders are nobody's but their owner's.
_TOKEN = re.compile(r"[1-9a-f][0-9a-f]{10,15}(\.gone)?")

_log = logging.getLogger("planrun.collector")


class ScratchCollector:
    """Collects the scratch folders of one ledger's attempts."""

    def __init__(
        self,
        ledger: Ledger,
        scratch: Path,
        *,
        dry_run: bool = False,
        tell: Callable[[str], None] = lambda name: None,
    ) -> None:
        """
        Args:
            scratch: Root of the attempts' folders *of this ledger*, each named by its token in hex. Two
                ledgers must never share one: their tokens are alike.
            dry_run: Only tell, and remove nothing.
            tell: Called with the path of each folder that has gone.
        """
        self._ledger = ledger
        self._scratch = scratch
        self._told: set[Path] = set()
        self._dry_run = dry_run
        self._tell = tell

    async def collect(self) -> None:
        """Look once."""
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
            int(path.stem, 16): path
            for path in entries
            if _TOKEN.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
        }

    def _remove(self, folder: Path) -> None:
        """Remove it under a name of its own: the next attempt may give it its own name at any moment, and keep it."""
        try:
            if not self._dry_run:
                folder = folder.rename(folder.with_suffix(".gone"))
                remove_folder(folder)
            self._tell(str(folder.with_suffix("")))
        except FileNotFoundError:  # somebody else was first
            pass
        except OSError as error:
            if folder not in self._told:
                self._told.add(folder)
                _log.warning("the scratch folder %s cannot be removed; remove it by hand: %s", folder, error)
