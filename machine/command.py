# SPDX-License-Identifier: GPL-2.0-only
"""The command line of ./vm."""

import argparse
import re
import signal
import sys
from pathlib import Path

from .host import (
    BUILD,
    COMMAND,
    EXIT_DIED,
    EXIT_REPORT,
    EXIT_SETUP,
    EXIT_TIMEOUT,
    ROOT,
    make,
    script,
)
from .kernels import NAMES
from .kvm import kvm_works
from .machine import Machine

EPILOG = f"""\
exit status: the command's own, except
  {EXIT_SETUP}  the machine could not be set up or started (no module, say)
  {EXIT_REPORT}  the kernel log has a report: BUG, WARNING, Oops, KASAN, ...
  {EXIT_TIMEOUT}  the time of --timeout was up, or a hung machine was ended
  {EXIT_DIED}  the machine ended before the command did (a panic, QEMU killed)

examples:
  ./vm -- uname -r                 newest stable kernel, module side by side
  ./vm --kernel lts --drop-in -- losetup -f
                                   Debian's LTS kernel, floop as its loop driver
  ./vm --disk nvme:4G --disk nvme:1G -- lsblk
  ./vm --systemd --drop-in         a shell on a Debian system with systemd
  ./vm --icount -- bash -c 'time sha256sum vm'
                                   one CPU whose clock counts instructions
  ./vm                             a shell (ctrl-d leaves it)

The project's folder is the working folder, writable, at the same path; so is
each --rw DIR. All other changes, and /tmp, are gone when the machine ends. The
console log is in build/logs/.
"""


def disk_spec(text):
    kind, _, size = text.partition(":")
    if kind not in ("nvme", "virtio") or not re.fullmatch(r"\d+[KMGT]?", size):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not nvme:SIZE or virtio:SIZE (as in nvme:4G)"
        )
    factor = 1024 ** ("KMGT".find(size[-1]) + 1)
    return kind, int(size.rstrip("KMGT")) * factor


def parser():
    p = argparse.ArgumentParser(
        prog="vm",
        usage="./vm [OPTION]... [-- COMMAND [ARG]...]",
        description="Boot the test machine, run COMMAND in it as root, and"
        " power off.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "--kernel",
        choices=NAMES,
        default="stable",
        help="lts: Debian stable's kernel; stable (default): the newest of its"
        " backports; rt: Debian stable's PREEMPT_RT kernel, which the first run"
        " fetches. The first run builds the others, which takes long: i386: a"
        " system of 32 bits; built-in: the stable kernel with its loop driver"
        " built in; race: the stable kernel with KCSAN; coverage: the same with"
        " gcov",
    )
    mode = p.add_mutually_exclusive_group()
    mode.add_argument(
        "--drop-in",
        action="store_true",
        help="load the module in place of the in-tree loop driver",
    )
    mode.add_argument(
        "--no-module",
        action="store_true",
        help="don't load the module",
    )
    p.add_argument("--cpus", type=int, default=2, metavar="N", help="default 2")
    p.add_argument("--memory", default="1G", metavar="SIZE", help="default 1G")
    p.add_argument(
        "--disk",
        type=disk_spec,
        action="append",
        default=[],
        metavar="nvme:SIZE|virtio:SIZE",
        help="an empty disk, /dev/nvme0n1 or /dev/vda and so on; may be"
        " repeated. NVMe disks may swap names: their serial numbers are floop0,"
        " floop1, ... in the order given",
    )
    p.add_argument(
        "--icount",
        action="store_true",
        help="one CPU, emulated, whose clock advances 1 ns an instruction",
    )
    p.add_argument(
        "--debug-kernel",
        action="store_true",
        help="a kernel with KASAN, lockdep and more; built by the first run,"
        " which takes long",
    )
    p.add_argument(
        "--bench",
        action="store_true",
        help="with the benchmarks' programs: rublk, qemu-nbd, PostgreSQL,"
        " SQLite; the first run sets them up",
    )
    p.add_argument(
        "--systemd",
        action="store_true",
        help="a Debian system with systemd as init and users' programs; the"
        " first run sets it up",
    )
    p.add_argument(
        "--rw",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a further folder that is writable, at the same path",
    )
    p.add_argument(
        "--timeout",
        type=float,
        default=3600,
        metavar="SECONDS",
        help="end the machine after that time (default 3600)",
    )
    p.add_argument(
        "command", nargs="*", metavar="COMMAND", help="default: a shell"
    )
    return p


def parse_args():
    p = parser()
    args = p.parse_args()
    system = args.systemd or args.bench or args.debug_kernel
    if args.cpus < 1:
        p.error("--cpus: at least one")
    if not re.fullmatch(r"\d+[MG]?", args.memory):
        p.error("--memory: a number of megabytes, or with M or G")
    if args.icount:
        args.cpus = 1
    if args.systemd and (args.bench or args.debug_kernel):
        p.error(
            "--systemd: a system of its own, without --bench and --debug-kernel"
        )
    if args.kernel not in ("lts", "stable") and system:
        p.error(
            f"--kernel {args.kernel}: without --systemd, --bench and"
            " --debug-kernel"
        )
    if len(args.disk) > 20:
        p.error("--disk: 20 of them at most")
    for folder in args.rw:
        if not folder.is_dir():
            p.error(f"--rw: {folder} is not a folder")
    return args


def main():
    args = parse_args()
    terminated = 128 + signal.SIGTERM
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(terminated))
    stamps = (ROOT / "floop/stamp", BUILD / "venv/stamp")
    if not all(stamp.exists() for stamp in stamps):
        script("setup.sh", "--no-module")
    if not COMMAND.exists():
        make("cli")
    if args.bench:
        script("bench-root.sh")
    if args.systemd:
        script("users-root.sh")
    kvm = not args.icount and kvm_works(args)
    machine = Machine(args, kvm)
    try:
        machine.run()
        return machine.result()
    except KeyboardInterrupt:
        return 130
    finally:
        machine.close()
