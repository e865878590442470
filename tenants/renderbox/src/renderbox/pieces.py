"""Finished pieces of a plan, and the checkpoint they make.

A checkpoint is a folder with the pieces' files and `pieces.json`, which names the plan they belong to
and their digests. A later attempt with an equal plan goes on behind the last good piece.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from renderbox.plan import Plan

TABLE = "pieces.json"
CHECKPOINT = "checkpoint"
_INTERVAL_S_MIN = 2.0
_INTERVAL_SHARE = 0.1
_COST_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Piece:
    """One finished file. It is never written again."""

    path: Path
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Piece:
        with path.open("rb") as file:
            return cls(path, hashlib.file_digest(file, "sha256").hexdigest())

    def is_intact(self) -> bool:
        return self.path.is_file() and Piece.of(self.path) == self


@dataclass(slots=True)
class Pieces:
    """What is finished of one plan.

    Attributes:
        sound: The encoded sound; None: not yet, or the clip is silent.
        segments: The first segments of the picture, without a gap.
    """

    plan: Plan
    sound: Piece | None = None
    segments: list[Piece] = field(default_factory=list)

    @classmethod
    def left_in(cls, folder: Path | None, plan: Plan) -> Pieces:
        """Take over what an earlier attempt left, as far as it is of this plan and unharmed."""
        pieces = cls(plan)
        table = _table_in(folder)
        if folder is None or table.get("plan") != plan.digest():
            return pieces
        sound, segments = table["sound"], table["segments"]
        found = _found(folder, [sound]) if sound else []
        pieces.sound = found[0] if found else None
        pieces.segments = _found(folder, segments)
        return pieces

    def lay_out(self, folder: Path) -> None:
        """Write the checkpoint. Pieces are linked, not copied, where the file system can."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for piece in self._all():
            try:
                os.link(piece.path, folder / piece.path.name)
            except OSError:  # another file system
                shutil.copyfile(piece.path, folder / piece.path.name)
        table = {
            "plan": self.plan.digest(),
            "sound": _entry(self.sound) if self.sound else None,
            "segments": [_entry(piece) for piece in self.segments],
        }
        (folder / TABLE).write_text(json.dumps(table, indent=1))

    def _all(self) -> list[Piece]:
        return [*([self.sound] if self.sound else []), *self.segments]


class Intervals:
    """When the next checkpoint is worth its price. Times are monotonic seconds.

    The wait is at least 2 s, a tenth of the attempt's age, and ten times what the last one took: so a
    long render makes few of them, and all together take at most about a tenth of its time.
    """

    def __init__(self, now_s: float) -> None:
        self._started_s = self._last_s = now_s
        self._cost_s = 0.0

    def is_due(self, now_s: float) -> bool:
        age_s = now_s - self._started_s
        return now_s - self._last_s >= max(_INTERVAL_S_MIN, age_s * _INTERVAL_SHARE, self._cost_s / _COST_SHARE)

    def taken(self, *, from_s: float, to_s: float) -> None:
        self._last_s = to_s
        self._cost_s = to_s - from_s


def _table_in(folder: Path | None) -> dict[str, Any]:
    if folder is None:
        return {}
    try:
        table = json.loads((folder / TABLE).read_text())
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}


def _entry(piece: Piece) -> dict[str, str]:
    return {"file": piece.path.name, "sha256": piece.sha256}


def _found(folder: Path, entries: list[dict[str, str]]) -> list[Piece]:
    """The leading entries whose files are there and unharmed."""
    found: list[Piece] = []
    for entry in entries:
        piece = Piece(folder / entry["file"], entry["sha256"])
        if not piece.is_intact():
            break
        found.append(piece)
    return found
