# SPDX-License-Identifier: GPL-2.0-only
"""Run the cases of one machine, inside it, one after the other.

Usage: run.py PLAN.json

tests/conftest.py writes the plan on the host, boots the machine with this as
its command and reads the results while they come in. For each case:
SLUG.started when it starts, SLUG.log with what it prints, and SLUG.json when
it is over. After each case the machine is put back as the case found it; a
case that left something behind, or made the kernel complain, has failed even
if it exited with 0.

A case in a machine with systemd may ask for a reboot by exiting with 75
(reboot_machine in tests/lib/users.sh): it is run again after that, with BOOT
one higher, and goes on where it was.

Exit status: 0 all cases ran (whether they passed is in the results),
3 the rest needs a fresh machine, 4 the machine is to reboot and run this again.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
import loopctl

from machine.report import find_reports

NEEDS_FRESH_MACHINE = 3
REBOOT = 4
CASE_ASKS_FOR_REBOOT = 75
TOOLS = "/run/floop-tests"  # the first folder in PATH
# What built() has, in memory
NEAR = {
    "FLOOP": f"{TOOLS}/near/floop",
    "PROGRAMS": f"{TOOLS}/near/programs",
}


class KernelLog:
    """The kernel's log since it was last read."""

    def __init__(self, from_boot):
        self.fd = os.open("/dev/kmsg", os.O_RDWR | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_SET if from_boot else os.SEEK_END)

    def say(self, text):
        os.write(self.fd, f"<5>test: {text}".encode())

    def read(self):
        lines = []
        while True:
            try:
                record = os.read(self.fd, 16384).decode(errors="replace")
            except BlockingIOError:
                return lines
            except OSError as e:
                if e.errno == errno.EPIPE:  # overwritten before it was read
                    continue
                raise
            lines.append(record.partition(";")[2].split("\n")[0])


def mounts():
    """Where something is mounted, but for what systemd mounts for a service or
    a session.
    """
    with open("/proc/self/mountinfo") as f:
        points = [line.split()[4] for line in f]
    own = ("/run/credentials/", "/run/user/", "/proc/sys/fs/binfmt_misc")
    return [p for p in points if not p.startswith(own)]


def serial(disk):
    """The serial number that ./vm gave a disk: floop0 is the first that was
    asked for.
    """
    for path in (disk / "device/serial", disk / "serial"):
        if path.exists():
            return path.read_text().strip()
    return ""


def empty_disks():
    """The disks that the root is not on, in the order that they were asked for.

    That is not the order of their names: NVMe disks are found at the same time,
    and number themselves as they are done.
    """
    with open("/proc/self/mountinfo") as f:
        root = {line.split()[2] for line in f if line.split()[4] == "/"}
    disks = [
        p
        for p in pathlib.Path("/sys/block").iterdir()
        if re.fullmatch(r"nvme\d+n\d+|vd[a-z]+", p.name)
        and (p / "dev").read_text().strip() not in root
        and not list(p.glob(f"{p.name}*/partition"))
    ]
    return [p.name for p in sorted(disks, key=lambda p: (serial(p), p.name))]


def written(disk):
    """Sectors that were written or discarded (Documentation/block/stat.rst)."""
    fields = pathlib.Path(f"/sys/block/{disk}/stat").read_text().split()
    return fields[6], fields[13]


def bound_devices():
    """Attached loop devices of either driver, by name."""
    return sorted(
        p.parent.parent.name
        for p in pathlib.Path("/sys/block").glob("*loop*/loop/backing_file")
    )


def dm_devices():
    return sorted(
        p.read_text().strip()
        for p in pathlib.Path("/sys/block").glob("dm-*/dm/name")
    )


def has_children():
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descendants():
    """All processes below this one."""
    # Orphans become children of this process: without one there are none. To
    # look at all processes takes an emulated machine a tenth of a second.
    if not has_children():
        return []
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        pid, rest = int(text.split()[0]), text.rpartition(")")[2].split()
        # A case may have started udev anew.
        if (
            rest[0] != "Z"
            and "udev" not in text.partition("(")[2].rpartition(")")[0]
        ):
            children.setdefault(int(rest[1]), []).append(pid)
    found, todo = [], [os.getpid()]
    while todo:
        for pid in children.get(todo.pop(), []):
            found.append(pid)
            todo.append(pid)
    return found


