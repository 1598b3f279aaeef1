#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Measure floop and its alternatives, side by side, in the test machine.

Each section boots a machine of its own, with every peer in it. The figures of
every run go to build/bench/KERNEL.json, and a summary to the terminal; with
--write they go to bench/results/ as well, with their tables and plots.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import figures
import report
import scratch
from guest import SECTIONS, peers

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))
from machine.moving import Moving  # noqa: E402

EMULATOR = PROJECT / "build/emulator/qemu-system-x86_64"
# By program, the Debian package that has it: what every section needs of a real
# machine.
NEEDED = {
    "fio": "fio",
    "sfdisk": "fdisk",
    "udevadm": "udev",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mkfs.btrfs": "btrfs-progs",
    "dmsetup": "dmsetup",
}
DATE = "%Y-%m-%dT%H:%M"
PUBLISHED = PROJECT / "bench/results"
EXAMPLES = f"""\
sections: {", ".join(SECTIONS)}

examples:
  make bench                               all of it (about two hours, emulated)
  make bench ONLY=cost,stacks QUICK=1      two sections, one short round
  make bench KERNEL=lts ONLY=cost          on Debian's LTS kernel
  make bench PEERS=floop-mapped,loop-direct ONLY=cost
  make bench-compare A.json B.json         what changed beyond the noise
  make bench NATIVE=1 DISK=/dev/sdx        here, on an empty scratch disk
"""


def chosen(text, known, what):
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            sys.exit(
                f"bench: no {what} {name!r}; there are: {', '.join(known)}"
            )
    return names


def parse_args():
    p = argparse.ArgumentParser(
        prog="make bench",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "--only",
        default="",
        metavar="SECTION,...",
        help="these sections; default all",
    )
    p.add_argument(
        "--peers",
        default="",
        metavar="PEER,...",
        help="these peers; default all",
    )
    p.add_argument(
        "--quick",
        action="store_true",
        help="one short round: does it work, roughly",
    )
    p.add_argument("--rounds", type=int, help="default 5, with --quick 1")
    p.add_argument("--kernel", choices=["lts", "stable"], default="stable")
    p.add_argument(
        "--native", action="store_true", help="on this machine; needs --disk"
    )
    p.add_argument(
        "--disk", help="the scratch disk for --native; must be empty"
    )
    p.add_argument(
        "--add",
        action="store_true",
        help="keep the last results' other sections",
    )
    p.add_argument(
        "--write", action="store_true", help="into bench/results/, too"
    )
    args = p.parse_args()
    args.only = chosen(args.only, SECTIONS, "section") or list(SECTIONS)
    args.peers = chosen(args.peers, peers.NAMED, "peer")
    args.rounds = args.rounds or (1 if args.quick else 5)
    if args.rounds < 1:
        p.error("--rounds: at least one")
    if args.native and args.write:
        p.error(
            "WRITE=1 is for the test machine's results: NATIVE=1 leaves its"
            " own in build/bench"
        )
    if bool(args.native) != bool(args.disk):
        p.error("NATIVE=1 and DISK=/dev/... go together")
    return args


def output(*command):
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.strip()


def host(args):
    commit = output("git", "-C", PROJECT, "rev-parse", "--short=12", "HEAD")
    changed = output(
        "git", "-C", PROJECT, "status", "--porcelain", "--", "kernel", "bench"
    )
    cpu = re.search(
        r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.M
    )
    qemu = (
        None if args.native else output(EMULATOR, "--version").splitlines()[0]
    )
    return {
        "format": figures.FORMAT,
        "date": time.strftime(DATE),
        "commit": commit + ("+changes" if changed else ""),
        "quick": args.quick,
        "rounds": args.rounds,
        "host": {
            "cpu": cpu[1] if cpu else platform.machine(),
            "cpus": os.cpu_count(),
            "qemu": qemu,
        },
        "machines": {},
        "peers": {
            p.name: {"title": p.title, "how": p.how, "absent": {}}
            for p in peers.ALL
        },
        "sections": {},
        "tables": {},
        "runs": [],
    }


