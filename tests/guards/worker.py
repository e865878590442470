"""What keeps an attempt from saying what is not so, and from going on when it must not."""

from __future__ import annotations

from .fences import Fence


def seen(name: str, file: str, old: str, new: str, test: str) -> Fence:
    """Seen by the tests of that module."""
    return Fence(name, f"worker/{file}.py", old, new, (f"tests/worker/test_{file}.py::{test}",))


OUTPUT = "test_an_output_is_a_plain_file_in_scratch_with_something_in_it"
GRACES = "test_a_job_may_end_then_leave_a_checkpoint_and_then_it_has_to_go"
SLEPT = "test_time_that_the_machine_slept_counts_for_no_limit"
PLAIN = "test_nothing_but_plain_files_is_kept_and_nobody_waits_for_a_pipe"
CHANGED = "test_what_changed_is_stored_again_and_what_did_not_is_named_again"

RUN = [
    seen(
        "a result counts with exit code 0 alone",
        "run",
        "if exited.code != 0:",
        "if False:",
        "test_a_result_counts_only_once_its_process_has_ended_with_0",
    ),
    seen(
        "a process that lingers is no success",
        "run",
        "            return await process.kill()\n",
        "            await process.kill()\n            return Exited(code=0)\n",
        "test_a_process_that_said_done_and_lingers_is_no_success",
    ),
    seen(
        "an output is there",
        "run",
        '    except OSError:\n        raise Permanent(f"output',
        '    except ZeroDivisionError:\n        raise Permanent(f"output',
        OUTPUT,
    ),
    seen("an output lies in scratch", "run", "    if not inside:\n", "    if False:\n", OUTPUT),
    seen("an output is a plain file", "run", "if not stat.S_ISREG(status.st_mode):", "if False:", OUTPUT),
    seen("an output has something in it", "run", "if status.st_size == 0:", "if False:", OUTPUT),
    seen(
        "what is returned is measured once more",
        "run",
        "if (breach := check_output(",
        "if False and (breach := check_output(",
        "test_what_a_job_returns_is_measured_once_more_holes_included",
    ),
    seen(
        "a limit ends the job",
        "run",
        "if (breach := self._breach()) is not None:",
        "if False:",
        "test_a_limit_ends_the_job_and_what_it_uses_is_told",
    ),
    seen(
        "who slept counts it for no job's silence",
        "run",
        "        self._signs = replace(self._signs, at_ms=self._signs.at_ms + unseen)\n",
        "",
        SLEPT,
    ),
    seen("who slept counts it for no job's run time", "run", "        self._started_ms += unseen\n", "", SLEPT),
    Fence(
        "what nobody looked at counts for no limit",
        "core/limits.py",
        "return max(0, now_ms - looked_ms - SEEN_MS_MAX)",
        "return 0",
        ("tests/core/test_limits.py::test_a_look_that_comes_late_counts_little",),
    ),
    seen(
        "a process that cannot be started is no failure of its job",
        "run",
        "        except OSError as error:\n            return Ran(released",
        "        except ZeroDivisionError as error:\n            return Ran(released",
        "test_a_process_that_cannot_be_started_is_no_failure_of_the_job",
    ),
    seen(
        "a failure is text",
        "run",
        'error.message.encode(errors="replace").decode()',
        "error.message",
        "test_what_a_job_calls_its_files_hides_no_failure",
    ),
    seen(
        "a checkpoint on its way ends with its attempt",
        "run",
        "not self._has_ended and ",
        "",
        "test_a_checkpoint_on_its_way_ends_with_its_attempt",
    ),
    seen(
        "what a job uses is not promised, too",
        "run",
        "                self.room.used(disk_bytes=event.scratch_bytes, memory_bytes=event.rss_bytes)\n",
        "",
        "test_a_limit_ends_the_job_and_what_it_uses_is_told",
    ),
    seen(
        "a job that failed is dead",
        "run",
        "                exited = await process.kill()\n                return Ran.failed(outcome,",
        "                exited = Exited()\n                return Ran.failed(outcome,",
        "test_whatever_ends_an_attempt_its_process_is_dead_before_that_is_said",
    ),
    seen(
        "a job that stopped is dead",
        "run",
        "                exited = await process.kill()\n                if not self",
        "                exited = Exited()\n                if not self",
        "test_whatever_ends_an_attempt_its_process_is_dead_before_that_is_said",
    ),
    seen(
        "a job that stops unasked has failed",
        "run",
        "if not self._asked_to_stop:",
        "if False:",
        "test_a_job_that_stops_unasked_has_failed",
    ),
    seen(
        "no process outlives its attempt",
        "run",
        "            await self.processes.end(process)\n",
        "            pass\n",
        "test_whatever_ends_an_attempt_its_process_is_dead_before_that_is_said",
    ),
    seen(
        "a lease that is over ends the job",
        "run",
        "                if self.holding.is_over:\n",
        "                if False:\n",
        "test_a_lease_that_is_over_ends_the_job_and_nothing_is_said",
    ),
    seen(
        "a broken worker ends its jobs",
        "run",
        "                if orders.abandon:\n",
        "                if False:\n",
        "test_a_broken_worker_ends_its_jobs_and_says_nothing",
    ),
    seen(
        "a worker in a hurry waits for no job",
        "run",
        "if orders.hurry or self",
        "if self",
        "test_a_worker_in_a_hurry_gives_its_jobs_back_as_they_are",
    ),
    seen(
        "a draining worker starts nothing",
        "run",
        "        if self.orders.hand_back:\n",
        "        if False:\n",
        "test_a_draining_worker_starts_nothing",
    ),
    seen(
        "a job may end while its worker drains",
        "run",
        "        if now_ms < self._stop_by_ms:\n",
        "        if False:\n",
        GRACES,
    ),
    seen(
        "a job may leave a checkpoint while its worker drains",
        "run",
        "if self.kind.resumable and not self._asked_to_stop:",
        "if False:",
        GRACES,
    ),
    seen(
        "a job that leaves no checkpoint has to go",
        "run",
        "            self._stop_by_ms = now_ms + round(self.options.checkpoint_grace_s * 1000)\n",
        "            self._stop_by_ms = now_ms + 10**9\n",
        GRACES,
    ),
    seen(
        "only a resumable kind leaves checkpoints",
        "run",
        "            if not self.kind.resumable:\n",
        "            if False:\n",
        "test_a_kind_that_is_not_resumable_leaves_no_checkpoint",
    ),
    seen(
        "whoever leaves a checkpoint too late hears that it is over",
        "run",
        "                self.holding.end(standing)\n",
        "                pass\n",
        "test_a_checkpoint_that_comes_too_late_ends_the_attempt",
    ),
    seen(
        "checkpoints are taken in order",
        "run",
        "        async with self._one_by_one:\n",
        "        if True:\n",
        "test_checkpoints_are_taken_in_order_though_threads_of_the_job_ask_at_once",
    ),
    seen(
        "a warm process is cleared before its result counts",
        "run",
        "            await process.clear()\n",
        "            pass\n",
        "test_a_warm_process_serves_again_only_after_a_success_that_counts",
    ),
    seen(
        "only a success keeps a process warm",
        "run",
        "        if self.kind.warm:\n            await",
        "        if self.kind.warm:\n            self.processes.give_back(process)\n            await",
        "test_a_warm_process_serves_again_only_after_a_success_that_counts",
    ),
    seen(
        "a warm process that has ended serves no more",
        "run",
        " and not process.has_ended:\n",
        ":\n",
        "test_a_warm_process_that_has_ended_serves_no_more",
    ),
]

