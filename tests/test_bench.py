# SPDX-License-Identifier: GPL-2.0-only
"""What is made of the results of `make bench`: tables, the page, and what
changed between two.
"""

import copy
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

BENCH = pathlib.Path(__file__).resolve().parent.parent / "bench"
sys.path.insert(0, str(BENCH))
import compare  # noqa: E402
import figures  # noqa: E402
import report  # noqa: E402
import run as bench  # noqa: E402

# By peer, its rounds. In the third round of throughput, the host was half as
# fast for everyone.
COST = {
    "raw": [9000, 9010, 8990, 9000, 9000],
    "floop-mapped": [10300, 10310, 10290, 10305, 10295],
    "loop-direct": [25900, 25950, 25850, 25900, 25900],
    "floop-mapped+2": [11800, 11800, 11800, 11800, 11800],
}
SWITCHES = {
    "raw": 0.003,
    "floop-mapped": 0.004,
    "loop-direct": 2.0,
    "floop-mapped+2": 0.006,
}
IOPS = {
    "raw": [1000, 1010, 500, 990, 1005],
    "floop-mapped": [900, 909, 450, 891, 904.5],
    "loop-direct": [600, 606, 300, 594, 603],
}
CELLS = ["randread qd1", "randwrite qd1"]
LATENCIES = {"p50": 100, "p90": 150, "p99": 700, "p99.9": 5000, "max": 90000}


def peer(title, **absent):
    return {"title": title, "how": f"`--{title}` <as it is>", "absent": absent}


@pytest.fixture
def results():
    return make_results()


def make_results():
    machine = {"kernel": "7.3.4", "cpus": 1, "memory": "2G", "disk": "brd"}
    microseconds = {"unit": "µs", "better": "less", "decimals": 1}
    tables = {
        "cost/xfs": {
            "section": "cost",
            "title": "Instructions, xfs & co",
            "measures": {
                "instructions": {
                    "unit": "instructions per I/O",
                    "better": "less",
                    "decimals": 0,
                },
                "switches": {
                    "unit": "switches per I/O",
                    "better": "less",
                    "decimals": 2,
                },
                "holes": {
                    "unit": "% into holes",
                    "better": None,
                    "decimals": 0,
                },
            },
            "cells": CELLS,
        },
        "throughput/rand": {
            "section": "throughput",
            "title": "Random I/O",
            "measures": {
                "IOPS": {"unit": "IOPS", "better": "more", "decimals": 0},
                **dict.fromkeys(LATENCIES, microseconds),
            },
            "cells": CELLS,
        },
    }
    runs = []
    for n in range(5):
        for name, rounds in COST.items():
            values = {
                "instructions": rounds[n],
                "switches": SWITCHES[name],
                "holes": 50,
            }
            for cell in CELLS:
                run = {
                    "table": "cost/xfs",
                    "cell": cell,
                    "peer": name,
                    "round": n,
                }
                runs.append({**run, "values": dict(values)})
        for name, rounds in IOPS.items():
            values = {k: v * 1000 / rounds[n] for k, v in LATENCIES.items()}
            run = {
                "table": "throughput/rand",
                "cell": CELLS[0],
                "peer": name,
                "round": n,
            }
            runs.append({**run, "values": {"IOPS": rounds[n], **values}})
    return {
        "format": 1,
        "date": "2026-11-22T15:04",
        "commit": "abcdef123456",
        "quick": False,
        "rounds": 5,
        "host": {"cpu": "A CPU", "cpus": 2, "qemu": "QEMU 7.2"},
        "machines": {
            "counts": {
                **machine,
                "accelerator": "tcg, icount",
                "versions": {"fio": "fio-3.39"},
            },
            "times": {
                **machine,
                "accelerator": "tcg",
                "versions": {"rublk": "0.2.13"},
            },
        },
        "peers": {
            "raw": peer("the disk itself"),
            "floop-mapped": peer("floop, mapped"),
            "loop-direct": peer("loop, direct"),
            "ublk": peer("ublk", cost="it has no server here"),
            "nbd": peer("nbd"),
            "floop-mapped+2": peer("floop, mapped, two levels"),
        },
        "sections": {
            "cost": {
                "title": "Cost",
                "text": "What an *I/O* takes, by `fio` and <others>.",
                "emulation": "None of it.",
                "machine": "counts",
            },
            "throughput": {
                "title": "Throughput",
                "text": "How much.",
                "emulation": "All of it.",
                "machine": "times",
            },
        },
        "tables": tables,
        "runs": runs,
    }


