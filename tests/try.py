#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""`make try CASE=guard/hang`: one case, on one kernel in one mode.

Without KERNEL= and MODE= it is the first that the case runs on, the newest
kernel and side by side where that will do.
"""

import argparse
import os
import sys

import conftest


def find(name):
    """The file of a case, by GROUP/NAME, by NAME or by its path."""
    name = name.removeprefix("tests/cases/").rsplit(".", 1)[0]
    files = [*conftest.CASES.glob("*/*.sh"), *conftest.CASES.glob("*/*.py")]
    known = {path.parent.name + "/" + path.stem: path for path in sorted(files)}
    if name in known:
        return known[name]
    like = [case for case in known if name and name in case]
    same = [case for case in like if case.endswith(f"/{name}")]
    if len(same) == 1:
        return known[same[0]]
    hint = f"; like it: {', '.join(like)}" if like else ""
    sys.exit(f"try: no case {name!r} in tests/cases/{hint}")


def machine(headers, kernel, mode):
    """The options of pytest for the machine to run a case on."""
    if kernel == "debug":
        return ["--debug-kernel", *(["--mode", mode] if mode else [])]
    if headers["debug"] == "only":
        sys.exit("try: it runs on the debug kernel only: KERNEL=debug")
    if kernel in conftest.SERIES:
        return ["--kernel", kernel, *(["--mode", mode] if mode else [])]
    enough = [tuple(each.split("-", 1)) for each in headers["machines"].split()]
    modes = headers["modes"].split()
    if "modes" not in headers["given"]:
        modes.append("in-tree")
    pairs = [(k, m) for k in ("stable", "lts") for m in modes]
    pairs = [pair for pair in pairs if pair[0] in headers["kernels"].split()]
    # The drop-in module and the in-tree driver are for whoever asks for them.
    pairs.sort(key=lambda pair: conftest.MODES.index(pair[1]))
    for pair in [*enough, *pairs]:
        if kernel in ("", pair[0]) and mode in ("", pair[1]):
            return ["--everywhere", "--kernel", pair[0], "--mode", pair[1]]
    known = ", ".join(f"KERNEL={k} MODE={m}" for k, m in pairs)
    return sys.exit(f"try: it doesn't run there, but with {known}")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    kernels = [*conftest.KERNELS, *conftest.SERIES, "debug"]
    p.add_argument("--kernel", choices=["", *kernels], default="")
    p.add_argument("--mode", choices=["", *conftest.MODES], default="")
    p.add_argument("case", nargs="?", default="", metavar="GROUP/NAME")
    args = p.parse_args()
    if not args.case:
        sys.exit("try: which case? make try CASE=guard/hang")
    path = find(args.case)
    options = machine(conftest.read_headers(path), args.kernel, args.mode)
    os.chdir(conftest.PROJECT)
    pytest = [sys.executable, "-m", "pytest", "-q", "--at-once", "1"]
    os.execv(sys.executable, [*pytest, *options, str(path)])


if __name__ == "__main__":
    main()
