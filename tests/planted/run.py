#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Plant each bug of tests/planted/ and see that a test notices it.

A bug is a patch, NAME.patch, whose head says in three lines what it is:

  Bug: the mend that it takes out, or the mistake that it makes
  Harm: what it would do to a user
  By: the cases that must notice it, as guard/hang or guard/hang:lts;
      or model:SETTING. The first that does is enough.

Each is planted in a copy of the sources as they are committed, below
build/planted/. A case that fails there has noticed it. A patch that no longer
applies is a failure, and so is a case that fails without any patch (--clean).
What has been found out for the same sources is not run again.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent
PLANTED = PROJECT / "tests" / "planted"
BUILD = PROJECT / "build" / "planted"
# What a copy of the sources shares with this one: it takes long to make.
SHARED = ("root", "root.img", "venv", "src", "debug-kernel", "kvm")
HEAD = ("Bug", "Harm", "By")


class Failure(Exception):
    pass


def git(*args, cwd=PROJECT):
    done = subprocess.run(["git", *args], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(done.stderr.strip() or f"git {args[0]} failed")
    return done.stdout


def read_head(patch):
    """The head of a patch, by its words."""
    head = {}
    for line in patch.read_text().splitlines():
        if line.startswith("---"):
            break
        word, colon, text = line.partition(": ")
        if colon and word in HEAD:
            head[word] = text.strip()
        elif head and line.startswith(" "):
            head[list(head)[-1]] += " " + line.strip()
    missing = [word for word in HEAD if word not in head]
    if missing:
        raise Failure(f"{patch.name}: its head doesn't say: {', '.join(missing)}")
    return head


def plant(folder, patch):
    """A copy of what is committed, with the patch in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = subprocess.run(
        ["git", "archive", "HEAD"], cwd=PROJECT, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    for name in SHARED:
        if (PROJECT / "build" / name).exists():
            (folder / "build").mkdir(exist_ok=True)
            (folder / "build" / name).symlink_to(PROJECT / "build" / name)
    command = PROJECT / "cli" / "target" / "release" / "floop"
    (folder / "cli/target/release").mkdir(parents=True)
    shutil.copy2(command, folder / "cli/target/release/floop")
    if patch:
        # Not part of a repository: "git apply" would look at the one around it.
        done = subprocess.run(
            ["patch", "-p1", "--batch", "--fuzz=0", "-i", patch],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Failure(f"doesn't apply any more:\n{done.stdout}")


def run_case(folder, by):
    """Run one case there; returns whether it passes."""
    name, _, kernel = by.partition(":")
    log = folder / "build" / f"by-{by.replace('/', '-').replace(':', '-')}.log"
    log.parent.mkdir(exist_ok=True)
    if name == "model":
        command = ["model/check.py", kernel]
    else:
        (case,) = (folder / "tests/cases").glob(f"{name}.*")
        command = ["build/venv/bin/pytest", "-q", str(case.relative_to(folder))]
        command += ["--mode", "side-by-side"]
        command += ["--debug-kernel"] if kernel == "debug" else ["--kernel", kernel or "stable"]
    with log.open("w") as output:
        done = subprocess.run(command, cwd=folder, stdout=output, stderr=output, check=False)
    said = log.read_text()
    # pytest: 5 means that there was nothing to run.
    if done.returncode not in (0, 1) or "failed: the module for" in said:
        raise Failure(f"{by} didn't run, exit status {done.returncode}: {log}")
    return done.returncode == 0


def notice(name, patch, head, keep):
    """Which case notices the bug; none if all of them pass."""
    folder = BUILD / name
    plant(folder, patch)
    try:
        for by in head["By"].split():
            if not run_case(folder, by):
                return by
        return ""
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def sources(patch):
    """What the result depends on, as it is committed."""
    cases = [by.partition(":")[0] for by in read_head(patch)["By"].split()]
    paths = ["kernel", "model", "tests/guest", "tests/programs"]
    listed = git("ls-tree", "-d", "HEAD", "--", *paths)
    listed += git("ls-tree", "-r", "HEAD", "--", "tests/cases")
    lines = [
        line
        for line in listed.splitlines()
        if "tests/cases/" not in line or pathlib.Path(line).stem in "/".join(cases).split("/")
    ]
    return hashlib.sha256("\n".join(lines).encode() + patch.read_bytes()).hexdigest()


def find_out(patch, keep):
    """The result for one bug, kept from an earlier run if there is one."""
    kept = BUILD / f"{patch.stem}.json"
    stamp = sources(patch)
    if kept.exists():
        result = json.loads(kept.read_text())
        if result["stamp"] == stamp:
            return result
    begun = time.monotonic()
    head = read_head(patch)
    try:
        by = notice(patch.stem, patch, head, keep)
        verdict = f"`{by}`" if by else "**not noticed**"
        good = bool(by)
    except Failure as failure:
        verdict, good = f"**{failure}**", False
    result = {
        "stamp": stamp,
        "bug": head["Bug"],
        "harm": head["Harm"],
        "verdict": verdict,
        "good": good,
        "seconds": round(time.monotonic() - begun),
    }
    BUILD.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(result))
    return result


def table(results):
    lines = ["| bug | harm | noticed by | seconds |", "|---|---|---|---:|"]
    lines += [
        f"| {r['bug']} | {r['harm']} | {r['verdict']} | {r['seconds']} |" for r in results.values()
    ]
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("names", nargs="*", help="only these (without .patch)")
    p.add_argument("--keep", action="store_true", help="leave the copies in build/planted/")
    p.add_argument("--clean", action="store_true", help="that all cases named pass without a bug")
    args = p.parse_args()
    patches = sorted(PLANTED.glob("*.patch"))
    unknown = set(args.names) - {patch.stem for patch in patches}
    if unknown:
        sys.exit(f"planted: no such bug: {', '.join(sorted(unknown))}")
    if args.names:
        patches = [patch for patch in patches if patch.stem in args.names]
    if args.clean:
        heads = [read_head(patch) for patch in patches]
        wanted = sorted({by for head in heads for by in head["By"].split()})
        head = {"By": " ".join(wanted)}
        by = notice("clean", None, head, args.keep)
        sys.exit(f"planted: {by} fails without any bug" if by else 0)
    results = {}
    for number, patch in enumerate(patches, 1):
        print(f"[{number}/{len(patches)}] {patch.stem} ", end="", flush=True)
        results[patch.stem] = find_out(patch, args.keep)
        result = results[patch.stem]
        print(f"{result['verdict']} ({result['seconds']} s)", flush=True)
    report = BUILD / "table.md"
    report.write_text(table(results))
    bad = [name for name, result in results.items() if not result["good"]]
    print(f"{len(results) - len(bad)} passed, {len(bad)} failed; the table: {report}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    os.nice(5)
    main()
