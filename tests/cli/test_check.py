# SPDX-License-Identifier: MIT
"""hiwater check on recordings of real jobs."""
import json
import re

import pytest
from cli_helpers import wait_for
from test_alert import quoted
from watched_jobs import Watched

MIB = 1 << 20


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A run with a known timeline: about 220 MiB for a while, then little; a loss that falls and is NaN once."""
    from cli_helpers import Tool
    tool = Tool(tmp_path_factory.mktemp("checked"))
    job = Watched(tool)
    job.say("log loss=4 accuracy=0.5 step=1")
    job.say("hold 200")
    wait_for(lambda: peak_so_far(tool, job) > 200 * MIB, "it is measured")
    job.say("log loss=nan step=2")
    job.say("hold 1")
    job.say("log loss=0.25 accuracy=0.9 step=3")
    assert job.finish() == 0
    yield tool, job.path
    tool.end_all()


def peak_so_far(tool, job):
    if not job.path.exists():
        return 0
    shown = tool.run("show", "--json", job.path)
    return (json.loads(shown.stdout)["ram"]["combined"]["peak_bytes"] or 0) if shown.returncode == 0 else 0


RULES = [
    # by the summary's figures
    ("ram.peak < 1GiB", 0),
    ("ram.peak < 100MiB", 1),
    ("ram.peak > 200MiB and ram.mean < 1GiB", 0),
    ("process.rss.peak < 1GiB", 0),
    ("process.rss.peak < 100MiB", 1),
    ("time < 1h", 0),
    ("time > 1h", 1),
    ("cpu.mean < 64 cores", 0),
    ("cpu.last < 1h", 0),
    ("ram.peak < 100% of capacity", 0),
    ("exit == 0", 0),
    ("exit != 0", 1),
    ("never exit > 0", 0),
    ("exit == 0 and ram > 150MiB", 0),
    ("loss.last == 0.25", 0),
    ("loss.last < 0.1", 1),
    ("accuracy.last >= 90%", 0),
    ("loss.peak == 4", 0),
    ("never ram.peak > 1GiB", 0),
    ("never ram.peak > 100MiB", 1),
    ("always ram.peak < 1GiB", 0),
    ("always ram.peak < 100MiB", 1),
    # by values at an instant
    ("ram > 150MiB", 0),
    ("ram > 10GiB", 1),
    ("never ram > 10GiB", 0),
    ("never ram > 150MiB", 1),
    ("always ram < 10GiB", 0),
    ("always ram < 150MiB", 1),
    ("ever loss is nan", 0),
    ("never loss is nan", 1),
    ("never loss is inf", 0),
    ("ram > 150MiB for 1h", 1),
    ("process.rss > 150MiB and process.name ~ ^py", 0),
    ("process.rss > 150MiB and process.name ~ ^sh", 1),
    ("never no step for 1h", 0),
    # unknown values decide nothing
    ("nothing_of_that_name.last < 5", 3),
    ("nothing_of_that_name is nan", 3),
    ("never nothing_of_that_name > 1", 3),
    ("ram.peak < 1GiB and nothing_of_that_name.last < 5", 3),
    ("ram.peak < 1GiB or nothing_of_that_name.last < 5", 0),
]


@pytest.mark.parametrize("rule, status", RULES)
def test_rule(checked, rule, status):
    tool, path = checked
    done = tool.run("check", path, rule)
    assert done.returncode == status, done.stdout
    assert done.stderr == ""
    word = {0: "pass ", 1: "FAIL ", 3: "?    "}[status]
    assert done.stdout.startswith(f"{word} {rule}: ")
    assert done.stdout.count("\n") == 1


def test_the_figures_are_the_summarys(checked):
    tool, path = checked
    summary = json.loads(tool.run("show", "--json", path).stdout)
    done = tool.run("check", "--json", path, "ram.peak < 1GiB", "ram.mean < 1GiB", "time < 1h", "loss.last < 1")
    said = json.loads(done.stdout)
    assert said["pass"] is True
    values = [rule["value"] for rule in said["rules"]]
    assert values[0] == summary["ram"]["combined"]["peak_bytes"]
    assert values[1] == pytest.approx(summary["ram"]["combined"]["mean_bytes"], abs=1)
    assert values[2] == pytest.approx(summary["time"]["wall_s"])
    assert values[3] == 0.25


def test_json(checked):
    tool, path = checked
    done = tool.run("check", "--json", path, "ram > 150MiB", "never loss is nan", "nobody.last > 1")
    said = json.loads(done.stdout)
    assert done.returncode == 1, "a failure takes precedence over unknown values"
    assert [r["result"] for r in said["rules"]] == ["pass", "fail", "incomplete"]
    held, nan, unknown = said["rules"]
    assert held["value"] > 150 * MIB and held["at_s"] >= 0
    assert nan["value"] == "NaN" and nan["at_s"] is not None
    assert unknown["value"] is None and unknown["at_s"] is None
    assert said["pass"] is False


def test_several_rules(checked):
    tool, path = checked
    assert tool.run("check", path, "ram.peak < 1GiB", "time < 1h").returncode == 0
    assert tool.run("check", path, "ram.peak < 1GiB", "time > 1h", "nobody.last > 1").returncode == 1
    assert tool.run("check", path, "ram.peak < 1GiB", "nobody.last > 1").returncode == 3


@pytest.mark.parametrize("args", [["last"], [], ["last", "ram.peak <"], ["last", "ram.peak < 1GiB", "rma > 1"],
                                  ["/nobody", "ram = 1GiB"], ["--jason", "last", "ram.peak < 1GiB"]])
def test_bad_rules(tool, args):
    done = tool.run("check", *args)
    assert done.returncode == 2
    assert done.stdout == "" and done.stderr.startswith("hiwater: ")


def test_no_such_run(tool):
    (tool.folder / "text.hiw").write_text("no recording")
    for run in ("last", "/nobody", "text.hiw"):
        done = tool.run("check", run, "ram.peak < 1GiB")
        assert done.returncode == 3 and done.stdout == "" and done.stderr.startswith("hiwater: ")


def test_a_run_without_an_end(tool):
    """Results that later time cannot change count; others are incomplete."""
    job = Watched(tool)
    job.say("hold 200")
    wait_for(lambda: peak_so_far(tool, job) > 200 * MIB, "it is measured")
    job.process.kill()
    job.process.wait()
    job.process.stdin.close()
    assert tool.run("check", job.path, "ram.peak < 10GiB").returncode == 3
    assert tool.run("check", job.path, "always ram < 10GiB").returncode == 3
    assert tool.run("check", job.path, "ram > 150MiB").returncode == 0
    assert tool.run("check", job.path, "never ram > 150MiB").returncode == 1


def test_live_and_replayed_agree(tool):
    """check reports the alerts that were raised while the job ran."""
    rules = ["ram > 150MiB", "ram > 150MiB for 300ms", "ram > 150MiB for 1h", "loss > 3", "loss is nan"]
    job = Watched(tool, *[option for rule in rules for option in ("--alert", rule)])
    job.say("log loss=4")
    job.say("hold 200")
    wait_for(lambda: len(job.lines("alert")) == 3, "the rules that hold are reported")
    job.say("log loss=1")
    assert job.finish() == 0
    told = {line.rpartition(": ")[0] for line in job.lines("alert")}
    for rule in rules:
        assert tool.run("check", job.path, rule).returncode == (0 if rule in told else 1), rule


def test_damaged(checked, tool):
    _, path = checked
    content = path.read_bytes()
    (tool.folder / "x.hiw").write_bytes(content[:4096] + bytes(len(content) - 4096))
    done = tool.run("check", "x.hiw", "never ram > 1GiB")
    assert done.returncode == 3 and done.stderr.startswith("hiwater: ")


def test_the_manual(tool, checked):
    _, path = checked
    rules = quoted(tool, "check")
    assert len(rules) > 8
    for rule in rules:
        done = tool.run("check", path, rule)
        assert done.returncode in (0, 1, 3) and done.stderr == "", (rule, done.stderr)


def test_percent_of_a_limit(tool):
    job = Watched(tool, "--request", "ram=1GiB")
    job.say("hold 200")
    assert job.finish() == 0
    assert tool.run("check", job.path, "ram.peak < 90% of limit").returncode == 0
    assert tool.run("check", job.path, "ram.peak < 5% of limit").returncode in (1,)
    assert re.match(r"pass  ram\.peak < 90%: ", tool.run("check", job.path, "ram.peak < 90%").stdout)
