# SPDX-License-Identifier: MIT
"""Runs the code in docs/tutorials, in one folder per page, block after block, and checks the output
that the page shows.

A fence "sh run" or "python run" is a program that must end with 0; run=gpu runs it on a fake
driver, run=slurm in a cluster, run=cell as a cell of a notebook, run=report may be refused by a
build without uPlot. "text said" has lines of the output of the block before: numbers may differ,
"..." is anything. run=where needs page faults that can be sampled; elsewhere it is left out."""
import os
import re
import subprocess
import sys

import pytest
from track_helpers import COMMAND, ROOT

sys.path[:0] = [str(ROOT / "tests" / "gpu"), str(ROOT / "tests" / "cli")]
from fake_gpu import Fake  # noqa: E402
from where_runs import can_sample  # noqa: E402

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def blocks(page):
    """(language, how, text) of each fence that is run, and ("text", "said", lines)."""
    for info, text in re.findall(r"^```(.*?)\n(.*?)^```$", page.read_text(), re.M | re.S):
        language, _, how = info.partition(" ")
        if how:
            assert how == "said" or re.fullmatch(r"run(=(gpu|slurm|cell|report|where))?", how), f"{page.name}: {info}"
            yield language, how, text


def kinds(page):
    return {how for _, how, _ in blocks(page)}


def blanked(line):
    return re.sub(r"<?\d+(\.\d+)*", "#", " ".join(line.split()))


def check_said(text, output):
    lines = [blanked(line) for line in output.splitlines()]
    for wanted in text.splitlines():
        pattern = ".*".join(map(re.escape, blanked(wanted).split("...")))
        assert any(re.fullmatch(pattern, line) for line in lines), f"not said: {wanted}\n{output}"


class Reader:
    """Somebody who types a page, with hiwater and python on the PATH."""

    def __init__(self, program):
        self.program = program
        folder = program.folder / "bin"
        folder.mkdir()
        for name, target in (("hiwater", COMMAND), ("python", sys.executable)):
            (folder / name).write_text(f'#!/bin/sh\nexec "{target}" "$@"\n')
            (folder / name).chmod(0o755)
        self.env = {**program.env, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}

    def run(self, language, how, text, more):
        env = {**self.env, **more, **(Fake(self.program.folder, "default").environment() if how == "run=gpu" else {})}
        command = {"sh": ["bash", "-eu", "-c", text], "python": [sys.executable, "-c", text]}[language]
        done = subprocess.run(command, env=env, cwd=self.program.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=100)
        if how == "run=report" and "built without uPlot" in done.stdout:
            return done.stdout
        assert done.returncode == 0, f"{text}\n{done.stdout}"
        return done.stdout

    def follow(self, page, **more):
        output = None
        for language, how, text in blocks(page):
            if how == "run=where" and can_sample():
                output = None
            elif how == "said":
                assert output is None or check_said(text, output) is None
            else:
                output = self.run(language, how, text, more)


def pages_with(*wanted):
    return [pytest.param(p, id=p.stem) for p in PAGES if kinds(p) & set(wanted)]


@pytest.mark.parametrize("page", [pytest.param(p, id=p.stem) for p in PAGES if not kinds(p) & {"run=slurm", "run=cell"}])
def test_a_page(program, page):
    assert {"run", "run=gpu", "run=where"} & kinds(page)
    Reader(program).follow(page)


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", pages_with("run=slurm"))
def test_on_slurm(program, page, tmp_path_factory):
    loopback, folder = ROOT / "tools" / "slurm-loopback", tmp_path_factory.mktemp("slurm") / "none"
    reader = Reader(program)
    # The daemons' environment is their jobs': there, too, hiwater is on the PATH.
    started = subprocess.run([loopback, "start", "--dir", folder, "--gpus", "0", "--cgroup", "none"], text=True,
                             capture_output=True, env=reader.env)
    assert started.returncode == 0, started.stderr
    try:
        reader.follow(page, SLURM_CONF=re.search(r"SLURM_CONF=(\S+)", started.stdout)[1])
    finally:
        subprocess.run([loopback, "stop", "--dir", folder], check=True)


@pytest.mark.full
@pytest.mark.frameworks
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", pages_with("run=cell"))
def test_in_a_notebook(program, page, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    for key, value in {**program.env, "IPYTHONDIR": str(program.folder / "ipython")}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(program.folder)
    steps = list(blocks(page))
    cells = [nbformat.v4.new_code_cell(text) for _, how, text in steps if how == "run=cell"]
    nb = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(nb, timeout=120).execute()
    number = -1
    for _, how, text in steps:
        number += how == "run=cell"
        if how == "said":
            check_said(text, "".join(o.get("text", "") for o in nb.cells[number].outputs))


def test_every_tutorial_is_run():
    assert {p.stem for p in PAGES} >= {"command", "block", "notebook", "gpus", "out-of-memory", "slurm", "from-psutil",
                                       "from-gpu-tracker", "from-gpumemprof", "where"}
    assert all(any(how.startswith("run") for how in kinds(p)) for p in PAGES)


def test_what_is_not_said_is_told():
    check_said("RAM  peak 3 MiB ...\n", "x\nRAM peak 412.5 MiB of 3\n")
    with pytest.raises(AssertionError, match="not said: RAM"):
        check_said("RAM  peak 3 MiB\n", "RAM peak 3 GiB\n")
