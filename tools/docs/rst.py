# SPDX-License-Identifier: MIT
"""Converts plain text of comments, docstrings and man pages to reStructuredText."""
import re
import textwrap


class Missing(Exception):
    """A public item has no text."""


def escaped(text):
    return re.sub(r"([\\*`|]|_(?!\w)|(?<!\w)_)", r"\\\1", text)


def inline(text):
    """Converts `code` to code, and escapes everything else."""
    parts = re.split(r"`([^`\n]+)`", text.replace("``", "`"))
    out = ""
    for i, part in enumerate(parts):
        if i % 2 == 0:
            out += escaped(part)
            continue
        before = "\\ " if re.search(r"[\w\\]$", out) else ""
        after = "\\ " if i + 1 < len(parts) and re.match(r"\w", parts[i + 1]) else ""
        out += f"{before}``{part.strip()}``{after}"
    return out


def heading(text, mark):
    return f"{text}\n{mark * max(3, len(text))}\n"


def indented(text, by=3):
    return textwrap.indent(text, " " * by)


def _rows(lines):
    """Parses lines of two columns, "name    text", whose text may continue below; None if the lines have another form."""
    rows = []
    for line, below in zip(lines, [*lines[1:], ""]):
        found = re.match(r"(\S(?:[^ ]| (?! ))*) {2,}(\S.*)$", line)
        if found:
            rows.append([found[1], found[2]])
        elif rows and line.startswith("    "):
            rows[-1][1] += " " + line.strip()
        elif rows and below.startswith("    "):
            rows.append([line, ""])
        else:
            return None
    return rows


def paragraphs(text):
    """Converts a docstring or a comment: paragraphs, indented code, and tables of names."""
    out = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.split("\n")
        rows = _rows(lines)
        code = [i for i, line in enumerate(lines) if line.startswith("    ")]
        if rows:
            out += [f"{inline(name)}\n    {inline(what.strip())}\n" for name, what in rows]
        elif len(code) == len(lines):
            out.append("::\n\n" + part + "\n")
        elif code and code == list(range(code[0], len(lines))):
            out += [inline("\n".join(lines[:code[0]])) + "\n", "::\n\n" + "\n".join(lines[code[0]:]) + "\n"]
        else:
            out.append(inline(textwrap.dedent(part)) + "\n")
    return "\n".join(out)
