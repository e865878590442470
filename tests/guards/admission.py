"""What keeps a machine from taking more than it can bear, and a job from taking more than it may."""

from __future__ import annotations

from .fences import Fence
from .rules import core


def promise(name: str, old: str, new: str, test: str) -> Fence:
    """A rule of the promises that workers of one machine make to each other."""
    return Fence(name, "worker/reservations.py", old, new, (f"tests/worker/test_reservations.py::{test}",))


def gate(name: str, file: str, old: str, new: str, test: str) -> Fence:
    """A check on the way to a job, seen by the tests of the gates."""
    return Fence(name, f"worker/{file}.py", old, new, (f"tests/worker/test_gates.py::{test}",))


LOCKED = "            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
NAMED = "            _write(fd, written)\n            fresh.rename(self._path)\n"
TOGETHER = "test_the_promises_of_workers_on_one_scratch_root_add_up"
AT_ONCE = "test_of_two_workers_that_decide_at_once_one_gets_the_last_room"
DISK = "test_the_disk_rule_holds_to_the_byte"
LIMITS = "test_c50_each_limit_names_itself_and_the_value"

ADMISSION = [
    core(
        "no job beyond the slots",
        "admission",
        "if room.slots_free < 1:",
        "if False:",
        "test_without_a_free_slot_nothing_is_taken",
    ),
    core(
        "some disk stays free",
        "admission",
        "new.disk_reserve + room.disk_floor + outs",
        "new.disk_reserve + outs",
        DISK,
    ),
    core(
        "what running jobs may still write is not given away",
        "admission",
        "room.disk_floor + outstanding >",
        "room.disk_floor >",
        DISK,
    ),
    core(
        "who wrote too much leaves others no more room",
        "admission",
        "max(0, self.disk_reserve - self.disk_used)",
        "self.disk_reserve - self.disk_used",
        DISK,
    ),
    core(
        "an upload is a second copy",
        "admission",
        "copies = 2 if store_shares_disk else 1",
        "copies = 1",
        "test_a_job_takes_twice_its_output_where_the_store_is_on_the_same_disk",
    ),
    core(
        "memory that running jobs may still use is not given away",
        "admission",
        "new.memory_reserve + outstanding >",
        "new.memory_reserve >",
        "test_the_memory_rule_holds_to_the_byte",
    ),
    gate(
        "a store on the same disk is seen",
        "gates",
        "self._store is not None and _device_of(self._scratch) == _device_of(self._store)",
        "False",
        "test_a_store_on_the_scratch_disk_doubles_the_reserve",
    ),
    gate(
        "a machine that is not well takes no work",
        "gates",
        "            if illness is not None:\n",
        "            if False:\n",
        "test_an_unhealthy_machine_takes_no_work_until_the_probe_is_due_again",
    ),
    gate(
        "a machine's health is asked for again",
        "gates",
        " or self._clock.boot_ms() >= self._holds_until_ms",
        "",
        "test_an_unhealthy_machine_takes_no_work_until_the_probe_is_due_again",
    ),
    gate(
        "a machine that is not known to be well takes no next job either",
        "gates",
        "not self._health.is_good",
        "False",
        "test_nothing_follows_on_a_machine_of_which_nobody_knows_whether_it_is_still_well",
    ),
    gate(
        "the next job must fit, too",
        "gates",
        "if isinstance(self._decide(kind, others), Refused):",
        "if False:",
        "test_the_next_job_has_the_room_of_the_one_before_only_while_it_would_be_let_in",
    ),
    gate(
        "the next job begins with nothing used",
        "gates",
        "        reservation.used(disk_bytes=0, memory_bytes=0)\n",
        "",
        "test_what_the_job_before_has_left_is_not_counted_for_the_next_one",
    ),
    gate(
        "what cannot be reserved is not taken",
        "gates",
        "except (OSError, msgspec.DecodeError) as error:\n",
        "except ZeroDivisionError as error:\n",
        "test_where_nothing_can_be_promised_the_gate_is_closed_with_a_sentence",
    ),
    gate(
        "what others were promised counts",
        "gates",
        "admit(kind, mine + others, room)",
        "admit(kind, mine, room)",
        TOGETHER,
    ),
    gate(
        "a promise is announced",
        "gates",
        "            self._reservations.announce(self._loads.values())\n            decided",
        "            decided",
        TOGETHER,
    ),
    gate(
        "whoever has announced looks again",
        "gates",
        "            decided = self._decide(kind, mine)\n",
        "",
        AT_ONCE,
    ),
    gate(
        "whoever steps back promises nothing",
        "gates",
        "            self.release(reservation)\n            return decided\n",
        "            return decided\n",
        AT_ONCE,
    ),
    gate(
        "room that was given back is not used any more",
        "gates",
        "if reservation in self._loads:  #",
        "if True:  #",
        "test_room_that_is_given_back_is_taken_again",
    ),
    gate(
        "the promises of a living worker count",
        "reservations",
        "return msgspec.json.decode(_promises(fd), type=list[Load])",
        "return []",
        TOGETHER,
    ),
    gate(
        "a dead worker's promises do not count",
        "reservations",
        "            if _is_still(path, fd):\n",
        "            return msgspec.json.decode(_promises(fd), type=list[Load])\n            if _is_still(path, fd):\n",
        "test_a_dead_worker_promises_nothing",
    ),
    promise(
        "promises that were renamed meanwhile are looked at again",
        "            if _is_still(path, fd):\n",
        "            if True:\n",
        "test_a_file_that_is_replaced_while_somebody_looks_at_it_is_no_dead_worker_s",
    ),
    promise(
        "promises are locked before they get their name",
        f"{LOCKED}{NAMED}",
        f"{NAMED}{LOCKED}",
        "test_promises_count_from_the_moment_at_which_they_have_their_name",
    ),
    promise(
        "promises are read whole",
        'if b"%08x" % zlib.crc32(written[8:]) == written[:8]:',
        "if True:",
        "test_what_is_being_rewritten_is_read_again",
    ),
    promise(
        "promises go where others look",
        "if self._fd >= 0 and _is_still(self._path, self._fd):",
        "if self._fd >= 0:",
        "test_promises_whose_folder_somebody_removed_are_announced_where_others_look",
    ),
    promise(
        "half a promise is none",
        "if os.pwrite(fd, data, 0) < len(data):",
        "if os.pwrite(fd, data, 0) < 0:",
        "test_promises_for_which_the_disk_has_no_room_are_refused",
    ),
    core("a job runs no longer than it may", "limits", "if ran_s > kind.max_runtime_s:", "if False:", LIMITS),
    core("a job that stands still is stopped", "limits", "if silent_s > kind.stall_s:", "if False:", LIMITS),
    core(
        "a job uses no more memory than it may",
        "limits",
        "if 0 < kind.memory_bytes_max < vitals.rss_bytes:",
        "if False:",
        LIMITS,
    ),
    core("a job writes no more than it may", "limits", "if count <= kind.output_bytes_max:", "if True:", LIMITS),
    core(
        "noise is no sign of life",
        "limits",
        "max(CPU_NOISE_MS, CPU_NOISE_SHARE * (now_ms - signs.at_ms))",
        "CPU_NOISE_MS",
        "test_c53_a_job_that_does_nothing_gives_no_sign",
    ),
    core(
        "slow work adds up to a sign of life",
        "limits",
        "replace(signs, vitals=replace(before, scratch_bytes=vitals.scratch_bytes))",
        "replace(signs, vitals=vitals)",
        "test_c53_use_of_cpu_is_a_sign_of_life",
    ),
    core(
        "a process that ends is a sign of life",
        "limits",
        "abs(vitals.cpu_ms - before.cpu_ms)",
        "vitals.cpu_ms - before.cpu_ms",
        "test_cpu_that_falls_because_a_process_ended_is_a_sign_of_life",
    ),
    core(
        "scratch that grows is a sign of life",
        "limits",
        " or vitals.scratch_bytes > before.scratch_bytes",
        "",
        "test_c53_growing_scratch_is_a_sign_of_life_even_after_it_shrank",
    ),
    core(
        "progress is a sign of life",
        "limits",
        "return replace(signs, at_ms=now_ms) if progressed else signs",
        "return signs",
        "test_a_progress_report_is_a_sign_of_life",
    ),
]