class Progress:
    """A line that moves; without a terminal a line now and then."""

    def __init__(self, section, total):
        self.section, self.total, self.done = section, total, 0
        self.started = time.monotonic()
        self.text = "the machine boots"
        self.moving = Moving(self.line)

    def line(self):
        left = ""
        if self.done:
            spent = time.monotonic() - self.started
            left = spent / self.done * max(0, self.total - self.done)
            left = f", about {left:.0f} s left"
        line = f"bench: {self.section}: {self.done}/{self.total} figures"
        return f"{line}{left}: {self.text}"

    def step(self, text):
        self.done += 1
        self.text = text
        if not sys.stderr.isatty() and self.done % 50 == 0:
            self.moving.say(self.line())

    def end(self):
        spent = time.monotonic() - self.started
        self.moving.say(
            f"bench: {self.section}: {self.done} figures in {spent:.0f} s"
        )


def command(section, args):
    """What measures a section, and where: the machine's command line and its
    description.
    """
    inside = [
        "env",
        f"PYTHONPATH={PROJECT}/bench",
        "python3",
        "-m",
        "guest",
        section.name,
    ]
    inside += [
        "--rounds",
        str(args.rounds),
        *(["--quick"] if args.quick else []),
    ]
    inside += ["--peers", ",".join(args.peers)] if args.peers else []
    if args.native:
        where = {
            "accelerator": "none (this machine)",
            "cpus": os.cpu_count(),
            "disk": args.disk,
        }
        return [*inside, "--disk", args.disk], where
    vm = [
        PROJECT / "vm",
        "--bench",
        "--kernel",
        args.kernel,
        "--memory",
        section.memory,
    ]
    vm += ["--timeout", "14400", *(["--icount"] if section.icount else [])]
    vm += ["--disk", f"nvme:{section.disk}"] if section.disk else []
    where = {
        "accelerator": "tcg, icount" if section.icount else accelerator(),
        "cpus": 1 if section.icount else 2,
        "memory": section.memory,
        "disk": f"emulated NVMe, {section.disk}" if section.disk else "brd",
    }
    return [*vm, "--", *inside], where


def accelerator():
    answer = PROJECT / "build/kvm"
    return (
        "kvm"
        if answer.exists() and answer.read_text().startswith("yes")
        else "tcg"
    )


def expected(section, taking_part, rounds):
    """How many figures there will be, if nobody drops out: for the progress
    only.
    """
    return (
        rounds
        * len(taking_part)
        * sum(len(table.cells) for table in section.tables.values())
    )


def measure(section, args, results):
    """Run a section; False if a peer failed in it or it ended early."""
    for tries_left in (2, 1, 0):
        done = measure_once(section, args, results)
        # An emulated machine on a busy host may die while it boots.
        if section.name in results["machines"] or not tries_left:
            return done
        print(
            f"bench: {section.name}: its machine did not start; again",
            file=sys.stderr,
        )
    return False


def measure_once(section, args, results):
    words, where = command(section, args)
    print(f"bench: {section.name}: starting its machine", file=sys.stderr)
    progress, failed = Progress(section.name, 0), False
    with (
        progress.moving,
        subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, cwd=PROJECT
        ) as process,
    ):
        for line in process.stdout:
            answer = json.loads(line)
            if "machine" in answer:
                machine = answer["machine"]
                if machine.pop("floop"):
                    machine["versions"]["floop"] = f"commit {results['commit']}"
                when = {
                    "date": time.strftime(DATE),
                    "host": results["host"]["cpu"],
                }
                results["machines"][section.name] = {**where, **machine, **when}
                progress.total = expected(
                    section, answer["taking_part"], args.rounds
                )
                progress.started = time.monotonic()
            elif "absent" in answer:
                absent = results["peers"][answer["absent"]]["absent"]
                absent[section.name] = answer["reason"]
            elif "failed" in answer:
                failed = True
                reason = results["peers"][answer["failed"]]["absent"][
                    section.name
                ]
                progress.moving.say(
                    f"bench: {section.name}: {answer['failed']} failed:"
                    f" {reason}"
                )
            else:
                results["runs"].append(answer)
                progress.step(
                    f"{answer['table']}, {answer['cell']}, {answer['peer']}"
                )
    progress.end()
    return process.returncode == 0 and not failed


