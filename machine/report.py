# SPDX-License-Identifier: GPL-2.0-only
"""Which lines of a kernel log make a run fail.

./vm checks the console of a whole run, tests/guest/run.py the log of each case.
"""

import re

REPORT = re.compile(
    r"BUG: |BUG at |WARNING: |Oops\b|Kernel panic"
    r"|KASAN|KCSAN: |KFENCE|UBSAN|KMSAN"
    r"|INFO: task .* blocked|blocked for more than|hung_task"
    r"|soft lockup|hard LOCKUP"
    r"|possible circular locking|possible recursive locking"
    r"|inconsistent lock state|possible irq lock inversion"
    r"|suspicious RCU usage|INFO: trying to register non-static"
    r"|bad unlock balance|held lock freed"
    r"|sleeping function called|scheduling while atomic"
    r"|general protection fault|[Uu]nable to handle kernel|stack segment"
    r"|self-detected stall|rcu: INFO: .* detected"
    r"|new suspected memory leaks|unreferenced object"
    r"|refcount_t: |list_(add|del) corruption"
    r"|cannot create duplicate filename"
    r"|Modules linked in:"
)
# Reports that kernels make without floop: docs/testing.md says how to get them.
KNOWN = re.compile(r"WARNING: .* at ext4_discard_preallocations\+")
# KCSAN finds races all over the kernel. Only those in a function of our module
# count; these are the others.
OTHERS = re.compile(r"BUG: KCSAN: data-race in (?!.*\[(floop|loop)\])")
# After one of these the machine can't go on.
HANG = re.compile(
    r"INFO: task .* blocked|soft lockup|hard LOCKUP|self-detected stall"
    r"|Oops\b|Kernel panic"
)
# A line of the console that the kernel wrote. Some lines of virtme-ng's init
# look alike.
KERNEL_LINE = re.compile(r"^(<\d+>)?\[\s*\d+\.\d+\](?! virtme)")


def find_reports(lines):
    """The numbers of the lines of a kernel log that report a fault."""
    found = []
    known = False
    for number, line in enumerate(lines):
        if OTHERS.search(line):
            continue
        if KNOWN.search(line):
            known = True
        elif REPORT.search(line):
            # Every warning has this line, also a known one.
            if not (known and "Modules linked in:" in line):
                found.append(number)
            known = False
    return found


def first_report(console):
    """The first report in a console's text, and the lines around it."""
    lines = [line.rstrip("\r") for line in console.splitlines()]
    found = find_reports(
        [line if KERNEL_LINE.match(line) else "" for line in lines]
    )
    return lines[max(0, found[0] - 3) : found[0] + 80] if found else []
