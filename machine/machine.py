# SPDX-License-Identifier: GPL-2.0-only
"""One run of the machine: its folder, its QEMU, its output and exit status."""

import contextlib
import os
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import kernels, report
from .disks import disk_folder, make_disks
from .host import (
    BUILD,
    EXIT_DIED,
    EXIT_REPORT,
    EXIT_SETUP,
    EXIT_TIMEOUT,
    PROJECT,
    ROOT,
    script,
)
from .moving import Moving

# Seconds that a machine gets to end by itself after it has reported a hang.
GRACE = 90
# For the boot. An emulated machine of two CPUs has been seen to wait for ever.
BOOT = 600
KERNEL_ARGS = (
    "mitigations=off",
    "panic=-1",
    "oops=panic",
    "log_buf_len=4M",
    "random.trust_cpu=on",
    "audit=0",
    "apparmor=0",
    "selinux=0",
    "cryptomgr.notests",
)
EMULATED_ARGS = (
    # An emulated CPU may stand still for long. That is no bad clock and no
    # stall, and it would spoil the calibration that lpj= and tsc_early_khz=
    # replace.
    "tsc=reliable",
    "lpj=10000000",
    "no5lvl",
    "rcupdate.rcu_cpu_stall_timeout=120",
    "watchdog_thresh=60",
    # QEMU translates code again for each process that has it at another
    # address: with this option a fork and exec takes 9 ms, without it 40.
    "norandmaps",
    # On a busy host the timer may be late for the check at boot, which then
    # panics.
    "no_timer_check",
)
# Debian's kernels zero each page when it is allocated, which is a tenth of what
# an emulated CPU does in the tests. Checks of copies to user memory, and the
# accounting of stalls, are another tenth. What is measured keeps them.
TEST_ARGS = (
    "init_on_alloc=0",
    "randomize_kstack_offset=off",
    "hardened_usercopy=off",
)
# systemd needs the accounting: without it a portable service doesn't start.
TEST_ARGS_NO_SYSTEMD = ("psi=0",)

# QEMU does `rep movsb` byte by byte, and counts each as an instruction. Without
# these two the kernel copies by words: what is cached is read in a fifth of the
# time.
EMULATED_CPU = "max,-erms,-fsrm"
# Nor do tests have SMAP, but on the debug kernel: QEMU goes on in other code
# after each stac and clac, around every copy, which takes a seventh of all
# time. Nor XSAVE and AVX: each exchange of a CPU's registers, and each string
# function of libc, is a tenth of the time of a short command.
TEST_CPU = f"{EMULATED_CPU},-smap,-xsave,-avx,-avx2"


def tsc_khz():
    """How fast the host's time-stamp counter runs.

    QEMU gives it to emulated CPUs as it is. On a busy host the kernel takes it
    for many times slower than it is, and its clock is as many times too fast.
    """
    source, program = PROJECT / "machine" / "tsc.c", BUILD / "tsc"
    made_at = program.stat().st_mtime if program.exists() else 0
    if made_at < source.stat().st_mtime:
        made = program.with_name(f"tsc.{os.getpid()}")
        subprocess.run(["gcc", "-O2", "-o", made, source], check=True)
        made.rename(program)
    done = subprocess.run([program], stdout=subprocess.PIPE, check=True)
    return int(done.stdout)


def root_of(args):
    """The guest root's folder, and its disk image."""
    if args.kernel == "i386":
        return BUILD / "i386/root", BUILD / "i386.img"
    if args.bench:
        return ROOT, BUILD / "bench.img"
    if args.systemd:
        return ROOT, BUILD / "users.img"
    return ROOT, BUILD / "root.img"


