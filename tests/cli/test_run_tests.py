# SPDX-License-Identifier: MIT
"""tools/run-tests: what it started ends with it."""
import importlib.machinery
import importlib.util
import os
import signal
import subprocess
import sys

import pytest
from cli_helpers import DEADLINE, ROOT, ended, wait_for

STAGE = """
import concurrent.futures, importlib.machinery, importlib.util, sys
path, folder, stubborn, where = sys.argv[1:]
sys.argv[1:] = []
loader = importlib.machinery.SourceFileLoader("run_tests", path)
tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
sys.modules["run_tests"] = tool
loader.exec_module(tool)

def build(name):
    return tool.check(name, "sh", "-c", f"{stubborn} sleep 600 & echo $$ $! > {folder}/{name}; wait; wait")

def side_by_side():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(build, ("one", "two", "never")))

tool.PATIENCE_S = 1
tool.BEHIND = "ours"
tool.OWN_BUILDS = {}
tool.begin_builds = lambda pool, stages: pool.submit(build, "own")
tool.STAGES = {"ours": (False, side_by_side if where == "pool" else lambda: [build("one"), build("never")])}
sys.exit(tool.main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
@pytest.mark.parametrize("where", ["main", "pool"])
@pytest.mark.parametrize("stubborn", ["", "trap '' INT;"], ids=["obeys", "stubborn"])
def test_what_it_started_ends_with_it(tmp_path, number, where, stubborn):
    """To itself alone, as kill does it: builds and tests have groups of their own."""
    process = subprocess.Popen([sys.executable, "-B", "-c", STAGE, str(ROOT / "tools" / "run-tests"), str(tmp_path), stubborn, where],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    names = ("own", "one", "two") if where == "pool" else ("own", "one")
    started = []
    try:
        wait_for(lambda: all((tmp_path / name).exists() and len((tmp_path / name).read_text().split()) == 2 for name in names), "all run")
        started = [int(word) for name in names for word in (tmp_path / name).read_text().split()]
        process.send_signal(number)
        out, err = process.communicate(timeout=DEADLINE)
        assert process.returncode == 128 + number, err
        wait_for(lambda: all(ended(pid) for pid in started), "all that it started has ended")
        assert not (tmp_path / "never").exists(), "nothing is begun any more"
        assert "passed" not in out
    finally:
        process.kill()
        process.wait()
        for pid in started:
            if not ended(pid):
                os.kill(pid, signal.SIGKILL)


def test_the_site_is_not_made_without_the_command():
    """Its stage alone builds what it reads, and says why where that failed."""
    loader = importlib.machinery.SourceFileLoader("run_tests_docs", str(ROOT / "tools" / "run-tests"))
    stages = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests_docs", loader))
    sys.modules["run_tests_docs"] = stages
    loader.exec_module(stages)
    stages.check = lambda name, *command, **_: stages.Result(name, "failed", "begun without the command")
    stages.build = lambda folder, *options: stages.Result(f"{folder}: build", "failed", "no compiler")
    assert stages.STAGES["docs"][1]() == [stages.Result("build-release: build", "failed", "no compiler")]
