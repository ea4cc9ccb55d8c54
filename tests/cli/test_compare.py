# SPDX-License-Identifier: MIT
"""hiwater compare on recordings made by hand: real ones whose figures were set by SQL. The values of p are those of SciPy
1.17.1's mannwhitneyu(method="exact") on the same samples, as in tests/unit/base/test_stats.c."""
import json
import math
import re
import sqlite3
import statistics

import pytest
from made_runs import MadeRuns, real  # noqa: F401 (real is a fixture)

MIB = 1 << 20
SEC = 10**9
BASE = [72.1, 71.3, 73.0, 72.6, 71.9]  # seconds
NEW = [61.2, 60.8, 61.9, 61.0, 61.3]   # p = 0.0079
SAME_A, SAME_B = [4, 1, 2, 3], [2.5, 3.5, 1.5, 4.5]  # p = 0.49: the ranks of the second add up to 20 of 36
RAM = [1000, 1010, 1005, 1003, 1007]   # MiB


class Made(MadeRuns):
    def run(self, name=None, wall=60.0, ram=1000, loss=None, complete=True, series="loss", cpu_s=None, **facts):
        path = self.copy()
        with sqlite3.connect(path) as db:
            for key, value in {"name": name, "host": "a", "command": "./solve", **facts}.items():
                db.execute("insert or replace into meta values (?, ?)", (key, value))
            db.execute("update meta set value = ? where key = 'ended_ns'", (int(wall * SEC),))
            if not complete:
                db.execute("delete from meta where key = 'ended_ns'")
            for metric in ("ram", "ram_low", "ram_high"):
                db.execute("update summary set max = ? where entity = 'job' and metric = ?", (int(ram * MIB), metric))
            # main's mark is what the summary takes for a job of one process
            db.execute("delete from meta where key in ('main_hwm_bytes', 'main_exit_hwm_bytes', 'main_maxrss_bytes')")
            db.execute("update summary set max = ? where entity = 'job' and metric = 'ram_main'", (int(ram * MIB),))
            db.execute("update process set peak = ?, peak_exact = 1", (int(ram * MIB),))
            if cpu_s is not None:
                db.execute("update summary set min = 0, last = ? * (metric = 'cpu_user') where metric in ('cpu_user', 'cpu_system')", (cpu_s * SEC,))
            if loss is not None:
                db.execute("insert into series (id, name, n, first, last, min, max, step, sum) values (1, ?, 1, ?, ?, ?, ?, 1, ?)", (series, *(loss,) * 5))
        db.close()
        return path

    def group(self, name, walls, rams=RAM, **facts):
        return [self.run(name, wall, ram, **facts) for wall, ram in zip(walls, rams)]


@pytest.fixture
def made(tool, real):
    return Made(tool, real)


def compared(tool, *args, status=0):
    done = tool.run("compare", *args)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stdout if done.stdout else done.stderr


def figure(tool, key, *args, **options):
    found = {f["key"]: f["groups"] for f in json.loads(compared(tool, "--json", *args, **options))["figures"]}
    return found[key]


def test_groups_by_name(made, tool):
    made.group("base", BASE)
    made.group("new", NEW, [r * 1.11 for r in RAM])
    base, new = figure(tool, "time.wall_s", "base", "new")
    assert base["values"] == BASE and new["values"] == NEW
    assert base["mean"] == pytest.approx(statistics.mean(BASE)) and base["deviation"] == pytest.approx(statistics.stdev(BASE))
    ratio = statistics.mean(NEW) / statistics.mean(BASE)
    error = ratio * ((statistics.stdev(NEW) / statistics.mean(NEW))**2 + (statistics.stdev(BASE) / statistics.mean(BASE))**2)**0.5
    assert new["p"] == pytest.approx(0.007936507936507936) and new["result"] == "differs"
    assert new["ratio"] == pytest.approx(ratio) and new["ratio_error"] == pytest.approx(error)
    text = compared(tool, "base", "new")
    assert re.search(r"^ +base \(n=5\) +new \(n=5\) +change$", text, re.M)
    assert re.search(r"^wall +72\.2 ± 0\.7 s +61\.2 ± 0\.4 s +-15\.\d % +p=0\.008$", text, re.M), text
    assert re.search(r"^peak RAM +\S+ ± \S+ [MG]iB .* \+11\.0 % +p=0\.008$", text, re.M), text
    assert text.endswith("\nResult: new is 1.18 ± 0.01 times faster and uses 1.11 times the RAM.\n")
    assert "peak swap" not in text, "nobody used any"
    cpu = figure(tool, "time.cpu_s", "base", "new")[0]
    facts = dict(sqlite3.connect(made.real).execute("select key, value from meta").fetchall())
    assert cpu["values"] == [pytest.approx((facts["reaped_user_ns"] + facts["reaped_system_ns"]) / SEC, rel=0.01)] * 5
    assert "warning" not in text and max(map(len, text.splitlines())) <= 100
    assert figure(tool, "ram.combined.peak_bytes", "base", "new")[0]["values"] == [r * MIB for r in RAM]


