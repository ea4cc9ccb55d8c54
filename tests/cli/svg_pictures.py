# SPDX-License-Identifier: MIT
"""Reads the pictures of a report as a person does: by the words at their axes. Parsed by Python's own XML parser."""
import re
import xml.etree.ElementTree

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "%": 0.01, "W": 1, "s": 1, "ms": 0.001, "cores": 1,
         "\u00b0C": 1, "": 1}


def amount(text):
    """'1.50 GiB' in base units; '1 min 30 s' in seconds; None if it is no amount."""
    spans = {"d": 86400, "h": 3600, "min": 60, "s": 1}
    if re.fullmatch(r"\d+ (?:d|h|min)(?: \d+ (?:h|min|s))?", text):
        return sum(int(number) * spans[unit] for number, unit in re.findall(r"(\d+) (\w+)", text))
    found = re.fullmatch(r"(-?[\d.]+(?:e-?\d+)?)[ \xa0]?(\S*?)(?:/s)?", text)
    return float(found[1]) * UNITS[found[2]] if found and found[2] in UNITS else None


def line_through(pairs):
    """The linear function through the outermost two of (place, value)."""
    (a, x), (b, y) = min(pairs), max(pairs)
    return lambda place: x + (place - a) * (y - x) / (b - a)


def places(d):
    """The places of a path of M, L, l, H, h, V, v and Z."""
    at, found, command = (0.0, 0.0), [], None
    tokens = re.findall(r"[A-Za-z]|-?\d*\.?\d+", d)
    while tokens:
        if tokens[0].isalpha():
            command = tokens.pop(0)
            if command == "Z":
                continue
        if command in "MLl":
            x, y = float(tokens.pop(0)), float(tokens.pop(0))
            at = (at[0] + x, at[1] + y) if command == "l" else (x, y)
        else:
            by = float(tokens.pop(0))
            x, y = at
            at = {"H": (by, y), "h": (x + by, y), "V": (x, by), "v": (x, y + by)}[command]
        found.append(at)
    return found


class Picture:
    """lines[label]: [(seconds, value), ...] of each of its lines' stretches; highs and lows: of its band."""

    def __init__(self, source):
        figure = xml.etree.ElementTree.fromstring(source)
        caption, svg = figure.find("figcaption"), figure.find("svg")
        self.svg, self.note = svg, figure.findtext("p")
        self.title = (caption.text or "").strip()
        spans = caption.findall("span")
        keys = [span for span in spans if span.get("class") != "above"]
        self.keys = ["".join(key.itertext()) for key in keys]
        self.above = ["".join(span.itertext()).replace("\xa0", " ") for span in spans if span not in keys]
        words = [(float(t.get("x")), float(t.get("y")), t.text or "", t.get("text-anchor")) for t in svg.iter("text")]
        bottom = max(y for _, y, _, _ in words)
        # The last word may end at the edge of the picture instead of standing over its time.
        self.time = line_through([(x, amount(text)) for x, y, text, anchor in words if y == bottom and anchor == "middle"])
        grid = sorted({places(path.get("d"))[0][1] for path in svg.findall("path") if path.get("class") == "grid"}, reverse=True)
        values = [amount(text) for _, y, text, anchor in words if anchor == "end" and y != bottom]
        self.value = line_through(list(zip(grid, values))) if len(grid) > 1 else None
        self.colors = [key.get("class").split()[-1] for key in keys]

    def shapes(self, kind, line=0):
        """The paths of a line or of its band, as times and values: a list of lists."""
        found = [p for p in self.svg.iter("path") if p.get("class") == f"{kind} c{line}"]
        return [[(self.time(x / 10), self.value(y / 10)) for x, y in places(p.get("d"))] for p in found]

    def dots(self, line=0):
        return [(self.time(float(c.get("cx")) / 10), self.value(float(c.get("cy")) / 10)) for c in self.svg.iter("circle") if c.get("class") == f"c{line}"]

    def at(self, time, line=0):
        """What the line shows at a time; None in a gap."""
        for shape in self.shapes("line", line):
            if shape[0][0] <= time <= shape[-1][0]:
                return max((point for point in shape if point[0] <= time), key=lambda point: point[0])[1]
        return None

    def stretches(self, kind):
        """[(from, to), ...]"""
        rects = [r for r in self.svg.iter("rect") if r.get("class") == kind]
        return [(self.time(float(r.get("x"))), self.time(float(r.get("x")) + float(r.get("width")))) for r in rects]

    def moments(self, kind):
        """{words: seconds}"""
        return {p.findtext("title"): self.time(places(p.get("d"))[0][0]) for p in self.svg.iter("path") if p.get("class") == kind and p.find("title") is not None}


def pictures(source):
    """{title: Picture} of a page's source."""
    figures = [Picture(f.replace("&nbsp;", "\xa0")) for f in re.findall(r"<figure class=\"picture\">.*?</figure>", source, flags=re.S)]
    return {p.title: p for p in figures}
