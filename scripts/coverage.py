#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""List the branches of the mapped path and of the file path that no test takes.

Usage: coverage.py [--all] RESULTS

RESULTS is a folder with results of the tests on the coverage kernel (`make
coverage`), where each machine has left gcov's counts. A branch that no machine
has taken is a fault, and is printed with its line, unless tests/coverage.toml
has a reason for it. A reason for a line that is gone, or whose branches have
all been taken, is a fault as well. --all prints the missed branches that have
a reason, too.

A line is known by its function and its text, as line numbers change with every
edit. The branches are those of floop.ko. The debug build has the same ones,
mostly in the same order, and then those of its broken rules and its windows, so
what it has taken counts, too, and the rest doesn't.
"""

import argparse
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

PROJECT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))
from machine.moving import Moving  # noqa: E402

REASONS = PROJECT / "tests" / "coverage.toml"
LIB = PROJECT / "machine" / "machine.sh"


def gcov(counts, scratch):
    """gcov's reports on the objects of one folder, of one machine.

    gcov is that of the module's compiler.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for gcda, notes in counts:
        for file in (gcda, notes):
            (scratch / file.name).write_bytes(file.read_bytes())
    files = [scratch / gcda.name for gcda, _ in counts]
    in_root = '. "$0"; in_root gcov -j -t -b "$@"'
    done = subprocess.run(
        ["bash", "-c", in_root, LIB, *files],
        capture_output=True,
        text=True,
        check=False,
    )
    # It only says so if the counts are another build's.
    if done.returncode or done.stderr:
        sys.exit(f"coverage.py: gcov: {done.stderr.strip()}")
    return [
        json.loads(line)
        for line in done.stdout.splitlines()
        if line.startswith("{")
    ]


class Line:
    def __init__(self, file, number, function):
        self.file = file
        self.number = number
        text = (PROJECT / "kernel" / file).read_text().splitlines()
        self.text = text[number - 1].strip()
        self.key = (file, function, self.text)
        self.branches = []

    def add(self, counts):
        if not self.branches:
            self.branches = [0] * len(counts)
        self.branches = [
            a + b for a, b in zip(self.branches, counts, strict=False)
        ]

    @property
    def missed(self):
        # gcov computes most counts, and gets -1 where one was lost.
        return sum(count <= 0 for count in self.branches)


def objects(results, files):
    """The counts of these files: lists of (counts, notes), a machine each."""
    for folder in sorted(results.glob("**/coverage-*")):
        if not re.fullmatch(r"coverage-\d+", folder.name):
            continue
        found = collections.defaultdict(list)
        for gcda in sorted(folder.rglob("*.gcda")):
            if f"{gcda.stem}.c" in files:
                # Its path below the folder is the one where it was built.
                notes = pathlib.Path("/", gcda.relative_to(folder))
                found[notes.parent].append((gcda, notes.with_suffix(".gcno")))
        for build, counts in found.items():
            yield build.name == "debug", counts


def read_counts(results, files):
    """The lines with branches: of floop.ko, and of its debug build."""
    builds = {False: {}, True: {}}
    scratch = PROJECT / "build" / "coverage"
    for debug, counts in objects(results, files):
        lines = builds[debug]
        for report in gcov(counts, scratch):
            for source in report["files"]:
                file = pathlib.Path(source["file"]).name
                if file not in files:
                    continue
                for line in source["lines"]:
                    if not line["branches"]:
                        continue
                    where = (
                        file,
                        line["line_number"],
                        line.get("function_name", "?"),
                    )
                    if where not in lines:
                        lines[where] = Line(*where)
                    lines[where].add(
                        [branch["count"] for branch in line["branches"]]
                    )
    lines, debug = builds[False], builds[True]
    for where in lines.keys() & debug.keys():
        lines[where].add(debug[where].branches)
    return [lines[where] for where in sorted(lines)]


class Reasons:
    """tests/coverage.toml."""

    def __init__(self):
        with REASONS.open("rb") as f:
            told = tomllib.load(f)
        self.files = told["files"]
        texts = {}
        for file in self.files:
            path = PROJECT / "kernel" / file
            if not path.exists():
                sys.exit(f"coverage.py: {REASONS.name}: no kernel/{file}")
            texts[file] = {
                line.strip() for line in path.read_text().splitlines()
            }
        self.macros = {m["name"]: m for m in told.get("macros", [])}
        self.unused_macros = set(self.macros)
        self.lines = collections.Counter()
        self.gone = collections.Counter()
        self.may_be_taken = set()
        for entry in told.get("unreached", []):
            for line in entry["lines"]:
                where, text = line.split(": ", 1)
                key = (*where.split(), text)
                if text not in texts[key[0]]:
                    self.gone[key] += 1
                    continue
                self.lines[key] += 1
                if entry.get("by_chance"):
                    self.may_be_taken.add(key)

    def of_macros(self, line):
        """How many of its missed branches the kernel's macros have."""
        used = [m for m in self.macros if re.search(rf"\b{m}\(", line.text)]
        self.unused_macros -= set(used)
        return min(line.missed, sum(self.macros[m]["branches"] for m in used))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("results", type=pathlib.Path)
    arguments = parser.parse_args()
    reasons = Reasons()
    with Moving("coverage: gcov's counts of each machine"):
        lines = read_counts(arguments.results.resolve(), reasons.files)
    if not lines:
        sys.exit(
            f"coverage.py: {arguments.results} has no counts:"
            " was that the coverage kernel?"
        )

    columns = ("branches", "macros", "taken", "reasons")
    table = {file: dict.fromkeys(columns, 0) for file in reasons.files}
    faults = 0
    left = reasons.lines.copy()
    for line in lines:
        row = table[line.file]
        of_macros = reasons.of_macros(line)
        missed = line.missed - of_macros
        told = min(missed, left[line.key])
        left[line.key] -= told
        row["branches"] += len(line.branches)
        row["taken"] += len(line.branches) - line.missed
        row["macros"] += of_macros
        row["reasons"] += told
        faults += missed - told
        if missed - told or (missed and arguments.all):
            print(
                f"kernel/{line.file}:{line.number}: {line.key[1]}():"
                f" {missed} of {len(line.branches)} branches never taken"
                f"{' (reason known)' if missed == told else ''}: {line.text}"
            )
    for key, n in sorted(left.items()):
        if n and key not in reasons.may_be_taken:
            faults += n
            where = "{}: {}(): {!r}".format(*key)
            print(f"{where}: {n} reasons too many: no such branch was missed")
    for (file, function, text), n in sorted(reasons.gone.items()):
        faults += n
        print(f"{file}: {function}(): {text!r}: no such line")
    for name in sorted(reasons.unused_macros):
        faults += 1
        print(f"macro {name}: no line with branches has it")

    total = {c: sum(row[c] for row in table.values()) for c in columns}
    print("\n" + f"{'file':<12}" + "".join(f"{c:>10}" for c in columns))
    for file, row in (*table.items(), ("all", total)):
        print(f"{file:<12}" + "".join(f"{row[c]:>10}" for c in columns))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
