#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The results of `make bench` as tables in the terminal or in a Markdown page,
or as an HTML page with plots.

Each figure is the median (least..most) of its rounds. Ratios are the medians of
those within a round; there is none where one of the two figures is next to
nothing. "–" isn't measured.
"""

import argparse
import sys
import textwrap
from pathlib import Path

import figures as fig

WIDTH = 120  # of the terminal
PROSE = 80  # of a Markdown page
INTRODUCTION = """\
`make bench` made this page; don't edit it. Plots of the same figures are in
[{name}.html]({name}.html), every figure of every round is in
[{name}.json]({name}.json). What they mean is in
[docs/benchmarks.md](../../docs/benchmarks.md).

A figure is the median (least..most) of its rounds. A ratio is the median of the
ratios within a round; there is none where one of the two figures is next to
nothing. "–" is not measured.\
"""


def values_and_ratios(results, figures, name, measure):
    """A measure's rows of values, and its rows of ratios: (peer, [text of each
    cell] or reason).
    """
    table = results["tables"][name]
    about = table["measures"][measure]
    references = fig.references(results, figures, name, measure)
    values, ratios = [], []
    for peer, reason in fig.rows(results, figures, name):
        if reason:
            values.append((peer, reason))
            continue
        of = {
            cell: figures.get((name, measure, cell, peer), {})
            for cell in table["cells"]
        }
        values.append(
            (
                peer,
                [fig.form_spread(of[cell], about) for cell in table["cells"]],
            )
        )
        cells = []
        for cell in table["cells"]:
            theirs = [
                figures.get((name, measure, cell, other), {})
                for other in references
            ]
            cells.append(
                [fig.compared(of[cell], each, about) for each in theirs]
            )
        if any(ratio != fig.NONE for cell in cells for ratio in cell):
            ratios.append((peer, [" / ".join(cell) for cell in cells]))
    return values, ratios


def to_what(results, references):
    """What the two ratios of a cell are to."""
    return " / ".join(
        f"to {results['peers'][peer]['title']}" for peer in references
    )


def aligned(results, header, rows):
    """Rows under a header in columns, in as few blocks as keep within the
    terminal's width.
    """
    titles = [results["peers"][peer]["title"] for peer, _ in rows]
    first = max(map(len, titles))
    measured = [cells for _, cells in rows if isinstance(cells, list)]
    widths = [
        max(map(len, column)) for column in zip(header, *measured, strict=True)
    ]
    for size in range(len(header), 0, -1):
        starts = range(0, len(header), size)
        if all(
            first + sum(2 + w for w in widths[at : at + size]) <= WIDTH
            for at in starts
        ):
            break
    lines = []
    for at in starts:

        def line(title, cells, at=at):
            pairs = zip(
                cells[at : at + size], widths[at : at + size], strict=True
            )
            return f"{title:<{first}}" + "".join(
                f"  {cell:>{width}}" for cell, width in pairs
            )

        lines += [""] * bool(at) + [line("", header)]
        for title, (_, cells) in zip(titles, rows, strict=True):
            if isinstance(cells, list):
                lines.append(line(title, cells))
            elif not at:
                reason = f"{title:<{first}}  {fig.NONE} {cells}"
                lines += textwrap.wrap(
                    reason, WIDTH, subsequent_indent=" " * (first + 4)
                )
    return "\n".join(lines)


def terminal(results, sections=None):
    """The tables for a terminal: of all sections, or of those named."""
    figures = fig.collect(results)
    parts = [textwrap.fill(fig.run_line(results), WIDTH)]
    if results["quick"]:
        parts.append(fig.QUICK)
    for section in sections or results["sections"]:
        about = results["sections"][section]
        parts.append(f"{about['title']}\n{'=' * len(about['title'])}")
        parts.append(textwrap.fill(fig.machine_line(results, section), WIDTH))
        if about.get("emulation"):
            parts.append(
                textwrap.fill(
                    f"How emulation shows in it: {about['emulation']}", WIDTH
                )
            )
        for name, table in fig.tables_of(results, section).items():
            for measure, of in fig.measures_of(results, figures, name).items():
                values, ratios = values_and_ratios(
                    results, figures, name, measure
                )
                title = f"{table['title']}: {fig.heading(measure, of)}"
                parts.append(
                    f"{title}\n{aligned(results, table['cells'], values)}"
                )
                if ratios:
                    words = to_what(
                        results, fig.references(results, figures, name, measure)
                    )
                    body = aligned(results, table["cells"], ratios)
                    parts.append(f"... {words}\n{body}")
        if not fig.tables_of(results, section):
            parts.append("Nothing was measured.")
    return "\n\n".join(parts) + "\n"


def cell_of_markdown(text):
    return text.replace("|", "\\|").replace("\n", " ")


def markdown_table(results, first, header, rows):
    lines = [[first, *header]]
    for peer, cells in rows:
        if not isinstance(cells, list):
            cells = [f"*{cells}*", *[""] * (len(header) - 1)]
        lines.append([results["peers"][peer]["title"], *cells])
    lines = [
        "| " + " | ".join(map(cell_of_markdown, line)) + " |" for line in lines
    ]
    lines.insert(1, "|---" + "|---:" * len(header) + "|")
    return "\n".join(lines)


def wrapped(text, first="", rest=""):
    """A paragraph of a Markdown page, or an item of a list."""
    return textwrap.fill(
        text,
        PROSE,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def peers_of_markdown(results):
    lines = []
    for name, peer in results["peers"].items():
        lines.append(wrapped(f"**{peer['title']}**: {peer['how']}", "- ", "  "))
        lines += [
            wrapped(line, "  - ", "    ")
            for line in fig.absences(results, name)
        ]
    return "\n".join(lines)


def markdown(results, name):
    """A page of all tables; NAME is that of the files beside it."""
    figures = fig.collect(results)
    kernels = fig.either(
        machine["kernel"] for machine in results["machines"].values()
    )
    parts = [
        f"# What floop costs on Linux {kernels}",
        INTRODUCTION.format(name=name),
    ]
    parts.append(wrapped(f"{fig.run_line(results)}."))
    if results["quick"]:
        parts.append(f"**{fig.QUICK}**")
    parts += ["## What is compared", peers_of_markdown(results)]
    for section, about in results["sections"].items():
        parts.append(f"## {about['title']}")
        parts += [wrapped(text) for text in about["text"].split("\n\n")]
        if about.get("emulation"):
            parts.append(
                wrapped(f"*How emulation shows in it:* {about['emulation']}")
            )
        parts.append(wrapped(f"{fig.machine_line(results, section)}."))
        for name, table in fig.tables_of(results, section).items():
            parts.append(f"### {table['title']}")
            for measure, of in fig.measures_of(results, figures, name).items():
                values, ratios = values_and_ratios(
                    results, figures, name, measure
                )
                title = fig.heading(measure, of)
                parts += [
                    f"{title[0].upper()}{title[1:]}:",
                    markdown_table(results, "device", table["cells"], values),
                ]
                if ratios:
                    words = to_what(
                        results, fig.references(results, figures, name, measure)
                    )
                    parts += [
                        f"The same, {words}:",
                        markdown_table(
                            results, "device", table["cells"], ratios
                        ),
                    ]
    return "\n\n".join(parts) + "\n"


def write_tables(results, path):
    """Write the Markdown page."""
    path = Path(path)
    path.write_text(markdown(results, path.stem), encoding="utf-8")


def write_page(results, path):
    """Write the HTML page. Needs the libraries of requirements.txt, unlike all
    else here.
    """
    from page import page

    Path(path).write_text(page(results), encoding="utf-8")


def main():
    p = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "results",
        metavar="RESULTS.json",
        help="what `make bench` left in build/bench",
    )
    p.add_argument(
        "--section",
        action="append",
        metavar="NAME",
        help="only this one; repeatable",
    )
    p.add_argument(
        "--markdown", metavar="PAGE", help="write this page, print no tables"
    )
    p.add_argument(
        "--html", metavar="PAGE", help="write this page, print no tables"
    )
    args = p.parse_args()
    try:
        results = fig.load(args.results)
        for section in args.section or []:
            if section not in results["sections"]:
                known = ", ".join(results["sections"])
                p.error(
                    f"{args.results} has no section {section!r}, but: {known}"
                )
        if args.markdown:
            write_tables(results, args.markdown)
        if args.html:
            write_page(results, args.html)
        if not args.markdown and not args.html:
            print(terminal(results, args.section), end="")
    except BrokenPipeError:
        sys.stderr.close()  # `| head` has seen enough
    except ImportError as e:
        sys.exit(
            f"report: {e}: run it by build/venv/bin/python (`make setup-host`"
            " makes that)"
        )
    except OSError as e:
        sys.exit(f"report: {e.filename}: {e.strerror}")
    except fig.BadResults as e:
        sys.exit(f"report: {e}")


if __name__ == "__main__":
    main()