def test_no_difference_is_not_made_up(made, tool):
    made.group("base", SAME_A, [1000] * 4)
    made.group("new", SAME_B, [1000] * 4)
    wall = figure(tool, "time.wall_s", "base", "new")[1]
    assert wall["result"] == "no-difference" and wall["p"] == pytest.approx(0.6857142857142857)
    assert figure(tool, "ram.combined.peak_bytes", "base", "new")[1]["p"] == 1
    text = compared(tool, "base", "new")
    assert re.search(r"^wall .* ≈ +p=0\.686$", text, re.M)
    assert "faster" not in text and text.endswith("\nResult: no difference found in wall and peak RAM.\n")


def test_too_few_runs(made, tool):
    made.group("base", BASE[:3])
    made.group("new", NEW)
    text = compared(tool, "base", "new")
    assert re.search(r"^wall .*-15\.\d % +too few runs for a test$", text, re.M), text
    assert "p=" not in text and "\nno test: it needs 4 runs of each; base has 3, new has 5\n" in text
    assert re.search(r"^every run of new is below every run of base: wall$", text, re.M), text
    assert re.search(r"^runs of new and base overlap: .*\bpeak RAM\b", text, re.M), text
    assert re.search(r"^Result: undecided, too few runs; so far new is 1.1\d times faster; less than 0.5 % apart in peak RAM\.\n\Z", text, re.M), text
    wall = figure(tool, "time.wall_s", "base", "new")[1]
    assert wall["p"] is None and wall["order"] == "below" and wall["runs_needed"] is None


def test_the_runs_lie_above(made, tool):
    made.group("base", NEW[:2], [1000, 1010])
    made.group("new", BASE[:2], [2000, 2020])
    text = compared(tool, "base", "new")
    assert re.search(r"^every run of new is above every run of base: wall, .*peak RAM", text, re.M) and "overlap: wall" not in text, text
    assert text.endswith("so far new takes 1.18 times as long and uses 2.00 times the RAM.\n"), text


def test_how_many_runs_a_difference_needs(made, tool):
    """The formula for two means, with the relative efficiency of the rank test."""
    walls = [60, 61, 62, 63, 64], [61, 62, 63, 64, 65.5]
    made.group("base", walls[0])
    made.group("new", walls[1])
    normal = statistics.NormalDist()
    z = normal.inv_cdf(0.975) + normal.inv_cdf(0.8)
    needed = z * z * sum(map(statistics.variance, walls)) / (statistics.mean(walls[0]) - statistics.mean(walls[1]))**2 / (3 / math.pi)
    wall = figure(tool, "time.wall_s", "base", "new")[1]
    assert wall["result"] == "no-difference" and wall["order"] == "overlap" and wall["runs_needed"] == math.ceil(needed)
    text = compared(tool, "base", "new")
    assert f"\nwall: about {math.ceil(needed)} runs of each would show whether +1.8 % is real\n" in text, text
    assert text.endswith("Result: no difference found in wall and peak RAM.\n")


def test_a_slight_difference_is_not_a_factor(made, tool):
    """Even if the test finds it, or if it would need few runs."""
    made.group("base", BASE, [1000.1, 1000.2, 1000.3, 1000.4, 1000.5])
    made.group("new", NEW, [1001.1, 1001.2, 1001.3, 1001.4, 1001.5])
    assert compared(tool, "base", "new").endswith("Result: new is 1.18 ± 0.01 times faster; less than 0.5 % apart in peak RAM.\n")
    made.group("near", BASE, [1000.3, 1000.4, 1000.5, 1000.6, 1000.7])
    text = compared(tool, "base", "near")
    assert "peak RAM: about" not in text and text.endswith("Result: no difference found in wall and peak RAM.\n"), text


def test_signs_in_ascii(made, tool):
    made.group("base", SAME_A, [1000] * 4)
    made.group("new", SAME_B, [1000] * 4)
    tool.env["LANG"] = "C"
    text = compared(tool, "base", "new")
    assert text.isascii() and re.search(r"^wall +2\.5\d* \+- .* ~ +p=0\.686$", text, re.M), text


