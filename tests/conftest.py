# SPDX-License-Identifier: GPL-2.0-only
"""Cases that run inside test machines, as pytest items.

Every tests/cases/GROUP/NAME.sh or .py is a case: a short script that runs as
root in a machine with the module loaded, and passes by exiting with 0. Its
header comments say what it needs:

  # shows: What it proves, in whole sentences. The only one that must be there.
  #   It may go on in lines of three spaces, as any header may.
  # kernels: lts stable                        default both; others: see below
  # modes: side-by-side drop-in                default both; in-tree: see below
  # machines: lts-drop-in stable-side-by-side  instead of both: these will do,
                                               unless --everywhere
  # disks: nvme:2G virtio:1G                   default nvme:2G; "none" for none
  # cpus: 2                                  default 1, which takes half of the
                                               host's time; 2 for what is about
                                               CPUs
  # memory: 2G
  # timeout: 180                               seconds, default 180: what no
                                               busy host needs, not what it
                                               takes
  # init: systemd                            a Debian system with systemd and
                                               users' programs (./vm --systemd),
                                               which may be rebooted; on these
                                               kernels only
  # module: debug                            floop-debug.ko is there, too, whose
                                               guard can be told to break its
                                               rules
  # debug: also | only | no                    part of `make test-debug`: also
                                               there (default), only there, not;
                                               once, unless --everywhere
  # coverage: no                               not part of `make coverage`: its
                                               kernel lacks what the case needs
  # built-in: no                               not on the kernel with the loop
                                               driver built in: the case loads
                                               or unloads that driver
  # long: yes | lts                            takes long, and shows little that
                                               others don't: only with LONG, or
                                               when it is named. "lts": on that
                                               kernel

Cases with the same needs share a machine per kernel and mode, which runs
them in sequence (tests/guest/run.py). A machine that dies takes down the case
it was running, and no other: the rest goes on in a fresh one.

Mode in-tree is the kernel's own loop driver, without any module of ours. With
`--mode in-tree` every case runs there, to see that what it demands is what
loop devices do, and without the option none. Cases that list their modes and
leave out in-tree are about what only floop does.

Kernel rt is PREEMPT_RT, of the LTS series; i386 one of 32 bits, built-in one
whose loop driver is built in, race one with KCSAN and coverage one with gcov,
all of the stable series: with `--kernel rt` the cases for lts run there, once,
unless --everywhere, and without the option none. On built-in they run in all
their modes: there it is the names that are tested. A case that lists one of
these kernels runs only on it.
"""

import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time

import pytest

PROJECT = pathlib.Path(__file__).resolve().parent.parent
CASES = PROJECT / "tests" / "cases"
RUNNER = PROJECT / "tests" / "guest" / "run.py"
BOOT_SECONDS = 300  # allowed; emulation is slow, and so is a busy host
POWER_OFF_SECONDS = 120
NEEDS_FRESH_MACHINE = 3
HEADERS = {
    "shows": None,
    "kernels": "lts stable",
    "modes": "side-by-side drop-in",
    "machines": "",
    "disks": "nvme:2G",
    "cpus": "1",
    "memory": "2G",
    "timeout": "180",
    "debug": "also",
    "coverage": "also",
    "built-in": "also",
    "init": "",
    "module": "",
    "long": "no",
}
KERNELS = ("lts", "stable")
# Kernels that are others' for the cases
SERIES = {
    "rt": "lts",
    "i386": "stable",
    "built-in": "stable",
    "race": "stable",
    "coverage": "stable",
}
MODES = ("side-by-side", "drop-in", "in-tree")
MODE_OPTIONS = {
    "side-by-side": [],
    "drop-in": ["--drop-in"],
    "in-tree": ["--no-module"],
}
# Environment variables that cases know: how long to go on, where random numbers
# begin, what to do.
PASSED_ON = ("LONG", "SEED", "DEVICES", "RULES", "FILESYSTEMS", "OPTIONS")
# How much longer a case may take than its header says: on a busy host, which
# has other things to do, and on the debug kernel
BUSY_SLOWER = 3
DEBUG_SLOWER = 6
# The most cases of a machine
PART = 36


