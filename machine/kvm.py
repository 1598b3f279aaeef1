# SPDX-License-Identifier: GPL-2.0-only
"""Does KVM boot our kernel? Tried once for each host and host kernel."""

import argparse
import contextlib
import fcntl
import os
import platform
import sys

from .host import BUILD
from .machine import Machine

ANSWER = BUILD / "kvm"


def try_to_boot(args):
    print("vm: finding out whether KVM works here (once)", file=sys.stderr)
    trial = argparse.Namespace(**vars(args))
    trial.no_module, trial.debug_kernel, trial.disk = True, False, []
    trial.systemd = False
    trial.command, trial.timeout = ["true"], 30
    machine = Machine(trial, kvm=True)
    machine.silence = 6
    try:
        machine.run()
        return (machine.folder / "status").exists()
    finally:
        machine.close()
        machine.log.unlink()


def kvm_works(args):
    host = f"{platform.node()} {platform.release()}"
    with (BUILD / "kvm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            answer, _, known = ANSWER.read_text().strip().partition(" ")
            if known == host:
                return answer == "yes"
        works = False
        if os.access("/dev/kvm", os.R_OK | os.W_OK):
            works = try_to_boot(args)
        does = "works" if works else "does not work"
        print(f"vm: KVM {does} here", file=sys.stderr)
        ANSWER.write_text(f"{'yes' if works else 'no'} {host}\n")
        return works
