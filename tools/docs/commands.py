# SPDX-License-Identifier: MIT
"""Converts the man pages, which the command generates from its option tables, to pages."""
import re
import subprocess

from rst import Missing, escaped, heading, indented

ESCAPES = {r"\-": "-", r"\&": "", r"\(aq": "'", r"\(ti": "~", r"\(ha": "^", r"\(ga": "`", r"\(dq": '"', r"\e": "\\", r"\(bu": "*",
           r"\(rs": "\\"}
FONTS = {"B": "**", "I": "*", "R": ""}


def plain(roff):
    """The text without fonts and escapes."""
    text = re.sub(r"\\f[BIR]", "", roff)
    return re.sub(r"\\(\(..|[-&e])", lambda m: ESCAPES[m[0]], text)


def fonts(roff):
    r"""Converts \fBbold\fR and \fIitalic\fR to reStructuredText."""
    out, font = "", "R"
    for part in re.split(r"(\\f[BIR])", roff):
        if part.startswith("\\f"):
            font = part[2]
            continue
        text = escaped(plain(part))
        mark = FONTS[font]
        if mark and text.strip():
            text = f"{mark}{text}{mark}"
            out += f"\\ {text}\\ " if out and not out[-1].isspace() else f"{text}\\ "
        else:
            out += text
    return out


def sections(page):
    """The sections of a man page: (title, [(term or None, [lines])])."""
    out, term = [], None
    for line in page.splitlines():
        if re.match(r"\.(\\\"|TH|nh|ad)", line):
            continue
        if line.startswith(".SH "):
            out.append((line[4:].strip('"'), [(None, [])]))
        elif line in (".PP", ".br"):
            out[-1][1].append((None, []))
        elif line == ".TP":
            term = ""
        elif term == "":
            out[-1][1].append((line, []))
            term = None
        elif line.startswith(".BR "):
            out[-1][1][-1][1].append("".join(line[4:].split(" ")[:2]))
        elif line.startswith("."):
            raise ValueError(f"unknown roff request: {line}; add it to tools/docs/commands.py")
        else:
            out[-1][1][-1][1].append(line)
    return out


def command_page(name, page):
    """The page of one command. Raises Missing if an option or the command has no text."""
    out = [heading(f"hiwater {name}", "=")]
    by_title = dict(sections(page))
    if not any(lines for _, lines in by_title.get("DESCRIPTION", ())):
        raise Missing(f"hiwater {name}: the command has no text")
    if not by_title.get("OPTIONS"):
        raise Missing(f"hiwater {name}: the page has no options")
    for title, parts in by_title.items():
        if title in ("NAME", "SEE ALSO"):
            continue
        if title != "SYNOPSIS":
            out.append(heading(title.capitalize(), "-"))
        for term, lines in parts:
            if term and not "".join(lines).strip():
                raise Missing(f"hiwater {name}: no text for {plain(term)}")
            if title == "SYNOPSIS":
                out += ["::\n", *(indented(plain(line)) + "\n" for line in lines)] if lines else []
            elif term:
                flag = re.search(r"(--[\w-]+|-\w)", plain(term)) if title == "OPTIONS" else None
                out += [f".. index:: {flag[1]} (hiwater {name})\n"] if flag else []
                out.append(fonts(term) + "\n" + indented(fonts("\n".join(lines)), 4) + "\n")
            elif lines:
                out.append(fonts("\n".join(lines)) + "\n")
    return "\n".join(out) + "\n"


def names(whole):
    """The commands that the page of hiwater lists."""
    return re.findall(r"^\.SS hiwater (\S+)$", whole, re.M)


def pages(hiwater):
    """{name: page} of every command."""
    say = lambda what: subprocess.run([hiwater, "_generate", what], check=True, capture_output=True, text=True).stdout
    listed = names(say("man"))
    return {name: command_page(name, say(f"man-{name}")) for name in listed}