def test_names_cannot_move_the_cursor(made, tool):
    made.group("base", BASE)
    made.group("n\x1b[2Jew", NEW)
    assert "\x1b" not in compared(tool, "base", "n\x1b[2Jew")


def test_single_runs(made, tool):
    one, two = made.run(wall=100, loss=0.5), made.run(wall=150, loss=float("nan"))
    for words in ((one, two), ("1", "2"), ("last-1", "last")):
        text = compared(tool, *words)
        assert "single runs" in text and "p=" not in text and "±" not in text and "every run" not in text
        assert text.endswith(".\n") and "\nResult: undecided, too few runs; so far " in text
        assert re.search(r"^wall .* \+50\.0 %$", text, re.M), text
    loss = figure(tool, "series.loss.last", one, two)
    assert loss[0]["values"] == [0.5] and loss[1]["n"] == 0, "what is no number is not compared"


def test_paths_of_one_name_are_a_group(made, tool):
    paths = made.group("base", BASE) + made.group("new", NEW)
    assert [g["name"] for g in json.loads(compared(tool, "--json", *paths))["groups"]] == ["base", "new"]
    same = [g["name"] for g in json.loads(compared(tool, "--json", *paths[:2]))["groups"]]
    assert same == [str(p) for p in paths[:2]], "of one name alone, each is by itself"


def test_what_differs_is_said(made, tool):
    made.run("base")
    made.run("new", host="b", command="./other", interval_ns=12345)
    text = compared(tool, "base", "new")
    assert [l.split(":")[1] for l in text.splitlines() if l.startswith("warning")] == [
        " the hosts differ", " the commands differ", " the sampling intervals differ"]
    assert json.loads(compared(tool, "--json", "base", "new"))["differ"] == ["hosts", "commands", "sampling intervals"]


def test_the_part_in_which_commands_differ_is_said(made, tool):
    """Both commands have a common beginning that is longer than a warning."""
    folder = "/a/long/path/of/an/environment/" + "x" * 60
    made.run("base", command=f"{folder}/python train.py mlp original 3")
    made.run("new", command=f"{folder}/python train.py mlp compressed 3")
    warning, = (l for l in compared(tool, "base", "new").splitlines() if l.startswith("warning: the commands"))
    one, other = warning.split("differ: ")[1].split("; ")
    assert one.endswith("original 3") and other.endswith("compressed 3") and "..." in one, warning


def test_a_long_name_moves_no_column(made, tool):
    series = "torch/gpu0/allocated_bytes"
    made.run("base", series=series, loss=2 << 30)
    made.run("new", series=series, loss=3 << 30)
    lines = compared(tool, "base", "new").splitlines()
    line, = (l for l in lines if series in l)
    assert re.search(r"  2\.00 GiB +3\.00 GiB +\+50\.0 %$", line), line
    assert lines[0].index("new") == line.index("3.00 GiB")


def test_markdown(made, tool):
    made.group("base", BASE)
    made.group("new|x", NEW)
    lines = [l for l in compared(tool, "--md", "base", "new|x").splitlines() if l.startswith("|")]
    assert len({l.replace("\\|", "").count("|") for l in lines}) == 1 and set(lines[1]) == set("| -")
    assert "new\\|x (n=5)" in lines[0]
    assert compared(tool, "--md", "base", "new|x").splitlines()[-1].startswith("Result: new|x is 1.18")


STUDY = {("mlp", "original"): (72.0, 2507), ("mlp", "compressed"): (61.0, 1764), ("xgb-hist", "original"): (55.0, 23878),
         ("xgb-hist", "compressed"): (27.0, 5307)}


@pytest.fixture
def study(made):
    """Four groups of three runs: models on data sets. Their means and standard deviations are known."""
    for n, ((model, data), (wall, ram)) in enumerate(STUDY.items()):
        made.group(f"{model}-{data}", [wall - 1, wall, wall + 1], [ram - 10, ram, ram + 10], command=f"./train {model} {data}",
                   host="b" if n == 3 else "a")
    return [f"{model}-{data}" for model, data in STUDY]