@pytest.fixture
def saved(tmp_path):
    """saved(RESULTS, NAME) is the path of a file with them."""

    def save(results, name="results.json"):
        path = tmp_path / name
        path.write_text(json.dumps(results))
        return path

    return save


def program(name, *args):
    result = subprocess.run(
        [sys.executable, BENCH / name, *args],
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout, result.stderr


def scaled(results, table, measure, factor, peers=None, spread=()):
    """The same results, with a measure changed: of some peers, and each round
    by its own factor.
    """
    results = copy.deepcopy(results)
    for run in results["runs"]:
        if run["table"] == table and (peers is None or run["peer"] in peers):
            each = spread[run["round"]] if spread else 1
            run["values"][measure] *= factor * each
    return results


# Figures


def test_median_and_range(results):
    rounds = figures.collect(results)[
        "cost/xfs", "instructions", CELLS[0], "floop-mapped"
    ]
    assert figures.spread(rounds) == (10300, 10290, 10310)
    about = results["tables"]["cost/xfs"]["measures"]["instructions"]
    assert figures.form_spread(rounds, about) == "10,300 (10,290..10,310)"
    assert figures.form_spread({}, about) == "–"


def test_ratios_are_within_a_round(results):
    """A round that was slow for everyone isn't in the ratio, nor one that the
    other hasn't got.
    """
    of = figures.collect(results)
    ours, theirs = (
        of["throughput/rand", "IOPS", CELLS[0], p]
        for p in ("floop-mapped", "raw")
    )
    about = results["tables"]["throughput/rand"]["measures"]["IOPS"]
    assert list(figures.ratios(ours, theirs, about).values()) == pytest.approx(
        [0.9] * 5
    )
    del theirs[2]
    assert list(figures.ratios(ours, theirs, about)) == [0, 1, 3, 4]
    assert figures.form_ratio({}) == "–"


def test_no_ratio_to_next_to_nothing(results):
    """0.003 switches of the disk itself are printed as 0.00: 667 times that
    means nothing.
    """
    of = figures.collect(results)
    about = results["tables"]["cost/xfs"]["measures"]["switches"]
    loop, raw = (
        of["cost/xfs", "switches", CELLS[0], p] for p in ("loop-direct", "raw")
    )
    assert figures.ratios(loop, raw, about) == {}
    assert figures.compared(loop, raw, about) == "–"


def test_no_ratio_of_next_to_nothing(results):
    """0.003 switches over the 2 of another are no 0.00 times as many."""
    of = figures.collect(results)
    about = results["tables"]["cost/xfs"]["measures"]["switches"]
    loop, raw = (
        of["cost/xfs", "switches", CELLS[0], p] for p in ("loop-direct", "raw")
    )
    assert figures.form_ratio(figures.ratios(raw, loop, about)) == "0.00×"
    assert figures.compared(raw, loop, about) == "–"
    assert figures.compared({}, loop, about) == "–"
    assert figures.compared(loop, loop, about) == "1.00×"
    references = figures.references(results, of, "cost/xfs", "switches")
    assert references == ["loop-direct"], "there is none to the disk itself"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: r.update(format=2), "format 2"),
        (lambda r: r.pop("format"), "no format"),
        (lambda r: r.pop("peers"), "'peers' is missing"),
        (lambda r: r.update(runs={}), "'runs' is missing, or no list"),
        (
            lambda r: r["runs"][3].update(peer="zram"),
            "run 3: no peer is called 'zram'",
        ),
        (
            lambda r: r["runs"][3].update(table="x"),
            "run 3: no table is called 'x'",
        ),
        (
            lambda r: r["runs"][3].update(cell="x"),
            "run 3: table 'cost/xfs' has no cell 'x'",
        ),
        (
            lambda r: r["runs"][3]["values"].update(x=1),
            "run 3: table 'cost/xfs' has no measure 'x'",
        ),
        (
            lambda r: r["runs"][3]["values"].update(holes="?"),
            "run 3: holes: '?' is no number",
        ),
        (
            lambda r: r["runs"][3]["values"].update(holes=float("nan")),
            "nan is no number",
        ),
        (lambda r: r["runs"].append(r["runs"][0]), "is there twice"),
        (
            lambda r: r["sections"]["cost"].update(machine="x"),
            "of machine 'x', which isn't there",
        ),
        (lambda r: r["tables"]["cost/xfs"].pop("cells"), "KeyError: 'cells'"),
    ],
)
def test_bad_results(results, saved, change, says):
    change(results)
    path = saved(results)
    with pytest.raises(figures.BadResults) as e:
        figures.load(path)
    assert str(e.value).startswith(f"{path}: ") and says in str(e.value)


