#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What changed between two results of `make bench`, beyond the noise: the worst
first.

A figure has changed if all its rounds in one file are on the same side of all
its rounds in the other, and its medians differ by more than --threshold and by
more than one of the last digit that is printed. That is all there is to ask of
a machine whose clock counts instructions (icount): it measures the same twice.

Elsewhere rounds differ. There the medians must be further apart, too, than the
rounds of either file are, and each file must have four rounds: five rounds of
the same then look like a change in 3 of 1,000 figures, four in 1 of 100. And
the host may have been slower for the whole of one file: where the disk itself
("raw") was measured in the same rounds, the figure's ratio to it must have
changed by the same rules, so that a slower host shows in the disk's own line
and not in all.

"Worse" and "better" are said of B, the second file. Peers, cells and tables
that are in one of the files only are listed; machines that differ are warned
about, for then it isn't floop alone that changed.

exit status: 0 nothing is worse, 1 something is, 2 a file can't be compared
"""

import argparse
import sys

import figures as fig

EXAMPLES = """
examples:
  bench/compare.py before.json after.json
  bench/compare.py --threshold 10 before.json after.json   # only beyond 10 %
"""
ROUNDS = 4  # without icount, fewer tell nothing of noise: see above
VERDICTS = (
    "worse",
    "differs",
    "better",
)  # in the order in which they are shown


def counted(results, name):
    """Whether a table's figures are of a machine whose clock counts
    instructions.
    """
    section = results["sections"][results["tables"][name]["section"]]
    return "icount" in results["machines"][section["machine"]]["accelerator"]


def apart(a, b, threshold, noisy, digit=0):
    """Whether two figures, or ratios, are further apart than noise is, and than
    a last digit.
    """
    (a_median, a_least, a_most), (b_median, b_least, b_most) = (
        fig.spread(a),
        fig.spread(b),
    )
    difference = abs(b_median - a_median)
    if a_least <= b_most and b_least <= a_most:
        return False
    if difference <= max(abs(a_median) * threshold / 100, 1.001 * digit):
        return False
    return not noisy or difference > max(a_most - a_least, b_most - b_least)


def as_printed(rounds, measure):
    return {
        number: round(value, measure["decimals"])
        for number, value in rounds.items()
    }


def changed(key, of_a, of_b, measure, threshold, noisy):
    """Whether a figure has changed beyond the noise."""
    a, b = as_printed(of_a[key], measure), as_printed(of_b[key], measure)
    if not apart(a, b, threshold, noisy, 10 ** -measure["decimals"]):
        return False
    table, name, cell, peer = key
    disk = table, name, cell, "raw"
    if not noisy or peer == "raw" or disk not in of_a or disk not in of_b:
        return True
    a, b = (fig.ratios(of[key], of[disk], measure) for of in (of_a, of_b))
    return len(a) < ROUNDS or len(b) < ROUNDS or apart(a, b, threshold, noisy)


def verdict(a, b, measure):
    if not measure["better"]:
        return "differs"
    return "better" if (b > a) == (measure["better"] == "more") else "worse"


def factor(a, b):
    """How far apart two medians are, whichever is the greater: 2 is twice or
    half.
    """
    less, more = sorted((abs(a), abs(b)))
    return more / less if less else float("inf")


def compare(a, b, threshold=3.0):
    """The changes, the worst first: (verdict, key, its rounds in a, in b,
    measure); how many figures were compared; and how many can't be, for want of
    rounds.
    """
    of_a, of_b = fig.collect(a), fig.collect(b)
    found, compared, too_few = [], 0, 0
    for key in [key for key in of_a if key in of_b]:
        measure = b["tables"][key[0]]["measures"][key[1]]
        noisy = not (counted(a, key[0]) and counted(b, key[0]))
        if noisy and min(len(of_a[key]), len(of_b[key])) < ROUNDS:
            too_few += 1
            continue
        compared += 1
        if changed(key, of_a, of_b, measure, threshold, noisy):
            medians = fig.spread(of_a[key])[0], fig.spread(of_b[key])[0]
            kind = verdict(*medians, measure)
            order = VERDICTS.index(kind), -factor(*medians)
            found.append((order, (kind, key, of_a[key], of_b[key], measure)))
    found.sort(key=lambda change: change[0])
    return [change for _, change in found], compared, too_few


def percent(a, b):
    return f"{100 * (b - a) / abs(a):+.1f} %" if a else "from 0"


def line(results, change):
    kind, (table, name, cell, peer), a, b, measure = change
    title = results["peers"][peer]["title"]
    medians = fig.spread(a)[0], fig.spread(b)[0]
    return (
        f"{kind:<7} {percent(*medians):>9}  {table}, {cell}, {title}: {name}"
        f" {fig.form_spread(a, measure)} -> {fig.form_spread(b, measure)}"
        f" {measure['unit']}"
    )


def only_in(ours, theirs):
    """What only the first has: whole tables, peers of a table, or cells and
    measures of a peer.
    """
    of_ours, of_theirs = fig.collect(ours), fig.collect(theirs)
    tables = {table for table, *_ in of_theirs}
    peers = {(table, peer) for table, _, _, peer in of_theirs}
    found = {}
    for table, measure, cell, peer in of_ours:
        if (table, measure, cell, peer) in of_theirs:
            continue
        if table not in tables:
            found.setdefault(table, [])
        elif (table, peer) not in peers:
            found.setdefault(f"{table}: {ours['peers'][peer]['title']}", [])
        else:
            where = f"{table}: {ours['peers'][peer]['title']}: "
            found.setdefault(where, []).append(f"{cell} ({measure})")
    return [where + ", ".join(cells) for where, cells in found.items()]


def differences(a, b):
    """What else differs than floop, in words."""
    said = []

    def differ(what, one, other):
        if one != other:
            said.append(f"{what}: {one or 'none'} and {other or 'none'}")

    for name in ("cpu", "cpus", "qemu"):
        differ(f"host's {name}", a["host"].get(name), b["host"].get(name))
    differ("rounds", a["rounds"], b["rounds"])
    for name in [name for name in a["machines"] if name in b["machines"]]:
        one, other = a["machines"][name], b["machines"][name]
        for part in ("kernel", "accelerator", "cpus", "memory", "disk"):
            differ(f"machine {name!r}, {part}", one.get(part), other.get(part))
        versions = one.get("versions", {}), other.get("versions", {})
        for program in dict.fromkeys([*versions[0], *versions[1]]):
            differ(
                f"machine {name!r}, {program}",
                *(of.get(program) for of in versions),
            )
    for name in [name for name in a["peers"] if name in b["peers"]]:
        differ(
            f"options of {name}",
            a["peers"][name]["how"],
            b["peers"][name]["how"],
        )
    for name in [name for name in a["tables"] if name in b["tables"]]:
        for measure, one in a["tables"][name]["measures"].items():
            other = b["tables"][name]["measures"].get(measure, one)
            differ(f"{name}, {measure}", one["unit"], other["unit"])
    return said


def main():
    p = argparse.ArgumentParser(
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "a", metavar="A.json", help="what is compared with: the earlier results"
    )
    p.add_argument(
        "b", metavar="B.json", help="what is judged: the later results"
    )
    p.add_argument(
        "--threshold",
        type=float,
        default=3,
        metavar="PERCENT",
        help="less is no change; default 3",
    )
    args = p.parse_args()
    if not args.threshold >= 0:
        p.error("--threshold: 0 or more")
    try:
        a, b = fig.load(args.a), fig.load(args.b)
    except fig.BadResults as e:
        print(f"compare: {e}", file=sys.stderr)
        sys.exit(2)
    for path, results in ((args.a, a), (args.b, b)):
        if results["quick"]:
            print(
                f"compare: warning: {path} is of a quick run", file=sys.stderr
            )
    for said in differences(a, b):
        print(
            f"compare: warning: they differ in more than floop: {said}",
            file=sys.stderr,
        )
    changes, compared, too_few = compare(a, b, args.threshold)
    if not compared and not too_few:
        print(
            f"compare: {args.a} and {args.b} have no figure in common",
            file=sys.stderr,
        )
        sys.exit(2)
    for change in changes:
        print(line(b, change))
    for path, ours, theirs in ((args.a, a, b), (args.b, b, a)):
        for what in only_in(ours, theirs):
            print(f"only in {path}: {what}")
    kinds = [change[0] for change in changes]
    counts = ", ".join(
        f"{kinds.count(kind)} {kind}" for kind in VERDICTS if kind in kinds
    )
    print(
        f"{compared} figures compared: {counts or 'no change beyond the noise'}"
    )
    if too_few:
        print(
            f"{too_few} not compared: they have fewer than {ROUNDS} rounds, and"
            " no icount"
        )
    sys.exit(1 if "worse" in kinds else 0)


if __name__ == "__main__":
    main()