def test_a_table_over_models_and_data(study, tool):
    """Rows are groups, each part of a name has a column, figures are mean and deviation, on lines that fit, and no test."""
    text = compared(tool, "--by", "model,data", *study, "--units", "si")
    blocks = [b.splitlines() for b in text.split("\n\n")]
    rows = [re.split("  +", line.strip()) for line in blocks[0]]
    assert rows[0][:5] == ["model", "data", "n", "wall", "CPU time"], text
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert [tuple(row[:2]) for row in rows[1:]] == list(STUDY) and {row[2] for row in rows[1:]} == {"3"}
    figures = {}
    for block in blocks:
        heads = re.split("  +", block[0].strip())
        for line in block[1:]:
            cells = re.split("  +", line.strip())
            if len(cells) == len(heads):
                figures.setdefault(tuple(cells[:2]), {}).update(zip(heads, cells))
    for key, (wall, ram) in STUDY.items():
        number, unit = figures[key]["wall"].split(" ± ")
        assert float(number) == wall and unit == "1.0 s", figures[key]
        mean, rest = figures[key]["peak RAM"].split(" ± ")
        deviation, unit = rest.split()
        scale = {"MB": 10**6, "GB": 10**9}[unit]
        assert float(mean) * scale == pytest.approx(ram * MIB, rel=0.01)
        assert float(deviation) * scale == pytest.approx(10 * MIB, abs=0.06 * scale)
    assert figures["xgb-hist", "original"]["peak RAM"].endswith(" ± 0.0 GB"), "no more digits than the mean has"
    assert "p=" not in text and "too few" not in text and "change" not in text
    assert text.endswith("Result: lowest wall: xgb-hist-compressed, lowest peak RAM: mlp-compressed (means, not tested).\n"), text
    assert "hosts differ" in text and "commands differ" not in text, "other models are other commands"


def test_more_than_two_groups_are_rows(study, tool):
    rows = compared(tool, *study).splitlines()
    assert rows[0].split()[:3] == ["runs", "n", "wall"] and [row.split()[0] for row in rows[1:5]] == study
    two = compared(tool, *study[:2])
    assert "change" in two and "too few runs for a test" in two


def test_a_table_as_markdown_and_json(study, tool):
    lines = [line for line in compared(tool, "--by", "model,data", "--md", *study).splitlines() if line.startswith("|")]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
    assert len(cells) == 6 and len({len(c) for c in cells}) == 1 and set(cells[1]) == {"---"}
    assert [tuple(c[:2]) for c in cells[2:]] == list(STUDY) and "peak RAM" in cells[0]
    data = json.loads(compared(tool, "--by", "model,data", "--json", *study))
    assert [g["by"] for g in data["groups"]] == [{"model": m, "data": d} for m, d in STUDY]
    wall = next(f for f in data["figures"] if f["key"] == "time.wall_s")["groups"]
    assert [g["mean"] for g in wall] == [w for w, _ in STUDY.values()] and all(g["deviation"] == 1 for g in wall)
    assert all("by" not in g for g in json.loads(compared(tool, "--json", *study))["groups"])


def test_names_that_cannot_be_cut_stay_whole(made, tool):
    for name in ("a-b", "d", "e-f"):
        made.run(name)
    rows = [line.split() for line in compared(tool, "--by", "model,data", "a-b", "d", "e-f").splitlines()]
    assert [row[:2] for row in rows[1:4]] == [["a-b", "1"], ["d", "1"], ["e-f", "1"]]
    for name in ("g/h-i", "j/k"):
        made.run(name)
    rows = [line.split() for line in compared(tool, "--by", "model,data", *sorted(made.tool.history.glob("[45].hiw"))).splitlines()]
    assert [row[:2] for row in rows[1:3]] == [["g", "h-i"], ["j", "k"]]
    assert "--by is empty" in compared(tool, "--by", ",", "1", "2", status=2)
    assert "give at most 8" in compared(tool, "--by", "a,b,c,d,e,f,g,h,i", "1", "2", status=2)


@pytest.mark.parametrize("rule, status", [
    ("ram.peak > +5%", 1), ("ram.peak > +12%", 0), ("ram.peak < -5%", 0), ("time > +0%", 0), ("time < -15%", 1), ("time < -16%", 0),
    ("time > 1h", 0), ("time > 1m", 1), ("ram.peak > +50% or time < -10%", 1), ("ram.peak > +50% and time < -10%", 0),
    ("nothing.last > 5", 3), ("nothing_logged.last > +5%", 3), ("ram.peak > +5% or nothing_logged.last > 1", 1),
    ("ram > +5%", 2), ("growth(ram) > 1MiB/s", 2), ("ram.peak > +5GiB", 2), ("ram.peak >", 2), ("process.name ~ x", 2), ("ram.peak > +5% of limit", 2)])