# Tables


def test_terminal(results):
    said = report.terminal(results)
    assert max(map(len, said.splitlines())) <= report.WIDTH
    assert re.search(
        r"^floop, mapped +10,300 \(10,290\.\.10,310\) +10,300 ", said, re.M
    )
    assert re.search(
        r"^floop, mapped +1\.14× / 0\.40× +1\.14× / 0\.40×$", said, re.M
    )
    assert re.search(r"^floop, mapped +900 \(450\.\.909\) +–$", said, re.M)
    assert re.search(r"^floop, mapped +0\.90× / 1\.50× +– / –$", said, re.M)
    assert re.search(r"^ublk +– it has no server here$", said, re.M)
    assert re.search(r"^floop, mapped, two levels +11,800", said, re.M)
    assert not re.search(r"^nbd", said, re.M), (
        "it has no run, and no reason why"
    )
    assert "to the disk itself / to loop, direct" in said


def test_terminal_one_section(results, saved):
    status, said, _ = program(
        "report.py", saved(results), "--section", "throughput"
    )
    assert status == 0 and "Random I/O" in said and "Instructions" not in said
    status, _, said = program("report.py", saved(results), "--section", "many")
    assert status == 2 and "no section 'many', but: cost, throughput" in said


def test_wide_tables_are_folded(results):
    table = results["tables"]["cost/xfs"]
    table["cells"] = table["cells"] + [f"another cell {n}" for n in range(12)]
    said = report.terminal(results)
    assert max(map(len, said.splitlines())) <= report.WIDTH
    assert "another cell 11" in said
    first = said[
        said.index("instructions per I/O, less") : said.index("... to")
    ]
    assert first.count("floop, mapped  ") > 1 and first.count("no server") == 1


def test_markdown(results):
    said = report.markdown(results, "lts")
    assert said.startswith(
        "# What floop costs on Linux 7.3.4\n\n"
    ) and said.endswith("|\n")
    assert "[lts.html](lts.html)" in said
    assert "| floop, mapped | 900 (450..909) | – |" in said
    assert "| floop, mapped | 0.90× / 1.50× | – / – |" in said
    assert "| ublk | *it has no server here* |  |" in said
    assert (
        "- **ublk**: `--ublk` <as it is>\n"
        "  - not in “Cost”: it has no server here\n" in said
    )
    assert "*How emulation shows in it:* None of it." in said
    assert (
        "accelerator: tcg, icount; 1 CPU; 2G of memory; disk: brd; fio-3.39."
        in said
    )
    tables = [block for block in said.split("\n\n") if block.startswith("|")]
    assert len(tables) == 3 + 2 + 6 * 2, (
        "holes have no ratios, for nothing is better"
    )
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1
    prose = [line for line in said.splitlines() if not line.startswith("|")]
    assert max(map(len, prose)) <= 80


def test_no_rows_of_nothing(results):
    said = report.markdown(results, "lts")
    switches = said[said.index("Switches per I/O") :]
    ratios = switches[switches.index("The same, to loop, direct:") :].split(
        "\n\n"
    )[1]
    assert [line.split(" | ")[0] for line in ratios.splitlines()] == [
        "| device",
        "|---|---:|---:|",
        "| loop, direct",
    ]
    assert not re.search(r"0\.00×|^\|[^|]*(\| –( / –)* )+\|$", said, re.M)


def test_absences(results):
    """A line a reason, with all the sections that it holds for."""
    reasons = {
        "cost": "too slow",
        "throughput": "too slow",
        "many": "no such program",
    }
    results["peers"]["ublk"]["absent"] = reasons
    assert figures.absences(results, "ublk") == [
        "not in “Cost” and “Throughput”: too slow",
        "not in “many”: no such program",
    ]
    results["peers"]["ublk"]["absent"] = {"*": "no kernel has it"}
    assert figures.absences(results, "ublk") == [
        "not measured: no kernel has it"
    ]
    assert figures.absences(results, "raw") == []