def pytest_addoption(parser):
    group = parser.getgroup("test machines")
    group.addoption(
        "--kernel",
        action="append",
        choices=(*KERNELS, *SERIES),
        help="only on this kernel",
    )
    group.addoption(
        "--mode", action="append", choices=MODES, help="only in this mode"
    )
    group.addoption(
        "--everywhere",
        action="store_true",
        help="on both kernels in both modes also what is content with less",
    )
    group.addoption(
        "--debug-kernel", action="store_true", help="on the debug kernel"
    )
    group.addoption(
        "--at-once",
        type=int,
        default=os.cpu_count() + 1,
        help="how many machines run at a time, default one more than there are"
        " CPUs: cases also wait",
    )
    group.addoption(
        "--vm", default=str(PROJECT / "vm"), help="the test machine's command"
    )
    group.addoption(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the module, for all cases: mapping=Y",
    )
    group.addoption(
        "--results",
        default=None,
        help="new folder in the project for logs, default build/test/TIME"
        " (build/test/latest)",
    )


class BadHeader(Exception):
    pass


def read_headers(path):
    """The header comments of a case, checked."""
    found = dict(HEADERS, given=[])
    with open(path) as f:
        for line in f:
            line = line.strip()
            if line and not line.startswith("#"):
                break
            if found["given"] and (more := re.match(r"#   +(\S.*)$", line)):
                found[found["given"][-1]] += f" {more[1].strip()}"
                continue
            m = re.match(r"#\s*([a-z-]+):\s*(\S.*)$", line)
            if not m:
                continue
            if m[1] not in HEADERS:
                raise BadHeader(f"{path}: no header is called {m[1]!r}")
            found[m[1]] = m[2].strip()
            found["given"].append(m[1])
    if not found["shows"]:
        raise BadHeader(f"{path}: no '# shows: ' header: what does it prove?")
    machines = tuple(f"{k}-{m}" for k in KERNELS for m in MODES)
    for header, allowed in (
        ("kernels", (*KERNELS, *SERIES)),
        ("modes", MODES),
        ("machines", machines),
    ):
        for word in found[header].split():
            if word not in allowed:
                raise BadHeader(
                    f"{path}: {header}: {word!r} is none of"
                    f" {', '.join(allowed)}"
                )
    if found["debug"] not in ("also", "only", "no"):
        raise BadHeader(
            f"{path}: debug: {found['debug']!r} is none of also, only, no"
        )
    for header in ("coverage", "built-in"):
        if found[header] not in ("also", "no"):
            raise BadHeader(
                f"{path}: {header}: {found[header]!r} is neither also nor no"
            )
    if found["init"] not in ("", "systemd"):
        raise BadHeader(f"{path}: init: {found['init']!r} is not systemd")
    if found["long"] not in ("yes", "lts", "no"):
        raise BadHeader(
            f"{path}: long: {found['long']!r} is none of yes, lts, no"
        )
    if found["module"] not in ("", "debug"):
        raise BadHeader(f"{path}: module: {found['module']!r} is not debug")
    if found["disks"] == "none":
        found["disks"] = ""
    for disk in found["disks"].split():
        if not re.fullmatch(r"(nvme|virtio):\d+[MG]", disk):
            raise BadHeader(
                f"{path}: disks: {disk!r} is not nvme:SIZE or virtio:SIZE"
            )
    return found


@dataclasses.dataclass(frozen=True)
class Needs:
    """What makes two cases need different machines."""

    kernel: str  # lts, stable, one of SERIES, or debug
    mode: str
    cpus: str
    memory: str
    disks: str
    init: str = ""

    def __str__(self):
        return f"{self.kernel}-{self.mode}"

    def full(self):
        disks = self.disks or "no disk"
        cpus = "1 CPU" if self.cpus == "1" else f"{self.cpus} CPUs"
        init = f", {self.init}" if self.init else ""
        return f"{self}, {cpus}, {self.memory}, {disks}{init}"

    def command(self, vm, seconds):
        kernel = "stable" if self.kernel == "debug" else self.kernel
        command = [*shlex.split(vm), "--kernel", kernel]
        if self.kernel == "debug":
            command.append("--debug-kernel")
        command += MODE_OPTIONS[self.mode]
        command += [
            "--cpus",
            self.cpus,
            "--memory",
            self.memory,
            "--timeout",
            str(seconds),
        ]
        for disk in self.disks.split():
            command += ["--disk", disk]
        if self.init:
            command.append("--systemd")
        return [*command, "--"]


