#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/memory.svg, the picture of docs/memory.md: the bounds of combined memory between
totals."""
import pathlib

WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM = 760, 330, 56, 190, 40, 64
TIMES, MOST = (0, 10), 5.6
TOTALS = (1, 3, 5, 7, 9)
TRUTH = ((0, 1.2), (0.6, 1.9), (1, 2.0), (2.2, 2.9), (3, 3.0), (3.5, 3.0), (3.8, 4.3), (4.3, 4.3), (4.4, 3.0), (5, 3.0), (5.8, 3.2), (10, 3.2))
BOUNDS = ((0, 1, 1.0, 2.3), (1, 3, 2.0, 3.4), (3, 5, 2.6, 4.9), (5, 7, 2.7, 3.7), (7, 10, 3.2, 3.2))  # from, to, low, high
STYLE = ("text{font:13px sans-serif;fill:#1a1a1a}.small{font-size:12px;fill:#555}.axis{stroke:#1a1a1a}.total{stroke:#9a9a9a;stroke-dasharray:3 3}"
         ".band{fill:#0072B2;fill-opacity:.16}.edge{stroke:#0072B2;stroke-width:2;fill:none}.truth{stroke:#D55E00;stroke-width:2;fill:none}"
         ".peak{stroke:#0072B2;stroke-dasharray:6 3;fill:none}.ground{fill:#fff}")


def x(t):
    return LEFT + (WIDE - LEFT - RIGHT) * (t - TIMES[0]) / (TIMES[1] - TIMES[0])


def y(amount):
    return HIGH - BOTTOM - (HIGH - BOTTOM - TOP) * amount / MOST


def steps(column):
    return "M" + "L".join(f"{x(t):.0f} {y(row[column]):.0f}" for row in BOUNDS for t in row[:2])


def picture():
    highest, lowest = max(b[3] for b in BOUNDS), max(b[2] for b in BOUNDS)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" role="img">',
           "<title>Combined memory between totals: the true use lies between a lower and an upper bound of each interval</title>",
           f"<style>{STYLE}</style>", '<rect class="ground" width="100%" height="100%"/>']
    out += [f'<rect class="band" x="{x(a):.0f}" y="{y(high):.0f}" width="{x(b) - x(a):.0f}" height="{max(y(low) - y(high), 2):.0f}"/>'
            for a, b, low, high in BOUNDS]
    out += [f'<path class="total" d="M{x(t):.0f} {TOP}V{HIGH - BOTTOM}"/>' for t in TOTALS]
    out += [f'<path class="edge" d="{steps(3)}"/>', f'<path class="edge" d="{steps(2)}"/>',
            '<path class="truth" d="M' + "L".join(f"{x(t):.0f} {y(v):.0f}" for t, v in TRUTH) + '"/>',
            f'<path class="peak" d="M{x(5):.0f} {y(highest):.0f}H{x(10):.0f}"/>',
            f'<path class="axis" d="M{LEFT} {TOP}V{HIGH - BOTTOM}H{x(10):.0f}" fill="none"/>']
    end = x(10) + 8
    label = lambda px, py, text, kind="", anchor="start": f'<text class="{kind}" x="{px:.0f}" y="{py:.0f}" text-anchor="{anchor}">{text}</text>'
    out += [label(LEFT, TOP - 14, "memory of the job, shared pages once"), label(x(10), HIGH - BOTTOM + 36, "time", "small", "end"),
            label(end, y(highest) + 4, "high: largest of all intervals"), label(end, y(lowest) - 8, "low: largest of all"),
            label(end, y(lowest) + 8, "lower bounds"), label(x(4.05), y(4.3) - 6, "true use", "", "middle"),
            label(x(4), HIGH - BOTTOM + 18, "a child came and went", "small", "middle"),
            label(x(7), HIGH - BOTTOM + 36, "PSS pass: the bounds meet", "small", "middle"),
            label(x(1), HIGH - BOTTOM + 18, "total", "small", "middle"), label(x(2), HIGH - BOTTOM + 36, "interval", "small", "middle"),
            f'<path class="axis" d="M{x(1):.0f} {HIGH - BOTTOM + 24}H{x(3):.0f}"/>']
    return "\n".join([*out, "</svg>"]) + "\n"


if __name__ == "__main__":
    (pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "memory.svg").write_text(picture())
