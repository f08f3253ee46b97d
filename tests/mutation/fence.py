# SPDX-License-Identifier: Apache-2.0
"""Runs a command that may do anything, because a mutation changed what it does: with a time limit, a limit of memory,
and, where the host allows it, in namespaces of its own, which hold it to its processes and to folders of ours."""
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import time
from collections import deque
from dataclasses import dataclass, field

_GIB = 1 << 30
# The first process of the namespace: makes everything read-only but the folders, and ends as the command ends.
_SCRIPT = """
for folder in $FENCE_WRITABLE; do mount --bind "$folder" "$folder" || exit 125; done
mount -o remount,bind,ro / || exit 125
# The folder that was the current one lies below what is now mounted there.
cd "$FENCE_FOLDER" || exit 125
[ -z "$FENCE_TMP" ] || mount -t tmpfs -o size=4g tmpfs /tmp || exit 125
"$@"
exit $?
"""


@dataclass
class Ended:
    """How a command ended: `status` is its own, 128 + n for signal n; None if the time was over."""
    status: int | None
    seconds: float
    failed: list = field(default_factory=list)  # the tests that GoogleTest says failed
    running: str = ""  # the test that was running at the end
    tail: str = ""

    def how(self):
        where = f" in {self.running}" if self.running else ""
        if self.status is None:
            return f"time limit{where}"
        if self.failed:
            return self.failed[0]
        return f"signal {self.status - 128}{where}" if self.status > 128 else f"status {self.status}{where}"


class Fence:
    def __init__(self, writable):
        self._writable = [os.path.realpath(folder) for folder in writable]
        if any(re.search(r"\s", folder) for folder in self._writable):
            raise SystemExit("a path with a space cannot be used: give --copy another folder")
        self._prefix = self._namespaces()

    def closed(self):
        """Whether commands run in namespaces of their own."""
        return bool(self._prefix)

    def _namespaces(self):
        if shutil.which("unshare") is None:
            return []
        common = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _SCRIPT, "sh"]
        for user in ([], ["--user", "--map-root-user"]):
            prefix = ["unshare", *user, *common]
            probe = subprocess.run([*prefix, "true"], env=self._environment({}, "."), capture_output=True)
            if probe.returncode == 0:
                return prefix
        return []

    def _environment(self, changes, folder):
        in_tmp = any(f"{folder}/".startswith("/tmp/") for folder in self._writable)
        return {**os.environ, **changes, "FENCE_WRITABLE": " ".join(self._writable + ["/tmp"] * in_tmp),
                "FENCE_TMP": "" if in_tmp else "yes",
                "FENCE_FOLDER": os.path.realpath(folder)}

    def run(self, command, seconds, folder=".", environment=None, memory_gib=None):
        """Runs the command; what it starts ends with it."""
        def prepare():
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write("1000")
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if memory_gib is not None:
                resource.setrlimit(resource.RLIMIT_DATA, (memory_gib * _GIB, memory_gib * _GIB))

        begin = time.monotonic()
        process = subprocess.Popen(
            [*self._prefix, *command], cwd=folder, env=self._environment(environment or {}, folder), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=prepare)
        reader = _Reader()
        over = False
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while process.poll() is None:
                left = begin + seconds - time.monotonic()
                if left <= 0:
                    over = True
                    break
                # A process that outlives the command may hold the pipe open: poll() says when the command has ended.
                if selector.select(min(left, 0.05)) and not reader.take(process.stdout):
                    selector.unregister(process.stdout)
                    try:
                        process.wait(left)
                    except subprocess.TimeoutExpired:
                        over = True
                    break
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = process.wait()
        os.set_blocking(process.stdout.fileno(), False)
        while reader.take(process.stdout):
            pass
        process.stdout.close()
        status = 128 - status if status < 0 else status
        return reader.ended(None if over else status, time.monotonic() - begin)


class _Reader:
    """Reads what a command prints, however much it is: keeps the end, and the names of tests."""

    def __init__(self):
        self._part = b""
        self._last = deque(maxlen=60)
        self._failed = []
        self._running = ""

    def take(self, pipe):
        try:
            data = os.read(pipe.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        *lines, self._part = (self._part + data).split(b"\n")
        self._part = self._part[-4096:]
        for line in lines:
            self._line(line[:4096].decode(errors="replace"))
        return bool(data)

    def _line(self, line):
        self._last.append(line)
        if (found := re.match(r"\[ RUN      \] (\S+)", line)) is not None:
            self._running = found.group(1)
        elif (found := re.match(r"\[  (?:     OK|FAILED) *\] ([\w./]+)(?=[, ]|$).*\(\d+ ms\)", line)) is not None:
            self._running = ""
            if "FAILED" in line[:12]:
                self._failed.append(found.group(1))
        elif line.startswith("[==========]"):
            self._running = ""

    def ended(self, status, seconds):
        self._last.append(self._part.decode(errors="replace"))
        return Ended(status, seconds, self._failed, self._running, "\n".join(self._last))
