# SPDX-License-Identifier: GPL-2.0-only
"""The results file of `make bench`: reading it, and what is worked out from its
runs.

A figure is a measure of a peer in a cell of a table: one value a round, of
which the median, the least and the most are shown. Ratios are taken within a
round, so that what disturbs a whole round cancels, and the median of those is
shown.
"""

import json
import math
import statistics
from pathlib import Path

FORMAT = 1
REFERENCES = ("raw", "loop-direct")  # the base of ratios
PERCENTILES = ("p50", "p90", "p99", "p99.9", "max")
NONE = "–"  # not measured
PARTS = {
    "date": str,
    "commit": str,
    "quick": bool,
    "rounds": int,
    "host": dict,
    "machines": dict,
    "peers": dict,
    "sections": dict,
    "tables": dict,
    "runs": list,
}


class BadResults(Exception):
    """What is wrong with a results file; begins with its name."""


def load(path):
    """The results in a file, checked. Raises BadResults."""
    try:
        results = json.loads(Path(path).read_text())
    except OSError as e:
        raise BadResults(f"{path}: {e.strerror}") from None
    except ValueError as e:
        raise BadResults(f"{path}: not JSON: {e}") from None
    wrong = problem(results)
    if wrong:
        raise BadResults(f"{path}: {wrong}")
    return results


def problem(results):
    """What is wrong with results, or None."""
    if not isinstance(results, dict) or "format" not in results:
        return "not a results file of `make bench`: it says no format"
    if results["format"] != FORMAT:
        return (
            f"format {results['format']!r}, and this reads format {FORMAT}:"
            " use its own commit's"
        )
    for name, kind in PARTS.items():
        if not isinstance(results.get(name), kind):
            return f"{name!r} is missing, or no {kind.__name__}"
    try:
        for name, section in results["sections"].items():
            machine = section["machine"]
            if machine not in results["machines"]:
                return (
                    f"section {name!r} is of machine {machine!r},"
                    " which isn't there"
                )
        for name, table in results["tables"].items():
            section = table["section"]
            if section not in results["sections"]:
                return (
                    f"table {name!r} is of section {section!r},"
                    " which isn't there"
                )
        seen = set()
        for number, run in enumerate(results["runs"]):
            wrong = problem_of_run(results, run)
            key = tuple(
                run[part] for part in ("table", "cell", "peer", "round")
            )
            if wrong is None and key in seen:
                wrong = f"{key} is there twice"
            if wrong:
                return f"run {number}: {wrong}"
            seen.add(key)
    except (KeyError, TypeError) as e:
        return f"not as a results file should be: {type(e).__name__}: {e}"
    return None


def problem_of_run(results, run):
    table = results["tables"].get(run["table"])
    if table is None:
        return f"no table is called {run['table']!r}"
    if run["cell"] not in table["cells"]:
        return f"table {run['table']!r} has no cell {run['cell']!r}"
    if run["peer"] not in results["peers"]:
        return f"no peer is called {run['peer']!r}"
    for measure, value in run["values"].items():
        if measure not in table["measures"]:
            return f"table {run['table']!r} has no measure {measure!r}"
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            return f"{measure}: {value!r} is no number"
    return None


def collect(results):
    """All figures: {(table, measure, cell, peer): {round: value}}."""
    figures = {}
    for run in results["runs"]:
        for measure, value in run["values"].items():
            key = run["table"], measure, run["cell"], run["peer"]
            figures.setdefault(key, {})[run["round"]] = value
    return figures


def spread(rounds):
    """Median, least and most of a figure."""
    values = list(rounds.values())
    return statistics.median(values), min(values), max(values)


def ratios(ours, theirs, measure):
    """A figure over another's of the same round, by round; none if the other's
    is next to nothing.

    Next to nothing: less than two digits of it are shown, and the ratio would
    be one of roundings.
    """
    if less_than(10, theirs, measure):
        return {}
    return {
        n: ours[n] / theirs[n]
        for n in sorted(ours.keys() & theirs.keys())
        if theirs[n]
    }


def less_than(units, rounds, measure):
    """Whether a figure isn't there, or is less than UNITS of its last digit."""
    least = units * 10 ** -measure["decimals"]
    return not rounds or statistics.median(rounds.values()) < least


def form(value, measure):
    return f"{value:,.{measure['decimals']}f}"


def form_spread(rounds, measure):
    """Median (least..most), or that it isn't measured."""
    if not rounds:
        return NONE
    return "{} ({}..{})".format(
        *(form(value, measure) for value in spread(rounds))
    )


