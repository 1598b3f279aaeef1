#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check every state of the models of the guard's protocol (guard.pml), of
mapped I/O to a file that shares blocks (shared.pml), and of the parts that
spare blocks are counted in (spare.pml).

A model must hold in every setting of HOLDS. In every setting of FAILS a rule
of the guard is broken, or a flaw is put back, and an assertion must fail: a
model that doesn't notice proves nothing. Prints a line for each setting. Exit
status 0: all are as expected. Arguments: the settings to check, default all.
"""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time

PROJECT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))
from machine.moving import Moving  # noqa: E402

MODELS = PROJECT / "model"
BUILD = PROJECT / "build" / "model"
SECONDS = 600  # for each command, enough on a busy machine
MEMORY = 2000  # MiB

# What goes on beside the I/O.
OPENERS = "IOS=1 OPENERS=2"
READER = "IOS=2 OPENERS=1 READS FAILS=1"
UNSEEN = "IOS=2 OPENERS=0 READERS=2"
UNSEEN_OPENER = "IOS=1 OPENERS=1 READERS=1"
UNCOUNTED = "IOS=2 OPENERS=0 UNCOUNTED=1"
UNCOUNTED_OPENER = "IOS=1 OPENERS=1 UNCOUNTED=1"
# On xfs, where readers don't count: one reads, another clones.
UNCOUNTED_READER = "IOS=1 OPENERS=0 UNCOUNTED=1 READERS=1"
UNCOUNTED_WAITS = "IOS=1 OPENERS=0 UNCOUNTED=1 CAN_ATOMIC"
SWAPEXT = "IOS=2 OPENERS=0 SWAPS=1"
ATOMIC = "IOS=2 OPENERS=0 ATOMICS=1"
READ_ONLY = "IOS=2 OPENERS=0 UNCOUNTED=1 READ_ONLY"
READ_ONLY_OPENER = "IOS=1 OPENERS=1 UNCOUNTED=1 READ_ONLY"
READ_ONLY_WAITS = "IOS=1 OPENERS=1 UNCOUNTED=1 READ_ONLY CAN_ATOMIC LOOKS"
READ_ONLY_ATOMIC = "IOS=2 OPENERS=0 ATOMICS=1 READ_ONLY"
FLAGS = "IOS=2 OPENERS=0 FLAGS=1"
FLAGS_STOP = "IOS=1 OPENERS=1 LOOKS FLAGS=1 STOPS=1 RESTART"
CHANGE = "IOS=1 OPENERS=1 DISCARDS=1"
CHANGES = "IOS=1 OPENERS=0 DISCARDS=2"
SPARSE = "SPARSE IOS=2 OPENERS=0 DISCARDS=1"
SPARSE_OPENER = "SPARSE IOS=1 OPENERS=1 LOOKS DISCARDS=1"
SPARSE_CHANGES = "SPARSE IOS=1 OPENERS=0 DISCARDS=2"
CHANGE_FAILS = "IOS=0 OPENERS=1 DISCARDS=1 FAILS=1"
FREEZE = "IOS=2 OPENERS=0 FREEZES=1"
FREEZE_UNSEEN = "IOS=1 OPENERS=0 READERS=1 FREEZES=1"
FREEZE_CHANGE = "IOS=1 OPENERS=0 DISCARDS=1 FREEZES=1"
FREEZE_OPENER = "IOS=1 OPENERS=1 FREEZES=1"
STOP = "IOS=1 OPENERS=1 STOPS=1 RESTART"
STOP_CHANGE = "IOS=1 OPENERS=0 DISCARDS=1 STOPS=1 RESTART"
STOP_BOTH = "IOS=0 OPENERS=1 LOOKS DISCARDS=1 STOPS=1"
CLOSE = "IOS=1 OPENERS=1 CLOSES=1"
CLOSE_UNSEEN = "IOS=2 OPENERS=0 READERS=1 CLOSES=1"
CLOSE_CHANGE = "IOS=0 OPENERS=1 LOOKS DISCARDS=1 CLOSES=1"
STORE = "IOS=1 OPENERS=1 LOOKS STORES=1"

# Settings of shared.pml and spare.pml have names that begin with their own.
SHARED = "IOS=2 WRITES=1"
SHARED_WRITES = "IOS=1 WRITES=2"
SHARED_OPENER = "IOS=2 WRITES=0 OPENERS=1"
SHARED_BOTH = "IOS=1 WRITES=1 OPENERS=1"
SPARE = "ADDS=3 USES=3"

HOLDS = {
    "openers": OPENERS,
    "reader": READER,
    "unseen": UNSEEN,
    "unseen-opener": UNSEEN_OPENER,
    "uncounted": UNCOUNTED,
    "uncounted-opener": UNCOUNTED_OPENER,
    "uncounted-reader": UNCOUNTED_READER,
    "uncounted-waits": UNCOUNTED_WAITS,
    "atomic": ATOMIC,
    "swapext": SWAPEXT,
    "read-only": READ_ONLY,
    "read-only-opener": READ_ONLY_OPENER,
    "read-only-waits": READ_ONLY_WAITS,
    "read-only-atomic": READ_ONLY_ATOMIC,
    "flags": FLAGS,
    "flags-stop": FLAGS_STOP,
    "change": CHANGE,
    "changes": CHANGES,
    "change-fails": CHANGE_FAILS,
    "sparse": SPARSE,
    "sparse-opener": SPARSE_OPENER,
    "sparse-changes": SPARSE_CHANGES,
    "freeze": FREEZE,
    "freeze-unseen": FREEZE_UNSEEN,
    "freeze-change": FREEZE_CHANGE,
    "freeze-opener": FREEZE_OPENER,
    "stop": STOP,
    "stop-change": STOP_CHANGE,
    "stop-both": STOP_BOTH,
    "close": CLOSE,
    "close-unseen": CLOSE_UNSEEN,
    "close-change": CLOSE_CHANGE,
    "store": STORE,
    "shared": SHARED,
    "shared-writes": SHARED_WRITES,
    "shared-opener": SHARED_OPENER,
    "shared-both": SHARED_BOTH,
    "spare": SPARE,
}

FAILS = {
    "no-lease": f"{READER} NO_LEASE IN_FLIGHT",
    "no-break": f"{READER} NO_BREAK IN_FLIGHT",
    "no-drain": "IOS=1 OPENERS=1 NO_DRAIN IN_FLIGHT",
    "no-clear": f"{READER} NO_CLEAR",
    "no-epoch": f"{READER} NO_EPOCH",
    "no-written": f"{CHANGES} NO_WRITTEN",
    "no-durable": f"{READER} NO_DURABLE",
    "no-changes": f"{CHANGES} NO_CHANGES IN_FLIGHT",
    "no-freeze": f"{FREEZE} NO_FREEZE",
    "no-cache": f"{UNSEEN} NO_CACHE",
    "no-layout": f"{UNCOUNTED} NO_LAYOUT IN_FLIGHT",
    "no-notice": "IOS=1 OPENERS=1 NO_NOTICE IN_FLIGHT",
    "no-atomic": f"{ATOMIC} NO_ATOMIC IN_FLIGHT",
    "no-flags": f"{FLAGS} NO_FLAGS",
    "old-uncounted": f"{UNCOUNTED} OLD_UNCOUNTED IN_FLIGHT",
    "old-passed": f"{UNCOUNTED} OLD_PASSED IN_FLIGHT",
    "old-give-back": f"{CLOSE} OLD_GIVE_BACK",
    "old-end": f"{CLOSE} OLD_END",
    "old-clear": f"{STORE} OLD_CLEAR",
    "old-resume": f"{STOP_BOTH} OLD_RESUME",
    "old-swapext": f"{SWAPEXT} OLD_SWAPEXT IN_FLIGHT",
    "old-both": f"{CHANGE_FAILS} OLD_BOTH",
    "old-stale": f"{CLOSE_UNSEEN} OLD_STALE",
    "old-unlocked": f"{STOP} OLD_UNLOCKED",
    "old-doubt": f"{FLAGS_STOP} OLD_DOUBT",
    "old-shared": f"{UNCOUNTED_WAITS} OLD_SHARED",
    "old-chain": "IOS=2 OPENERS=1 OLD_CHAIN",
    "old-late": f"{CHANGE} LOOKS OLD_LATE",
    "old-todo": f"{STOP} OLD_TODO",
    "old-adds": f"{SPARSE} OLD_ADDS",
    "old-added-late": f"{SPARSE} OLD_ADDED_LATE",
    "shared-no-shared": f"{SHARED} NO_SHARED",
    "shared-old-late": f"{SHARED} OLD_COUNTED_LATE",
    "shared-old-early": f"{SHARED} OLD_FOUND_EARLY",
    "shared-old-settled": f"{SHARED} OLD_SETTLED_EARLY",
    "shared-old-busy": f"{SHARED} OLD_BUSY",
    "shared-old-opener": f"{SHARED_OPENER} OLD_OPENER",
    "spare-old-early": f"{SPARE} OLD_COUNTED_EARLY",
    "spare-old-end": f"{SPARE} OLD_UNCOUNTED_END",
}

# Searches of more than two million states: to optimize them takes less time
# than it saves. For the others it takes more.
LONG = (
    "openers",
    "reader",
    "uncounted-opener",
    "read-only-waits",
    "flags-stop",
    "change",
    "store",
)

# What each assertion is about, by a word of its text in spin's output.
ABOUT = {
    "sent": "the block moves while I/O to it is in flight",
    "to==place": "I/O goes to where the block was before",
    "others": "I/O writes to what another file has, too",
    "flight": "the block moves while I/O to it is in flight",
    "map==": "I/O goes to where the block was before",
    "block==": "I/O to a block that is not written, or not durable",
    "frozen": "a mapped write while the file system is frozen",
    "older": "the page cache is older than what was written",
    "was": "mapped I/O to a file whose flags forbid it",
    "unfinished": "something never ends",
    "state==": "it is never mapped again",
    "users==0": "an epoch begins while there is one",
    "lease": "an epoch without a lease",
    "legal": "the state changes as it must not",
    "freed": "the image is used after it is freed",
    "gone": "a part is used after it is freed",
    "nr[": "spare blocks are counted wrong",
    "dev_image": "dev->image is used when it is NULL",
    "todo": "the fill's bitmap is used after it is freed",
}


@dataclasses.dataclass
class Outcome:
    result: str
    states: int
    seconds: float


class CannotRun(Exception):
    pass


def run(folder, *command):
    """Run a tool that must succeed; returns what it prints."""
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except FileNotFoundError:
        raise CannotRun(
            f"{command[0]} is missing: machine/host-packages.sh"
        ) from None
    except subprocess.TimeoutExpired:
        raise CannotRun(f"{command[0]} took more than {SECONDS} s") from None
    if result.returncode:
        raise CannotRun(
            f"{command[0]} ended with {result.returncode}\n{result.stdout}"
        )
    return result.stdout


def verify(name, defines):
    """The search's result: "holds", or the first assertion that fails."""
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.trail"):
        old.unlink()
    start = time.monotonic()
    words = [f"-D{word}" for word in defines.split()]
    model = name.partition("-")[0]
    if model not in ("shared", "spare"):
        model = "guard"
    run(folder, "spin", "-a", *words, str(MODELS / f"{model}.pml"))
    # tcc compiles in a tenth of a second, cc for a third of most searches.
    compiler = ("cc", "-O1") if name in LONG else ("tcc",)
    run(
        folder,
        *(*compiler, "-w", "-o", "pan", "pan.c"),
        *("-DSAFETY", f"-DMEMLIM={MEMORY}"),
    )
    # -n: without the list of unreached states.
    said = run(folder, "./pan", "-n", "-m20000", "-w22")
    (folder / "pan.log").write_text(said)

    errors = re.search(r"errors: (\d+)", said)
    states = re.search(r"(\d+) states, stored", said)
    if not errors or not states or "max search depth too small" in said:
        raise CannotRun(f"the search says nothing, or is cut short\n{said}")
    failed = re.search(r"pan:\d+: (.+?) \(at depth", said)
    if int(errors[1]) == 0 and not failed:
        if "not completed" in said or "Bit statespace" in said:
            raise CannotRun(f"the search is not complete\n{said}")
        result = "holds"
    else:
        result = failed[1] if failed else "an error without a name"
        if "assertion violated" in result:
            about = [text for word, text in ABOUT.items() if word in result]
            result = f"assertion fails: {about[0] if about else result}"
    return Outcome(result, int(states[1]), time.monotonic() - start)


def as_expected(name, result):
    if name in HOLDS:
        return result == "holds"
    return result.startswith("assertion fails")


def main(names):
    every = HOLDS | FAILS
    unknown = [name for name in names if name not in every]
    if unknown:
        sys.exit(
            f"none of these is called {' or '.join(unknown)}:"
            f" {', '.join(every)}"
        )
    if not names:
        # All of them take minutes.
        os.nice(10)
    bad = 0
    for name in names or every:
        try:
            with Moving(name, sys.stdout):
                outcome = verify(name, every[name])
        except CannotRun as e:
            print(f"{name:16} FAILED: {e}", flush=True)
            bad += 1
            continue
        good = as_expected(name, outcome.result)
        bad += not good
        print(
            f"{name:16} {outcome.states:9,} states {outcome.seconds:6.1f} s  "
            f"{'ok' if good else 'FAILED'}: {outcome.result}",
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