def is_short(session, path):
    """Is what takes long left out, if it is there?"""
    option = session.config.option
    other_kernel = set(option.kernel or ()) - set(KERNELS)
    special = option.everywhere or option.debug_kernel or other_kernel
    return not (special or os.environ.get("LONG") or session.isinitpath(path))


def pytest_collect_file(file_path, parent):
    if (
        file_path.suffix not in (".sh", ".py")
        or file_path.parent.parent != CASES
    ):
        return None
    # What is named on the command line pytest takes for a module: see below.
    if file_path.suffix == ".py" and parent.session.isinitpath(file_path):
        return None
    return CaseFile.from_parent(parent, path=file_path)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path, parent):
    if module_path.parent.parent != CASES:
        return None
    return CaseFile.from_parent(parent, path=module_path)


class CaseFile(pytest.File):
    def collect(self):
        try:
            headers = read_headers(self.path)
        except BadHeader as e:
            raise self.CollectError(str(e)) from None
        short = is_short(self.session, self.path)
        for kernel, mode in self.matrix(headers):
            if short and headers["long"] in ("yes", kernel):
                continue
            machine = (
                headers[name] for name in ("cpus", "memory", "disks", "init")
            )
            needs = Needs(kernel, mode, *machine)
            name = f"{self.path.stem}[{needs}]"
            yield CaseItem.from_parent(
                self, name=name, needs=needs, headers=headers
            )

    def matrix(self, headers):
        """The kernels and modes to run it on, after the options."""
        option = self.config.option
        kernels, modes = headers["kernels"].split(), headers["modes"].split()
        pairs = [(k, m) for k in kernels for m in modes]
        if (
            option.mode
            and "in-tree" in option.mode
            and "modes" not in headers["given"]
        ):
            pairs += [(k, "in-tree") for k in kernels]
        elif headers["machines"] and not option.everywhere:
            pairs = [
                tuple(m.split("-", 1)) for m in headers["machines"].split()
            ]
        pairs = [
            (kernel, mode)
            for kernel, mode in pairs
            if mode in (option.mode or ("side-by-side", "drop-in"))
        ]
        if option.debug_kernel:
            if headers["debug"] == "no" or headers["init"]:
                return []
            if not set(kernels) & set(KERNELS):
                return []
            return [("debug", mode) for mode in self.once(pairs)]
        if headers["debug"] == "only":
            # The coverage kernel has fault injection and kmemleak, too.
            if "coverage" not in (option.kernel or ()):
                return []
            return [("coverage", mode) for mode in self.once(pairs)]
        chosen = [
            pair for pair in pairs if pair[0] in (option.kernel or KERNELS)
        ]
        for kernel in option.kernel or ():
            # Two kernels are also headers, for the cases that they can't run.
            if headers.get(kernel) == "no":
                continue
            if SERIES.get(kernel) in kernels and not headers["init"]:
                everywhere = kernel == "built-in"
                modes = self.once(pairs, everywhere)
                chosen += [(kernel, mode) for mode in modes]
        return chosen

    def once(self, pairs, everywhere=False):
        """In which modes a case runs on a special kernel.

        The modes differ in names, of which KASAN, lockdep and PREEMPT_RT know
        nothing.
        """
        modes = sorted({mode for _, mode in pairs}, reverse=True)
        everywhere = everywhere or self.config.option.everywhere
        return modes if everywhere else modes[:1]


class CaseFailed(Exception):
    pass


class CaseItem(pytest.Item):
    def __init__(self, *, needs, headers, **kwargs):
        super().__init__(**kwargs)
        self.needs = needs
        # LONG times as much of what is random (more() in tests/lib/checks.sh)
        self.case_timeout = float(headers["timeout"]) * float(
            os.environ.get("LONG", "1")
        )
        self.shows = headers["shows"]
        self.module = headers["module"]
        self.machine = None
        self.group = self.path.parent.name
        self.slug = f"{self.group}--{self.path.stem}"

    def runtest(self):
        self.session.machines.until(lambda: self.slug in self.machine.done)
        result = self.machine.done[self.slug]
        output = result["output"]
        if output:
            self.add_report_section("call", "output", output)
        if result["problems"]:
            raise CaseFailed("; ".join(result["problems"]))

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, CaseFailed):
            return (
                f"{self.path.relative_to(PROJECT)} on {self.needs.full()}\n"
                f"shows: {self.shows}\n"
                f"FAILED: {excinfo.value}\n"
                f"logs: {self.machine.folder}"
            )
        return super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, None, f"{self.group}/{self.name}"