def test_sections_of_different_hosts(results):
    results["machines"]["times"] |= {
        "host": "Another CPU",
        "date": "2026-11-23T01:02",
    }
    said = " ".join(report.markdown(results, "lts").split())
    assert "A CPU or Another CPU (2 CPUs)" in said
    assert "measured 2026-11-23 01:02; on Another CPU" in said


def test_quick_is_said(results):
    results["quick"] = True
    assert "A quick run" in report.terminal(
        results
    ) and "A quick run" in report.markdown(results, "lts")


def test_publish(results, tmp_path):
    """WRITE=1: the figures, and beside them what report.py makes of them."""
    bench.write(results, "lts", tmp_path)
    assert figures.load(tmp_path / "lts.json") == results
    pages = tmp_path / "again.md", tmp_path / "again.html"
    status, said, _ = program(
        "report.py",
        tmp_path / "lts.json",
        "--markdown",
        pages[0],
        "--html",
        pages[1],
    )
    assert (status, said) == (0, "")
    assert pages[0].read_text() == (tmp_path / "lts.md").read_text().replace(
        "lts.", "again."
    )
    assert pages[1].read_text() == (tmp_path / "lts.html").read_text()


@pytest.mark.parametrize("kernel", ["stable", "lts"])
def test_published_pages_are_current(kernel):
    """bench/results/ has what the generator makes of the figures there."""
    folder = BENCH / "results"
    results = figures.load(folder / f"{kernel}.json")
    assert (
        report.markdown(results, kernel)
        == (folder / f"{kernel}.md").read_text()
    )


def test_add(results, saved, tmp_path):
    """--add keeps what has been measured before, of the first file there."""
    before = copy.deepcopy(results) | {"commit": "before", "rounds": 7}
    paths = [
        tmp_path / "none.json",
        saved(before, "a.json"),
        saved(results, "b.json"),
    ]
    found = bench.with_others(results | {"runs": []}, paths)
    assert found == before | {"commit": results["commit"]}
    assert bench.with_others(results, paths[:1]) is results


# The page


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    report.write_page(make_results(), path)
    return path.read_text()


class References(html.parser.HTMLParser):
    """What a browser would load or follow."""

    def __init__(self):
        super().__init__()
        self.found, self.ids = [], []

    def handle_starttag(self, tag, attrs):
        self.found += [
            v
            for k, v in attrs
            if k in ("href", "src", "srcset", "xlink:href", "data")
        ]
        self.found += re.findall(
            r"url\(([^)]*)\)", " ".join(v or "" for _, v in attrs)
        )
        self.ids += [v for k, v in attrs if k == "id"]
        assert tag not in ("script", "link", "iframe", "img"), tag


def test_page_needs_nothing_else(page):
    parser = References()
    parser.feed(page)
    assert len(set(parser.ids)) == len(parser.ids)
    assert parser.found and {
        ref.removeprefix("#") for ref in parser.found
    } <= set(parser.ids)
    assert "@import" not in page and "url(" not in page
    assert len(page) < 200_000


def test_page_has_everything(page):
    """Well-formed, with a table for every measure, a plot for every cell, and
    all that is said.
    """
    body = ET.fromstring(page).find("body")
    text = "\n".join("".join(e.itertext()) for e in body)
    assert len(body.findall(".//thead")) == 3 + 6
    svg = "{http://www.w3.org/2000/svg}svg"
    plots = [e.get("aria-label") for e in body.iter(svg)]
    bars = [
        label
        for label in plots
        if label.startswith(CELLS[0]) and "percentiles" not in label
    ]
    assert len(bars) == 3, "instructions, switches, IOPS"
    assert (
        f"{CELLS[0]}: latency percentiles; the table has the figures" in plots
    )
    for said in (
        "10,300 (10,290..10,310)",
        "1.14× / 0.40×",
        "– it has no server here",
        "not in “Cost”: it has no server here",
        "Instructions, xfs & co",
        "and <others>.",
        "<as it is>",
        "abcdef123456",
        "make bench",
        "A CPU",
        "Linux 7.3.4",
        "tcg, icount or tcg",
        "All of it.",
    ):
        assert said in text, said


