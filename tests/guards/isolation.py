"""What keeps a job's processes together, apart from everything else, and certainly dead."""

from __future__ import annotations

from .fences import Fence
from .worker import seen

TREES = "tests/integration/test_process_tree.py"
PROCESSES = "tests/jobs/test_job_process.py"


def trees(name: str, file: str, old: str, new: str, test: str) -> Fence:
    """Seen on real trees."""
    return Fence(name, f"worker/{file}.py", old, new, (f"{TREES}::{test}",))


def process(name: str, file: str, old: str, new: str, test: str) -> Fence:
    """Seen at one real process."""
    return Fence(name, f"worker/{file}.py", old, new, (f"{PROCESSES}::{test}",))


APART = "test_the_job_process_holds_nothing_that_leads_to_a_store_queue_or_ledger"
LOCK = "test_c45_the_lock_of_a_killed_worker_is_free_only_after_its_tree_is_dead"
MEMBER = "test_session_parents_and_mark_make_a_member"
ONCE_SEEN = "test_who_was_seen_once_stays_a_member_and_its_number_does_not"
NONSENSE = "test_what_the_runner_would_not_write_costs_the_attempt_and_nobody_else"
MARKS = "test_no_mark_begins_with_another_s"

ISOLATION = [
    trees(
        "a level that does not work here is refused",
        "isolation",
        "if not _works(level):",
        "if False:",
        "test_a_level_below_which_a_daemon_lives_on_is_refused",
    ),
    trees(
        "a level whose daemon lives does not work",
        "isolation",
        " and not marked(mark)",
        "",
        "test_a_level_below_which_a_daemon_lives_on_is_refused",
    ),
    process(
        "a launcher has no environment but the job's",
        "isolation",
        "env=dict(environment)",
        "env={**os.environ, **environment}",
        APART,
    ),
    trees(
        "a worker's lock is its launchers', too",
        "isolation",
        "lock = -1 if lock_fd is None else lock_fd",
        "lock = -1",
        f"{LOCK}[group]",
    ),
    process("job code gets no lock", "launcher", "os.set_inheritable(descriptor, False)", "pass", APART),
    process("job code leads a session of its own", "launcher", "        os.setsid()\n", "", APART),
    process(
        "the kernel takes the job before the worker", "launcher", "        _offer_to_the_oom_killer()\n", "", APART
    ),
    trees(
        "all of a tree ends with its main process",
        "launcher",
        "        if self._watch():\n            self._tree.end()\n",
        "        if self._watch():\n",
        "test_c45_the_end_of_the_main_process_is_the_end_of_its_tree[subreaper-return]",
    ),
    trees(
        "a kill is over once the tree is dead",
        "process",
        "return await self._obeyed(self._exited, _KILL_TIMEOUT_S)",
        "return Exited(signal=9, killed=True)",
        "test_c46_kill_returns_once_the_whole_tree_is_dead[group]",
    ),
    trees(
        "a launcher that stands still keeps nobody alive",
        "process",
        "            self._launcher.kill()\n            return await asyncio.shield(done)\n",
        "            return Exited(killed=True)\n",
        "test_a_frozen_launcher_does_not_stop_the_kill[group]",
    ),
    trees(
        "what a killed launcher has left is ended",
        "process",
        "            await asyncio.to_thread(end_marked, self._mark)\n",
        "",
        "test_a_killed_launcher_is_noticed_and_its_tree_ended[group]",
    ),
    process(
        "nothing of the job before is left in a warm process",
        "process",
        '            self._tell_launcher({"say": "clear"})\n            await',
        "            self._cleared.set_result(None)\n            await",
        "test_a_warm_process_is_reused_and_cleared_in_between[subreaper]",
    ),
    process(
        "a launcher that stands still holds no warm job up",
        "process",
        "            await self._obeyed(self._cleared, _CLEAR_TIMEOUT_S)\n",
        "            await self._cleared\n",
        "test_a_guardian_that_stands_still_holds_no_warm_job_up",
    ),
    seen(
        "one look that finds nobody is not enough",
        "tree",
        "while quiet < 2:",
        "while quiet < 1:",
        "test_one_look_that_finds_nobody_is_not_enough",
    ),
    seen(
        "a process whose first thread ended lives",
        "tree",
        " or int(fields[17]) > 1",
        "",
        "test_a_process_whose_first_thread_has_ended_lives_while_another_runs",
    ),
    seen(
        "what any thread started is a child",
        "tree",
        'for thread in os.listdir(f"/proc/{pid}/task"):',
        "for thread in [pid]:",
        "test_what_any_thread_has_started_is_a_child",
    ),
    seen(
        "who was seen once stays a member",
        "tree",
        "            or (process.pid, process.started) in self._seen\n",
        "",
        ONCE_SEEN,
    ),
    seen(
        "who has a member's number later is none",
        "tree",
        "(process.pid, process.started) in self._seen",
        "process.pid in {pid for pid, _ in self._seen}",
        ONCE_SEEN,
    ),
    seen(
        "a session's processes are members", "tree", "if process.session == self.main\n            or (", "if (", MEMBER
    ),
    seen("children of members are members", "tree", "if process.parent in found} | found", "if False} | found", MEMBER),
    seen("no tree's mark begins with another's", "tree", 'f"{incarnation}.{n}."', 'f"{incarnation}.{n}"', MARKS),
    seen(
        "no worker's mark begins with another's",
        "tree",
        'return f"{incarnation}." if',
        'return f"{incarnation}" if',
        MARKS,
    ),
    seen(
        "a mark stands in its own variable",
        "tree",
        'b"\\0" + marker in variables',
        "marker in variables",
        "test_a_mark_is_looked_for_in_its_own_variable",
    ),
    seen(
        "job code sees what is on a list",
        "environment",
        "if name in _NAMES or",
        "if True or",
        "test_only_what_is_on_the_list_gets_through",
    ),
    seen(
        "a value from job code is JSON",
        "happenings",
        'check_json(value, bytes_max=VALUE_BYTES_MAX, what="value")',
        "pass",
        NONSENSE,
    ),
    seen("a name from job code is a name", "happenings", "    if not is_name(name):\n", "    if False:\n", NONSENSE),
    seen("a path from job code is a path", "happenings", '    if "\\0" in path:\n', "    if False:\n", NONSENSE),
    seen("a checkpoint's number is one", "happenings", "    if not 0 < seq < _SEQ_END:\n", "    if False:\n", NONSENSE),
    seen(
        "a text from job code can be stored",
        "happenings",
        'text.encode(errors="replace").decode()',
        "text",
        "test_a_text_is_made_one_that_can_be_stored",
    ),
    seen(
        "nonsense on a line costs its attempt alone",
        "happenings",
        "        except Exception:  # whatever",
        "        except ZeroDivisionError:  # whatever",
        NONSENSE,
    ),
    seen("after nonsense nothing is believed", "happenings", "lines if not self._is_broken else ()", "lines", NONSENSE),
    seen(
        "a flood waits in the job's own socket",
        "happenings",
        "            self._transport.pause_reading()\n",
        "            pass\n",
        "test_a_flood_waits_in_the_job_s_own_socket",
    ),
    seen(
        "a line has an end",
        "happenings",
        "if len(self._rest) > LINE_BYTES_MAX:",
        "if False:",
        "test_a_line_without_an_end_is_not_read_for_ever",
    ),
    seen(
        "a log keeps to its limit",
        "joblog",
        "        if self._tail > self._half:\n",
        "        if False:\n",
        "test_a_long_log_keeps_its_start_and_its_end_by_whole_lines",
    ),
    seen(
        "a full disk breaks no log",
        "joblog",
        "        except OSError:\n            self._left_out += len(data) - written\n",
        "        except ZeroDivisionError:\n            self._left_out += len(data) - written\n",
        "test_a_full_disk_never_breaks_the_log",
    ),
    seen(
        "inputs are not a job's output",
        "meter",
        "elif entry.path != skip:",
        "else:",
        "test_scratch_counts_what_lies_on_disk_without_the_inputs",
    ),
    seen(
        "memory that is shared counts once",
        "meter",
        "_proportional(process.pid) or process.rss_bytes",
        "process.rss_bytes",
        "test_beyond_the_limit_shared_memory_is_counted_once_each",
    ),
    seen(
        "where a probe says no, the operator's word does not count",
        "catalog",
        "has = found | {*capabilities} - set(probed)",
        "has = found | {*capabilities}",
        "test_c66_where_a_probe_says_no_the_operators_word_does_not_count",
    ),
    process(
        "a death is no answer",
        "exits",
        "    return Outcome.TRANSIENT, Failure",
        "    return Outcome.SUCCESS, Failure",
        "test_c50_every_death_is_explained_with_the_last_lines[subreaper-params3-signal-SIGKILL (from outside]",
    ),
    seen(
        "an option that cannot be right is refused",
        "options",
        "not least <= number <= _MOST",
        "False",
        "test_an_option_that_cannot_be_right_is_refused_and_says_why",
    ),
    seen(
        "a worker that its ledger lost registers anew",
        "enrolment",
        "            await self._ledger.register(self._row)\n",
        "            pass\n",
        "test_a_worker_that_a_recovered_ledger_does_not_know_registers_anew",
    ),
    seen(
        "a worker that its ledger knows is left as it is",
        "enrolment",
        "if await self._ledger.worker(self._row.incarnation) is None:",
        "if True:",
        "test_a_worker_that_hears_nothing_asks_now_and_then_and_leaves_its_row_as_it_is",
    ),
    seen(
        "a warm process is of one namespace, kind and version",
        "processes",
        "use = (granted.namespace, granted.kind, granted.version)",
        'use = ("", "", "")',
        "test_a_warm_process_serves_its_own_namespace_kind_and_version_and_no_other",
    ),
    seen(
        "a warm process that has died is not used",
        "processes",
        "if process is None or process.has_ended:",
        "if process is None:",
        "test_a_warm_process_that_has_died_meanwhile_is_not_used",
    ),
    seen(
        "what is not given back is dead",
        "processes",
        "        else:\n            await self._end(process)\n",
        "        else:\n            pass\n",
        "test_what_is_not_given_back_is_dead",
    ),
    seen(
        "no more processes wait than may",
        "processes",
        "            await self._evict()\n",
        "            pass\n",
        "test_no_more_warm_processes_wait_than_there_are_slots",
    ),
    seen(
        "what a dead worker's launchers left is ended",
        "processes",
        "    end_marked(mark_of(incarnation))\n",
        "",
        "test_what_killed_launchers_of_a_dead_worker_have_left_is_ended",
    ),
]
