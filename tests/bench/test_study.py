# SPDX-License-Identifier: MIT
"""bench/study: what it computes, keeps and writes. What the tools cost is measured by make overhead."""
import csv
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUDY = ROOT / "bench" / "study"
PAGE = ROOT / "docs" / "study"
HIWATER = pathlib.Path(os.environ.get("HIWATER", ROOT / "build" / "hiwater")).resolve()
sys.path.insert(0, str(STUDY))

import measure  # noqa: E402
import page  # noqa: E402
import paired  # noqa: E402
import timeline  # noqa: E402
import tools  # noqa: E402
import workloads  # noqa: E402

BUSY = "import time\nwhile time.process_time() < {0}: pass\n"  # the start of Python included


def loaded(path):
    loader = importlib.machinery.SourceFileLoader("study_program", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture(name="study", scope="module")
def study_module():
    return loaded(STUDY / "study")


@pytest.fixture(name="stint", scope="module")
def stint_program(tmp_path_factory):
    path = tmp_path_factory.mktemp("stint") / "stint"
    subprocess.run(["cc", "-O2", "-o", path, STUDY / "stint.c"], check=True)
    return path


# ---- statistics ----

def test_a_difference_is_that_of_the_pairs_of_each_round():
    assert paired.paired({1: 11, 2: 24, 4: 9}, {1: 10, 2: 20, 3: 10}) == pytest.approx([0.1, 0.2])
    middle, low, high = paired.interval([0.1, 0.2, 0.3, 0.2, 0.2, 0.1, 0.3])
    assert middle == 0.2 and 0.1 <= low <= 0.2 <= high <= 0.3
    assert paired.interval([5.0]) == (5.0, 5.0, 5.0)
    assert "not resolved" in page.difference([-0.1, 0.1, 0.0]) and "not resolved" not in page.difference([0.1, 0.2, 0.1])


# ---- the raw data ----

def test_an_interrupted_row_is_measured_again(study, tmp_path):
    path = tmp_path / "rows.csv"
    table = study.Table(path, ["tool", "round", "error"])
    table.append({"tool": "none", "round": 1})
    table.append({"tool": "a, b", "round": 1, "error": 'it said "no"\nand ended'})
    path.write_text(path.read_text() + "none,2")  # killed while it wrote
    again = study.Table(path, ["tool", "round", "error"])
    assert [(row["tool"], row["round"]) for row in again.rows] == [("none", "1"), ("a, b", "1")]
    again.append({"tool": "none", "round": 2})
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    assert rows[1:] == [["none", "1", ""], ["a, b", "1", "it said 'no' and ended"], ["none", "2", ""]]


def test_a_full_disk_leaves_no_half_of_a_row(study, tmp_path, monkeypatch):
    table = study.Table(tmp_path / "rows.csv", ["tool"])
    table.append({"tool": "none"})
    monkeypatch.setattr(study.os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError):
        table.append({"tool": "psrecord"})
    assert (tmp_path / "rows.csv").read_text() == "tool\nnone\n" and len(table.rows) == 1


# ---- one measurement ----

def workload(tmp_path, text=BUSY.format(0.3)):
    program = tmp_path / "job.py"
    program.write_text(text)
    return workloads.Workload("busy", [sys.executable, program], has_epochs=False)


def test_what_the_job_and_the_tool_took(tmp_path, stint):
    around = tmp_path / "around.sh"
    around.write_text(f'{sys.executable} -c "{BUSY.format(0.5)}"\n"$@"\necho answer > "$STUDY_OUTPUT/answer"\n')
    tool = tools.Tool("around", command=lambda run: ["sh", around, *run.job])
    row, run = measure.measure(tool, workload(tmp_path), stint, tmp_path / "run", dict(os.environ))
    assert 0.3 <= float(row["job_cpu_s"]) < 0.5 and 0.5 <= float(row["tool_cpu_s"]) < 0.8
    assert row["bytes_written"] == len("answer\n") and (run.output / "answer").exists()
    assert row["epoch_rest_s"] == "" and float(row["epoch_first_s"]) >= 0.3


def test_a_tool_next_to_the_job_is_ended(tmp_path, stint):
    tool = tools.Tool("next", where="next to", command=lambda run: ["sh", "-c", "echo $$ > pid; exec sleep 1000"])
    _, run = measure.measure(tool, workload(tmp_path), stint, tmp_path / "run", dict(os.environ))
    with pytest.raises(ProcessLookupError):
        os.kill(int((run.output / "pid").read_text()), 0)


@pytest.mark.parametrize("command, words", [
    (["/no/such/program"], "No such file"), (["sh", "-c", "echo broken >&2; exit 3"], "broken"),
    (["false"], "exit status 1, and the job was not started"),
])
def test_a_broken_tool_is_a_row_with_its_error(tmp_path, stint, command, words):
    with pytest.raises(measure.Failed, match=words):
        measure.measure(tools.Tool("broken", command=lambda run: command), workload(tmp_path), stint, tmp_path / "run", dict(os.environ))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_study_leaves_no_process(tmp_path, number):
    """What runs first is the truth of the workload, in a process group of its own."""
    study = subprocess.Popen([sys.executable, STUDY / "study", "quick", "--anyway", "--only", "many", "--tools", "none", "--folder", tmp_path,
                              "--docs", tmp_path / "docs", "--hiwater", HIWATER], stderr=subprocess.PIPE, text=True)
    give_up = time.monotonic() + 120
    while not [pid for pid in measure.subtree(study.pid) if measure.command_of(pid)[:1] == [os.fsencode(tmp_path / "stint")]]:
        assert study.poll() is None and time.monotonic() < give_up
        time.sleep(0.05)
    below = measure.subtree(study.pid)[1:]
    study.send_signal(number)
    assert "interrupted" in study.communicate(timeout=60)[1] and study.returncode == 130
    assert not [pid for pid in below if pathlib.Path(f"/proc/{pid}").exists()]


def test_a_job_that_fails_is_no_figure(tmp_path, stint):
    with pytest.raises(measure.Failed, match="status 7"):
        measure.measure(tools.BY_NAME["none"], workload(tmp_path, "raise SystemExit(7)"), stint, tmp_path / "run", dict(os.environ))


def test_the_clock_ends_as_the_job_and_passes_signals_on(tmp_path, stint):
    usage = tmp_path / "usage"
    assert subprocess.run([stint, usage, "sh", "-c", "exit 5"], check=False).returncode == 5
    job = subprocess.Popen([stint, usage, "sh", "-c", "trap 'exit 9' INT; echo on; while :; do sleep 0.05; done"], stdout=subprocess.PIPE)
    assert job.stdout.readline() == b"on\n"
    job.send_signal(signal.SIGINT)
    assert job.wait(timeout=30) == 9
    assert usage.read_text().split()[1] == "9"


def test_other_load_is_waited_for(study, monkeypatch, capsys):
    loads = iter((0.5, 0.3, 0.01))
    monkeypatch.setattr(study, "other_load", lambda: next(loads))
    monkeypatch.setattr(time, "sleep", lambda s: None)
    study.wait_until_quiet(False)
    assert next(loads, None) is None and capsys.readouterr().out.count("waiting: other processes take 50%") == 1
    study.wait_until_quiet(True)


# ---- the page ----

def rows(workload_name, costs, rounds=3):
    for number in range(1, rounds + 1):
        for tool, (job, own, error) in costs.items():
            yield {"workload": workload_name, "tool": tool, "version": "1.0", "round": number, "epoch_first_s": "" if error else 2,
                   "epoch_rest_s": "" if error else 1, "job_cpu_s": "" if error else job + number / 100, "tool_cpu_s": own, "tool_peak_bytes": 1000000,
                   "bytes_written": 5000, "post_s": 0.5, "error": error}


def write_csv(path, columns, content):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(content)


@pytest.fixture(name="drawn")
def drawn_page(study, tmp_path):
    costs = {"none": (10, 0, ""), "psrecord": (10, 5, ""), "hiwater, 10 Hz": (10, 0.01, ""), "denet": (10, "", "exit status 1: no such thing"),
             "torch.profiler": (14, "", "")}
    write_csv(tmp_path / "overhead.csv", study.COLUMNS, rows("light", costs))
    write_csv(tmp_path / "reported.csv", study.REPORTED, [
        {"workload": "light", "tool": "psrecord", "round": 1, "ram_bytes": 50, "cpu_s": "", "processes": "", "truth_ram_bytes": 100, "truth_cpu_s": 10},
        {"workload": "light", "tool": "hiwater, 10 Hz", "round": 1, "ram_bytes": 101, "cpu_s": 9.9, "processes": 4, "truth_ram_bytes": 100,
         "truth_cpu_s": 10}])
    (tmp_path / "timeline.csv").write_text(",".join(timeline.COLUMNS) + "\nlight,none,0.0,1,0,1000,0,1,0\nlight,psrecord,0.0,1,0,1000,9,1,3\n")
    (tmp_path / "growth.csv").write_text("axis,hz,processes,hiwater_share,floor_share\nrate,1,10,0.001,0.0005\nprocesses,1,10,0.001,0.0005\n")
    (tmp_path / "machine.json").write_text(json.dumps({"size": "quick", "date": "2026-01-02", "cpu": "a CPU", "cpus": 2, "memory_bytes": 8e9,
                                                       "kernel": "6.1", "python": "3.11", "hiwater": "hiwater 9", "gpu": "none",
                                                       "workloads": {"light": "3 epochs"}}))
    pytest.importorskip("matplotlib")
    page.write(tmp_path)
    return (tmp_path / "overhead.md").read_text()


def test_the_page_says_what_the_rows_say(drawn):
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in drawn.splitlines() if line.startswith("| ")}
    assert "exit status 1: no such thing" in lines["denet"]
    assert "in the job" in lines["torch.profiler"] and "+40" in lines["torch.profiler"]
    cost = next(line for line in drawn.splitlines() if line.startswith("| psrecord | 1.0"))
    assert "| 3 |" in cost and "Here: 3 epochs." in drawn and "does not count instructions" in drawn
    assert "(50.0% of the job's)" in cost or "(49.9% of the job's)" in cost
    said = next(line for line in drawn.splitlines() if line.startswith("CPU time of job and tool together"))
    assert said.index("hiwater, 10 Hz") < said.index("torch.profiler") < said.index("psrecord")
    assert "| psrecord | 0.50" in drawn and "| hiwater, 10 Hz | 1.01" in drawn and "not run: no GPU" in drawn