def test_page_is_the_same_again(results, page, tmp_path):
    report.write_page(results, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == page


def test_figures_of_nought(results, tmp_path):
    """A measure that is 0 everywhere still makes a page."""
    zero = scaled(results, "throughput/rand", "IOPS", 0)
    zero = scaled(zero, "throughput/rand", "p50", 0)
    report.write_page(zero, tmp_path / "page.html")
    ET.parse(tmp_path / "page.html")
    report.terminal(zero)


def test_nothing_measured(results, tmp_path):
    """A section that ended early: the page and the tables say so."""
    results["runs"] = [r for r in results["runs"] if r["table"] != "cost/xfs"]
    report.write_page(results, tmp_path / "page.html")
    assert "Instructions, xfs &amp; co" in (tmp_path / "page.html").read_text()
    assert "Cost" in report.terminal(results) and "Cost" in report.markdown(
        results, "lts"
    )


# What changed


def verdicts(a, b, **options):
    changes, _, _ = compare.compare(a, b, **options)
    return [(change[0], *change[1]) for change in changes]


def test_same_is_no_change(results, saved):
    path = saved(results)
    status, said, warned = program("compare.py", path, path)
    assert (status, warned) == (0, "")
    assert said == "42 figures compared: no change beyond the noise\n"


def test_worse_and_better(results, saved):
    """The worst first, with both medians; the exit status says that something
    is worse.
    """
    b = scaled(results, "cost/xfs", "instructions", 1.1, ["floop-mapped"])
    b = scaled(b, "cost/xfs", "instructions", 1.5, ["floop-mapped+2"])
    b = scaled(b, "cost/xfs", "instructions", 0.5, ["loop-direct"])
    b = scaled(b, "cost/xfs", "holes", 2, ["raw"])
    names = [(verdict, peer) for verdict, _, _, _, peer in verdicts(results, b)]
    assert (
        names[::2]
        == names[1::2]
        == [
            ("worse", "floop-mapped+2"),
            ("worse", "floop-mapped"),
            ("differs", "raw"),
            ("better", "loop-direct"),
        ]
    )
    status, said, _ = program(
        "compare.py", saved(results, "a.json"), saved(b, "b.json")
    )
    assert status == 1
    assert re.search(
        r"^worse +\+10\.0 %  cost/xfs, randread qd1, floop, mapped:"
        r" instructions 10,300 \(.*\) -> 11,330 \(.*\) instructions per I/O$",
        said,
        re.M,
    )
    assert said.endswith("42 figures compared: 4 worse, 2 differs, 2 better\n")
    status, _, _ = program(
        "compare.py", saved(b, "b.json"), saved(results, "a.json")
    )
    assert status == 1, "the other way round, loop-direct is worse"


def test_only_better_is_success(results, saved):
    b = scaled(results, "throughput/rand", "IOPS", 10, ["floop-mapped"])
    assert verdicts(results, b) == [
        ("better", "throughput/rand", "IOPS", CELLS[0], "floop-mapped")
    ]
    assert (
        program("compare.py", saved(results, "a.json"), saved(b, "b.json"))[0]
        == 0
    )


def test_threshold(results, saved):
    b = scaled(results, "cost/xfs", "instructions", 1.02)
    assert verdicts(results, b) == []
    assert len(verdicts(results, b, threshold=1)) == 8
    paths = saved(results, "a.json"), saved(b, "b.json")
    assert program("compare.py", *paths)[0] == 0
    assert program("compare.py", "--threshold", "1", *paths)[0] == 1


def test_rounds_that_overlap_are_no_change(results):
    """Four rounds of five are dearer, and the other is what they were."""
    spread = (1.1, 1.1, 1, 1.1, 1.1)
    assert (
        verdicts(
            results,
            scaled(results, "cost/xfs", "instructions", 1, spread=spread),
        )
        == []
    )


def test_last_digit_is_no_change(results):
    """0.01 to 0.02 switches is twice as many, and a matter of rounding."""
    a = scaled(results, "cost/xfs", "switches", 2, ["raw"])
    b = scaled(results, "cost/xfs", "switches", 6, ["raw"])
    assert verdicts(a, b) == []
    assert (
        len(verdicts(a, scaled(results, "cost/xfs", "switches", 12, ["raw"])))
        == 2
    )


STEADY = (1, 1.01, 0.99, 1.005, 0.995)
NOISY = (1, 1.2, 0.8, 1.1, 0.9)


def steady(results, factor=1, spread=STEADY, peers=None):
    """The results with IOPS of 1000 in every round but for a spread."""
    for run in results["runs"]:
        if "IOPS" in run["values"]:
            run["values"]["IOPS"] = 1000
    return scaled(
        scaled(results, "throughput/rand", "IOPS", 1, spread=spread),
        "throughput/rand",
        "IOPS",
        factor,
        peers,
    )


def test_noise_alone_is_no_change(results):
    """Timed figures must be apart by more than their rounds are."""
    ours = ["floop-mapped"]
    a = steady(results)
    assert [v[0] for v in verdicts(a, steady(results, 0.9, peers=ours))] == [
        "worse"
    ]
    assert verdicts(a, steady(results, 0.985, peers=ours), threshold=0) == [], (
        "they overlap"
    )
    up, down = (1, 1, 1, 1.02, 1.05), (1, 1, 1, 0.97, 0.95)
    a, b = steady(results, 1, up), steady(results, 0.98, down, ours)
    assert verdicts(a, b, threshold=0) == [], (
        "apart, but less than either's rounds are"
    )
    assert (
        verdicts(steady(results, 1, NOISY), steady(results, 0.6, NOISY, ours))
        == []
    )


def test_a_slow_host_is_said_once(results):
    """Everything is slower in B: that is the disk's own line, nobody else's."""
    found = verdicts(steady(results), steady(results, 0.7))
    assert [(v[0], v[4]) for v in found] == [("worse", "raw")]


def test_few_rounds_are_not_judged(results, saved):
    """Three rounds of a timed figure tell nothing; three of a count do."""
    few = copy.deepcopy(results)
    few["runs"] = [run for run in few["runs"] if run["round"] < 3]
    b = scaled(few, "throughput/rand", "IOPS", 0.1, ["floop-mapped"])
    b = scaled(b, "cost/xfs", "instructions", 1.1, ["loop-direct"])
    assert [v[4] for v in verdicts(few, b)] == ["loop-direct"] * 2
    status, said, _ = program(
        "compare.py", saved(few, "a.json"), saved(b, "b.json")
    )
    assert (
        status == 1 and "18 not compared: they have fewer than 4 rounds" in said
    )


def test_what_is_in_one_only(results, saved):
    b = copy.deepcopy(results)
    b["runs"] = [
        r
        for r in b["runs"]
        if r["table"] == "cost/xfs" and r["peer"] != "loop-direct"
    ]
    for run in b["runs"]:
        if run["peer"] == "raw" and run["cell"] == CELLS[0]:
            del run["values"]["switches"]
    path_a, path_b = saved(results, "a.json"), saved(b, "b.json")
    status, said, _ = program("compare.py", path_a, path_b)
    assert status == 0
    for what in (
        "throughput/rand",
        "cost/xfs: loop, direct",
        "cost/xfs: the disk itself: randread qd1 (switches)",
    ):
        assert f"only in {path_a}: {what}\n" in said
    assert "only in" not in program("compare.py", path_b, path_b)[1]
    assert (
        f"only in {path_a}: throughput/rand\n"
        in program("compare.py", path_b, path_a)[1]
    )


def test_other_machines_are_warned_about(results, saved):
    b = copy.deepcopy(results)
    b["host"]["cpu"] = "Another CPU"
    b["quick"] = True
    b["machines"]["counts"]["kernel"] = "6.12"
    b["machines"]["times"]["accelerator"] = "kvm"
    b["machines"]["times"]["versions"]["rublk"] = "0.3"
    status, _, said = program(
        "compare.py", saved(results, "a.json"), saved(b, "b.json")
    )
    assert status == 0
    for what in (
        "host's cpu: A CPU and Another CPU",
        "machine 'counts', kernel: 7.3.4 and 6.12",
        "machine 'times', accelerator: tcg and kvm",
        "machine 'times', rublk: 0.2.13 and 0.3",
        "b.json is of a quick run",
    ):
        assert what in said
    assert len(said.splitlines()) == 5


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "No such file or directory"),
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "says no format"),
        ('{"format": 7}', "format 7"),
    ],
)
def test_bad_files(results, saved, tmp_path, content, says):
    bad = tmp_path / "bad.json"
    if content is not None:
        bad.write_text(content)
    for paths in ([saved(results), bad], [bad, saved(results)]):
        status, _, said = program("compare.py", *paths)
        assert status == 2
        assert said.startswith(f"compare: {bad}: ") and says in said
    status, _, said = program("report.py", bad)
    assert status == 1 and said.startswith(f"report: {bad}: ") and says in said


def test_nothing_in_common(results, saved):
    b = copy.deepcopy(results)
    b["runs"] = []
    status, _, said = program(
        "compare.py", saved(results, "a.json"), saved(b, "b.json")
    )
    assert status == 2 and "have no figure in common" in said
