# SPDX-License-Identifier: GPL-2.0-only
"""Plots of results as SVG, to stand in the text of an HTML page.

matplotlib draws them; what it writes is then cut down to what the page needs:
its text is text in the page's font, colours that depend on light or dark are
the page's variables, and no id is there twice in a page.
"""

import io
import re
import xml.etree.ElementTree as ET

import figures as fig
import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
)

# Colours for everyone: told apart by those who are blind to some, and seen on
# light and on dark.
OURS = ["#D55E00", "#E69F00", "#CC79A7"]
OTHERS = ["#757575", "#999933", "#0072B2", "#56B4E9", "#117733", "#882255"]
MARKERS = "sDo^v<>PX*hd"
# Colours that stand for the page's, put in when drawn.
TEXT, MUTED, LINES, BAND = "#010203", "#040506", "#070809", "#0a0b0c"
PAGE_COLOURS = {
    TEXT: "currentColor",
    MUTED: "var(--muted)",
    LINES: "var(--line)",
    BAND: "var(--band)",
}
SIZE = 11  # of text, in CSS pixels
LETTER = (
    0.56 * SIZE
)  # how wide a letter is, about: the page's font isn't known here
WIDTH = 370
SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "floop",
    "font.size": SIZE,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": LINES,
    "axes.titlesize": SIZE + 1,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "xtick.color": LINES,
    "ytick.color": LINES,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": TEXT,
    "grid.color": LINES,
    "grid.linewidth": 0.6,
}
number = FuncFormatter(lambda value, _: f"{value:,.10g}")


def is_ours(peer):
    return peer.startswith("floop")


def colours(results):
    """A colour for every peer; two levels have a lighter one of the same."""
    found, ours, others = {}, 0, 0
    bases = dict.fromkeys(peer.partition("+")[0] for peer in results["peers"])
    for peer in bases:
        if is_ours(peer):
            found[peer] = OURS[ours % len(OURS)]
            ours += 1
        else:
            found[peer] = OTHERS[others % len(OTHERS)]
            others += 1
    lighter = dict.fromkeys(bases, 0)
    for peer in results["peers"]:
        base, plus, _ = peer.partition("+")
        if plus:
            lighter[base] += 1
            found[peer] = blend(found[base], min(0.25 * lighter[base], 0.6))
    return found


def blend(colour, much):
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(
        f"{round(part + (235 - part) * much):02X}" for part in parts
    )


def markers(results):
    """A marker for every peer, so that lines are told apart without colours."""
    return {
        peer: MARKERS[i % len(MARKERS)]
        for i, peer in enumerate(results["peers"])
    }


def axes(width, height, left, top=24, bottom=38, right=8):
    """A plot's figure and axes, with margins in pixels."""
    figure = Figure(figsize=(width / 72, height / 72))
    box = (left / width, bottom / height, (width - left - right) / width)
    return figure, figure.add_axes([*box, (height - top - bottom) / height])


def bars(results, title, rows, axis, limit=None, dots=None, line=None):
    """Bars from zero, one a row: (peer, (median, least, most) or None, text).
    Of dots, each too.

    limit: what the longest bar of all plots beside this one is; line: where one
    is drawn across.
    """
    with matplotlib.rc_context(STYLE):
        titles = [results["peers"][peer]["title"] for peer, _, _ in rows]
        left = max(
            len(t) * (1.07 if is_ours(p) else 1)
            for t, (p, _, _) in zip(titles, rows, strict=True)
        )
        left = min(round(left * LETTER) + 10, WIDTH // 2)
        figure, ax = axes(WIDTH, 64 + 19 * len(rows), left)
        colour = colours(results)
        longest = max((spread[2] for _, spread, _ in rows if spread), default=0)
        longest = max(longest, limit or 0, line or 0) or 1
        room = WIDTH - left - 8
        text_room = (
            max(len(text) for _, spread, text in rows if spread) * LETTER + 8
        )
        ax.set_xlim(0, longest * room / (room - text_room))
        for y, (peer, spread, text) in enumerate(rows):
            if is_ours(peer):
                ax.axhspan(
                    y - 0.5, y + 0.5, color=BAND, lw=0, clip_on=False, zorder=-2
                )
            if not spread:
                ax.text(
                    longest * 0.01,
                    y,
                    text,
                    va="center",
                    color=MUTED,
                    size=SIZE - 1,
                )
                continue
            median, least, most = spread
            ax.barh(y, median, height=0.66, color=colour[peer], clip_on=False)
            if dots:
                ax.plot(
                    dots[peer],
                    [y] * len(dots[peer]),
                    "|",
                    color=TEXT,
                    ms=6,
                    clip_on=False,
                )
            else:
                ax.plot(
                    [least, most],
                    [y, y],
                    color=TEXT,
                    lw=1,
                    clip_on=False,
                    marker="|",
                    ms=5,
                )
            x = max(median, most) + longest * 4 / room
            weight = "bold" if is_ours(peer) else "normal"
            ax.text(x, y, text, va="center", weight=weight, size=SIZE - 0.5)
        if line:
            ax.axvline(line, color=MUTED, lw=0.8, ls=(0, (3, 2)), clip_on=False)
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_yticks(range(len(rows)), titles)
        for label, (peer, _, _) in zip(ax.get_yticklabels(), rows, strict=True):
            label.set_fontweight("bold" if is_ours(peer) else "normal")
        ax.tick_params(left=False, bottom=False, labelsize=SIZE)
        ax.tick_params(axis="x", labelsize=SIZE - 1.5)
        ax.spines["bottom"].set_visible(False)
        ax.xaxis.set_major_locator(MaxNLocator(3))
        ax.xaxis.set_major_formatter(number)
        ax.grid(axis="x", clip_on=False)
        figure.text(
            4 / WIDTH,
            1 - 15 / figure.bbox.height,
            title,
            weight="bold",
            size=SIZE + 1,
        )
        figure.text(
            1 - 8 / WIDTH, 6 / figure.bbox.height, axis, ha="right", color=MUTED
        )
        said = "; ".join(
            f"{t}: {text}" for t, (_, _, text) in zip(titles, rows, strict=True)
        )
        return svg(figure, f"{title}, {axis}: {said}")


def percentiles(results, title, lines, axis):
    """Latencies as lines on a log axis: {peer: [(percentile, (median, least,
    most))]}.
    """
    with matplotlib.rc_context(STYLE):
        names = [
            n
            for n in fig.PERCENTILES
            if any(n in dict(points) for points in lines.values())
        ]
        figure, ax = axes(WIDTH, 300, 64)
        colour, marker = colours(results), markers(results)
        for peer, points in lines.items():
            x = [names.index(name) for name, _ in points]
            y = [spread[0] for _, spread in points]
            ours = is_ours(peer)
            ax.plot(
                x,
                y,
                color=colour[peer],
                marker=marker[peer],
                ms=5 if ours else 4,
                lw=2.4 if ours else 1.2,
                zorder=2
                if ours
                else 3,  # the thinner line over the thicker: both are seen
                clip_on=False,
            )
            for at, (_, (_, least, most)) in zip(x, points, strict=True):
                ax.plot(
                    [at, at],
                    [least, most],
                    color=colour[peer],
                    lw=0.8,
                    clip_on=False,
                )
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(10))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(number)
        whole_decades(ax)
        ax.set_xticks(range(len(names)), names)
        ax.tick_params(length=0, labelsize=SIZE - 1)
        ax.grid(axis="y")
        figure.text(
            4 / WIDTH, 1 - 15 / 300, title, weight="bold", size=SIZE + 1
        )
        figure.text(1 - 8 / WIDTH, 6 / 300, axis, ha="right", color=MUTED)
        return svg(
            figure, f"{title}: latency percentiles; the table has the figures"
        )


