#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Write the tables of docs/hosts.md from the results of tests/cases/hosts/.

Each case leaves its rows in build/hosts/KERNEL-CASE, also if the page differs.
A table stands after the line <!-- CASE ... -->.
"""

import pathlib
import sys

PROJECT = pathlib.Path(__file__).resolve().parent.parent
PAGE = PROJECT / "docs" / "hosts.md"
FOUND = PROJECT / "build" / "hosts"
KERNELS = ("lts", "stable")
HEAD = (
    "host",
    "kernel",
    "disk's sectors",
    "direct asked for",
    "sectors",
    "direct",
    "mapped",
)


def rows_of(kernel, case):
    path = FOUND / f"{kernel}-{case}"
    if not path.exists():
        sys.exit(
            f"hosts-table: {case} found nothing on {kernel}:"
            " did it fail before its end?"
        )
    return [tuple(line.split("|")) for line in path.read_text().splitlines()]


def table(case):
    """All hosts in the order of the case, each with both kernels' rows."""
    found = {kernel: rows_of(kernel, case) for kernel in KERNELS}
    hosts = list(
        dict.fromkeys(row[0] for kernel in KERNELS for row in found[kernel])
    )
    lines = [f"| {' | '.join(HEAD)} |", "|---|---|---:|---|---:|---|---|"]
    for host in hosts:
        rows = [
            row for kernel in KERNELS for row in found[kernel] if row[0] == host
        ]
        for row in dict.fromkeys(rows):
            kernels = [kernel for kernel in KERNELS if row in found[kernel]]
            name = "both" if len(kernels) == len(KERNELS) else kernels[0]
            lines.append(f"| {' | '.join((row[0], name, *row[1:]))} |")
    return lines


def main():
    old, new = PAGE.read_text().splitlines(), []
    skip = False
    for line in old:
        if skip and line.startswith("|"):
            continue
        skip = skip and not line
        new.append(line)
        if line.startswith("<!-- "):
            new += ["", *table(line.split()[1])]
            skip = True
    # The blank line before the old table
    text = "\n".join(new).replace("\n\n\n", "\n\n") + "\n"
    PAGE.write_text(text)
    print(f"hosts-table: wrote {PAGE.relative_to(PROJECT)}")


if __name__ == "__main__":
    main()