def command_name(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"


def reap():
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


class Machine:
    def __init__(self, plan):
        self.mode = plan["mode"]
        self.prefix = "floop" if self.mode == "side-by-side" else "loop"
        self.module = "loop" if self.mode == "in-tree" else "floop"
        self.project = plan["project"]
        self.disks = empty_disks()
        self.wiped = {}
        if self.mode == "in-tree":
            self.load()
        # Most cases are about the file path; the others turn mapping on
        # (map_images).
        self.wanted = {"mapping": "N", **plan.get("parameters", {})}
        self.set_parameters()
        self.parameters = self.read_parameters()
        self.mounts = mounts()
        self.devices = self.numbers()

    def set_parameters(self):
        folder = pathlib.Path(f"/sys/module/{self.module}/parameters")
        for name, value in self.wanted.items():
            if (folder / name).exists():  # of ours alone
                (folder / name).write_text(value)

    def module_file(self):
        return f"{self.project}/build/modules/{os.uname().release}/floop.ko"

    def load(self):
        if self.mode == "in-tree":
            command = ["modprobe", "loop"]
        else:
            command = ["insmod", self.module_file(), f"names={self.prefix}"]
        subprocess.run(command, check=True)

    def unload_in_tree(self):
        """The in-tree driver, which a case beside it has used, or which came
        for somebody who opened a node: the next case finds it not loaded.

        Returns what is in the way.
        """
        driver = pathlib.Path("/sys/module/loop/initstate")
        deadline = time.monotonic() + 20
        while self.mode != "in-tree" and driver.exists():
            removed = subprocess.run(
                ["rmmod", "loop"], check=False, capture_output=True, text=True
            )
            if removed.returncode and time.monotonic() > deadline:
                return [removed.stderr.strip()]
            time.sleep(0.1)
        return []

    def read_parameters(self):
        folder = pathlib.Path(f"/sys/module/{self.module}/parameters")
        return {p.name: p.read_text().strip() for p in folder.glob("*")}

    def numbers(self):
        return loopctl.numbers(self.prefix)

    def extra_mounts(self):
        return [m for m in mounts() if m not in self.mounts]

    def clean(self):
        """Put the machine back; returns what had been left behind."""
        left = []

        reap()
        pids = descendants()
        if pids:
            left.append(
                "processes: "
                + ", ".join(f"{command_name(p)} ({p})" for p in pids)
            )
        deadline = time.monotonic() + 20
        while pids and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
            reap()
            pids = descendants()
        if pids:
            left.append(
                "unkillable: "
                + ", ".join(f"{command_name(p)} ({p})" for p in pids)
            )

        extra = self.extra_mounts()
        if extra:
            left.append("mounts: " + ", ".join(extra))
        # Images may lie on mounts of devices of images..: peel until nothing is
        # left, or nothing gives for a while (udev may have a device open that
        # has been let go).
        # What the case has detached may have been open in udev.
        deadline = time.monotonic() + 20
        while (
            not left
            and (bound_devices() or dm_devices())
            and time.monotonic() < deadline
        ):
            time.sleep(0.1)
        deadline = time.monotonic() + 20
        while True:
            before = (self.extra_mounts(), bound_devices(), dm_devices())
            if not any(before) or time.monotonic() > deadline:
                break
            if not left:
                left.append(f"devices: {', '.join(before[1] + before[2])}")
            for mount in reversed(before[0]):
                subprocess.run(
                    ["umount", mount], check=False, capture_output=True
                )
            for name in before[2]:
                subprocess.run(
                    ["dmsetup", "remove", "--retry", "-f", name],
                    check=False,
                    capture_output=True,
                )
            for name in before[1]:
                device = f"/dev/{name}"
                with (
                    contextlib.suppress(OSError),
                    loopctl.Device(device, os.O_RDONLY) as d,
                ):
                    d.clr_fd()
            if (self.extra_mounts(), bound_devices(), dm_devices()) == before:
                time.sleep(0.2)
            else:
                deadline = time.monotonic() + 20
        stuck = self.extra_mounts() + bound_devices() + dm_devices()
        if stuck:
            left.append("cannot be removed: " + ", ".join(stuck))

        left += self.restore_module()

        for disk in self.disks:
            self.wipe(disk)
        return left

    def restore_module(self):
        """Loaded, with the parameters and the devices it had at the start."""
        left = self.unload_in_tree()
        control = f"/dev/{self.prefix}-control"
        self.set_parameters()
        if self.read_parameters() != self.parameters or not os.path.exists(
            control
        ):
            left.append(f"module {self.module} not loaded as it was")
            subprocess.run(
                ["rmmod", self.module], check=False, capture_output=True
            )
            self.load()
            for _ in range(100):
                if os.path.exists(control):
                    break
                time.sleep(0.1)
            self.set_parameters()
        # Devices added or removed on the way are fine, and put right quietly.
        with loopctl.Control(self.prefix) as c:
            for n in self.numbers() - self.devices:
                problem = remove_device(c, n)
                if problem:
                    left.append(
                        f"{self.prefix}{n} cannot be removed: {problem}"
                    )
            for n in self.devices - self.numbers():
                c.add(n)
        return left

    def wipe(self, disk):
        """No signature of one case is found by the next one."""
        if written(disk) == self.wiped.get(disk):
            return
        try:
            with open(f"/dev/{disk}", "r+b", buffering=0) as f:
                size = f.seek(0, os.SEEK_END)
                for at in (0, max(0, size - (1 << 20))):
                    f.seek(at)
                    f.write(bytes(1 << 20))
                os.fsync(f.fileno())
                loopctl.blkrrpart(f.fileno())
        except OSError:
            pass
        self.wiped[disk] = written(disk)


def remove_device(control, number):
    """What is in the way; udev may look at a device for a while after its
    detach.
    """
    deadline = time.monotonic() + 20
    while True:
        try:
            control.remove(number)
            return None
        except OSError as e:
            if e.errno != errno.EBUSY or time.monotonic() > deadline:
                return e.strerror
        time.sleep(0.2)


def follow(process, log, timeout):
    """Copy what the process prints to the log until it is over. False: it was
    not.

    The log is in the host's folder, where each write takes long: what is
    printed within half a second is one.
    """
    end = time.monotonic() + timeout
    out = process.stdout.fileno()
    os.set_blocking(out, False)
    fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, 1 << 20)
    over = os.pidfd_open(process.pid)
    try:
        while True:
            left = max(0, end - time.monotonic())
            ready = select.select([out, over], [], [], left)[0]
            if ready == [out]:
                ready += select.select([over], [], [], min(left, 0.5))[0]
            with contextlib.suppress(BlockingIOError):
                while chunk := os.read(out, 1 << 20):
                    os.write(log, chunk)
            if over in ready:
                process.wait()
                return True
            if time.monotonic() > end:
                return False
    finally:
        os.close(over)


