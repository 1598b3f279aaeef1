#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check that sources and prose wrap at 80 columns; `make lint` runs it.

Exceptions: rows of tables in Markdown, a word that is wider by itself (an
address, say), and strings in C and shell, so that a search finds them.
"""

import pathlib
import re
import subprocess
import sys

COLUMNS = 80
SOURCES = {".c", ".h", ".rs", ".py", ".sh", ".md", ".pml", ".toml"}
NAMES = {"Kbuild", "Makefile"}
NOT = (
    # Generated, and patches
    "bench/results/",
    "tests/planted/",
    # Data: names of kernel functions, each with its reason
    "scripts/block-changers.toml",
    "tests/coverage.toml",
)


def is_checked(path):
    if path.as_posix().startswith(NOT) or not path.is_file():
        return False
    if path.suffix in SOURCES or path.name in NAMES:
        return True
    return not path.suffix and path.read_bytes().startswith(b"#!")


def may_be_wider(path, line):
    text = line.strip()
    if path.suffix == ".md" and text.startswith("|"):
        return True
    # Messages and patterns stay whole, so that a search finds them.
    if path.suffix in (".c", ".h", ".sh"):
        strings = re.finditer(r"\"[^\"]*\"|'[^']*'", line)
        if any(s.start() < COLUMNS <= s.end() for s in strings):
            return True
    # A line without a space can't be wrapped.
    return " " not in re.sub(r"^(#|//|\*|-|>)+ ", "", text)


def main():
    names = subprocess.check_output(["git", "ls-files", "-z"], text=True)
    bad = 0
    for name in sorted(set(names.split("\0")) - {""}):
        path = pathlib.Path(name)
        if not is_checked(path):
            continue
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines, start=1):
            line = line.expandtabs(8)
            if len(line) > COLUMNS and not may_be_wider(path, line):
                print(f"{name}:{number}: {len(line)} columns")
                bad += 1
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
