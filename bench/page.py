# SPDX-License-Identifier: GPL-2.0-only
"""The results as one HTML page that needs nothing else: no scripts, no fonts,
no other files.
"""

import statistics
from html import escape

import figures as fig
import plots
from markdown import Markdown

CSS = """
:root {
  color-scheme: light dark;
  --text: #1b1f24; --muted: #5c6570; --back: #ffffff; --line: #d6dae0;
  --band: #fdf1e6;
  --box: #f4f6f8; --link: #0b5cad;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e4e7eb; --muted: #9aa4b0; --back: #15181c; --line: #363c44;
    --band: #2e2419;
    --box: #1e2329; --link: #7db7f2;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 76rem; color: var(--text);
  background: var(--back);
  font: 16px/1.5 system-ui, "DejaVu Sans", "Liberation Sans", sans-serif;
}
h1 { font-size: 1.8rem; margin: 0.5rem 0; }
h2 {
  font-size: 1.4rem; margin: 3rem 0 0.5rem; padding-top: 1rem;
  border-top: 2px solid var(--line);
}
h3 { font-size: 1.1rem; margin: 2rem 0 0.25rem; }
h4 { font-size: 1rem; font-weight: normal; margin: 1rem 0 0.25rem; }
p, ul, aside, dl { max-width: 48rem; }
a { color: var(--link); }
code { font: 0.9em "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
dl {
  display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem;
  margin: 1rem 0;
}
dt { color: var(--muted); }
dd { margin: 0; }
nav { margin: 1rem 0; }
nav a { margin-right: 1rem; white-space: nowrap; }
aside {
  margin: 1rem 0; padding: 0.5rem 1rem;
  background: var(--box); border-left: 4px solid var(--line);
}
aside p { margin: 0.25rem 0; }
.warning { border-color: #d55e00; font-weight: bold; }
.small, caption { font-size: 0.85rem; color: var(--muted); }
.plots {
  display: flex; flex-wrap: wrap; gap: 0.5rem 1.5rem; align-items: flex-start;
}
.legend {
  display: flex; flex-wrap: wrap; gap: 0 1.2rem; font-size: 0.85rem;
  margin: 0.5rem 0;
}
.legend span { white-space: nowrap; }
svg {
  max-width: 100%; height: auto; font-size: 11px; fill: currentColor;
  stroke-linejoin: round;
}
.legend svg, td svg, th svg { vertical-align: middle; max-width: none; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 0.25rem 0 1rem; }
th, td {
  padding: 0.2rem 0.7rem; border-bottom: 1px solid var(--line);
  vertical-align: top;
}
td {
  text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums;
}
th { text-align: right; font-weight: normal; color: var(--muted); }
th[scope=row] { text-align: left; color: var(--text); white-space: nowrap; }
td.words { text-align: left; white-space: normal; min-width: 12rem; }
td.words p { margin: 0; }
td span { display: block; color: var(--muted); font-size: 0.9em; }
tr.ours { background: var(--band); }
tr.ours th { font-weight: bold; }
caption { text-align: left; }
summary { cursor: pointer; color: var(--link); margin: 0.25rem 0; }
@media (max-width: 40rem) {
  body { padding: 0.6rem; font-size: 15px; }
  dl { display: block; }
  th, td { padding: 0.2rem 0.4rem; }
  th[scope=row] { white-space: normal; }
}
@media print {
  :root {
    --text: #000; --muted: #444; --back: #fff; --line: #bbb; --band: #f3f3f3;
    --box: #f7f7f7;
  }
  body {
    max-width: none; padding: 0; font-size: 10pt; print-color-adjust: exact;
  }
  nav, summary { display: none; }
  details::details-content { content-visibility: visible; block-size: auto; }
  td { white-space: normal; }
  svg, tr { break-inside: avoid; }
  h2, h3, h4 { break-after: avoid; }
  .wide { overflow: visible; }
}
"""