def boot_of(case, plan):
    """The boot that a case is at: 1, or one higher after each that it asked
    for; and the kernel of the first.
    """
    path = pathlib.Path(plan["results"]) / f"{case['slug']}.boot"
    if not path.exists():
        return 1, os.uname().release
    boot, kernel = path.read_text().split()
    return int(boot), kernel


def busy():
    """For how many seconds the machine's CPUs have had something to do. In an
    emulated machine that is what a case costs the host.
    """
    first = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0]
    user, nice, system, _, _, irq, softirq = map(int, first.split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def run_case(case, plan, machine, kernel_log):
    """Its problems, the seconds it took, and how to go on: 0,
    NEEDS_FRESH_MACHINE or REBOOT.
    """
    results = pathlib.Path(plan["results"])
    slug = case["slug"]
    boot, first_kernel = boot_of(case, plan)
    work = pathlib.Path("/tmp/work")
    if boot == 1:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        work.chmod(0o755)
    env = dict(
        os.environ,
        PREFIX=machine.prefix,
        CTL=f"/dev/{machine.prefix}-control",
        DRIVER_MODE=plan["mode"],
        KERNEL=plan["kernel"],
        MODULE=machine.module,
        MODULE_FILE=machine.module_file(),
        **NEAR,
        PROJECT=plan["project"],
        WORK=str(work),
        DISKS=" ".join(f"/dev/{d}" for d in machine.disks),
        SLOWER=str(plan["slower"]),
        **plan.get("environment", {}),
        CASE=case["id"],
        BOOT=str(boot),
        PYTHONPATH=f"{plan['project']}/tests/lib",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONUNBUFFERED="1",
        LC_ALL="C.UTF-8",
        PATH=f"{TOOLS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        HOME="/root",
    )
    (results / f"{slug}.started").touch()
    before = kernel_log.read() if boot > 1 else []
    kernel_log.read()
    kernel_log.say(f"{case['id']} {'starts' if boot == 1 else 'goes on'}")
    log = os.open(
        results / f"{slug}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
    )
    begun, busy_before = time.monotonic(), busy()
    with open("/dev/null") as null:
        process = subprocess.Popen(
            [
                "bash" if case["path"].endswith(".sh") else "python3",
                case["path"],
            ],
            cwd=plan["project"],
            env=env,
            stdin=null,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    over = follow(process, log, case["timeout"])
    seconds = time.monotonic() - begun
    problems = []
    # It may have gone over to another kernel.
    fresh = os.uname().release != first_kernel
    if over and process.returncode == CASE_ASKS_FOR_REBOOT and plan.get("init"):
        os.write(log, f"\n--- reboot, after {seconds:.1f} s\n".encode())
        os.close(log)
        (results / f"{slug}.boot").write_text(f"{boot + 1} {first_kernel}")
        return [], seconds, REBOOT
    if not over:
        problems.append(f"still running after {case['timeout']:.0f} s, killed")
        # Where it hangs: blocked tasks, into the kernel log and from there into
        # ours.
        kernel_log.read()
        pathlib.Path("/proc/sysrq-trigger").write_text("w")
        time.sleep(0.5)
        os.write(log, b"\n--- blocked tasks\n")
        os.write(log, "\n".join(kernel_log.read()).encode() + b"\n")
        os.write(log, b"\n--- its processes\n" + stacks(process.pid).encode())
        try:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        if process.poll() is None:
            problems.append("and it cannot be killed")
            fresh = True
    elif process.returncode:
        problems.append(
            f"exit status {process.returncode}"
            if process.returncode > 0
            else f"killed by {signal.Signals(-process.returncode).name}"
        )
    process.stdout.close()
    if process.returncode is not None:
        try:
            left = machine.clean()
        except (OSError, subprocess.SubprocessError) as e:
            left = [f"cannot be cleaned up: {e!r}"]
        if left:
            os.write(log, f"\n--- left behind: {'; '.join(left)}\n".encode())
        # From a case that failed half-way that is no news.
        if left and not problems:
            problems.append("left behind: " + "; ".join(left))
        fresh |= any(x.startswith(("cannot be", "unkillable")) for x in left)
    kernel = before + kernel_log.read()
    reports = [kernel[number] for number in find_reports(kernel)]
    if reports:
        problems.append(f"kernel report: {reports[0]}")
    if plan["kernel"] == "debug" and lockdep_is_off():
        if not reports:
            problems.append("lockdep is off")
        fresh = True
    if problems:
        os.write(
            log,
            b"\n--- kernel log\n" + "\n".join(kernel[-400:]).encode() + b"\n",
        )
        if plan.get("init"):
            os.write(log, b"\n--- journal\n")
            journal = ["journalctl", "--boot", "--no-pager", "--lines=200"]
            subprocess.run(journal, stdout=log, stderr=log, check=False)
    os.fsync(log)
    os.close(log)
    shutil.rmtree(work, ignore_errors=True)

    new = results / f"{slug}.new"
    with open(new, "w") as f:
        json.dump(
            {
                "problems": problems,
                "seconds": seconds,
                "cpu": round(busy() - busy_before, 1),
            },
            f,
        )
        f.flush()
        os.fsync(f.fileno())
    os.rename(new, results / f"{slug}.json")
    kernel_log.say(f"{case['id']} {'failed' if problems else 'passed'}")
    kernel_log.read()
    # What a case that fails has left, seen or not, would be the next one's
    # problem.
    return problems, seconds, NEEDS_FRESH_MACHINE if fresh or problems else 0


def lockdep_is_off():
    """On the debug kernel: lockdep looks no further after its first report, or
    when it is full.
    """
    try:
        return not re.search(
            r"debug_locks:\s+1", pathlib.Path("/proc/lockdep_stats").read_text()
        )
    except OSError:
        return False


def debugfs(name):
    """A path in it; None if the kernel has no such thing."""
    path = pathlib.Path("/sys/kernel/debug") / name
    if not path.exists():
        subprocess.run(
            ["mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug"],
            check=False,
        )
    return path if path.exists() else None


def find_leaks():
    """On the debug kernel: have kmemleak look at what all cases left; it
    reports in the log.
    """
    leaks = debugfs("kmemleak")
    if not leaks:
        return
    time.sleep(6)  # what is younger than 5 seconds is not reported
    for _ in range(2):  # nor is what changed between two looks
        leaks.write_text("scan")
    if found := leaks.read_text():
        print(found, flush=True)


def save_coverage(results):
    """On the coverage kernel: how often each branch was taken, for
    scripts/coverage.py.
    """
    counts = debugfs("gcov")
    if not counts:
        return
    boots = len(list(results.glob("coverage-*")))
    for file in counts.rglob("*.gcda"):
        copy = results / f"coverage-{boots + 1}" / file.relative_to(counts)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())


def built(project):
    """Where the host's builds for this machine are."""
    if os.uname().machine == "i686":
        command, programs = (
            "i686-unknown-linux-musl/release/floop",
            "i386/programs",
        )
    else:
        command, programs = "release/floop", "programs"
    return {
        "FLOOP": f"{project}/cli/target/{command}",
        "PROGRAMS": f"{project}/build/{programs}",
    }


def bring_near(project):
    """Copy into memory what cases read all the time. From the host's folder,
    which isn't cached, an emulated machine takes half a second for the files of
    tests/lib, and a third of one to start the command.
    """
    paths = built(project)
    source = pathlib.Path(project) / "tests"
    names = [path.stem for path in (source / "programs").glob("*.c")]
    programs = pathlib.Path(paths["PROGRAMS"])
    make = ["make", "-s", "-C", source / "programs", f"OUT={programs}"]
    subprocess.run(make, check=True)
    shutil.rmtree(TOOLS, ignore_errors=True)
    os.makedirs(NEAR["PROGRAMS"])
    for name in names:
        shutil.copy(programs / name, NEAR["PROGRAMS"])
    # What the cases' attach() needs: a Python program takes a second to start.
    shutil.copy(programs / "loopdev", TOOLS)
    if os.path.exists(paths["FLOOP"]):
        shutil.copy(paths["FLOOP"], NEAR["FLOOP"])
        # The module starts it by that name.
        helper = pathlib.Path("/usr/sbin/floop-extents")
        helper.unlink(missing_ok=True)
        helper.symlink_to(NEAR["FLOOP"])
    shutil.copytree(source / "lib", f"{TOOLS}/lib")
    bind = ["mount", "--bind", f"{TOOLS}/lib", source / "lib"]
    subprocess.run(bind, check=True)


def stop_watching():
    """Let udev read a device when it appears or changes, but no more after each
    close of one that was written to: it would add its own I/O to what a case
    counts, at any time. watch_devices() in tests/lib/devices.sh takes it back.
    """
    pathlib.Path("/run/udev/rules.d/99-no-watch.rules").write_text(
        'SUBSYSTEM=="block", OPTIONS+="nowatch"\n'
    )
    subprocess.run(["udevadm", "control", "--reload"], check=True)


def stacks(session):
    """Where the processes of a session are in the kernel, which may wait for a
    signal, too.
    """
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                found += [
                    f"{folder.name} {(folder / 'comm').read_text()}",
                    (folder / "stack").read_text(),
                ]
        except OSError:
            continue  # gone
    return "".join(found)


def main():
    with open(sys.argv[1]) as f:
        plan = json.load(f)
    # Orphans of a case become children of this process, and are found after it.
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    pathlib.Path("/proc/sys/kernel/sysrq").write_text("1")
    bring_near(plan["project"])
    if not plan.get("init"):
        stop_watching()
    results = pathlib.Path(plan["results"])
    cases = plan["cases"]
    left = [
        case
        for case in cases
        if not (results / f"{case['slug']}.json").exists()
    ]
    rebooted = bool(left) and boot_of(left[0], plan)[0] > 1
    kernel_log = KernelLog(from_boot=rebooted)
    machine = Machine(plan)
    for n, case in enumerate(left, len(cases) - len(left) + 1):
        problems, seconds, status = run_case(case, plan, machine, kernel_log)
        verdict = "; ".join(problems) if problems else "ok"
        if status == REBOOT:
            verdict = "to be continued after a reboot"
        print(
            f"[{n}/{len(cases)}] {case['id']} {seconds:.1f} s: {verdict}",
            flush=True,
        )
        if status == REBOOT or (status and n < len(cases)):
            save_coverage(results)
            return status
    if plan["kernel"] == "debug":
        find_leaks()
    save_coverage(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
