"""Runs a program under one malloc after another and compares what it says.

A case is a function that gets a Run and returns text. The text must be the same under every malloc, glibc's first;
time is that of the wall, memory the largest resident process. Cases that need what the machine has not are skipped.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time

CASES = []


class Failed(Exception):
    """A program did not do its work; the text says how."""


def case(name, needs=(), short=False, timeout=600, threads=False):
    """Registers a case. needs: commands or files; short: also part of `make test`; threads: there also with a group for
    each thread."""

    def register(function):
        CASES.append(dict(name=name, function=function, needs=needs, short=short, timeout=timeout, threads=threads))
        return function

    return register


def missing(needs):
    """What of it the machine has not."""
    there = lambda name: os.path.exists(name) if name.startswith("/") else shutil.which(name)
    return [n for n in needs if not any(there(name) for name in n.split("|"))]


class Malloc:
    """One malloc: what is preloaded, and settings."""

    def __init__(self, name, library=None, settings=()):
        self.name, self.library, self.settings = name, library, dict(settings)

    def environment(self):
        # What a git hook or a make around this says is not for the git and the make that run here.
        ours = ("TENALLOC_", "GIT_", "MAKE", "MFLAGS", "LD_PRELOAD")
        env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        env.update(LC_ALL="C", TZ="UTC", HOME=os.environ.get("HOME", "/"), **self.settings)
        if self.library:
            env["LD_PRELOAD"] = self.library
        return env


class Run:
    """One case under one malloc, in a folder of its own."""

    def __init__(self, malloc, folder, timeout):
        self.malloc, self.folder, self.timeout = malloc, folder, timeout
        self.seconds = self.peak = 0
        self.notes = {}
        self.servers = []

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def plain(self, command, **kwargs):
        """A command that is not measured, under glibc's malloc."""
        done = subprocess.run(
            command, shell=isinstance(command, str), executable="/bin/bash" if isinstance(command, str) else None,
            cwd=self.folder, env=Malloc("glibc").environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=self.timeout, **kwargs)
        if done.returncode != 0:
            raise Failed(f"{command}: exit {done.returncode}: {tail(done.stdout)}")
        return done.stdout.decode(errors="replace")

    def under(self, command, env=None, ok=(0,), stderr=False):
        """A command, or text for bash, under the malloc: measured. Returns what it printed."""
        command = ["bash", "-e", "-o", "pipefail", "-c", command] if isinstance(command, str) else command
        environment = {**self.malloc.environment(), **(env or {})}
        timer = shutil.which("time", path="/usr/bin:/bin")
        if timer:
            # The kernel counts what forked against what it forked from: from something small the figure is the program's.
            preload = environment.pop("LD_PRELOAD", None)
            inner = ["env", "LD_PRELOAD=" + preload] if preload else []
            command = [timer, "-q", "-f", "%M", "-o", self.path(".peak"), *inner, *command]
        started = time.monotonic()
        with open(self.path(".out"), "wb") as out, open(self.path(".err"), "wb") as err:
            child = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                stdout=out, stderr=err, start_new_session=True)
            try:
                code, usage = wait(child, self.timeout)
            except BaseException:
                os.killpg(child.pid, signal.SIGKILL)
                raise
        self.seconds += time.monotonic() - started
        peak = int(open(self.path(".peak")).read().split()[-1]) if timer else usage.ru_maxrss
        self.peak = max(self.peak, peak * 1024)
        said, complaint = (open(self.path(n), errors="replace").read() for n in (".out", ".err"))
        if code not in ok:
            how = f"signal {-code}" if code < 0 else f"exit {code}"
            raise Failed(f"{how}: {tail(said)} {tail(complaint)}")
        if "tenalloc:" in complaint and "TENALLOC_REPORT" not in self.malloc.settings:
            raise Failed(f"complained: {tail(complaint)}")
        self.complaint = complaint
        return said + complaint if stderr else said

    def serve(self, command, ready, env=None):
        """Starts a server under the malloc; `ready()` tells whether it serves. Stopped at the end of the case."""
        log = open(self.path("server.log"), "ab")
        child = subprocess.Popen(command, cwd=self.folder, env={**self.malloc.environment(), **(env or {})},
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.servers.append(child)
        end = time.monotonic() + 60
        while not ready():
            if child.poll() is not None:
                raise Failed(f"{command[0]} ended with {child.returncode}: {self.log()}")
            if time.monotonic() > end:
                raise Failed(f"{command[0]} does not serve: {self.log()}")
            time.sleep(0.05)
        return child

    def log(self):
        return tail(open(self.path("server.log"), "rb").read())

    def server_peak(self, pid):
        """The largest a process has been, and its children now: bytes resident."""
        pids = [pid] + [int(p) for p in children(pid)]
        self.peak = max([self.peak] + [status(p, "VmHWM") for p in pids])
        return self.peak

    def timed(self, function):
        """What a client does, measured."""
        started = time.monotonic()
        result = function()
        self.seconds += time.monotonic() - started
        return result

    def stop(self, child, how=signal.SIGTERM, ok=(0, -signal.SIGTERM)):
        """Ends a server as its users do; it must end well."""
        child.send_signal(how)
        try:
            code = child.wait(60)
        except subprocess.TimeoutExpired:
            raise Failed(f"server does not end: {self.log()}")
        self.servers.remove(child)
        if code not in ok:
            raise Failed(f"server ended with {code}: {self.log()}")
        if "\ntenalloc:" in "\n" + open(self.path("server.log"), errors="replace").read():
            raise Failed(f"server complained: {self.log()}")

    def close(self):
        for child in self.servers:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def children(pid):
    try:
        return open(f"/proc/{pid}/task/{pid}/children").read().split()
    except OSError:
        return []


def status(pid, field):
    try:
        for line in open(f"/proc/{pid}/status"):
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def tail(text):
    text = text.decode(errors="replace") if isinstance(text, bytes) else text
    return " / ".join(text.strip().splitlines()[-6:])[-600:]


def wait(child, timeout):
    """Waits for a child and all that it waited for; kills its group when the time is over."""
    end = time.monotonic() + timeout
    while True:
        pid, code, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(code)
            return child.returncode, usage
        if time.monotonic() > end:
            raise Failed(f"not done after {timeout} s")
        time.sleep(0.002)


def run_case(which, mallocs, say):
    """Runs a case under all mallocs. Returns a row: for each malloc seconds, peak, and how it went."""
    row = dict(name=which["name"], runs={})
    expected = None
    for malloc in mallocs:
        if malloc.settings and not which["threads"]:
            continue
        folder = tempfile.mkdtemp(prefix="tenalloc-program-")
        os.chmod(folder, 0o755)
        run = Run(malloc, folder, which["timeout"])
        how = "ok"
        try:
            said = which["function"](run)
            if expected is None:
                expected = said
            elif said != expected:
                how = f"said something else: {first_difference(expected, said)}"
        except (Failed, OSError, subprocess.SubprocessError) as e:
            how = str(e) or type(e).__name__
        finally:
            run.close()
            shutil.rmtree(folder, ignore_errors=True)
        row["runs"][malloc.name] = dict(ok=how == "ok", how=how, seconds=round(run.seconds, 3),
                                        peak_bytes=run.peak, **run.notes)
        say(which["name"], malloc.name, row["runs"][malloc.name])
        if how != "ok" and expected is None:
            break  # it does not work here at all
    return row


def first_difference(a, b):
    for x, y in zip(a.splitlines(), b.splitlines()):
        if x != y:
            return f"{x[:200]!r} became {y[:200]!r}"
    return f"{len(a)} characters became {len(b)}"
