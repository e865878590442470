"""What a store promises about objects that somebody has been told of."""

from __future__ import annotations

from .fences import Fence

FILESYSTEM = "tests/contract/test_filesystem_store.py"
STORES = [
    Fence(
        "a small object is created once",
        "storage/filesystem.py",
        "os.link(staged, target)",
        "os.replace(staged, target)",
        (f"{FILESYSTEM}::TestFilesystemStore::test_the_first_to_create_a_small_object_wins_and_all_get_its_bytes",),
    ),
    Fence(
        "a small object's name is durable before anybody is told",
        "storage/filesystem.py",
        "            self._fsync_parents(target)  # for a loser",
        "            pass  # for a loser",
        (f"{FILESYSTEM}::test_a_small_object_is_durable_before_anybody_is_told",),
    ),
]
