"""What a store promises about objects that somebody has been told of."""

from __future__ import annotations

from .fences import Fence

FILESYSTEM = "tests/contract/test_filesystem_store.py"
S3 = "tests/contract/test_s3_store.py"
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
    Fence(
        "bytes that changed after their digest was taken do not lie under it",
        "storage/s3.py",
        "if digest.hexdigest() != stored.sha256:",
        "if False:",
        (f"{S3}::test_a_source_that_changes_between_its_digest_and_its_upload_is_refused[ministack]",),
    ),
    Fence(
        "an upload whose lease was lost at the very end is not completed",
        "storage/s3.py",
        "    ask(may_go_on)\n    trip",
        "    trip",
        (
            f"{S3}::TestS3Store::test_a_lost_lease_stops_the_upload_at_any_question_and_leaves_nothing[ministack]",
            f"{S3}::TestS3Store::test_the_last_question_comes_before_the_object_appears[ministack]",
        ),
    ),
    Fence(
        "a small object is created once in a bucket, too",
        "storage/s3.py",
        'mode="create"',
        'mode="overwrite"',
        (f"{S3}::TestS3Store::test_the_first_to_create_a_small_object_wins_and_all_get_its_bytes[ministack]",),
    ),
]