def page(results):
    figures = fig.collect(results)
    sections = "\n".join(
        section(results, figures, name) for name in results["sections"]
    )
    links = " ".join(
        f'<a href="#{escape(name)}">{escape(about["title"])}</a>'
        for name, about in results["sections"].items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<title>What floop costs</title>
<style>{CSS}</style>
</head>
<body>
<h1>What floop costs</h1>
<p>floop beside the in-tree loop driver, what is below both, and what else makes
a disk of a file. <code>make bench</code> has measured everything here, and
makes this page as well.</p>
{head(results)}
<nav><a href="#peers">What is compared</a> {links}</nav>
{summary(results, figures)}
<h2 id="peers">What is compared, and with which options</h2>
{peers(results)}
{sections}
</body>
</html>
"""


def head(results):
    host = results["host"]
    machines = results["machines"].values()
    parts = {
        "measured": results["date"].replace("T", " "),
        "commit": results["commit"],
        "kernel": fig.either(
            f"Linux {machine['kernel']}" for machine in machines
        ),
        "CPU": fig.host_cpus(results),
        "accelerator": fig.either(
            machine["accelerator"] for machine in machines
        ),
        "emulator": host.get("qemu") or "none",
        "rounds": f"{results['rounds']}",
    }
    items = "".join(
        f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in parts.items()
    )
    quick = (
        f'<aside class="warning">{fig.QUICK}</aside>'
        if results["quick"]
        else ""
    )
    items += "<dt>again</dt><dd><code>make bench</code></dd>"
    return f"""{quick}<dl>{items}</dl>
<p>A figure is the median of its rounds, and beside it the least and the most of
them: as (least..most) in tables, as a thin line in plots. A ratio is the median
of the ratios within a round, so that what slows a whole round down cancels. It
is left out where one of the two is next to nothing. Bars begin at zero.
{fig.NONE} isn't measured.</p>"""


def summary(results, figures):
    """One plot a section: the first measure of its first table, over that of
    the disk itself.
    """
    drawn = []
    for name in results["sections"]:
        drawn += [
            plot for plot in [summary_plot(results, figures, name)] if plot
        ]
    if not drawn:
        return ""
    return f"""<h2>At a glance</h2>
<p>The first figure of each section, as a multiple of the same figure of the one
at the dashed line. The bar is the median of the cells (patterns and depths),
and the small strokes are the cells. Sections differ in how much of a figure is
emulation: each says so below.</p>
<div class="plots">{"".join(drawn)}</div>"""


def summary_plot(results, figures, name):
    for table in fig.tables_of(results, name):
        for measure, of in fig.measures_of(results, figures, table).items():
            references = fig.references(results, figures, table, measure)
            if references:
                return ratio_plot(
                    results, figures, table, measure, references[0]
                )
            if of["better"]:
                return None
    return None


def ratio_plot(results, figures, name, measure, reference):
    table = results["tables"][name]
    about = table["measures"][measure]
    rows, dots = [], {}
    for peer, reason in fig.rows(results, figures, name):
        of = []
        for cell in table["cells"]:
            pair = [
                figures.get((name, measure, cell, p), {})
                for p in (peer, reference)
            ]
            ratios = fig.ratios(*pair, about)
            of += [statistics.median(ratios.values())] if ratios else []
        if of:
            rows.append(
                (
                    peer,
                    (statistics.median(of), min(of), max(of)),
                    f"{statistics.median(of):.2f}×",
                )
            )
            dots[peer] = of
        elif reason:
            rows.append((peer, None, "not measured"))
    if not dots:
        return None
    to = results["peers"][reference]["title"]
    title = results["sections"][table["section"]]["title"]
    axis = f"{about['unit']}, multiple of {to}: {about['better']} is better"
    return plots.bars(results, title, rows, axis, dots=dots, line=1)


def markdown(text):
    """Markdown as XHTML. HTML in it is text: what is written as <file> stays
    that.
    """
    md = Markdown(extensions=["fenced_code", "tables"], output_format="xhtml")
    md.preprocessors.deregister("html_block")
    md.inlinePatterns.deregister("html")
    return md.convert(text)


def peers(results):
    rows = []
    for name, peer in results["peers"].items():
        how = markdown(peer["how"])
        for line in fig.absences(results, name):
            how += f'<p class="small">{escape(line)}</p>'
        cells = (
            f'<td>{plots.chip(results, name)}</td><td class="words">{how}</td>'
        )
        rows.append(row(name, peer["title"], cells))
    return (
        f'<div class="wide"><table><tbody>{"".join(rows)}</tbody></table></div>'
    )


def row(peer, title, cells):
    ours = ' class="ours"' if plots.is_ours(peer) else ""
    return f'<tr{ours}><th scope="row">{escape(title)}</th>{cells}</tr>\n'


def section(results, figures, name):
    about = results["sections"][name]
    emulation = ""
    if about.get("emulation"):
        emulation = (
            "<aside><p><b>How emulation shows in it</b></p>"
            f"{markdown(about['emulation'])}</aside>"
        )
    tables = fig.tables_of(results, name)
    parts = [table(results, figures, t) for t in tables] or [
        "<p>Nothing was measured.</p>"
    ]
    return f"""<h2 id="{escape(name)}">{escape(about["title"])}</h2>
{markdown(about["text"])}
{emulation}
<p class="small">{escape(fig.machine_line(results, name))}</p>
{"".join(parts)}"""


def table(results, figures, name):
    about = results["tables"][name]
    measures = fig.measures_of(results, figures, name)
    lines = [measure for measure in measures if measure in fig.PERCENTILES]
    parts = [f"<h3>{escape(about['title'])}</h3>"]
    for measure, of in measures.items():
        if len(lines) > 1 and measure in lines:
            if measure == lines[0]:
                parts.append(latency(results, figures, name, lines))
            continue
        heading = f"<h4>{escape(fig.heading(measure, of))}</h4>"
        figures_too = numbers(results, figures, name, measure)
        if of["better"] or of.get("plot"):
            plot = value_plots(results, figures, name, measure)
            parts.append(
                f"{heading}{plot}"
                f"<details><summary>figures</summary>{figures_too}</details>"
            )
        else:
            parts.append(heading + figures_too)
    return "\n".join(parts)


def latency(results, figures, name, measures):
    """Percentiles of latency: a plot a cell, and a table a percentile."""
    about = results["tables"][name]
    heading = fig.heading("Latency", about["measures"][measures[0]])
    drawn, seen = [], set()
    for cell in about["cells"]:
        lines = {}
        for peer, _ in fig.rows(results, figures, name):
            of = {m: figures.get((name, m, cell, peer)) for m in measures}
            lines[peer] = [
                (m, fig.spread(rounds)) for m, rounds in of.items() if rounds
            ]
        lines = {peer: points for peer, points in lines.items() if points}
        seen |= set(lines)
        if lines:
            drawn.append(plots.percentiles(results, cell, lines, heading))
    legend = "".join(
        f"<span>{plots.chip(results, peer)} {escape(about['title'])}</span>"
        for peer, about in results["peers"].items()
        if peer in seen
    )
    tables = ""
    for m in measures:
        title = fig.heading(m, about["measures"][m])
        tables += (
            f"<h4>{escape(title)}</h4>{numbers(results, figures, name, m)}"
        )
    return f"""<h4>{escape(heading)}</h4>
<div class="legend">{legend}</div>
<div class="plots">{"".join(drawn)}</div>
<details><summary>figures</summary>{tables}</details>"""


def value_plots(results, figures, name, measure):
    """A measure's bars, one plot a cell; on one scale unless that would hide
    some of them.
    """
    about = results["tables"][name]
    of = about["measures"][measure]
    cells = {}
    for cell in about["cells"]:
        rows = []
        for peer, reason in fig.rows(results, figures, name):
            rounds = figures.get((name, measure, cell, peer))
            if rounds:
                spread = fig.spread(rounds)
                rows.append((peer, spread, fig.form(spread[0], of)))
            else:
                rows.append(
                    (peer, None, "not measured" if reason else fig.NONE)
                )
        if any(spread for _, spread, _ in rows):
            cells[cell] = rows
    longest = [
        max(spread[2] for _, spread, _ in rows if spread)
        for rows in cells.values()
    ]
    shared = max(longest) <= 4 * min(longest)
    note = (
        ""
        if shared
        else '<p class="small">Each plot has a scale of its own.</p>'
    )
    limit = max(longest) if shared else None
    drawn = [
        plots.bars(results, cell, rows, fig.direction(of), limit=limit)
        for cell, rows in cells.items()
    ]
    return f'{note}<div class="plots">{"".join(drawn)}</div>'


def numbers(results, figures, name, measure):
    """A measure's table, with the ratios below each figure."""
    about = results["tables"][name]
    of = about["measures"][measure]
    references = fig.references(results, figures, name, measure)
    header = "".join(
        f'<th scope="col">{escape(cell)}</th>' for cell in about["cells"]
    )
    rows = []
    for peer, reason in fig.rows(results, figures, name):
        cells = ""
        if reason:
            across = f'<td class="words" colspan="{len(about["cells"])}">'
            cells = f"{across}{fig.NONE} {escape(reason)}</td>"
        for cell in about["cells"] if not reason else []:
            rounds = figures.get((name, measure, cell, peer), {})
            ratios = [
                fig.compared(
                    rounds, figures.get((name, measure, cell, to), {}), of
                )
                for to in references
            ]
            said = any(ratio != fig.NONE for ratio in ratios)
            below = f"<span>{' / '.join(ratios)}</span>" if said else ""
            cells += f"<td>{escape(fig.form_spread(rounds, of))}{below}</td>"
        rows.append(row(peer, results["peers"][peer]["title"], cells))
    to = " / ".join(results["peers"][peer]["title"] for peer in references)
    caption = (
        f"<caption>below each figure: its ratio to {escape(to)}</caption>"
        if to
        else ""
    )
    return (
        f'<div class="wide"><table>{caption}'
        f"<thead><tr><th></th>{header}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
