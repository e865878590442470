"""What a store promises about objects that somebody has been told of."""

from __future__ import annotations

from .fences import Fence

FILESYSTEM = "tests/contract/test_filesystem_store.py"
S3 = "tests/contract/test_s3_store.py"
INPUTS = "tests/worker/test_inputs.py"
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
        "a lease that is lost while the bytes are sent ends the upload",
        "storage/s3.py",
        "lambda: ask(may_go_on)):\n            if count:",
        "lambda: None):\n            if count:",
        (f"{S3}::TestS3Store::test_the_last_question_comes_before_the_object_appears[ministack]",),
    ),
    Fence(
        "a small object is created once in a bucket, too",
        "storage/s3.py",
        'mode="create"',
        'mode="overwrite"',
        (f"{S3}::TestS3Store::test_the_first_to_create_a_small_object_wins_and_all_get_its_bytes[ministack]",),
    ),
    Fence(
        "a store that is away costs waiting, not the attempt",
        "worker/store_wait.py",
        "if not error.is_away:",
        "if True:",
        ("tests/worker/test_store_wait.py::test_a_store_that_is_away_is_asked_until_it_is_back_and_the_job_says_so",),
    ),
    Fence(
        "a refusal is not waited for",
        "worker/store_wait.py",
        "if not error.is_away:",
        "if False:",
        ("tests/worker/test_store_wait.py::test_a_refusal_is_no_absence",),
    ),
    Fence(
        "who waits for the store hears that the lease is over",
        "worker/store_wait.py",
        "if self.holding.is_over:",
        "if False:",
        ("tests/worker/test_store_wait.py::test_a_canceled_job_waits_no_longer",),
    ),
    Fence(
        "an own store that is away costs waiting before a job, too",
        "worker/inputs.py",
        "await self._store_wait.carry(partial(self._copy, name, uri, namespace, target))",
        "await asyncio.to_thread(self._copy, name, uri, namespace, target)",
        (f"{INPUTS}::test_a_result_is_waited_for_while_the_own_store_is_away",),
    ),
    Fence(
        "for the own store no limit of a job counts",
        "worker/inputs.py",
        'None if uri.startswith("s3:") else limit_s',
        "limit_s",
        (f"{INPUTS}::test_a_result_is_waited_for_while_the_own_store_is_away",),
    ),
    Fence(
        "an input that comes too slowly is given up",
        "worker/inputs.py",
        'None if uri.startswith("s3:") else limit_s',
        "None",
        (f"{INPUTS}::test_what_comes_too_slowly_is_given_up",),
    ),
    Fence(
        "nobody stores a ledger's results in two places",
        "storage/address.py",
        "if noted and given and noted != given:",
        "if False:",
        ("tests/client/test_store_address.py::test_what_the_first_worker_was_told_holds_for_all",),
    ),
    Fence(
        "results that are there are not lost by an option",
        "storage/address.py",
        "if given != str(place.store) and place.store.exists()",
        "if False and place.store.exists()",
        ("tests/client/test_store_address.py::test_a_ledger_that_has_results_does_not_lose_them_by_an_option",),
    ),
    Fence(
        "where results go is written down once",
        "storage/address.py",
        "os.link(written, note)",
        "os.replace(written, note)",
        ("tests/client/test_store_address.py::test_of_two_that_are_the_first_at_once_one_is_refused",),
    ),
    Fence(
        "a file's name does not say what a server that is away is like",
        "storage/s3_words.py",
        '_ADDRESS.sub("", text)',
        "text",
        ("tests/contract/test_s3_words.py::test_nor_where_no_server_answers",),
    ),
    Fence(
        "a file's name does not say that the bucket is missing",
        "storage/s3_words.py",
        "return code is not None and code[1] == _NO_BUCKET",
        "return _NO_BUCKET in str(error)",
        ("tests/contract/test_s3_words.py::test_a_missing_object_is_no_missing_bucket_whatever_its_name",),
    ),
    Fence(
        "who saves a result writes to a file of its own",
        "client/answer.py",
        "part = Path(folder) / target.name",
        'part = target.with_name(f".{target.name}")',
        ("tests/client/test_save.py::test_who_saves_the_same_file_at_once_damages_no_copy",),
    ),
    Fence(
        "a bucket proves who it is, whatever the orchestrator does",
        "storage/remote.py",
        "_client(self._elsewhere(), ",
        "_client(False, ",
        ("tests/client/test_save.py::test_a_bucket_that_cannot_prove_who_it_is_is_not_asked",),
    ),
    Fence(
        "a bucket need not be of the orchestrator's CA",
        "tls.py",
        'environment.get(CA_VARIABLE, ""), system=True)',
        'environment.get(CA_VARIABLE, ""), system=False)',
        ("tests/client/test_save.py::test_a_bucket_may_be_of_the_systems_cas_or_of_the_one_that_is_named",),
    ),
    Fence(
        "a store that hangs leaves threads to heartbeats and kills",
        "embed.py",
        "THREADS + THREADS_A_SLOT * self._options.slots",
        "8",
        ("tests/worker/test_threads.py::test_a_store_that_hangs_leaves_threads_to_all_else",),
    ),
]