class Machine:
    def __init__(self, args, kvm):
        self.args = args
        self.kvm = kvm and not args.icount
        # Emulated, and neither measured nor on the debug kernel
        self.is_test = not (
            self.kvm or args.icount or args.bench or args.debug_kernel
        )
        self.kernel = kernels.find(args.kernel, args.debug_kernel)
        self.root, self.root_disk = root_of(args)
        (BUILD / "run").mkdir(exist_ok=True)
        (BUILD / "logs").mkdir(exist_ok=True)
        stamp = time.strftime("%m%d-%H%M%S-")
        self.folder = Path(tempfile.mkdtemp(prefix=stamp, dir=BUILD / "run"))
        self.sockets = Path(tempfile.mkdtemp(prefix="floop-vm-"))
        self.disks = disk_folder(args.disk, args.memory, otherwise=self.folder)
        self.log = BUILD / "logs" / f"vm-{self.folder.name}.log"
        self.process = None
        self.timed_out = False
        # Until the command prints something: a shell has the boot's messages.
        self.moving = Moving("vm: the machine boots")
        # Seconds that a machine may take to its first line on the console
        self.silence = None

    def close(self):
        if self.process and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for folder in (self.folder, self.sockets, self.disks):
            shutil.rmtree(folder, ignore_errors=True)

    def shared(self):
        return [PROJECT, *(folder.resolve() for folder in self.args.rw)]

    def module(self):
        if self.args.no_module:
            return ""
        script("module.sh", self.kernel.release, "floop")
        if self.args.systemd:
            # It may change to the other kernel, by kexec.
            for name in ("lts", "stable"):
                script("module.sh", kernels.find(name).release, "floop")
        return str(BUILD / "modules" / self.kernel.release / "floop.ko")

    def drivers(self):
        """The drivers of the disks, which guest-run.sh loads by name."""
        if self.kernel.drivers_built_in:
            return []
        names = {"nvme": "nvme", "virtio": "virtio_blk"}
        return [names[kind] for kind in sorted({k for k, _ in self.args.disk})]

    def write_config(self):
        """Write what guest-run.sh and guest-init.sh read."""
        config = {
            "PROJECT": str(PROJECT),
            "RW": "\n".join(map(str, self.shared())),
            "DRIVERS": " ".join(self.drivers()),
            "MODULES": str(self.kernel.modules or ""),
            "MODULE": self.module(),
            "NAMES": "loop" if self.args.drop_in else "floop",
            "SHELL_RUN": "" if self.args.command else "yes",
            "SYSTEMD": "yes" if self.args.systemd else "",
        }
        lines = [f"{key}={shlex.quote(text)}\n" for key, text in config.items()]
        (self.folder / "config").write_text("".join(lines))
        command = f"exec {shlex.join(self.args.command)}\n"
        (self.folder / "command").write_text(command)

    def qemu(self):
        """QEMU's arguments beside virtme-ng's, which machine/qemu changes."""
        qemu = ["-nodefaults", "-machine", "sata=off,smbus=off"]
        qemu += ["-device", "virtio-serial-pci,id=floop"]
        for name in ("stdout", "stderr"):
            port = f"name=floop.{name},chardev=floop-{name}"
            path = f"{self.sockets}/{name}"
            qemu += ["-chardev", f"socket,id=floop-{name},path={path}"]
            qemu += ["-device", f"virtserialport,{port}"]
        qemu += make_disks(self.args.disk, self.disks)
        if self.args.icount:
            qemu += ["-icount", "shift=0,sleep=off"]
        if not self.kvm:
            tcg = "tcg" if self.args.icount else "tcg,thread=multi"
            qemu += ["-accel", tcg]
        return qemu

    def root_device(self):
        """The root disk's name: machine/qemu puts it behind all others."""
        before = sum(kind == "virtio" for kind, _ in self.args.disk)
        return f"/dev/vd{'abcdefghijklmnopqrstuvwxyz'[before]}"

    def command_line(self):
        args, root = self.args, self.root
        kernel_args = [*KERNEL_ARGS, *(() if self.kvm else EMULATED_ARGS)]
        if not self.kvm and not args.icount:
            kernel_args.append(f"tsc_early_khz={tsc_khz()}")
        if self.is_test:
            kernel_args += TEST_ARGS
            kernel_args += () if args.systemd else TEST_ARGS_NO_SYSTEMD
        if args.kernel == "race":
            # On two emulated CPUs this kernel doesn't survive patching its own
            # code to take the TSC as its clock (7.3.4: an int3 in ktime_get(),
            # or a clock that jumps).
            kernel_args.append("clocksource=hpet")
        if args.kernel == "built-in" and args.drop_in:
            # Keep its loop driver from starting, so that floop can have the
            # names.
            kernel_args.append("initcall_blacklist=loop_init")
        cpus = str(args.cpus)
        if args.cpus == 1:
            # QEMU leaves out the guest's memory barriers if there can be only
            # one CPU, though its disks run beside that CPU (QEMU 7.2,
            # tcg_gen_mb()): once in 100,000 I/Os a doorbell is lost, and the
            # I/O never ends. So allow a second CPU.
            cpus = "1,maxcpus=2"
            kernel_args.append("possible_cpus=1")
        modules = "none" if self.kernel.drivers_built_in else "auto"
        inside = ["bash", str(PROJECT / "machine/guest-run.sh")]
        # virtme-ng's init is a program of 64 bits.
        no_init = ["--no-virtme-ng-init"] if args.kernel == "i386" else []
        return [
            # No machine outlives ./vm: see also machine/qemu.
            *("setpriv", "--pdeathsig", "KILL"),
            str(BUILD / "venv/bin/virtme-run"),
            *("--qemu-bin", str(PROJECT / "machine/qemu")),
            *("--busybox", str(root / "usr/bin/busybox")),
            *("--kimg", str(self.kernel.image), "--mods", modules),
            *("--root-disk", str(self.root_disk), "--root-fstype", "ext4"),
            *("--rw", "--root-dev", self.root_device()),
            "--force-9p",
            "--disable-microvm",
            *no_init,
            *([] if self.kvm else ["--disable-kvm"]),
            *("--cpus", cpus, "--memory", args.memory),
            *("--verbose", "--show-boot-console"),
            *(f"--rwdir={folder}={folder}" for folder in self.shared()),
            *(word for arg in kernel_args for word in ("-a", arg)),
            *("--script-sh", shlex.join([*inside, str(self.folder)])),
            *("--qemu-opts", *self.qemu()),
        ]

    def environment(self):
        """The environment of virtme-ng and machine/qemu."""
        console = f"file,id=console,path={self.log}"
        if not self.args.command:
            console = "stdio,id=console,signal=off,mux=on"
            console += f",logfile={self.log}"
        environment = {
            **os.environ,
            "FLOOP_CONSOLE": console,
            "FLOOP_CPU": TEST_CPU if self.is_test else EMULATED_CPU,
            "FLOOP_KERNEL": str(self.kernel.unpacked or self.kernel.image),
            "XDG_CACHE_HOME": str(BUILD / "cache"),
            "TMPDIR": str(self.sockets),
        }
        if self.args.systemd:
            init = ["bash", str(PROJECT / "machine/guest-init.sh")]
            environment["FLOOP_INIT"] = shlex.join([*init, str(self.folder)])
        return environment

    def start(self):
        """Start QEMU; returns the sockets for the command's output."""
        self.write_config()
        listeners = []
        for name in ("stdout", "stderr"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"{self.sockets}/{name}")
            listener.listen(1)
            listeners.append(listener)
        shell = not self.args.command
        self.log.touch()
        output = (self.folder / "qemu.log").open("wb")
        self.process = subprocess.Popen(
            self.command_line(),
            cwd=PROJECT,
            env=self.environment(),
            stdin=None if shell else subprocess.DEVNULL,
            stdout=None if shell else output,
            stderr=None if shell else output,
            start_new_session=not shell,
        )
        return listeners

    def run(self):
        """Start the machine, and pass its output on until it ends."""
        # It may build the module first, which shows its own progress.
        listeners = self.start()
        if not self.args.command:
            self.pass_on(listeners)
            return
        with self.moving:
            self.pass_on(listeners)

    def pass_on(self, listeners):
        started = time.monotonic()
        deadline = started + self.args.timeout
        selector = selectors.DefaultSelector()
        for target, listener in enumerate(listeners, start=1):
            selector.register(
                listener, selectors.EVENT_READ, (listener, target)
            )
        with self.log.open("rb") as console:
            while self.process.poll() is None or self.drain(selector):
                self.drain(selector, 0.2)
                if report.HANG.search(console.read().decode(errors="replace")):
                    deadline = min(deadline, time.monotonic() + GRACE)
                if self.silence and not console.tell():
                    deadline = min(deadline, started + self.silence)
                until = deadline
                if not (self.folder / "up").exists():
                    until = min(deadline, started + BOOT)
                if time.monotonic() > until:
                    self.timed_out = True
                    os.killpg(self.process.pid, signal.SIGKILL)
                    self.process.wait()
                    break
        selector.close()

    def drain(self, selector, timeout=0):
        """Copy the guest's output; False if there was none."""
        events = selector.select(timeout) if selector.get_map() else []
        if not events and timeout:
            time.sleep(0 if selector.get_map() else timeout)
        for key, _ in events:
            sock, target = key.data
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                connection, _ = sock.accept()
                selector.unregister(sock)
                sock.close()
                selector.register(
                    connection, selectors.EVENT_READ, (connection, target)
                )
                continue
            data = sock.recv(65536)
            self.moving.end()
            if not data:
                selector.unregister(sock)
                sock.close()
            while data:
                data = data[os.write(target, data) :]
        return bool(events)

    def result(self):
        """The exit status of the run; prints what is wrong with it."""
        status_file = self.folder / "status"
        status = status_file.read_text().strip() if status_file.exists() else ""
        console = self.log.read_text(errors="replace")
        lines = report.first_report(console)
        if lines:
            say("the kernel reported:", *lines)
            code = EXIT_REPORT
        elif self.timed_out:
            say("ended: it hung, or its time was up")
            code = EXIT_TIMEOUT
        elif status.startswith("failed"):
            say(f"could not start: {status[7:]}")
            code = EXIT_SETUP
        elif not status.isdigit():
            qemu = (self.folder / "qemu.log").read_text(errors="replace")
            tail = console.splitlines()[-15:] + qemu.splitlines()[-15:]
            say("the machine ended before the command did:", *tail)
            code = EXIT_DIED
        else:
            code = int(status)
        if code:
            say(f"exit status {code}; console log: {self.log}")
        return code


def say(first, *more):
    print(f"vm: {first}", *more, sep="\n", file=sys.stderr)
