# SPDX-License-Identifier: MIT
"""Diagrams made from the code, as SVG: the includes between folders of src/, and the classes of the
Python package."""
import ast
import html
import importlib.machinery
import importlib.util
import pathlib
import re

HIGH, GAP_X, GAP_Y, CHAR = 26, 14, 34, 7.3
STYLE = ("text{font:13px sans-serif;fill:#1a1a1a}rect{fill:#eef3f8;stroke:#5b7a99}path{fill:none;stroke:#8a8a8a}"
         "path.base{stroke:#b3541e}.ground{fill:#fff;stroke:none}")


def tool(path):
    """A program of tools/ as a module."""
    loader = importlib.machinery.SourceFileLoader(path.name.replace("-", "_"), str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def folders(root):
    """{layer: layers that its files include}."""
    layers = tool(root / "tools" / "check-layers")
    out = {}
    for path in sorted((root / "src").rglob("*.[ch]")):
        layer = layers.folder_of(path.relative_to(layers.SRC))
        if layer is None:
            continue
        used = out.setdefault(layer, set())
        for name in re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', path.read_text(), re.M):
            target = layers.target_of(name, path)
            other = "hiwater.h" if name == "hiwater.h" else layers.folder_of(target) if target else None
            used |= {other} - {layer, None}
    out["hiwater.h"] = {"api"}  # what it declares is there
    out["api"] = out.get("api", set()) - {"hiwater.h"}
    return out


def classes(package, is_summary):
    """{class: (its bases, the classes that its body names)}, of the summary's types or of
    everything else."""
    found = {}
    for path in sorted(package.glob("*.py")):
        if (path.name == "_summary.py") == is_summary:
            found.update({n.name: n for n in ast.parse(path.read_text()).body
                          if isinstance(n, ast.ClassDef) and not n.name.startswith("_")})
    out = {}
    for name, node in found.items():
        words = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        words |= {w for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str) and len(n.value) < 60
                  for w in re.findall(r"\w+", n.value) if w[:1].isupper()}
        bases = {b.id for b in node.bases if isinstance(b, ast.Name)} & set(found)
        out[name] = (bases, (words & set(found)) - {name} - bases)
    return out


def ranks(edges):
    """The rank of each name: one above the highest name that it uses. Edges that close a circle are
    ignored."""
    rank, open_now = {}, set()

    def visit(name):
        if name not in rank and name not in open_now:
            open_now.add(name)
            below = [visit(other) for other in sorted(edges.get(name, ())) if other not in open_now]
            open_now.discard(name)
            rank[name] = 1 + max(below, default=-1)
        return rank.get(name, -1)

    for name in sorted(set(edges).union(*edges.values())):
        visit(name)
    return rank


def rows_of(rank, edges):
    """Names by rank, highest first, each near the middle of those above that use it."""
    rows, place = [], {}
    for level in sorted(set(rank.values()), reverse=True):
        names = sorted(n for n in rank if rank[n] == level)
        middle = lambda n: (lambda ps: sum(ps) / len(ps) if ps else 0.5)([place[u] for u in place if n in edges.get(u, ())])
        names.sort(key=middle)
        for start in range(0, len(names), 8):
            rows.append(names[start:start + 8])
        place.update({n: (i + 0.5) / len(names) for i, n in enumerate(names)})
    return rows


def svg(edges, title, bases=frozenset()):
    """edges: {name: names that it uses}, drawn downwards; bases: pairs that are inheritance."""
    rows = rows_of(ranks(edges), edges)
    wide = lambda n: len(n) * CHAR + 18
    width = max(sum(map(wide, row)) + GAP_X * (len(row) + 1) for row in rows)
    at = {}
    for y, row in enumerate(rows):
        x = (width - sum(map(wide, row)) - GAP_X * (len(row) - 1)) / 2
        for name in row:
            at[name] = (x, GAP_Y + y * (HIGH + GAP_Y))
            x += wide(name) + GAP_X
    height = GAP_Y + len(rows) * (HIGH + GAP_Y)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img">',
           f"<title>{html.escape(title)}</title><style>{STYLE}</style>", '<rect class="ground" width="100%" height="100%"/>']
    for name, others in sorted(edges.items()):
        for other in sorted(others):
            (x, y), (to_x, to_y) = at[name], at[other]
            x, to_x = x + wide(name) / 2, to_x + wide(other) / 2
            y, to_y = (y + HIGH, to_y) if to_y > y else (y, to_y + HIGH)
            kind = ' class="base"' if (name, other) in bases else ""
            out.append(f'<path{kind} d="M{x:.0f} {y:.0f}C{x:.0f} {(y + to_y) / 2:.0f} {to_x:.0f} {(y + to_y) / 2:.0f} {to_x:.0f} {to_y:.0f}"/>')
    for name, (x, y) in at.items():
        out.append(f'<rect x="{x:.0f}" y="{y}" width="{wide(name):.0f}" height="{HIGH}" rx="4"/>'
                   f'<text x="{x + wide(name) / 2:.0f}" y="{y + 17}" text-anchor="middle">{html.escape(name)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def all_of(root):
    """{file: SVG}."""
    root = pathlib.Path(root)
    pictures = {"layers.svg": svg(folders(root), "Folders of src/ and their includes")}
    for file, is_summary, title in (("classes.svg", False, "Classes of the package hiwater"),
                                    ("summary.svg", True, "Classes of a Summary")):
        found = classes(root / "python" / "hiwater", is_summary)
        edges = {name: bases | used for name, (bases, used) in found.items()}
        pictures[file] = svg(edges, title, {(name, base) for name, (bases, _) in found.items() for base in bases})
    return pictures