CHECKPOINTS = [
    seen(
        "a checkpoint has so many files at most",
        "checkpoints",
        "if len(paths) > FILES_MAX:",
        "if False:",
        "test_very_many_files_are_refused",
    ),
    seen(
        "a checkpoint has so many bytes at most",
        "checkpoints",
        "if size > self._bytes_max:",
        "if False:",
        "test_more_than_the_kind_may_write_is_refused_holes_included",
    ),
    seen("a checkpoint follows no link", "checkpoints", "if path.is_symlink() or not", "if not", PLAIN),
    seen("a checkpoint waits for no pipe", "checkpoints", " or not path.is_file():", ":", PLAIN),
    seen(
        "a checkpoint's names are text",
        "checkpoints",
        "            name.encode()\n",
        "            pass\n",
        "test_a_name_that_is_no_text_is_refused",
    ),
    seen(
        "what changed since the last checkpoint is stored",
        "checkpoints",
        "identity = (name, *_state_of(path))",
        "identity = (name, 0, 0, 0, 0)",
        CHANGED,
    ),
    seen(
        "what did not change since the last checkpoint is not copied",
        "checkpoints",
        "known = self._stored.get(identity)\n",
        "known = None\n",
        CHANGED,
    ),
    seen(
        "what was stored of a checkpoint that failed is not copied again",
        "checkpoints",
        "            self._stored[identity] = known\n",
        "",
        "test_what_was_stored_of_a_checkpoint_that_failed_is_not_copied_again",
    ),
    seen(
        "what is not in the last checkpoint is forgotten",
        "checkpoints",
        "        self._stored = named  #",
        "        pass  #",
        "test_what_has_changed_or_has_gone_is_forgotten",
    ),
    seen(
        "what was written through a memory map has changed",
        "checkpoints",
        "        os.fsync(fd)\n",
        "",
        "test_what_was_written_through_a_memory_map_has_changed",
    ),
]
