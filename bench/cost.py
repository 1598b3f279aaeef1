#!/usr/bin/env python3
"""What an I/O costs: instructions and context switches, of floop and of what it is compared with.

Boots the test machine with --icount, has guest.py run fio there, and prints the table. The figures
of the run go to build/bench-cost.json, and with --write into docs/benchmarks.md as well.
"""

import argparse
import json
import platform
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

from guest import DEPTHS, PATTERNS, SPARSE_TARGETS, TARGETS

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "build/bench-cost.json"
PAGE = PROJECT / "docs/benchmarks.md"
TITLES = {
    "ram": "the RAM disk (brd)",
    "file": "the file, through xfs",
    "dm-linear": "dm-linear over the RAM disk",
    "floop-mapped": "floop, mapped",
    "loop-direct": "loop, direct",
    "floop-direct": "floop, direct",
    "loop-buffered": "loop, buffered",
    "floop-buffered": "floop, buffered",
    "floop-mapped-2": "floop, mapped, an image in an image",
    "floop-mapped-3": "floop, mapped, three levels",
    "loop-direct-2": "loop, direct, an image in an image",
    "loop-direct-3": "loop, direct, three levels",
}
CELLS = [(pattern, depth) for pattern in PATTERNS for depth in DEPTHS]
HEADER = ["device", *(f"{pattern} qd{depth}" for pattern, depth in CELLS)]


def parse_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--kernel", choices=["lts", "stable"], default="stable")
    p.add_argument("--rounds", type=int, default=5, help="default 5")
    p.add_argument("--ios", type=int, default=10_000, help="I/Os a cell and round; default 10000")
    p.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    args = p.parse_args()
    if args.rounds < 1 or not 1 <= args.ios <= 16_384:
        p.error("at least one round, and 1 to 16384 I/Os")
    return args


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def host(args):
    """What the figures were made with, as far as it can be told from outside."""
    commit = output("git", "-C", PROJECT, "rev-parse", "--short=12", "HEAD")
    changed = output("git", "-C", PROJECT, "status", "--porcelain", "--", "kernel")
    with open("/proc/cpuinfo") as file:
        cpu = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit + ("+changes" if changed else ""),
        "suite": args.kernel,
        "qemu": output("qemu-system-x86_64", "--version").splitlines()[0],
        "host_cpu": cpu[1] if cpu else platform.machine(),
        "rounds": args.rounds,
        "ios": args.ios,
    }


def progress(done, total, started, text):
    """One line that is written over, or with no terminal a line now and then."""
    spent = time.monotonic() - started
    left = f", {spent / done * (total - done):.0f} s left" if done else ""
    line = f"bench-cost: {done}/{total} runs, {spent:.0f} s{left}: {text}"
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="" if done < total else "\n", file=sys.stderr, flush=True)
    elif done % len(TARGETS) == 0:
        print(line, file=sys.stderr, flush=True)