def form_ratio(values):
    """The median of ratios, or that there is none."""
    if not values:
        return NONE
    median = statistics.median(values.values())
    return f"{median:,.0f}×" if median >= 100 else f"{median:.2f}×"


def compared(ours, theirs, measure):
    """What a table says of one figure over another: nothing where one is
    nothing.
    """
    if less_than(5, ours, measure):
        return NONE
    return form_ratio(ratios(ours, theirs, measure))


def rows(results, figures, name):
    """The peers to show in a table, in order, each with why it isn't in it (or
    None).
    """
    shown = []
    measured = {peer for table, _, _, peer in figures if table == name}
    for peer, about in results["peers"].items():
        reason = absent(about, results["tables"][name]["section"])
        if peer in measured:
            shown.append((peer, None))
        elif reason:
            shown.append((peer, reason))
    return shown


def absent(peer, section):
    """Why a peer has no figures in a section, or None."""
    reasons = peer.get("absent", {})
    return reasons.get(section, reasons.get("*"))


def absences(results, peer):
    """Where a peer has no figures, and why: a line a reason."""
    sections = {}
    for section, reason in results["peers"][peer].get("absent", {}).items():
        sections.setdefault(reason, []).append(section)
    lines = []
    for reason, names in sections.items():
        titles = [
            f"“{results['sections'].get(name, {'title': name})['title']}”"
            for name in names
        ]
        where = "not measured" if "*" in names else f"not in {listed(titles)}"
        lines.append(f"{where}: {reason}")
    return lines


def listed(texts):
    """As in a sentence: "a", "a and b", "a, b and c"."""
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def references(results, figures, name, measure):
    """The peers of a table that there are ratios to: none where nothing is
    better.
    """
    about = results["tables"][name]["measures"][measure]
    if not about["better"]:
        return []
    found = set()
    for (table, m, cell, _), ours in figures.items():
        if (table, m) != (name, measure):
            continue
        for reference in REFERENCES:
            theirs = figures.get((name, measure, cell, reference), {})
            if compared(ours, theirs, about) != NONE:
                found.add(reference)
    return [peer for peer in REFERENCES if peer in found]


def measures_of(results, figures, name):
    """The measures of a table of which there is any figure, in order."""
    measured = {measure for table, measure, _, _ in figures if table == name}
    return {
        m: about
        for m, about in results["tables"][name]["measures"].items()
        if m in measured
    }


def direction(measure):
    """What a measure is in, and which way is better: "µs, less is better"."""
    better = f", {measure['better']} is better" if measure["better"] else ""
    return measure["unit"] + better


def heading(name, measure):
    """A measure's name and unit, without saying the same twice."""
    says = direction(measure)
    return (
        says
        if measure["unit"].lower().startswith(name.lower())
        else f"{name}, {says}"
    )


def tables_of(results, section):
    return {
        n: table
        for n, table in results["tables"].items()
        if table["section"] == section
    }


def machine_line(results, section):
    """What a section's figures were made on."""
    machine = results["machines"][results["sections"][section]["machine"]]
    cpus = f"{machine['cpus']} CPU{'' if machine['cpus'] == 1 else 's'}"
    versions = [
        version if version.startswith(name) else f"{name} {version}"
        for name, version in machine.get("versions", {}).items()
    ]
    parts = [
        f"Linux {machine['kernel']}",
        f"accelerator: {machine['accelerator']}",
        cpus,
        f"{machine['memory']} of memory" if machine.get("memory") else "",
        f"disk: {machine['disk']}" if machine.get("disk") else "",
        ", ".join(versions),
        f"measured {machine['date'].replace('T', ' ')}"
        if "date" in machine
        else "",
        f"on {machine['host']}" if "host" in machine else "",
    ]
    return "; ".join(part for part in parts if part)


def either(texts):
    return " or ".join(dict.fromkeys(texts))


def host_cpus(results):
    """Of the hosts: with --add a section may come from another one."""
    host = results["host"]
    names = either(
        m.get("host", host["cpu"]) for m in results["machines"].values()
    )
    return f"{names or host['cpu']} ({host['cpus']} CPUs)"


def run_line(results):
    """When, where and of what the whole run was."""
    host = results["host"]
    parts = [
        results["date"].replace("T", " "),
        f"commit {results['commit']}",
        host_cpus(results),
        host.get("qemu") or "no emulation: on the machine itself",
        f"the median (least..most) of {results['rounds']} rounds",
    ]
    return "; ".join(parts)


QUICK = "A quick run: too few rounds to conclude anything from it."
