# SPDX-License-Identifier: MIT
"""Converts include/hiwater.h to a page. A comment describes all declarations below it up to the
next comment or blank line; a comment after a member describes that member."""
import re

from rst import Missing, heading, indented, inline, paragraphs

SECTION = re.compile(r"/\* -{4} (.*?) -+ \*/$")


def comment_text(comment):
    lines = comment.strip()[2:-2].split("\n")
    return "\n".join(re.sub(r"^\s*\*? ?", "", line).rstrip() for line in lines).strip()


def body_of(header):
    """The declarations, without the lines for C++."""
    text = header.split('extern "C" {\n#endif\n', 1)[1].rsplit("#ifdef __cplusplus", 1)[0]
    return re.sub(r"^#define HIW_API .*\n", "", text, flags=re.M)


def tokens(text):
    """("section" | "comment" | "blank" | "code", text), code being a whole declaration."""
    at = 0
    while at < len(text):
        rest = text[at:]
        found = (re.match(r"/\*.*?\*/", rest, re.S) or re.match(r"\n[ \t]*(?=\n)", rest) or re.match(r"#(?:[^\n]*\\\n)*[^\n]*", rest)
                 or re.match(r"\s+", rest))
        if found:
            kind = ("comment" if rest[0] == "/" else "code" if rest[0] == "#" else "blank" if rest[0] == "\n" and
                    at + found.end() < len(text) and text[at + found.end()] == "\n" else None)
            section = kind == "comment" and SECTION.match(found[0])
            if kind:
                yield ("section", section[1]) if section else (kind, found[0])
            at += found.end()
            continue
        end, depth = at, 0
        while text[end] != ";" or depth:
            skip = re.match(r"/\*.*?\*/", text[end:], re.S)
            if skip:
                end += skip.end()
                continue
            depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(text[end], 0)
            end += 1
        yield "code", text[at:end + 1]
        at = end + 1


def groups(text):
    """("section", title) and ("group", comment, declarations)."""
    comment, declared = "", []
    for kind, what in [*tokens(text), ("blank", "")]:
        if kind == "code":
            declared.append(what)
            continue
        if declared:
            yield "group", comment, declared
            comment, declared = "", []
        elif comment and kind != "comment":
            yield "group", comment, []
            comment = ""
        if kind == "section":
            yield "section", what, []
        elif kind == "comment":
            comment = comment_text(what)


def members(body, separator):
    """(declaration, text) of each member of a struct or an enum."""
    parts, text_before, out = re.split(r"(/\*.*?\*/)", body, flags=re.S), "", []
    for i, part in enumerate(parts):
        if i % 2 == 0:
            found = [" ".join(d.split()) for d in part.split(separator) if d.strip()]
            out += [[d, text_before] for d in found]
            if found:
                text_before = "" if "\n" in part.strip(" \t") and part.rstrip(" \t").endswith("\n") else text_before
            continue
        is_behind = out and "\n" not in parts[i - 1].rsplit(separator, 1)[-1]
        if is_behind:
            out[-1][1] = comment_text(part)
            text_before = ""
        else:
            text_before = comment_text(part)
    return out


def each(declaration):
    """"int a, *b" as "int a", "int *b"."""
    if "," not in declaration or "(" in declaration:
        return [declaration]
    first, *others = [d.strip() for d in declaration.split(",")]
    kind = re.match(r"(.*?)\**\w+(\[.*\])?$", first)[1]
    return [first, *(kind + d for d in others)]


def compound(code, comment):
    """The text of a struct or an enum with its members. Raises Missing for a member without a
    comment, unless the whole has one."""
    kind, name, body = re.match(r"(struct|enum)\s*(\w*)\s*\{(.*)\}\s*;$", code, re.S).groups()
    rows = members(body, ";" if kind == "struct" else ",")
    for declaration, text in rows:
        if not text and not comment:
            raise Missing(f"hiwater.h: {kind} {name}: no text for {declaration}")
    out = [f".. c:{kind}:: {name}\n"] if name else []
    for declaration, text in rows:
        names = each(declaration) if kind == "struct" else [declaration.split("=")[0].strip()]
        lines = "\n".join((f".. c:{'member' if kind == 'struct' else 'enumerator'}:: " if i == 0 else "   ") + n
                          for i, n in enumerate(names))
        out.append(indented(f"{lines}\n\n{indented(inline(text))}\n", 3 if name else 0))
    return "\n".join(out)


def directive(code, comment):
    code = code.strip()
    if code.startswith("#define"):
        return f".. c:macro:: {code.split()[1]}\n"
    if "{" in code:
        return compound(code, comment)
    flat = " ".join(re.sub(r"/\*.*?\*/", "", code, flags=re.S).split()).rstrip(";")
    if flat.startswith("HIW_API"):
        return f".. c:function:: {flat.removeprefix('HIW_API ')}\n"
    if flat.startswith("typedef"):
        return f".. c:type:: {flat.removeprefix('typedef ')}\n"
    return f".. c:struct:: {flat.removeprefix('struct ')}\n"


def name_of(code):
    found = re.search(r"(\w+)\s*\(", code) or re.search(r"(?:struct|enum|#define)\s+(\w+)", code)
    return found[1] if found else code.split("\n")[0]


def linked(text, functions):
    """The text of a comment, with links to the functions that it names."""
    out = ""
    for part in re.split(r"\b(hiw_\w+)\b", text):
        is_link = part in functions
        glue = "\\ " if out and not out[-1].isspace() and (is_link or out.endswith("`")) else ""
        out += glue + (f":c:func:`{part}`" if is_link else inline(part))
    return out


def page(header):
    """The page. Raises Missing for a declaration without a comment."""
    top = comment_text(re.search(r"/\*.*?\*/", header, re.S)[0]).split("\n", 1)[1]
    out = [heading("C reference", "="), "Made from ``include/hiwater.h``.\n", paragraphs(top.strip("\n"))]
    functions = set(re.findall(r"^HIW_API [^(]*?(\w+)\(", header, re.M))
    structs = set(re.findall(r"^struct (\w+) \{", header, re.M))
    for kind, text, declared in groups(body_of(header)):
        if kind == "section":
            out.append(heading(text[0].upper() + text[1:], "-"))
            continue
        for code in declared:
            if code == "struct rusage;":
                continue
            if not text and "{" not in code:
                raise Missing(f"hiwater.h: no text for {name_of(code)}")
        shown = [directive(code, text) for code in declared if code != "struct rusage;"]
        if text and len(shown) == 1:
            first, _, rest = shown[0].partition("\n")
            described = f"{first}\n\n{indented(linked(text, functions - structs))}\n{rest}"
            # In C a function and a struct may have the same name, in Sphinx not.
            is_twice = first.startswith(".. c:function::") and name_of(declared[0]) in structs
            out.append(f".. c:namespace-push:: function\n\n{described}\n.. c:namespace-pop::\n" if is_twice else described)
        else:
            out += [linked(text, functions - structs) + "\n", *shown] if text else shown
    return "\n".join(out) + "\n"