def whole_decades(ax):
    """From a power of ten to one, so that there is always a line above and one
    below.
    """
    low, high = ax.dataLim.intervaly
    bottom, top = 1e-3, 1e-2
    while bottom * 10 <= low:
        bottom *= 10
    top = bottom * 10
    while top < high:
        top *= 10
    ax.set_ylim(bottom, top)


def chip(results, peer):
    """A peer's colour and marker, for a legend."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(26 / 72, 12 / 72))
        ax = figure.add_axes([0, 0, 1, 1])
        ax.set_axis_off()
        ax.set(xlim=(0, 26), ylim=(0, 12))
        colour = colours(results)[peer]
        lw = 3 if is_ours(peer) else 1.5
        ax.plot([1, 13, 25], [6, 6, 6], color=colour, lw=lw, clip_on=False)
        ax.plot(
            [13],
            [6],
            color=colour,
            marker=markers(results)[peer],
            ms=7,
            clip_on=False,
        )
        return svg(figure, results["peers"][peer]["title"])


def svg(figure, label):
    """The figure as an element to put into HTML: nothing in it has an id, or is
    clipped.
    """
    file = io.StringIO()
    figure.savefig(
        file,
        format="svg",
        metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")),
    )
    root = ET.fromstring(file.getvalue())
    box = root.get("viewBox")
    shapes = {e.get("id"): e for e in root.iter(f"{SVG}path") if e.get("id")}
    whole = ET.Element(
        f"{SVG}svg", viewBox=box, role="img", style=f"width: {box.split()[2]}px"
    )
    whole.set("aria-label", label)
    whole.extend(lean(root, shapes))
    ET.register_namespace("", SVG[1:-1])
    return ET.tostring(whole, encoding="unicode")


def lean(element, shapes):
    """What is drawn in an element, without groups, definitions and all that
    says nothing.
    """
    for child in element:
        tag = child.tag.removeprefix(SVG)
        if tag == "g":
            yield from lean(child, shapes)
        elif tag == "use":  # of a marker: draw it here instead
            shape = shapes[child.get(LINK).removeprefix("#")]
            at = f"translate({short(child.get('x'))} {short(child.get('y'))})"
            styles = f"{shape.get('style', '')}; {child.get('style', '')}"
            yield ET.Element(
                f"{SVG}path",
                d=short(shape.get("d")),
                style=lean_style(styles),
                transform=at,
            )
        elif tag in ("path", "text", "rect"):
            kept = ET.Element(child.tag)
            kept.text = child.text
            for name in ("d", "x", "y", "width", "height"):
                if child.get(name):
                    kept.set(name, short(child.get(name)))
            kept.set("style", lean_style(child.get("style", "")))
            yield kept


def short(numbers):
    """Coordinates, to a tenth of a pixel."""
    numbers = re.sub(
        r"-?\d+\.\d+",
        lambda m: f"{float(m[0]):.1f}".removesuffix(".0"),
        numbers,
    )
    return " ".join(numbers.split())


def lean_style(text):
    """A style without the font, which is the page's, and with the page's
    colours.
    """
    style = dict(re.findall(r"([\w-]+):\s*([^;]+)", text))
    if style.get("font-size") == f"{SIZE}px":
        del style["font-size"]
    left_out = (
        "font-family",
        "stroke-linejoin",
        "stroke-linecap",
        "stroke-dashoffset",
    )
    return "; ".join(
        f"{name}: {PAGE_COLOURS.get(value, value)}"
        for name, value in style.items()
        if name not in left_out
    )
