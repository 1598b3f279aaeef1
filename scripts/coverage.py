#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""List the branches of the mapped path and of the file path that no test takes.

Usage: coverage.py RESULTS

RESULTS is the folder of a run of the tests on the coverage kernel (`make
coverage`), where each machine has left gcov's counts. A branch that no machine
has taken is a fault, and is printed with its line, unless tests/coverage.toml
has a reason for it. A reason for a line that is gone, or whose branches have
all been taken, is a fault as well.

A line is known by its function and its text, as line numbers change with every
edit. A branch counts as taken if any build (floop.ko, the debug build)
has taken it.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tomllib

PROJECT = pathlib.Path(__file__).resolve().parent.parent
REASONS = PROJECT / "tests" / "coverage.toml"
LIB = PROJECT / "machine" / "machine.sh"


def gcov(counts, notes, scratch):
    """gcov's report on one object; gcov is that of the module's compiler."""
    scratch.mkdir(parents=True, exist_ok=True)
    for file in (counts, notes):
        (scratch / file.name).write_bytes(file.read_bytes())
    in_root = '. "$0"; in_root gcov -j -t -b "$1"'
    done = subprocess.run(
        ["bash", "-c", in_root, LIB, scratch / counts.name],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"coverage.py: gcov {counts}: {done.stderr.strip()}")
    return [
        json.loads(line)
        for line in done.stdout.splitlines()
        if line.startswith("{")
    ]


class Line:
    def __init__(self, file, number, function):
        self.file = file
        self.number = number
        self.function = function
        text = (PROJECT / "kernel" / file).read_text().splitlines()
        self.text = text[number - 1].strip()
        self.branches = []

    def add(self, counts):
        # The same line may have fewer branches in another build.
        while len(self.branches) < len(counts):
            self.branches.append(0)
        for n, count in enumerate(counts):
            self.branches[n] += count

    @property
    def key(self):
        return self.file, self.function, self.text

    @property
    def missed(self):
        return self.branches.count(0)


def read_counts(results, files):
    """The lines with branches, by file and number."""
    lines = {}
    scratch = PROJECT / "build" / "coverage"
    for number, counts in enumerate(
        sorted(results.glob("*/coverage-*/**/*.gcda"))
    ):
        file = f"{counts.stem}.c"
        if file not in files:
            continue
        # Its path below coverage-N is the one where it was built.
        at = counts.relative_to(results).parts[2:]
        notes = pathlib.Path("/", *at).with_suffix(".gcno")
        for report in gcov(counts, notes, scratch / str(number)):
            for source in report["files"]:
                if pathlib.Path(source["file"]).name != file:
                    continue
                for line in source["lines"]:
                    if not line["branches"]:
                        continue
                    where = (file, line["line_number"])
                    if where not in lines:
                        lines[where] = Line(
                            *where, line.get("function_name", "?")
                        )
                    lines[where].add(
                        [branch["count"] for branch in line["branches"]]
                    )
    return lines


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: coverage.py RESULTS")
    with REASONS.open("rb") as f:
        told = tomllib.load(f)
    files = told["files"]
    for file in files:
        if not (PROJECT / "kernel" / file).exists():
            sys.exit(f"coverage.py: {REASONS.name}: kernel/{file} isn't there")
    reasons = {}
    for entry in told.get("unreached", []):
        for text in entry["lines"]:
            reasons[entry["file"], entry["function"], text] = entry["why"]
    lines = read_counts(pathlib.Path(sys.argv[1]).resolve(), files)
    if not lines:
        sys.exit(
            f"coverage.py: {sys.argv[1]} has no counts:"
            " was that the coverage kernel?"
        )

    total, missed, faults = collections.Counter(), collections.Counter(), 0
    excused = set()
    for _, line in sorted(lines.items()):
        total[line.file] += len(line.branches)
        missed[line.file] += line.missed
        if not line.missed:
            continue
        if line.key in reasons:
            excused.add(line.key)
            continue
        faults += 1
        print(
            f"kernel/{line.file}:{line.number}: {line.function}():"
            f" {line.missed} of {len(line.branches)} branches never taken:"
            f" {line.text}"
        )
    for key in sorted(reasons.keys() - excused):
        faults += 1
        where = "{}: {}(): {!r}".format(*key)
        print(f"{where}: has a reason, but no branch that was missed")
    print(f"\n{'file':<12} {'branches':>8} {'taken':>8} {'%':>6}")
    for file in files:
        taken = total[file] - missed[file]
        share = 100 * taken / max(total[file], 1)
        print(f"{file:<12} {total[file]:>8} {taken:>8} {share:>6.1f}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