def forget(results, section):
    """Take an earlier run of a section out of the results."""
    results["machines"].pop(section.name, None)
    results["runs"] = [
        r
        for r in results["runs"]
        if not r["table"].startswith(f"{section.name}/")
    ]
    for peer in results["peers"].values():
        peer["absent"].pop(section.name, None)


def in_order(results):
    """Sections and tables in the order in which they are shown."""
    results["sections"] = {
        name: section.described()
        for name, section in SECTIONS.items()
        if name in results["machines"]
    }
    results["tables"] = {}
    for name in results["sections"]:
        results["tables"].update(SECTIONS[name].described_tables())


def prepare_native(args):
    """A disk that holds nothing, and the sections that a real machine can
    measure.
    """
    if os.geteuid():
        sys.exit("bench: NATIVE=1 has to be run as root")
    lacking = {
        program: of
        for program, of in NEEDED.items()
        if not shutil.which(program)
    }
    if lacking:
        packages = " ".join(sorted(set(lacking.values())))
        sys.exit(
            f"bench: no {', '.join(lacking)} on this machine: apt install"
            f" {packages}"
        )
    if reason := scratch.refusal(args.disk):
        sys.exit(
            f"bench: {args.disk}: {reason}; give an empty disk that nobody"
            " needs"
        )
    counted = [name for name in args.only if SECTIONS[name].icount]
    args.only = [name for name in args.only if name not in counted]
    if counted:
        print(
            f"bench: {', '.join(counted)}: left out: it counts the"
            " instructions of an emulated CPU",
            file=sys.stderr,
        )
    if not args.only:
        sys.exit("bench: nothing is left to measure")


def save(results, path):
    """One line for every run: so that versions can be compared."""
    path.parent.mkdir(exist_ok=True)
    runs = ",\n".join(
        json.dumps(run, ensure_ascii=False) for run in results["runs"]
    )
    text = json.dumps({**results, "runs": []}, indent=1, ensure_ascii=False)
    head, _, tail = text.rpartition("[]")
    path.write_text(f"{head}[\n{runs}\n]{tail}\n")


def write(results, kernel, folder=PUBLISHED):
    """Publish results: the figures, their tables and their plots."""
    save(results, folder / f"{kernel}.json")
    report.write_tables(results, folder / f"{kernel}.md")
    report.write_page(results, folder / f"{kernel}.html")


def with_others(results, paths):
    """The results with the sections of the first file that is there."""
    for path in paths:
        if path.exists():
            before = json.loads(path.read_text())
            return {
                **before,
                **{key: results[key] for key in ("date", "commit", "host")},
            }
    return results


def main():
    args = parse_args()
    if args.native:
        prepare_native(args)
    path = (
        PROJECT
        / "build/bench"
        / ("native.json" if args.native else f"{args.kernel}.json")
    )
    results = host(args)
    if args.add:
        # What is to be published keeps what has been.
        published = [PUBLISHED / path.name] if args.write else []
        results = with_others(results, [*published, path])
    failed = []
    try:
        for name in args.only:
            forget(results, SECTIONS[name])
            if not measure(SECTIONS[name], args, results):
                failed.append(name)
            in_order(results)
            save(results, path)
    finally:
        if args.native:
            scratch.wipe(args.disk)
    print(report.terminal(results))
    print(f"bench: every figure: {path.relative_to(PROJECT)}", file=sys.stderr)
    if args.write:
        write(results, args.kernel)
    if failed:
        sys.exit(
            f"bench: not all of these could be measured: {', '.join(failed)}"
        )


if __name__ == "__main__":
    main()