def test_fail_if(made, tool, rule, status):
    made.group("base", BASE)
    made.group("new", NEW, [r * 1.11 for r in RAM])
    text = compared(tool, "--fail-if", rule, "base", "new", status=status)
    if status != 2:
        word = {0: "pass", 1: "FAIL", 3: "?"}[status]
        assert text.splitlines()[-1].startswith(f"{word:4}  {rule}: in new ")


@pytest.mark.parametrize("rule, status", [
    ("cpu.mean > +99%", 1), ("cpu.mean > +101%", 0), ("cpu.mean < -1%", 0), ("cpu.mean > 199%", 1), ("host.cpu.mean > +5%", 1),
    ("cpu_user.mean > +5%", 1), ("cpu_user.last > +5%", 1), ("cpu.mean > 0.01 and cpu.mean > +5%", 1)])
def test_the_mean_of_a_counter_is_relative_too(made, tool, rule, status):
    made.run("base", cpu_s=6)
    made.run("new", cpu_s=12)
    compared(tool, "--fail-if", rule, "base", "new", status=status)


def test_a_run_without_an_end_is_incomplete(made, tool):
    one, two = made.run(), made.run(complete=False)
    assert "(run 2, no recorded end)" in compared(tool, one, two)
    compared(tool, "--fail-if", "ram.peak > +5%", one, two, status=3)
    compared(tool, "--fail-if", "ram.peak > +5%", one, "nothing-of-that-name", status=3)


def test_a_failed_run_is_not_compared(made, tool):
    made.run("good", 60)
    made.run("fails", 102, exit_status=1 << 8)
    made.run("killed", 30, exit_status=9)
    text = compared(tool, "good", "fails")
    assert "status 0: fails (run 2, exit 1)\n" in text and re.search(r"^wall +60 s +102 s$", text, re.M), text
    assert text.endswith("\nResult: time and memory are not compared; no run of fails ended with status 0.\n"), text
    assert "times" not in text and "single runs" not in text
    assert "killed (run 3, SIGKILL)" in compared(tool, "killed", "good")
    assert compared(tool, "fails", "killed").endswith("no run of fails or killed ended with status 0.\n")
    table = compared(tool, "good", "fails", "killed")
    assert "lowest wall: good" in table and "(without 2 runs that did not end with status 0).\n" in table, table
    runs = [g["runs"][0]["failed"] for g in json.loads(compared(tool, "--json", "good", "fails", "killed"))["groups"]]
    assert runs == [False, True, True]
    assert figure(tool, "time.wall_s", "good", "fails")[1]["result"] == "unknown"
    compared(tool, "--fail-if", "time > +5%", "good", "killed", status=3)


def test_a_failed_run_is_left_out_of_its_group(made, tool):
    made.group("base", BASE)
    made.group("new", NEW)
    made.run("new", 1000, exit_status=1 << 8)
    base, new = figure(tool, "time.wall_s", "base", "new")
    assert new["n"] == 5 and new["mean"] == pytest.approx(statistics.mean(NEW)) and len(new["values"]) == 6
    text = compared(tool, "base", "new")
    assert "new (n=5)" in text and "new (run 11, exit 1)" in text
    assert re.search(r"^Result: new is 1.18 ± 0.01 times faster;.* \(without 1 run that did not end with status 0\)\.\n\Z", text, re.M), text
    compared(tool, "--fail-if", "time > +5%", "base", "new")


def test_refusals(made, tool):
    made.group("base", BASE)
    assert "at least two RUNs" in compared(tool, "base", status=2)
    assert "given twice" in compared(tool, "base", "base", status=2)
    assert "nothing-of-that-name" in compared(tool, "base", "nothing-of-that-name", status=1)
    assert "given twice" in compared(tool, "1", "1", status=2)


def test_moments_are_milliseconds(made, tool):
    made.group("base", [0.00521, 0.00523], RAM[:2])
    made.group("new", [0.000962, 0.000986], RAM[:2])
    row = next(line for line in compared(tool, "base", "new").splitlines() if line.startswith("wall"))
    assert re.search(r"5\.22 ± 0\.01 ms +0\.974 ± 0\.017 ms", row), row


def test_what_one_group_has_none_of_differs_by_an_amount(made, tool):
    paths = made.group("base", BASE), made.group("new", NEW)
    for read, path in [(0, p) for p in paths[0]] + [(3 * MIB, p) for p in paths[1]]:
        with sqlite3.connect(path) as db:
            db.execute("update summary set min = 0, last = ? where entity = 'job' and metric = 'read_bytes'", (read,))
    row = next(line for line in compared(tool, "base", "new").splitlines() if line.startswith("read"))
    assert "+3.00 MiB" in row, row