def test_instructions_are_a_column_where_they_were_counted(drawn, study, tmp_path):
    assert "instructions of job" not in drawn
    write_csv(tmp_path / page.INSTRUCTIONS, study.INSTRUCTIONS, [
        {"workload": "light", "tool": tool, "round": number, "instructions": n}
        for tool, n in (("none", 1000), ("psrecord", 1250)) for number in (1, 2, 3)])
    page.write(tmp_path)
    drawn = (tmp_path / "overhead.md").read_text()
    cost = next(line for line in drawn.splitlines() if line.startswith("| psrecord | 1.0"))
    assert "instructions of job" in drawn and "+25.0% (+25.0% to +25.0%)" in cost and "does not count instructions" not in drawn
    assert len({line.count("|") for line in drawn.splitlines() if line.startswith("| ") and "1.0 |" in line}) == 1


def test_whose_a_process_is():
    #       1 tool, 2 its helper, 3 the clock, 4 the job, 5 and 6 below it, 7: its parent was not seen
    parents = {1: 0, 2: 1, 3: 1, 4: 3, 5: 4, 6: 5, 7: 0}
    names = dict.fromkeys(parents, "python") | {3: "stint"}
    assert [timeline.side(i, parents, names, False) for i in parents] == [timeline.TOOL, timeline.TOOL, timeline.NEITHER] + [timeline.JOB] * 4
    wrapped = names | {1: "sh", 5: "sleep", 2: "top"}
    assert [timeline.side(i, parents | {5: 1}, wrapped, True) for i in (1, 2, 5)] == [timeline.NEITHER, timeline.TOOL, timeline.NEITHER]


