#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Plant each bug of tests/planted/ and see that a test notices it.

A bug is a patch, NAME.patch, whose head says in three lines what it is:

  Bug: the mend that it takes out, or the mistake that it makes
  Harm: what it would do to a user
  By: the cases that should notice it, likeliest first, as guard/hang,
      guard/hang:lts, guard/hang:debug or guard/hang:drop-in;
      native/test_show; model:SETTING

or, instead of By, "Unnoticed: " and the reason why no test can.

Each is planted in a copy of the sources as they are committed, below
build/planted/. A case that fails there, and passes without it, has noticed it.
Where none of By does, all tests run, those on the stable kernel side by side
first, until one fails that passes without the bug. A patch that no longer
applies or builds is a failure, and so is less than 95 % that is noticed. What
has been found out for the same sources is not run again, so it goes on where it
was stopped.
"""

import argparse
import concurrent.futures
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time

PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent
PLANTED = PROJECT / "tests" / "planted"
BUILD = PROJECT / "build" / "planted"
sys.path[:0] = [str(PROJECT / "tests"), str(PROJECT)]
from conftest import read_headers  # noqa: E402

from machine.moving import Moving  # noqa: E402

# A copy of the sources shares these with this one: they take long to make.
SHARED = (
    "emulator",
    "root",
    "root.img",
    "venv",
    "src",
    "debug-kernel",
    "kvm",
    "users.img",
    "users.stamp",
)
# The parts of `make test`, the one that notices most first.
WHOLE = (
    ("tests", "--kernel", "stable", "--mode", "side-by-side"),
    ("tests/cases", "--kernel", "stable", "--mode", "drop-in"),
    ("tests/cases", "--kernel", "lts"),
)
ENOUGH = 95  # percent
running = {}  # by thread, what it runs
moving = Moving(lambda: ", ".join(running.values()), sys.stdout)
clean_lock = threading.Lock()


class Failure(Exception):
    pass


def say(text):
    moving.say(text)


def begin(text):
    """Say what runs from now on, and show it while it does."""
    running[threading.get_ident()] = text
    say(f"{text} ...")


def git(*args, cwd=PROJECT):
    done = subprocess.run(
        ["git", *args], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failure(done.stderr.strip() or f"git {args[0]} failed")
    return done.stdout


@dataclasses.dataclass
class Bug:
    """A patch, and what its head says."""

    patch: pathlib.Path
    bug: str
    harm: str
    by: list
    unnoticed: str
    files: list

    @property
    def name(self):
        return self.patch.stem

    def changes(self, folder):
        return any(file.startswith(f"{folder}/") for file in self.files)


def read_bug(patch):
    words = {}
    text = patch.read_text()
    head, _, diff = text.partition("\n---\n")
    for line in head.splitlines():
        word, colon, rest = line.partition(": ")
        if colon and word in ("Bug", "Harm", "By", "Unnoticed"):
            words[word] = rest.strip()
        elif words and line.startswith(" "):
            words[list(words)[-1]] += " " + line.strip()
    for word in "Bug", "Harm":
        if word not in words:
            raise Failure(f"{patch.name}: its head has no {word}")
    if ("By" in words) == ("Unnoticed" in words):
        raise Failure(
            f"{patch.name}: its head has to have one of By and Unnoticed"
        )
    return Bug(
        patch,
        words["Bug"],
        words["Harm"],
        words.get("By", "").split(),
        words.get("Unnoticed", ""),
        re.findall(r"^\+\+\+ b/(\S+)", diff, re.MULTILINE),
    )


def run(command, cwd, log):
    """Run a command, all that it says to a log; its exit status."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    return done.returncode


def bring_up_to_date(folder):
    """Make a copy of the sources what is committed.

    What is as it was keeps its time.
    """
    archive = subprocess.run(
        ["git", "archive", "HEAD"],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        check=True,
    )
    there = set()
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        for file in files:
            path = folder / file.name
            there.add(path)
            if not file.isfile():
                files.extract(file, folder, filter="tar")
                continue
            data = files.extractfile(file).read()
            if path.is_file() and path.read_bytes() == data:
                continue
            path.unlink(missing_ok=True)
            path.write_bytes(data)
            path.chmod(file.mode)
    for top, folders, names in os.walk(folder):
        top = pathlib.Path(top)
        if top in (folder, folder / "cli"):
            folders[:] = set(folders) - {"build", "target"}
        for name in names:
            if top / name not in there:
                (top / name).unlink()


