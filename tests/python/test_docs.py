# SPDX-License-Identifier: MIT
"""The generators of the site (tools/docs) convert texts, and report public items without one."""
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import pytest
from track_helpers import COMMAND, ROOT

sys.path.insert(0, str(ROOT / "tools" / "docs"))
import comparison  # noqa: E402
import c_reference  # noqa: E402
import commands  # noqa: E402
import pictures  # noqa: E402
import python_reference  # noqa: E402
from rst import Missing  # noqa: E402

HEADER = (ROOT / "include" / "hiwater.h").read_text()


def test_every_function_and_type_of_the_header():
    page = c_reference.page(HEADER)
    for name in re.findall(r"^HIW_API [^(]*?(\w+)\(", HEADER, re.M):
        assert re.search(rf"^\.\. c:function:: .*\b{name}\(", page, re.M), name
    for kind, name in re.findall(r"^(struct|enum) (\w+) \{", HEADER, re.M):
        assert f".. c:{kind}:: {name}\n" in page
    assert ".. c:enumerator:: HIW_REPORT_RUNS" in page and ".. c:member:: enum hiw_act act" in page
    assert len(re.findall(r"c:member::", page)) > 100


@pytest.mark.parametrize("comment, name", [
    ("/* Reads what is due and handles messages and alerts; never blocks. */\n", "hiw_recorder_step"),
    ("/* The unit of a metric's values. */\n", "enum hiw_unit"),
    ("/* The text of an error; \"\" if there is no text. */\n", "struct hiw_err"),
])
def test_a_declaration_without_text(comment, name):
    assert comment in HEADER
    bare = HEADER.replace(comment, "\n")
    with pytest.raises(Missing, match=name):
        c_reference.page(bare)


def test_a_docstring_that_is_missing(tmp_path):
    package = tmp_path / "hiwater"
    shutil.copytree(ROOT / "python" / "hiwater", package)
    page = python_reference.page(package)
    assert ".. py:class:: TrackingComparison(" in page and ".. py:function:: classify_oom_exception(" in page
    assert ".. py:function:: track(function: _F, /) -> _F" in page and ".. py:method:: wrap_loader(" in page
    run = package / "_run.py"
    text = run.read_text()
    bare, n = re.subn(r'"""Records a mark at this instant.*?"""', "pass", text, flags=re.S)
    assert n == 1
    run.write_text(bare)
    with pytest.raises(Missing, match="Run.mark"):
        python_reference.page(package)


def test_every_option_of_every_command():
    pages = commands.pages(COMMAND)
    assert {"run", "attach", "show", "gpus"} <= set(pages)
    for name, page in pages.items():
        said = subprocess.run([COMMAND, name, "--help"], capture_output=True, text=True, check=True).stdout
        for option in re.findall(r"^ +(?:-\w, )?(--[\w-]+)", said, re.M):
            assert f".. index:: {option} " in page or f"**{option}**" in page, (name, option)


def test_an_option_without_text():
    roff = subprocess.run([COMMAND, "_generate", "man-mark"], capture_output=True, text=True, check=True).stdout
    assert "\nShow this text.\n" in roff
    with pytest.raises(Missing, match="--help"):
        commands.command_page("mark", roff.replace("\nShow this text.\n", "\n"))


def test_pictures():
    drawn = pictures.all_of(ROOT)
    words = {file: {t.text for t in xml.etree.ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")}
             for file, svg in drawn.items()}
    assert {"base", "source", "sample", "cli", "top", "hiwater.h"} <= words["layers.svg"]
    assert {"Run", "Recording", "Phase"} <= words["classes.svg"] and {"Summary", "Device"} <= words["summary.svg"]
    ranks = pictures.ranks(pictures.folders(ROOT))
    assert ranks["base"] < ranks["source"] < ranks["sample"] < ranks["api"] < ranks["cli"]


@pytest.mark.parametrize("cell, instead, says", [
    ("| no s24 |", "| no |", "cites no evidence"), ("| yes s10 |", "| yes s99 |", "10, 99"), ("| unseen | unseen |", "| unseen |", "cells, ")])
def test_a_cell_of_the_table_that_nobody_saw(cell, instead, says):
    text = (ROOT / "docs" / "comparison.md").read_text()
    comparison.check(text)
    assert cell in text
    with pytest.raises(Missing, match=says):
        comparison.check(text.replace(cell, instead, 1))


def test_private_words_are_found_outside_code():
    check = pictures.tool(ROOT / "tools" / "check-docs")
    page = ROOT / "docs" / "memory.md"
    text = "a `tick` in code\n\n    a tick in a block\n\n```text\na tick\n```\n[a link](tick.md), and one tick in prose\n"
    assert [n for n, line in enumerate(check.prose(text).splitlines(), 1) if "tick" in line] == [8]
    assert check.is_plain(page) and not check.is_plain(ROOT / "docs" / "summary.schema.json")
    assert not list(check.idioms_in(page))


def test_a_decision_names_tests_that_exist(tmp_path, monkeypatch):
    check = pictures.tool(ROOT / "tools" / "check-docs")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    (tmp_path / "tests" / "new").mkdir(parents=True)
    (tmp_path / "tests" / "new" / "test_a.py").write_text("def test_one(): pass\n")
    page = tmp_path / "0001.md"
    page.write_text("`tests/new/test_a.py::test_one`, `tests/new/test_a.py::test_two`, `tests/test_a.py::test_one`")
    assert list(check.missing_tests(page)) == ["0001.md: no test_two in tests/new/test_a.py",
                                               "0001.md: no tests/test_a.py; it is now tests/new/test_a.py"]
