# SPDX-License-Identifier: MIT
"""Reads a report as docs/report.md describes it, with Python's own parsers."""
import base64
import html.parser
import json
import struct
import zlib

FACTORS = {"bytes": 1, "ppm": 1e-6, "uw": 1e-6, "uj": 1e-6, "mcel": 1e-3, "ns": 1e-9, "hz": 1, "count": 1, "": 1}
SPECIAL = [None, float("nan"), float("inf"), float("-inf")]


class Page(html.parser.HTMLParser):
    """elements: (tag, attributes) in their order; inside: the text of script, style and title; text: all other text."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.source = source
        self.elements, self.inside, self.text, self.open = [], {}, "", []
        self.scripts, self.styles = [], []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "script":
            self.scripts.append("")
        elif tag == "style":
            self.styles.append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        where = self.open[-1] if self.open else ""
        if where == "script":
            self.scripts[-1] += data
        elif where == "style":
            self.styles[-1] += data
        elif where == "title" and "title" not in self.inside:  # pictures have some, too
            self.inside["title"] = data
        else:
            self.text += data

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def length(self):
        self.at += 4
        return struct.unpack_from("<I", self.data, self.at - 4)[0]

    def json(self):
        end = self.length() + self.at
        text, self.at = self.data[self.at:end], end
        return json.loads(text)

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value


def unzigzag(code):
    return code >> 1 if code % 2 == 0 else -(code + 1) // 2


def read_column(reader, column, rows):
    steps, last = [], 0
    factor = column["step"] * FACTORS[column["unit"]]
    column["mean"] = []
    for _ in range(rows):
        code = reader.varint()
        if code < 4:
            steps.append(None)
            column["mean"].append(SPECIAL[code])
            continue
        if column["step"] == 0:
            column["mean"].append(struct.unpack_from("<d", reader.data, reader.at)[0])
            reader.at += 8
            continue
        last += unzigzag(code - 4)
        steps.append(last)
        column["mean"].append(last * factor)
    for name, sign in (("low", -1), ("high", 1)):
        column[name] = [n if n is None else (n + sign * reader.varint()) * factor for n in steps] if column["band"] else column["mean"]


def read_table(reader, table):
    second, last = table["unit_ns"] / 1e9, 0
    table["t"] = []
    for _ in range(table["rows"]):
        last += reader.varint()
        table["t"].append(last * second)
    table["span"] = [reader.varint() * second for _ in range(table["rows"])]
    for column in table["columns"]:
        read_column(reader, column, table["rows"])


def payload(page):
    """The header; each run has its summary, each column its numbers."""
    packed = base64.b64decode(page.scripts[0], validate=True)
    reader = Reader(zlib.decompress(packed))
    data = reader.json()
    for run in data["runs"]:
        run["summary"] = reader.json()
    left = reader.length()
    begin = reader.at
    for run in data["runs"]:
        for table in run["tables"]:
            read_table(reader, table)
    assert reader.at == begin + left == len(reader.data), "all of it was read"
    return data


def table(run, entity, id=0):
    return next(t for t in run["tables"] if t["entity"] == entity and t["id"] in (id, t["id"] if id == 0 else id))


def column(found, name, **more):
    return next(c for c in found["columns"] if c["name"] == name and all(c.get(k) == v for k, v in more.items()))