def test_how_many_there_were_at_once():
    spans = [(0, 9), (1, 2), (2, 3), (2.5, 4), (8, float("inf"))]
    assert [timeline.most_at_once(spans, *times) for times in ((0, 1), (1, 2), (1, 3), (5, 6), (8.5, 20))] == [1, 2, 3, 1, 2]


def test_an_interrupt_ends_a_tool_next_to_the_job(tmp_path, stint, monkeypatch):
    tool = tools.Tool("next", where="next to", command=lambda run: ["sh", "-c", "echo $$ > pid; exec sleep 1000"])
    started, start = [], measure.start
    for before_the_job in (False, True):
        with monkeypatch.context() as m:
            m.setattr(measure, "start", lambda *given: started.append(start(*given)) or started[-1])
            m.setattr(measure, "wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            if before_the_job:
                m.setattr(measure, "NEXT_TO_SETTLE_S", -1)  # no time to sleep
            with pytest.raises(ValueError if before_the_job else KeyboardInterrupt):
                measure.measure(tool, workload(tmp_path), stint, tmp_path / "run", dict(os.environ))
    assert len(started) == 3 and all(process.returncode is not None for process in started)


def test_a_process_that_does_not_change_is_there_all_the_same(stint, tmp_path):
    """It has no row in the windows in which it sleeps."""
    held = tmp_path / "held.py"
    held.write_text("import subprocess, sys, time\nx = bytearray(50_000_000)\np = subprocess.Popen(sys.argv[1:])\np.wait()\n")
    recording = tmp_path / "r.hiw"
    subprocess.run([HIWATER, "run", "-i", "50ms", "--summary", "none", "-o", recording, "--", sys.executable, held, stint, tmp_path / "usage",
                    sys.executable, "-c", BUSY.format(3.5)], check=True, env={**os.environ, "HIWATER_DIR": str(tmp_path / "history")})
    windows = list(timeline.figures(HIWATER, recording))
    assert len(windows) >= 3
    for _, job_cores, tool_cores, job_bytes, tool_bytes, job_n, tool_n in windows[1:-1]:
        assert job_n == 1 and tool_n == 1 and tool_bytes > 50_000_000 > job_bytes > 0 and job_cores > tool_cores


def test_the_page_in_the_tree_is_drawn_from_its_data(tmp_path):
    if not PAGE.exists():
        pytest.fail("docs/study is missing: make overhead writes it")
    pytest.importorskip("matplotlib")
    for name in [*(f"{data}.csv" for data in page.DATA), "machine.json"]:
        shutil.copy(PAGE / name, tmp_path)
    if (PAGE / page.INSTRUCTIONS).exists():
        shutil.copy(PAGE / page.INSTRUCTIONS, tmp_path)
    page.write(tmp_path)
    assert (tmp_path / "overhead.md").read_text() == (PAGE / "overhead.md").read_text()


# ---- the command ----

@pytest.mark.parametrize("arguments, words", [(["slow"], "invalid choice"), (["quick", "--tools", "nonesuch"], "unknown tool: nonesuch"),
                                              (["quick", "--only", "nonesuch"], "nonesuch")])
def test_bad_arguments(arguments, words):
    done = subprocess.run([sys.executable, STUDY / "study", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and words in done.stderr


def test_make_refuses_an_unknown_size():
    done = subprocess.run(["make", "-s", "-C", ROOT, "overhead", "OVERHEAD=slow"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "OVERHEAD is quick or full, not slow" in done.stderr


@pytest.mark.parametrize("limit, value, words", [("MEMORY_LEAST", 1.1, "memory was left"), ("LONGEST_S", 0.2, "took longer than 0.2 s")])
def test_a_run_that_takes_too_much_is_ended(tmp_path, stint, monkeypatch, limit, value, words):
    monkeypatch.setattr(measure, limit, value)
    job = workload(tmp_path, "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    with pytest.raises(measure.Failed, match=words):
        measure.measure(tools.BY_NAME["none"], job, stint, tmp_path / "run", dict(os.environ))
    pid = tmp_path / "run" / "output" / "pid"
    assert not pid.exists() or not pathlib.Path(f"/proc/{pid.read_text()}").exists()