def measure(args):
    """Run guest.py in the machine: its description, and the runs by cell."""
    vm = [PROJECT / "vm", "--kernel", args.kernel, "--icount", "--memory", "2G", "--"]
    vm += ["python3", "bench/guest.py", "--rounds", str(args.rounds), "--ios", str(args.ios)]
    total = args.rounds * (len(CELLS) * len(TARGETS) + len(DEPTHS) * len(SPARSE_TARGETS))
    runs, machine = {}, {}
    print("bench-cost: booting the test machine, making the image", file=sys.stderr, flush=True)
    started = time.monotonic()
    with subprocess.Popen(vm, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as process:
        for line in process.stdout:
            answer = json.loads(line)
            if "machine" in answer:
                machine = answer["machine"]
                started = time.monotonic()
                continue
            key = answer["target"], answer["pattern"], answer["depth"]
            runs.setdefault(key, []).append(answer)
            done = sum(map(len, runs.values()))
            progress(done, total, started, f"{TITLES[key[0]]}, {key[1]} qd{key[2]}")
    if process.returncode:
        sys.exit(process.returncode)
    return machine, runs


def summary(runs, measure_name):
    """Median, least and most of a measure, by cell."""
    result = {}
    for key, cell in runs.items():
        values = [run[measure_name] for run in cell]
        result[key] = (statistics.median(values), min(values), max(values))
    return result


def compared(runs, measure_name):
    """floop's figure over loop's of the same round: the median, by cell of floop."""
    result = {}
    for (target, pattern, depth), cell in runs.items():
        if target not in ("floop-direct", "floop-buffered"):
            continue
        peers = runs[target.removeprefix("f"), pattern, depth]
        pairs = zip(cell, peers, strict=True)
        ratios = [ours[measure_name] / max(theirs[measure_name], 1e-9) for ours, theirs in pairs]
        result[target, pattern, depth] = statistics.median(ratios)
    return result


def percent(ratio):
    """A ratio to loop, in words."""
    change = round(100 * (ratio - 1))
    if change == 0:
        return "the same"
    return f"{abs(change)} % {'above' if change > 0 else 'below'}"


def table(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|---" + "|---:" * (len(rows[0]) - 1) + "|")
    return "\n".join(lines)


def figures(runs, name, form):
    """A table of one measure: median (least..most)."""
    values = summary(runs, name)
    rows = [HEADER]
    for target in TARGETS:
        row = [TITLES[target.name]]
        for cell in CELLS:
            row.append("{} ({}..{})".format(*map(form, values[target.name, *cell])))
        rows.append(row)
    return table(rows)


def sparse(runs):
    """Random writes to an image of which half is written: instructions, switches, into holes."""
    columns = [f"{name} qd{depth}" for name in ("instructions", "switches") for depth in DEPTHS]
    rows = [["device", *columns, "into holes"]]
    values = {name: summary(runs, name) for name in ("instructions", "switches")}
    for target in SPARSE_TARGETS:
        keys = [(target.name, "sparse", depth) for depth in DEPTHS]
        row = [TITLES[target.name]]
        row += ["{:,.0f} ({:,.0f}..{:,.0f})".format(*values["instructions"][key]) for key in keys]
        row += ["{:.2f} ({:.2f}..{:.2f})".format(*values["switches"][key]) for key in keys]
        holes = [run["allocated"] for key in keys for run in runs[key]]
        rows.append([*row, f"{statistics.median(holes):.0%}"])
    return table(rows)


def comparison(runs):
    """How far below loop floop is, in every cell."""
    rows = [["floop against loop", *HEADER[1:]]]
    for name, title in (("instructions", "instructions"), ("switches", "switches")):
        ratios = compared(runs, name)
        for mode in ("direct", "buffered"):
            row = [f"{title}, {mode}"]
            row += [percent(ratios[f"floop-{mode}", *cell]) for cell in CELLS]
            rows.append(row)
    return table(rows)


def report(meta, runs):
    """The generated part of docs/benchmarks.md."""
    machine = meta["machine"]
    return "\n\n".join(
        [
            f"Linux {machine['kernel']}, {machine['fio']}, {meta['qemu']}, on {meta['host_cpu']};"
            f" {meta['date']}, commit {meta['commit']}. {meta['ios']:,} I/Os a run; the median"
            f" (least..most) of this many rounds: {meta['rounds']}.",
            "Instructions per 4 KiB I/O, fio's own included:",
            figures(runs, "instructions", lambda value: f"{value:,.0f}"),
            "Context switches per I/O, of the whole machine:",
            figures(runs, "switches", lambda value: f"{value:.2f}"),
            "How far floop is from the in-tree driver (median of the ratios within a round):",
            comparison(runs),
            "Random writes of 4 KiB to a sparse image of which half is written:",
            sparse(runs),
        ]
    )


def put_into_page(suite, text):
    """Replace what stands between the page's markers for this kernel."""
    begin, end = f"<!-- bench-cost {suite} -->", f"<!-- end of bench-cost {suite} -->"
    page = PAGE.read_text()
    if begin not in page or end not in page:
        sys.exit(f"bench-cost: {PAGE} has no place marked {begin}")
    before, rest = page.split(begin, 1)
    after = rest.split(end, 1)[1]
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def main():
    args = parse_args()
    meta = host(args)
    meta["machine"], runs = measure(args)
    cells = [
        {"target": target, "pattern": pattern, "depth": depth, "runs": cell}
        for (target, pattern, depth), cell in runs.items()
    ]
    RESULTS.write_text(json.dumps({**meta, "cells": cells}, indent=1) + "\n")
    text = report(meta, runs)
    print(text)
    print(f"bench-cost: the figures of every run: {RESULTS.relative_to(PROJECT)}", file=sys.stderr)
    if args.write:
        put_into_page(args.kernel, text)
        print(f"bench-cost: written to {PAGE.relative_to(PROJECT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
