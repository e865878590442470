"""The guardian of one job's process tree: a small program of its own between worker and job.

It starts the job's main process, drains what the tree prints, measures it, and kills all of it for
certain: when the worker says so, when the main process has ended, and when the worker is gone. The
worker's lock file stays open in it until then, so that a free lock proves the tree dead.

It talks with the worker over a socket that keeps message boundaries, in JSON:

    down   kill · clear · attend {log, log_bytes_max, folder, memory_bytes_max}
    up     vitals {cpu_ms, rss_bytes, scratch_bytes} · cleared
           exit {code, signal, oom, killed, cpu_ms, max_rss_bytes}, once the whole tree is dead

`attend` needs no answer: until it comes, from the start and after each `clear`, what the tree prints waits in its pipe.

Started once per job process, so it imports little: no dataclasses, no pathlib, no typing of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from contextlib import suppress

from planrun.worker.joblog import JobLog
from planrun.worker.meter import Meter
from planrun.worker.tree import MARKER, Marked, Namespace, Subtree, Tree

VITALS_INTERVAL_S = 1.0
MESSAGE_BYTES_MAX = 65536
_READ_BYTES = 65536
_READS_IN_A_ROW = 64  # then look at the worker's messages again
_OOM_SCORE = b"500"  # short of memory, the kernel takes the job before the worker

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_SLAVE = 2, 4, 8, 0x4000, 0x80000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """`LEVEL MARK CONTROL JOB LOCK COMMAND…`: descriptors by number, -1 for none; then `attend` is awaited."""
    level, mark, (control, job, lock) = sys.argv[2], sys.argv[3], map(int, sys.argv[4:7])
    command = sys.argv[7:]
    for descriptor in (control, job, lock):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    # Signals to the whole group are for the worker to answer; what the worker decides comes over the socket.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    tree: Tree
    if level == "full":
        enter_namespace(leave=(control, job))
        tree = Namespace(mark)
    elif level == "subreaper":
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        tree = Subtree(mark)
    else:
        tree = Marked(mark)
    Guardian(tree, socket.socket(fileno=control)).guard(command, job)
    os._exit(0)


class Guardian:
    """Watches over one tree until it is dead."""

    def __init__(self, tree: Tree, control: socket.socket) -> None:
        self._tree = tree
        self._control = control
        self._output, self._tree_output = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._output, False)
        self._poll = select.poll()
        self._killed = False
        self._attend(json.loads(self._control.recv(MESSAGE_BYTES_MAX) or b"null"))
        self._is_attending = False  # what comes first is the log of a start that failed

    def guard(self, command: list[str], job: int) -> None:
        """Run the command to its end, and end everything that it started."""
        oom_kills = _oom_kills()
        self._tree.main = _start(command, job, self._tree_output, self._tree.mark)
        os.close(self._tree_output)
        if job >= 0:
            os.close(job)
        if self._watch():
            self._tree.end()
            while not self._is_attending and self._obey(socket.MSG_DONTWAIT):
                pass  # the job has ended before it was known here that it began
            self._drain()
            self._log.close()
            self._report_exit(oom=_oom_kills() > oom_kills)
        else:  # the worker is gone: nobody is left to tell
            self._tree.end()

    def _watch(self) -> bool:
        """Serve until the main process is dead (True) or the worker is (False)."""
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(os.pidfd_open(self._tree.main), select.POLLIN)
        vitals_due_s = time.monotonic() + VITALS_INTERVAL_S
        while self._tree.ended is None:
            ready = {descriptor for descriptor, _ in self._poll.poll(max(0.0, vitals_due_s - time.monotonic()) * 1000)}
            if self._output in ready and not self._drain():
                self._poll.unregister(self._output)
            if self._control.fileno() in ready and not self._obey():
                return False
            if time.monotonic() >= vitals_due_s:
                if self._is_attending:
                    self._send({"say": "vitals", **self._meter.read()}, socket.MSG_DONTWAIT)
                vitals_due_s = time.monotonic() + VITALS_INTERVAL_S
            self._tree.reap()
        return True

    def _obey(self, flags: int = 0) -> bool:
        """Do what the worker says; False: it is gone, or says nothing."""
        try:
            message = self._control.recv(MESSAGE_BYTES_MAX, flags)
        except OSError:
            message = b""
        if not message:
            return False
        order = json.loads(message)
        match order["say"]:
            case "kill":
                self._killed = self._tree.ended is None
                self._tree.end()
            case "clear":
                self._tree.end(spare=self._tree.main)
                self._leave()
                self._send({"say": "cleared"})
            case "attend":
                self._attend(order)
                self._poll.register(self._output, select.POLLIN)
        return True

    def _attend(self, order: dict[str, str] | None) -> None:
        """Log and measure for this attempt from now on."""
        if order is None:
            os._exit(0)
        self._log = JobLog(order["log"], int(order["log_bytes_max"]))
        self._meter = Meter(self._tree, order["folder"], int(order["memory_bytes_max"]))
        self._is_attending = True

    def _leave(self) -> None:
        """The attempt has ended, and all is in its log."""
        self._is_attending = False
        with suppress(KeyError):  # nobody could print any more
            self._poll.unregister(self._output)
        self._drain()
        self._log.close()
        self._log = JobLog(os.devnull, 1)

    def _drain(self) -> bool:
        """Move what the tree printed into the log; False: nobody can print any more."""
        for _ in range(_READS_IN_A_ROW):
            try:
                data = os.read(self._output, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            self._log.write(data)
        return True

    def _report_exit(self, *, oom: bool) -> None:
        status, usage = self._tree.ended or (0, resource.getrusage(resource.RUSAGE_CHILDREN))
        code = os.waitstatus_to_exitcode(status)
        self._send(
            {
                "say": "exit",
                "code": code if code >= 0 else None,
                "signal": -code if code < 0 else None,
                "oom": oom and code == -signal.SIGKILL and not self._killed,
                "killed": self._killed,
                "cpu_ms": int((usage.ru_utime + usage.ru_stime) * 1000),
                "max_rss_bytes": usage.ru_maxrss * 1024,
            }
        )

    def _send(self, message: dict[str, object], flags: int = 0) -> None:
        with suppress(OSError):  # it does not read (measurements may be lost), or is gone: the next poll says which
            self._control.send(json.dumps(message).encode(), flags)


def enter_namespace(*, leave: tuple[int, ...]) -> None:
    """Return as process 1 of a new PID namespace, in which all that it starts will die with it.

    The calling process stays outside as the witness: it never returns, closes `leave`, keeps the lock, and
    exits when the namespace is empty. If the witness is killed, the kernel kills process 1, and with it all.
    """
    _unshare_pids()
    armed, arm = os.pipe2(os.O_CLOEXEC)
    go_ahead, give = os.pipe2(os.O_CLOEXEC)
    first = os.fork()
    if first:
        for descriptor in (*leave, arm, go_ahead):
            if descriptor >= 0:
                os.close(descriptor)
        if os.read(armed, 1):
            os.write(give, b"!")
        os.waitpid(first, 0)
        os._exit(0)
    os.close(give)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.write(arm, b"!")
    if not os.read(go_ahead, 1):  # the witness died before it could have been noticed
        os._exit(1)
    for descriptor in (armed, arm, go_ahead):
        os.close(descriptor)
    _check("unshare", _libc.unshare(_CLONE_NEWNS))
    _check("mount", _libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None))
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _check("mount /proc", _libc.mount(b"proc", b"/proc", b"proc", flags, None))


def _unshare_pids() -> None:
    """A plain user needs a user namespace for it, in which it stays itself."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWPID) == 0:
        return
    _check("unshare", _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWPID))
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{file}", "w") as table:  # noqa: PTH123 - pathlib would double the start-up time
            table.write(text)


def _start(command: list[str], job: int, output: int, mark: str) -> int:
    """Start the main process: own session, nothing but its socket and the tree's output open."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if job >= 0:
            os.set_inheritable(job, True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _offer_to_the_oom_killer()
        os.execve(command[0], command, {**os.environ, MARKER: mark})
    except BaseException as error:
        os.write(2, f"planrun: cannot start {command[0]}: {error}\n".encode(errors="replace"))
    os._exit(127)


def _offer_to_the_oom_killer() -> None:
    try:
        with open("/proc/self/oom_score_adj", "wb") as score:  # noqa: PTH123 - as above
            score.write(_OOM_SCORE)
    except OSError:
        pass


def _oom_kills() -> int:
    """How often the kernel killed something on this machine for lack of memory."""
    try:
        with open("/proc/vmstat", "rb") as counters:  # noqa: PTH123 - as above
            return next((int(line.split()[1]) for line in counters if line.startswith(b"oom_kill ")), 0)
    except OSError:
        return 0


def _prctl(option: int, value: int) -> None:
    _check("prctl", _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def _check(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