def plant(folder, bug):
    """A copy of what is committed, with the patch in it, and the command built.

    A copy is used again for the next bug: what a patch doesn't change has been
    built there.
    """
    if not (folder / "build").exists():
        (folder / "build").mkdir(parents=True)
        for name in SHARED:
            if (PROJECT / "build" / name).exists():
                (folder / "build" / name).symlink_to(PROJECT / "build" / name)
        (folder / "cli").mkdir()
        for name in "build/modules", "build/programs", "cli/target":
            if (PROJECT / name).exists():
                subprocess.run(
                    ["cp", "-a", PROJECT / name, folder / name], check=True
                )
    shutil.rmtree(folder / "build" / "test", ignore_errors=True)
    for log in (folder / "build").glob("*.log"):
        log.unlink()
    bring_up_to_date(folder)
    if bug:
        # Not part of a repository: "git apply" would look at the one around it.
        done = subprocess.run(
            ["patch", "-p1", "--batch", "--fuzz=0", "-i", bug.patch],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Failure(
                f"doesn't apply any more: {' '.join(done.stdout.split())}"
            )
    made = folder / "cli/target/release/floop"
    if bug and bug.changes("cli"):
        log = folder / "build" / "command.log"
        command = [
            "cargo",
            "build",
            "--release",
            "--manifest-path",
            "cli/Cargo.toml",
        ]
        if run(command, folder, log):
            said = " ".join(log.read_text().split())
            raise Failure(f"the command doesn't build: {said}")
    else:
        # Not over what cargo has linked there
        made.unlink(missing_ok=True)
        shutil.copy2(PROJECT / "cli/target/release/floop", made)


def machine_for(path, where):
    """The options for a case to run once, on a machine that it can run on.

    where is a kernel or a mode, or empty.
    """
    headers = read_headers(path)
    if where == "debug" or headers["debug"] == "only":
        if headers["debug"] == "no" or headers["init"]:
            raise Failure(f"{path.stem} doesn't run on the debug kernel")
        return ["--debug-kernel"]
    pairs = [
        (k, m)
        for k in headers["kernels"].split()
        for m in headers["modes"].split()
    ]
    usual = [
        tuple(m.split("-", 1)) for m in headers["machines"].split()
    ] or pairs
    # The stable kernel rather than the other; side by side rather than in
    # loop's place.
    for machines in usual, pairs:
        fits = sorted(
            (k != "stable", m != "side-by-side", k, m)
            for k, m in machines
            if m != "in-tree" and where in ("", k, m)
        )
        if fits:
            options = ["--kernel", fits[0][2], "--mode", fits[0][3]]
            return options + (["--everywhere"] if machines is pairs else [])
    raise Failure(f"{path.stem} doesn't run on {where or 'any kernel'}")


def pytest_in(folder, arguments, log):
    """Run tests in a copy; which one fails first, or "" if all pass."""
    status = run(["build/venv/bin/pytest", "-q", *arguments], folder, log)
    said = log.read_text(errors="replace")
    # 5: there was nothing to run.
    if status not in (0, 1, 5) or "failed: the module for" in said:
        raise Failure(f"exit status {status}: {log}")
    # No bug is noticed by a machine that nothing ran in.
    if "not run: the machine does not come up" in said:
        raise Failure(f"the machine does not come up: {log}")
    if status != 1:
        return ""
    failed = re.search(
        r"^(?:FAILED|ERROR) (?:tests/(?:cases/)?)?(\S+)", said, re.MULTILINE
    )
    return failed[1] if failed else "?"


passed = {}  # by the arguments of a run without any bug, whether it passed


def passes_without(arguments):
    """Whether tests pass without any bug, too."""
    with clean_lock:
        known = passed.get(tuple(arguments))
        if known is None:
            known = passed[tuple(arguments)] = run_clean(arguments)
        return known


def run_clean(arguments):
    """Run tests without any bug; whether they pass."""
    clean = BUILD / "clean"
    plant(clean, None)
    return not pytest_in(clean, arguments, clean / "build" / "again.log")


def kind_of(folder, by):
    """How to run one case of By: what goes together, the case, its options."""
    name, _, where = by.partition(":")
    if name == "model":
        return ("model", by), where, []
    if name.startswith("native/"):
        return ("native",), f"tests/{name}.py", []
    found = list((folder / "tests/cases").glob(f"{name}.*"))
    if len(found) != 1:
        raise Failure(f"there is no case {name}")
    options = machine_for(found[0], where)
    return ("cases", *options), str(found[0].relative_to(folder)), options


def run_group(folder, number, group):
    """Run cases of By that share their options; who notices.

    They run in one machine if they can.
    """
    log = folder / "build" / f"by-{number}.log"
    paths = [path for _, path, _ in group]
    if group[0][0].startswith("model:"):
        status = run(["model/check.py", paths[0]], folder, log)
        if status not in (0, 1):
            raise Failure(
                f"{group[0][0]} didn't run, exit status {status}: {log}"
            )
        return group[0][0] if status else ""
    arguments = ["-x", "--at-once", "1", *paths, *group[0][2]]
    failed = pytest_in(folder, arguments, log)
    said = log.read_text(errors="replace")
    if not failed and "no tests ran" in said:
        raise Failure(f"{' '.join(paths)} didn't run: {log}")
    if not failed:
        return ""
    by, path = next(
        (
            (by, path)
            for by, path, _ in group
            if path.partition("tests/")[2].removeprefix("cases/")
            == failed.partition("::")[0]
        ),
        (failed, None),
    )
    # The case may have a mistake of its own, or the host may be slow.
    if not passes_without(
        ["--at-once", "1", *([path] if path else paths), *group[0][2]]
    ):
        raise Failure(f"{failed} fails without the bug, too: {log}")
    return by


def run_by(folder, bug):
    """Run the cases of By there until one notices; which one."""
    groups = {}
    for by in bug.by:
        kind, path, options = kind_of(folder, by)
        groups.setdefault(kind, []).append((by, path, options))
    for number, group in enumerate(groups.values(), 1):
        begin(f"{bug.name}: {' '.join(by for by, _, _ in group)}")
        by = run_group(folder, number, group)
        if by:
            return by
    return ""


def node_of(log):
    """The first test that failed, as pytest takes it."""
    failed = re.search(
        r"^(?:FAILED|ERROR) (\S+)",
        log.read_text(errors="replace"),
        re.MULTILINE,
    )
    return failed[1] if failed else ""


def run_whole(folder, at_once):
    """Run all tests there until one fails; which one."""
    for number, part in enumerate(WHOLE, 1):
        log = folder / "build" / f"whole-{number}.log"
        failed = pytest_in(
            folder, ["-x", "--at-once", str(at_once), *part], log
        )
        if not failed:
            continue
        # It fails for the bug only if it passes without.
        test = node_of(log).partition("[")[0].partition("::")[0]
        if not passes_without(["--at-once", str(at_once), test, *part[1:]]):
            raise Failure(f"{failed} fails without the bug, too")
        return failed
    return ""


def notice(bug, folder, args):
    """Who notices the bug; "" if nobody does."""
    plant(folder, bug)
    try:
        by = run_by(folder, bug)
        if by:
            return f"`{by}`"
        if bug.unnoticed or args.by_only:
            return ""
        begin(f"{bug.name}: all tests")
        failed = run_whole(folder, max(1, os.cpu_count() // args.at_once))
        return f"`{failed}`, of all tests" if failed else ""
    finally:
        kept = BUILD / "logs" / bug.name
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        for log in (folder / "build").glob("*.log"):
            shutil.copy(log, kept)


def stamp_of(bug):
    """What the result depends on, as it is committed."""
    cases = {by.partition(":")[0] for by in bug.by}
    paths = ["tests/guest", "tests/lib", "tests/programs"]
    paths += (
        ["cli", "tests/native"] if bug.changes("cli") else ["kernel", "model"]
    )
    listed = git("ls-tree", "-d", "HEAD", "--", *paths).splitlines()
    listed += [
        line
        for line in git(
            "ls-tree", "-r", "HEAD", "--", "tests/cases"
        ).splitlines()
        if line.partition("tests/cases/")[2].rpartition(".")[0] in cases
    ]
    text = "\n".join(listed).encode() + bug.patch.read_bytes()
    return hashlib.sha256(text).hexdigest()


def find_out(bug, args):
    """The result for one bug, kept from an earlier run if there is one."""
    kept = BUILD / f"{bug.name}.json"
    stamp = stamp_of(bug)
    if kept.exists():
        result = json.loads(kept.read_text())
        told = result["good"] or result.get("whole") or args.by_only
        if result["stamp"] == stamp and told and not result.get("failure"):
            return result
    begun = time.monotonic()
    by = failure = ""
    folder = args.copies.get()
    try:
        by = notice(bug, folder, args)
        verdict = (
            by
            or f"**not noticed**{': ' if bug.unnoticed else ''}{bug.unnoticed}"
        )
    except Failure as error:
        failure = str(error)
        verdict = f"**{failure}**"
    finally:
        args.copies.put(folder)
    result = {
        "stamp": stamp,
        "file": ", ".join(bug.files),
        "bug": bug.bug,
        "harm": bug.harm,
        "verdict": verdict,
        "good": bool(by),
        "failure": failure,
        "whole": not args.by_only,
        "seconds": round(time.monotonic() - begun),
    }
    kept.write_text(json.dumps(result))
    return result


def table(results):
    lines = [
        "| file | bug | harm | noticed by | seconds |",
        "|---|---|---|---|---:|",
    ]
    lines += [
        f"| `{r['file']}` | {r['bug']} | {r['harm']} | {r['verdict']} "
        f"| {r['seconds']} |"
        for r in sorted(results.values(), key=lambda result: result["file"])
    ]
    return "\n".join(lines) + "\n"


def check_clean(bugs, args):
    """All cases named pass without a bug."""
    folder = BUILD / "clean"
    plant(folder, None)
    fails = []
    for number, by in enumerate(
        sorted({by for bug in bugs for by in bug.by}), 1
    ):
        begin(f"clean: {by}")
        if run_group(folder, number, [(by, *kind_of(folder, by)[1:])]):
            say(f"clean: {by} FAILS")
            fails.append(by)
    sys.exit(
        f"planted: without any bug these fail: {', '.join(fails)}"
        if fails
        else 0
    )


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("names", nargs="*", help="only these (without .patch)")
    p.add_argument(
        "--by-only", action="store_true", help="only the cases that By names"
    )
    p.add_argument(
        "--at-once", type=int, default=1, metavar="N", help="bugs at a time [1]"
    )
    p.add_argument(
        "--clean",
        action="store_true",
        help="that all cases named pass without a bug",
    )
    args = p.parse_args()
    patches = sorted(PLANTED.glob("*.patch"))
    unknown = set(args.names) - {patch.stem for patch in patches}
    if unknown:
        sys.exit(f"planted: no such bug: {', '.join(sorted(unknown))}")
    if args.names:
        patches = [patch for patch in patches if patch.stem in args.names]
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        bugs = [read_bug(patch) for patch in patches]
    except Failure as failure:
        sys.exit(f"planted: {failure}")
    if args.clean:
        check_clean(bugs, args)
    args.copies = queue.SimpleQueue()
    for number in range(max(1, args.at_once)):
        args.copies.put(BUILD / f"copy-{number}")
    results = {}
    with concurrent.futures.ThreadPoolExecutor(max(1, args.at_once)) as pool:
        names = {pool.submit(find_out, bug, args): bug.name for bug in bugs}
        for done in concurrent.futures.as_completed(names):
            name, result = names[done], done.result()
            results[name] = result
            say(
                f"[{len(results)}/{len(bugs)}] {name}: {result['verdict']} "
                f"({result['seconds']} s)"
            )
    report = BUILD / "table.md"
    report.write_text(table(results))
    noticed = sum(result["good"] for result in results.values())
    failed = [name for name, result in results.items() if result["failure"]]
    missed = [
        name
        for name, r in results.items()
        if not r["good"] and not r["failure"]
    ]
    percent = 100 * noticed // max(1, len(results))
    say(
        f"{noticed} of {len(results)} noticed ({percent} %); "
        f"the table: {report}"
    )
    for what, which in ("not noticed", missed), ("failed", failed):
        if which:
            say(f"{what}: {' '.join(sorted(which))}")
    sys.exit(1 if failed or 100 * noticed < ENOUGH * len(results) else 0)


if __name__ == "__main__":
    os.nice(5)
    with moving:
        main()