class MachineItem(pytest.Item):
    """The last item of a machine: that it went down in good order."""

    def __init__(self, *, machine, **kwargs):
        super().__init__(**kwargs)
        self.machine = machine

    def runtest(self):
        self.session.machines.until(self.machine.over)
        if self.machine.problem:
            raise CaseFailed(self.machine.problem)

    def repr_failure(self, excinfo, style=None):
        if isinstance(excinfo.value, CaseFailed):
            return f"{self.machine.needs.full()}\nFAILED: {excinfo.value}"
        return super().repr_failure(excinfo)

    def reportinfo(self):
        return PROJECT / "vm", None, self.name


class Machine:
    """Machines of one kind, one boot after the other until all items ran."""

    def __init__(self, config, needs, items, folder):
        self.config = config
        self.needs = needs
        self.items = items
        self.folder = folder
        self.slower = DEBUG_SLOWER if needs.kernel == "debug" else BUSY_SLOWER
        self.process = None
        self.boots = 0
        self.console = None
        self.done = {}
        self.dead_boots = 0
        self.ended = False
        self.problem = None
        for item in items:
            item.machine = self

    def say(self, text):
        terminal = self.config.pluginmanager.getplugin("terminalreporter")
        capture = self.config.pluginmanager.getplugin("capturemanager")
        if terminal is None:
            return
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(text)

    def programs(self):
        """What cases use beside the module.

        If it can't be built, they say that it is not there.
        """
        if (
            self.config.option.vm != str(PROJECT / "vm")
            or not (PROJECT / "build" / "root").exists()
        ):
            return
        # In C, built where that is fast.
        bits = ["i386"] if self.needs.kernel == "i386" else []
        commands = [[PROJECT / "machine" / "test-programs.sh", *bits]]
        if any(item.module == "debug" for item in self.items):
            kernel = self.needs.kernel
            release = PROJECT / "build/root/floop" / kernel
            if kernel == "debug":
                release = PROJECT / "build/debug-kernel/stable/release"
            elif kernel in ("race", "coverage"):
                release = PROJECT / "build/debug-kernel" / kernel / "release"
            elif kernel in SERIES:
                release = PROJECT / "build" / kernel / "release"
            if release.exists():
                release = release.read_text().strip()
                commands.append(
                    [PROJECT / "machine" / "module.sh", release, "debug"]
                )
        for command in commands:
            null = subprocess.DEVNULL
            subprocess.run(command, stdout=null, stderr=null, check=False)

    def boot(self):
        self.programs()
        left = [i for i in self.items if i.slug not in self.done]
        self.boots += 1
        self.folder.mkdir(parents=True, exist_ok=True)
        plan = self.folder / f"plan-{self.boots}.json"
        self.console = self.folder / f"console-{self.boots}.log"
        cases = [
            {
                "id": f"{i.group}/{i.name}",
                "slug": i.slug,
                "path": str(i.path.relative_to(PROJECT)),
                "timeout": i.case_timeout * self.slower,
            }
            for i in left
        ]
        plan.write_text(
            json.dumps(
                {
                    "project": str(PROJECT),
                    "results": str(self.folder),
                    "kernel": SERIES.get(self.needs.kernel, self.needs.kernel),
                    "mode": self.needs.mode,
                    "slower": self.slower,
                    "init": self.needs.init,
                    "environment": {
                        n: os.environ[n] for n in PASSED_ON if n in os.environ
                    },
                    "parameters": dict(
                        word.split("=", 1)
                        for word in self.config.option.parameter
                    ),
                    "cases": cases,
                },
                indent=1,
            )
        )
        # Each case has a time of its own; this ends a machine that nobody
        # looks after any more.
        seconds = self.slower * (
            BOOT_SECONDS + sum(i.case_timeout + 120 for i in left)
        )
        command = self.needs.command(self.config.option.vm, seconds)
        command += ["python3", str(RUNNER), str(plan)]
        plural = "" if len(left) == 1 else "s"
        self.say(f"booting {self.needs.full()}: {len(left)} case{plural}")
        with open(self.console, "wb") as log, open(os.devnull) as null:
            log.write(f"+ {shlex.join(command)}\n".encode())
            log.flush()
            self.process = subprocess.Popen(
                command,
                cwd=PROJECT,
                stdin=null,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.sign_of_life = time.monotonic()

    def tail(self, lines=60):
        if not self.console or not self.console.exists():
            return ""
        text = self.console.read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def stop(self):
        """End it, however it is."""
        if self.process and self.process.poll() is None:
            for sig in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(self.process.pid, sig)
                    self.process.wait(15)
                    break
                except ProcessLookupError:
                    break
                except subprocess.TimeoutExpired:
                    continue
        self.process = None

    def collect(self):
        """Take in what has been written since the last look."""
        news = False
        for item in self.items:
            if item.slug in self.done:
                continue
            path = self.folder / f"{item.slug}.json"
            if path.exists():
                result = json.loads(path.read_text())
                result["output"] = self.output(item)
                self.done[item.slug] = result
                news = True
        if news:
            self.sign_of_life = time.monotonic()
        return news

    def output(self, item):
        path = self.folder / f"{item.slug}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def running(self):
        """The item that has started and not ended."""
        for item in self.items:
            started = self.folder / f"{item.slug}.started"
            if item.slug not in self.done and started.exists():
                return item
        return None

    def died(self, how):
        """The machine is gone: blame the case that was running."""
        item = self.running()
        self.process = None
        if item:
            self.dead_boots = 0
            self.done[item.slug] = {
                "problems": [f"the machine died during this case: {how}"],
                "output": self.output(item) + "\n--- console\n" + self.tail(),
                "seconds": 0,
            }
        else:
            self.dead_boots += 1

    def over(self):
        return self.ended and self.process is None

    def step(self):
        """What there is to do about it right now; never waits."""
        if self.process is None:
            left = [i for i in self.items if i.slug not in self.done]
            if not left:
                self.ended = True
            elif self.dead_boots < 2:
                self.boot()
            else:
                for item in left:
                    self.done[item.slug] = {
                        "problems": ["not run: the machine does not come up"],
                        "output": "--- console\n" + self.tail(),
                        "seconds": 0,
                    }
            return
        status = self.process.poll()
        self.collect()
        if all(i.slug in self.done for i in self.items):
            self.power_off(status)
        elif status is not None:
            if status == NEEDS_FRESH_MACHINE and not self.running():
                self.process = None
            else:
                self.died(f"exit status {status}")
        else:
            current = self.running()
            allowed = BOOT_SECONDS * self.slower
            if current:
                allowed = current.case_timeout * self.slower + 120
            if time.monotonic() - self.sign_of_life > allowed:
                self.stop()
                self.died(f"no sign of life for {allowed:.0f} s")

    def power_off(self, status):
        """All cases ran: see it go down, and how."""
        if status is None:
            if (
                time.monotonic() - self.sign_of_life
                > POWER_OFF_SECONDS * self.slower
            ):
                self.stop()
                self.problem = f"the machine did not power off\n{self.tail()}"
            return
        self.process = None
        blamed = [
            s
            for s, r in self.done.items()
            if any("kernel" in p for p in r["problems"])
        ]
        if status and not blamed:
            self.problem = (
                f"all cases ran, but the machine ended with status {status}\n"
                f"{self.tail()}"
            )


class Waiting:
    """What goes on, behind what pytest has printed, on a terminal.

    It is written once a second. What goes on is a text, or a function that
    returns one.
    """

    def __init__(self, config):
        self.writer = config.get_terminal_writer()
        # While a test runs, what is written to the terminal itself is captured.
        self.terminal = os.dup(1) if os.isatty(1) else None
        self.over = threading.Event()
        self.thread = None

    def begin(self, what):
        """Until end(). While it goes on already, this does nothing."""
        if self.terminal is None or self.thread:
            return
        # Keep the place where pytest goes on, and stay on its line.
        room = self.writer.fullwidth - self.writer.width_of_current_line - 1
        self.over.clear()
        self.thread = threading.Thread(
            target=self.move, args=(what, max(0, room)), daemon=True
        )
        self.thread.start()

    def move(self, what, room):
        begun = time.monotonic()
        while not self.over.wait(1):
            now = what() if callable(what) else what
            text = f"  {time.monotonic() - begun:.0f} s  {now}"
            self.write(text[:room])
        self.write("")

    def end(self):
        if self.thread:
            self.over.set()
            self.thread.join()
            self.thread = None

    def write(self, text):
        os.write(self.terminal, f"\0337\033[K{text}\0338".encode())


class Machines:
    """All machines of a session, a few of them running at a time."""

    def __init__(self, config):
        self.at_once = config.option.at_once
        self.all = []

    def step(self):
        for machine in [m for m in self.all if not m.over()][: self.at_once]:
            machine.step()

    def until(self, condition):
        """Let them run until it is true."""
        while not condition():
            self.step()
            time.sleep(0.05)

    def running(self):
        """The cases that run, and machines where none does yet."""
        at_work = [m for m in self.all if m.process is not None]
        cases = [(m, m.running()) for m in at_work]
        return ", ".join(
            f"{item.group}/{item.path.stem}" if item else f"{m.needs} boots"
            for m, item in cases
        )

    def stop(self):
        for machine in self.all:
            machine.stop()


def results_folder(config):
    if config.option.results:
        folder = pathlib.Path(config.option.results).resolve()
        # The machine writes there, and sees no other part of the host.
        if not folder.is_relative_to(PROJECT):
            raise pytest.UsageError(f"--results {folder}: not in {PROJECT}")
        if folder.exists() and any(folder.iterdir()):
            raise pytest.UsageError(
                f"--results {folder}: not empty, what is there would count"
            )
        return folder
    top = PROJECT / "build" / "test"
    top.mkdir(parents=True, exist_ok=True)
    old = sorted(p for p in top.iterdir() if p.is_dir() and not p.is_symlink())
    for p in old[:-10]:
        shutil.rmtree(p, ignore_errors=True)
    folder = top / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    folder.mkdir()
    latest = top / "latest"
    latest.unlink(missing_ok=True)
    latest.symlink_to(folder.name)
    return folder


def in_parts(items):
    """Cases for one machine, or for several if they are many: one machine with
    a hundred would be left to run alone at the end.
    """
    count = -(-len(items) // PART)
    return [items[i::count] for i in range(count)]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    """After -k and the like: sort the cases by machine, and add the machines'
    own items.
    """
    cases = [i for i in session.items if isinstance(i, CaseItem)]
    if not cases or session.config.option.collectonly:
        return
    others = [i for i in session.items if not isinstance(i, CaseItem)]
    groups = {}
    for item in cases:
        groups.setdefault(item.needs, []).append(item)
    top = results_folder(session.config)
    session.machines = Machines(session.config)
    ordered = others
    # The longest first, so that none is left to run alone at the end: users'
    # systems reboot, and what may take longer does on the whole.
    parts = [
        (needs, part)
        for needs, items in groups.items()
        for part in in_parts(items)
    ]
    names = [str(needs) for needs, _ in parts]
    for needs, items in sorted(
        parts,
        key=lambda p: (not p[0].init, -sum(i.case_timeout for i in p[1])),
    ):
        name = f"{len(session.machines.all) + 1}-{needs}"
        machine = Machine(session.config, needs, items, top / name)
        session.machines.all.append(machine)
        extra = "" if names.count(str(needs)) == 1 else f" {name}"
        last = MachineItem.from_parent(
            session,
            name=f"machine-goes-down-clean[{needs}{extra}]",
            machine=machine,
        )
        ordered += [*items, last]
    session.testscollected += len(session.machines.all)
    session.items[:] = ordered


@pytest.hookimpl(trylast=True)  # after the terminal's
def pytest_configure(config):
    config.waiting = Waiting(config)
    config.addinivalue_line(
        "markers", "long: takes minutes; only with LONG, or when it is named"
    )


def pytest_collection_modifyitems(session, config, items):
    left_out = [
        item
        for item in items
        if item.get_closest_marker("long") and is_short(session, item.path)
    ]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    machines = getattr(item.session, "machines", None)
    waits = machines and isinstance(item, CaseItem | MachineItem)
    item.config.waiting.begin(machines.running if waits else item.nodeid)
    yield
    item.config.waiting.end()


def pytest_runtest_setup(item):
    """The machines go on while other tests run."""
    if hasattr(item.session, "machines"):
        item.session.machines.step()


def pytest_sessionstart(session):
    # Ended from outside: pytest knows how to end on KeyboardInterrupt, and the
    # machine with it.
    def end(signum, frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)


def pytest_sessionfinish(session):
    if hasattr(session, "machines"):
        session.machines.stop()
