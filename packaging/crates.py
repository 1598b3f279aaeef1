#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print the licences of the crates that are linked into the command.

Cargo knows which crates, and has their sources. Their licences ask for a copy
of the copyright notices and of the text beside a program that has the code. A
text that several crates have is printed once. Of a crate under MIT or another
licence, at one's choice, it is MIT's.
"""

import json
import pathlib
import subprocess
import sys

CARGO = ("--locked", "--manifest-path", "cli/Cargo.toml")


def cargo(*words):
    return subprocess.run(
        ["cargo", *words, *CARGO], check=True, capture_output=True, text=True
    ).stdout


def linked():
    """Names and versions, as "name v1.2", without what only the build runs."""
    # A build dependency isn't linked, and neither is a procedural macro.
    tree = cargo(
        "tree",
        *("--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe"),
        *("--format", "{p}"),
    )
    names = {" ".join(line.split()[:2]) for line in tree.splitlines() if line}
    return {name for name in names if not name.startswith("floop ")}


def packages():
    host = subprocess.run(
        ["rustc", "--print", "host-tuple"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    words = ("metadata", "--format-version", "1", "--filter-platform", host)
    found = json.loads(cargo(*words))["packages"]
    return {f"{one['name']} v{one['version']}": one for one in found}


def texts(package):
    """What its licence files say: MIT's, where it has that, and notices."""
    folder = pathlib.Path(package["manifest_path"]).parent
    words = ("licen", "copying", "copyright", "notice", "unlicense")
    files = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and path.name.lower().startswith(words)
    )
    others = ("apache", "boost", "bsl", "unlicense")
    if any("mit" in path.name.lower() for path in files):
        files = [
            path
            for path in files
            if not any(word in path.name.lower() for word in others)
        ]
    return [path.read_text(encoding="utf-8").strip() for path in files]


def main():
    known = packages()
    print("The crates that the command has in it, and their licences.")
    print("Rust's standard library is in it, too: MIT OR Apache-2.0.")
    having = {}
    for name in sorted(linked()):
        package = known[name]
        by = ", ".join(package["authors"]) or "its authors"
        print(f"\n{name}: {package['license']}\n  by {by}")
        if package["repository"]:
            print(f"  {package['repository']}")
        for text in texts(package) or [""]:
            having.setdefault(text, []).append(name)
    without = having.pop("", [])
    for text, names in having.items():
        print(f"\n{'-' * 80}\n{', '.join(names)}:\n\n{text}")
    if without:
        print(f"\n{'-' * 80}\nwithout a text of their own: ", end="")
        print(", ".join(without))


if __name__ == "__main__":
    sys.exit(main())
