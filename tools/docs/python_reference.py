# SPDX-License-Identifier: MIT
"""Converts the docstrings of the Python package to a page. Parses its sources and .pyi files
without importing them."""
import ast
import pathlib

from rst import Missing, heading, indented, inline, paragraphs

HOOKS = ("on_", "setup", "teardown", "state_key")  # called by a training framework, which documents them


def parsed(path):
    return ast.parse(path.read_text())


def defined(tree):
    """{name: nodes} of classes and functions; overloads and accessors are several."""
    out = {}
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            out.setdefault(node.name, []).append(node)
    return out


def decorators(node):
    return {ast.unparse(d).split("(")[0] for d in node.decorator_list}


def signature(node, skip_first=False):
    arguments = node.args
    if skip_first and "staticmethod" not in decorators(node):
        (arguments.posonlyargs or arguments.args).pop(0)
    for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if a is not None and isinstance(a.annotation, ast.Constant):
            a.annotation = ast.parse(a.annotation.value, mode="eval").body
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"({ast.unparse(arguments)}){returns}"


def text_of(node, name):
    text = ast.get_docstring(node)
    if not text:
        raise Missing(f"{name}: no docstring")
    return indented(paragraphs(text)) + "\n"


def function(name, node, typed):
    signatures = [f"{name}{signature(n)}" for n in typed or [node]]
    return ".. py:function:: " + "\n                 ".join(signatures) + "\n\n" + text_of(node, name)


def method(node, of):
    marks = decorators(node)
    name = f"{of}.{node.name}"
    if marks & {"property", "cached_property"}:
        kind = f"\n   :type: {ast.unparse(node.returns)}" if node.returns else ""
        return f".. py:property:: {node.name}{kind}\n\n{text_of(node, name)}"
    option = "\n   :classmethod:" if "classmethod" in marks else ""
    return f".. py:method:: {node.name}{signature(node, skip_first=True)}{option}\n\n{text_of(node, name)}"


def fields(node):
    """Annotated names in the body of a dataclass or a stub."""
    return [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and not n.target.id.startswith("_")]


def cls(node, name=None, only=None, but=()):
    name = name or node.name
    is_data = "dataclass" in decorators(node)
    init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    head = name + (signature(init, skip_first=True).rsplit(" -> ", 1)[0] if init and not is_data and not only else "")
    parts = [f".. py:class:: {head}\n", text_of(node, name)]
    for field in fields(node) if is_data else ():
        parts.append(indented(f".. py:attribute:: {field.target.id}\n   :type: {ast.unparse(field.annotation)}\n"))
    for n in node.body:
        is_shown = isinstance(n, ast.FunctionDef) and not n.name.startswith("_") and ".setter" not in str(decorators(n))
        if is_shown and n.name not in but and not n.name.startswith(HOOKS) and (only is None or n.name in only):
            parts.append(indented(method(n, name)))
    return "\n".join(parts)


def module_text(path):
    text = ast.get_docstring(parsed(path))
    if not text:
        raise Missing(f"{path.name}: no docstring")
    return paragraphs(text) + "\n"


def exported(init):
    """{public name: (module, name there)} of the package, out of its table."""
    table = next(ast.literal_eval(n.value) for n in init.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "_NAMES")
    listed = next(ast.literal_eval(n.value) for n in init.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__")
    return {name: table[name] for name in listed if name in table}


def public(package):
    """The public functions and classes of the package."""
    functions, classes = [], []
    for name, (module, inner) in exported(parsed(package / "__init__.py")).items():
        node = defined(parsed(package / f"{module}.py"))[inner][-1]
        stub = package / f"{module}.pyi"
        typed = defined(parsed(stub)).get(inner) if stub.exists() else None
        if isinstance(node, ast.ClassDef):
            classes.append(cls(node, name))
        else:
            functions.append(function(name, node, typed))
    return functions, classes


def found_in(path, name):
    """The node that defines a name of a module, found through `from .module import name`."""
    tree = parsed(path)
    if name in defined(tree):
        return defined(tree)[name][-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module and name in {a.asname or a.name for a in node.names}:
            return found_in(path.parent / f"{node.module}.py", next(a.name for a in node.names if (a.asname or a.name) == name))
    raise Missing(f"{path.parent.name}: {name} is listed but not defined")


def listed(init):
    """The names of __all__, or of the table that it is made from."""
    values = {ast.unparse(n.targets[0]): n.value for n in init.body if isinstance(n, ast.Assign)}
    if isinstance(values["__all__"], ast.List):
        return ast.literal_eval(values["__all__"])
    return sorted(name for names in ast.literal_eval(values["_MODULES"]).values() for name in names)


def compat(package):
    """The replacements of other packages. Their parameters, methods and fields are documented
    there; docs/compat.md has the rest."""
    for init in sorted((package / "compat").glob("*/__init__.py")):
        yield heading(f"hiwater.compat.{init.parent.name}", "-")
        yield f".. py:module:: hiwater.compat.{init.parent.name}\n"
        yield module_text(init)
        for name in listed(parsed(init)):
            if name.startswith("__"):
                continue
            node = found_in(init, name)
            yield cls(node, name, only=()) if isinstance(node, ast.ClassDef) else function(name, node, None)


def page(package):
    package = pathlib.Path(package)
    functions, classes = public(package)
    summary = [cls(nodes[-1]) for name, nodes in defined(parsed(package / "_summary.py")).items()
               if isinstance(nodes[-1], ast.ClassDef) and not name.startswith("_") and name != "Summary"]
    out = [heading("Python reference", "="), ".. py:module:: hiwater\n", module_text(package / "__init__.py"),
           heading("Functions", "-"), *functions, heading("Classes", "-"), *classes, heading("Classes of a summary", "-"), *summary,
           heading("hiwater.sinks", "-"), ".. py:module:: hiwater.sinks\n", module_text(package / "sinks.py")]
    sinks = parsed(package / "sinks.py")
    protocol = next(n for n in ast.walk(sinks) if isinstance(n, ast.ClassDef) and n.name == "Sink")
    out.append(cls(protocol))
    for name, (node, *_) in defined(sinks).items():
        if isinstance(node, ast.ClassDef) and not name.startswith("_"):
            out.append(cls(node, but={n.name for n in protocol.body if isinstance(n, ast.FunctionDef)}))
    out += [heading("hiwater.callbacks", "-"), ".. py:module:: hiwater.callbacks\n", module_text(package / "callbacks" / "__init__.py")]
    out.append(function("epochs", defined(parsed(package / "callbacks" / "_session.py"))["epochs"][-1], None))
    for name, module in (("HuggingFace", "huggingface"), ("Keras", "keras"), ("Lightning", "lightning")):
        out.append(cls(defined(parsed(package / "callbacks" / f"{module}.py"))[name][-1], only=("run",)))
    return "\n".join([*out, *compat(package)]) + "\n"
