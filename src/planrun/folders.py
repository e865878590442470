"""Removing folders that job code has written."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def remove_folder(folder: Path) -> None:
    """Remove a folder that job code has written, whatever modes it has set there.

    Raises:
        OSError: Some of it cannot be removed.
    """
    with suppress(FileNotFoundError):  # its worker removes it, too
        try:
            shutil.rmtree(folder)
        except PermissionError:
            folder.chmod(0o700)
            for parent, folders, _ in os.walk(folder):
                for name in folders:
                    inner = Path(parent, name)
                    if not inner.is_symlink():
                        inner.chmod(0o700)
            shutil.rmtree(folder)
