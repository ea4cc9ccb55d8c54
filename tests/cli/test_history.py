# SPDX-License-Identifier: MIT
"""runs, show, mark, --repeat and attach."""
import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import unicodedata

import jsonschema
import pytest
from cli_helpers import ROOT, wait_for
from stress_jobs import valid

LONGER = "sleep 1.2"  # longer than the window: the run is kept


def schema():
    return json.loads((ROOT / "docs" / "summary.schema.json").read_text())


def runs(tool):
    done = tool.run("runs", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- the history ----

def test_empty_history(tool):
    done = tool.run("runs")
    assert done.returncode == 0
    assert done.stdout == ""
    assert "hiwater run --" in done.stderr
    assert runs(tool) == []
    assert not tool.history.exists()
    assert tool.run("show").returncode == 1


def test_only_recordings_count_and_are_removed(tool):
    """A large file of another program with a number for a name stays and counts nothing; what goes is named."""
    tool.run("run", "-n", "kept", "--", "sh", "-c", LONGER)
    foreign = tool.history / "2.hiw"
    with open(foreign, "wb") as f:
        f.truncate(5 << 30)
    done = tool.run("run", "-n", "next", "--", "sh", "-c", LONGER)
    assert "removed" not in done.stderr, done.stderr
    assert [r["number"] for r in runs(tool)] == [1, 3] and foreign.stat().st_size == 5 << 30
    assert json.loads(tool.run("show", "--json", "last").stdout)["run"]["name"] == "next"
    refused = tool.run("runs", "--rm", "2")
    assert refused.returncode != 0 and "2.hiw is not a hiwater recording; remove it with rm" in refused.stderr, refused.stderr
    for number in range(4, 203):
        os.link(tool.history / "1.hiw", tool.history / f"{number}.hiw")
    done = tool.run("run", "--", "sh", "-c", LONGER)
    assert "removed the oldest runs from the history, which keeps at most 200 runs and 1.00 GiB: 1, 3" in done.stderr, done.stderr
    assert foreign.exists() and not (tool.history / "3.hiw").exists() and len(runs(tool)) == 200


def test_short_runs_are_not_kept(tool):
    tool.run("run", "--", "true")
    assert runs(tool) == []


def test_a_run_is_kept_shown_and_removed(tool):
    done = tool.run("run", "-n", "base", "--", "sh", "-c", f"{LONGER}; exit 3")
    assert done.returncode == 3
    listed = runs(tool)
    assert len(listed) == 1
    run = listed[0]
    assert run["name"] == "base" and run["exit"] == {"code": 3, "signal": None, "raised": None} and run["complete"] and not run["running"]
    assert run["ram_peak_bytes"] > 0 and run["wall_s"] > 1
    assert oct(os.stat(run["recording"]).st_mode & 0o777) == "0o600"
    number = str(run["number"])
    table = tool.run("runs").stdout.splitlines()
    assert table[0].split()[:3] == ["RUN", "NAME", "STARTED"]
    assert table[1].split()[:2] == [number, "base"] and table[1].rstrip().endswith("exit 3")
    shown = [tool.run("show", *args) for args in ([], ["last"], [number], ["base"], [run["recording"]])]
    assert all(s.returncode == 0 for s in shown)
    assert len({s.stdout for s in shown}) == 1
    assert tool.run("show", "--summary", "line").stdout.startswith("hiwater ")
    summary = json.loads(tool.run("show", "--json", number).stdout)
    jsonschema.validate(summary, schema())
    assert summary["exit"]["code"] == 3
    removed = tool.run("runs", "--rm", number)
    assert removed.returncode == 0 and removed.stdout == f"removed run 1 (base): sh -c {LONGER}; exit 3; 0 more runs have that name\n"
    assert runs(tool) == []
    assert tool.run("runs", "--rm", number).returncode == 1
    assert tool.run("run", "-n", number, "--", "sleep", "1.1").returncode == 0  # the number is unused, so it is a name
    assert [run["number"] for run in runs(tool)] == [int(number) + 1]
    assert "no run 1 in " in tool.run("show", number).stderr
    assert tool.run("show", f"name:{number}").stdout == tool.run("show").stdout != ""


@pytest.mark.parametrize("name, meaning", [("5", "a run number"), ("last", "latest runs"), ("last-1", "latest runs"), ("a/b", "a path"),
                                           ("x.hiw", "a path"), ("slurm:1", "Slurm"), ("name:x", "the name")])
def test_a_name_that_means_another_run_is_warned_of(tool, name, meaning):
    """A warning before the job, which runs nevertheless; name: finds it as the warning says."""
    done = tool.run("run", "-n", name, "--", "sh", "-c", f"echo begun >&2; {LONGER}; exit 3")
    first, second = done.stderr.splitlines()[:2]
    assert done.returncode == 3 and first.startswith(f"hiwater: warning: -n {name}: ") and second == "begun"
    assert meaning in first and f"'name:{name}'" in first
    assert json.loads(tool.run("show", "--json", f"name:{name}").stdout)["exit"]["code"] == 3


@pytest.mark.parametrize("name", ["base", "5x", "lasting", "last-", "last-x", "slurm"])
def test_any_other_name_is_not(tool, name):
    assert "warning" not in tool.run("run", "-n", name, "--", "true").stderr
    assert "warning" not in tool.run("run", "-n", "5", "--", "true", env={"HIWATER_QUIET": "1"}).stderr
    assert "warning" not in tool.run("run", "-n", "5", "--no-record", "--", "true").stderr


def test_show_agrees_with_run(tool):
    tool.run("run", "-o", "x.hiw", "--json", "run.json", "--", sys.executable, "-c",
             "import time; x = bytearray(50_000_000); time.sleep(1.5)")
    at_end = json.loads((tool.folder / "run.json").read_text())
    shown = json.loads(tool.run("show", "--json", "x.hiw").stdout)
    for part in ("ram", "time", "exit", "processes", "io", "command", "started"):
        assert shown[part] == at_end[part], part


def test_why_lists_more(tool):
    tool.run("run", "-o", "x.hiw", "--", "sh", "-c", LONGER)
    assert len(tool.run("show", "--why", "x.hiw").stdout) > len(tool.run("show", "x.hiw").stdout)


def listed(tool, *args):
    done = tool.run("runs", "--json", *args)
    assert done.returncode == 0, done.stderr
    return [run["number"] for run in json.loads(done.stdout)]


def test_runs_are_chosen_and_sorted(tool):
    """By name, age and end; the largest first."""
    fill = "import sys, time; x = bytearray(int(sys.argv[1]) << 20); time.sleep(1.1); sys.exit(int(sys.argv[2]))"
    for name, mib, status in (("base", 30, 0), ("base", 90, 1), ("new", 60, 3)):
        tool.run("run", "-n", name, "-m", f"took {mib}", "--", sys.executable, "-c", fill, mib, status)
    assert listed(tool) == listed(tool, "--since", "1d") == listed(tool, "--since", "2020-01-01") == [1, 2, 3]
    assert listed(tool, "base") == listed(tool, "ba*") == [1, 2] and listed(tool, "base", "new") == [1, 2, 3]
    assert listed(tool, "--failed") == [2, 3] and listed(tool, "base", "--failed", "--since", "7d") == [2]
    assert listed(tool, "--sort", "ram") == [2, 3, 1] and listed(tool, "--failed", "--sort", "ram") == [2, 3]
    assert listed(tool, "--since", "2999-01-01") == []
    some = tool.run("runs", "base", "ok", "n*")
    assert some.returncode == 1 and some.stderr == "hiwater: no run in the history is named 'ok'\n" and some.stdout.count("\n") == 4
    filtered = tool.run("runs", "new", "base", "--sort", "ram", "--failed", "--since", "7d")
    assert (filtered.returncode, filtered.stderr) == (0, "") and filtered.stdout.count("\n") == 3
    assert json.loads(tool.run("runs", "--json", "new").stdout)[0]["note"] == "took 60"
    table = tool.run("runs", "base", "--sort", "ram").stdout.splitlines()
    assert table[0].split()[-1] == "NOTE" and [row.split()[0] for row in table[1:]] == ["2", "1"] and table[1].endswith("took 90")
    assert "note took 90" in tool.run("show", "2").stdout
    assert json.loads(tool.run("show", "--json", "2").stdout)["run"]["note"] == "took 90"
    markdown = tool.run("show", "--md", "2").stdout
    assert markdown.startswith("### base: `") and "| Note | took 90 |\n" in markdown and "| Result | exit 1 |\n" in markdown


@pytest.mark.parametrize("args, status, text", [
    (["none"], 1, "no run in the history is named 'none'"),
    (["1", "--failed"], 1, "none of the 1 runs"),
    (["--failed"], 0, "none of the 1 runs"),
    (["--since", "yesterday"], 2, "neither a time span, such as 7d"),
    (["--since", "-1d"], 2, "neither a time span"),
    (["--sort", "color"], 2, "color"),
    (["--rm", "--failed"], 2, "--rm removes the RUNs that it is given"),
])
def test_filters_that_match_nothing_or_are_wrong(tool, args, status, text):
    tool.run("run", "-n", "base", "--", "sh", "-c", LONGER)
    done = tool.run("runs", *args)
    assert done.returncode == status and text in done.stderr and not done.stdout, done


@pytest.mark.parametrize("note, kept, warning", [
    ("x" * 4000, "x" * 4000, None),
    ("x" * 5000, "x" * 4000, "the note has 5000 bytes; the first 4000 are kept"),
    ("x" + "\u00e4" * 2000, "x" + "\u00e4" * 1999, "the note has 4001 bytes; the first 3999 are kept"),
    ("", None, "the note is empty; none is kept"),
])
def test_a_note_does_not_keep_a_job_from_its_start(tool, note, kept, warning):
    done = tool.run("run", "-m", note, "--json", "run.json", "--summary", "none", "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert done.stderr == (f"hiwater: warning: {warning}\n" if warning else "")
    assert json.loads((tool.folder / "run.json").read_text())["run"]["note"] == kept


def test_markdown_and_json_exclude_each_other(tool):
    assert tool.run("show", "--md", "--json").returncode == 2


def test_copy_makes_one_file(tool):
    process = tool.start("run", "-o", "x.hiw", "--", "sh", "-c", "echo ready; read x", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    wait_for((tool.folder / "x.hiw").exists, "the recording")
    wait_for(lambda: (done := tool.run("show", "--json", "x.hiw")).returncode == 0 and
             json.loads(done.stdout)["ram"]["main"]["peak_bytes"], "a summary")
    assert tool.run("show", "--copy", "copy.hiw", "x.hiw").stdout == ""
    process.stdin.close()
    process.wait(30)
    (tool.folder / "elsewhere").mkdir()
    (tool.folder / "copy.hiw").rename(tool.folder / "elsewhere" / "copy.hiw")
    assert tool.run("show", "elsewhere/copy.hiw").returncode == 0


def test_a_lost_recorder(tool):
    process = tool.start("run", "-o", "x.hiw", "--", "sh", "-c", "echo ready; read x", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    wait_for((tool.folder / "x.hiw").exists, "the recording")
    wait_for(lambda: (done := tool.run("show", "--json", "x.hiw")).returncode == 0 and
             json.loads(done.stdout)["ram"]["main"]["peak_bytes"], "a summary")
    assert " still running " in tool.run("show", "x.hiw").stdout and "lost" not in tool.run("show", "x.hiw").stdout
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert "end not recorded: the recorder was lost" in tool.run("show", "x.hiw").stdout, "also where nobody has waited for it yet"
    process.wait(30)
    process.stdin.close()
    summary = json.loads(tool.run("show", "--json", "x.hiw").stdout)
    jsonschema.validate(summary, schema())
    shutil.copy(tool.folder / "x.hiw", tool.folder / "shared.hiw")
    shutil.copy(tool.folder / "x.hiw-wal", tool.folder / "shared.hiw-wal")
    with contextlib.closing(sqlite3.connect(tool.folder / "shared.hiw")) as file, file:
        file.execute("UPDATE meta SET value = 'node7' WHERE key = 'host'")
    assert "end not recorded: still running on node7, or the recorder was lost" in tool.run("show", "shared.hiw").stdout
    assert summary["run"]["complete"] is False
    assert summary["ram"]["main"]["peak_bytes"] > 0


def test_recordings_that_were_lost_at_once(tool):
    """A file without rows, whose recorder was killed before its first commit, and one that is empty."""
    assert tool.run("run", "--summary", "none", "-n", "study", "--", "sh", "-c", LONGER).returncode == 0
    blank = tool.history / "2.hiw"
    assert tool.run("show", "--copy", blank, "1").returncode == 0
    with contextlib.closing(sqlite3.connect(blank)) as file, file:
        file.execute("DELETE FROM meta WHERE key != 'schema'")
        for table in ("process", "summary", "timeline", "phase", "event"):
            file.execute(f"DELETE FROM {table}")
    listed = tool.run("runs").stdout
    assert "1970" not in listed and re.search(r"^ +2 +- .* lost .*\(lost before anything was recorded\)$", listed, re.M), listed
    assert [run["started"] is None for run in runs(tool)] == [False, True]
    by_name = tool.run("show", "study")
    assert " run 1 " in by_name.stdout.splitlines()[0]
    assert by_name.stderr == "hiwater: warning: run 2 has no readable recording; this is run 1\n"
    assert tool.run("show", "2").stderr == "" == tool.run("show", "1").stderr
    (tool.history / "3.hiw").touch()
    for word, number in ((), 2), (("last",), 2), (("last-1",), 1), (("study",), 1), (("name:study",), 1):
        assert tool.run("show", *word).stderr == f"hiwater: warning: run 3 has no readable recording; this is run {number}\n"
    for command in ("check", "last-1", "ram.peak < 1TiB"), ("export", "last-1", "--to", "csv"), ("report", "last-1", "-o", "x.html"):
        assert "warning: run 3 has no readable recording; this is run 1\n" in tool.run(*command).stderr
    assert tool.run("run", "--summary", "none", "-n", "study", "--", "sh", "-c", LONGER).returncode == 0
    for word in "last", "study", "4":
        assert tool.run("show", word).stderr == "", "a later run has a recording"


def test_the_first_commit_has_name_command_and_start(tool):
    """An alert about memory commits at each sample, before the first window closes."""
    process = tool.start("run", "-o", "x.hiw", "-n", "study", "--alert", "ram > 1KiB", "--", "sleep", "60")

    def facts():
        try:
            with contextlib.closing(sqlite3.connect(f"file:{tool.folder / 'x.hiw'}?mode=ro", uri=True)) as file:
                found = dict(file.execute("SELECT key, value FROM meta").fetchall())
        except sqlite3.Error:
            return None
        return found if "last_ns" in found else None

    found = wait_for(facts, "the first commit")
    process.kill()
    process.wait(30)
    assert (found.get("name"), found.get("command")) == ("study", "sleep 60") and found.get("started_wall_ns", 0) > 0


def columns_of(line):
    """Columns on a terminal: wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_runs_fit_the_terminal(tool, columns):
    tool.run("run", "-n", "基準測試運行模型訓練", "--summary", "none", "--", "sh", "-c", LONGER, "x" * 300)
    tool.run("run", "-n", "base", "--summary", "none", "--", "sh", "-c", LONGER)
    for units in ("iec", "bytes"):
        head, *rows = tool.run("runs", "--units", units, env={"COLUMNS": str(columns)}).stdout.splitlines()
        assert max(map(columns_of, [head, *rows])) <= columns
        assert all(name in head for name in ("RUN", "NAME", "PEAK RAM")), "what stays in any terminal"
        assert units != "iec" or ("COMMAND" in head, "STARTED" in head, "FILE" in head) == (columns >= 60, columns >= 80, columns >= 80)
        end = head.index("PEAK RAM") + len("PEAK RAM")
        for row in rows:
            assert re.search(r"  \d+ bytes$" if units == "bytes" else r"  [\d.]+ [KMG]iB$", cut_at(row, end)), "whole, below its head"
    assert "x" * 300 in tool.run("runs").stdout and "基準測試運行模型訓練" in tool.run("runs").stdout


def cut_at(line, columns):
    """The part of line in these columns."""
    while columns_of(line) > columns:
        line = line[:-1]
    return line


def test_comparisons_and_doctor_fit_a_narrow_terminal(tool):
    for name in ("基準測試運行模型訓練", "base"):
        done = tool.run("run", "-n", name, "--repeat", "2", "--", "sh", "-c", LONGER, env={"COLUMNS": "40"})
        spread = done.stderr[done.stderr.rindex("runs of"):].splitlines()[1:]
        assert spread[0].split() == ["mean", "deviation", "max"] and max(map(columns_of, spread)) <= 40
    for command in (["compare", "1", "3"], ["compare", "1", "2", "3"], ["doctor"]):
        lines = tool.run(*command, env={"COLUMNS": "40"}).stdout.splitlines()
        assert len(lines) > 4 and max(map(columns_of, lines)) <= 40, command
    head, wall = tool.run("compare", "1", "3").stdout.splitlines()[:2]
    assert columns_of(head[:head.index("base")]) == re.match(r"wall +\S+ s +", wall).end()


# ---- marks ----

def test_marks_of_a_job(tool):
    from cli_helpers import HIWATER
    done = tool.run("run", "-o", "x.hiw", "--", "sh", "-c", f"{HIWATER} mark epoch 3 done && sleep 0.3 && {HIWATER} mark two")
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(tool.folder / "x.hiw") as db:
        texts = [row[0] for row in db.execute("SELECT text FROM event WHERE text IS NOT NULL ORDER BY rowid")]
    assert [t for t in texts if t in ("epoch 3 done", "two")] == ["epoch 3 done", "two"]


def test_a_mark_when_the_recorder_is_gone(tool):
    done = tool.run("mark", "x", env={"HIWATER_SOCKET": "@hiwater-1-0"})
    assert done.returncode == 1
    assert done.stderr.startswith("hiwater: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize("length", [4097, 9000, 100000])
def test_a_mark_that_is_too_long(tool, length):
    from cli_helpers import HIWATER
    done = tool.run("run", "--summary", "none", "--", HIWATER, "mark", "x" * length)
    assert done.returncode == 1
    assert "hiwater: mark: the text is longer than the 4096 bytes that a recording keeps of one" in done.stderr
    assert tool.run("run", "--summary", "none", "--", HIWATER, "mark", "x" * 4096).returncode == 0


def test_a_mark_of_somebody_else_is_refused(tool):
    """The recorder accepts no messages of other users, and the sender gets an error."""
    from cli_helpers import HIWATER, as_nobody
    done = tool.run("run", "-o", "x.hiw", "--", *as_nobody(), HIWATER, "mark", "mine")
    assert done.returncode == 1
    assert "hiwater: the run belongs to user 0, whose recorder accepts no messages from other users" in done.stderr


# ---- --repeat ----

def test_repeat(tool):
    done = tool.run("run", "--repeat", "3", "-n", "base", "--", "sh", "-c", f"echo x; {LONGER}")
    assert done.returncode == 0
    assert done.stdout == "x\n" * 3
    lines = done.stderr.splitlines()
    assert len([l for l in lines if re.match(r"hiwater \S+ exit=0 ", l)]) == 3
    table = lines[-5:]
    assert table[0] == "hiwater  3 runs of sh"
    assert table[1].split() == ["min", "mean", "deviation", "max"]
    assert [l[:10].strip() for l in table[2:]] == ["wall", "CPU time", "peak RAM"]
    assert [r["name"] for r in runs(tool)] == ["base"] * 3


def test_repeat_into_files(tool):
    """All runs in one file: one line of JSON each, text one after the other; earlier contents are replaced."""
    for name in ("used.json", "used.txt"):
        (tool.folder / name).write_text("old\n")
    assert tool.run("run", "--repeat", "3", "--json", "used.json", "--summary-file", "used.txt", "--summary", "none", "--no-record",
                    "--", "sh", "-c", "exit 0").returncode == 0
    lines = (tool.folder / "used.json").read_text().splitlines()
    told = [valid(line) for line in lines]
    assert len(told) == 3 and all(run["exit"]["code"] == 0 for run in told)
    assert sorted({run["started"] for run in told}) == [run["started"] for run in told]
    text = (tool.folder / "used.txt").read_text()
    assert text.count("Result ") == 3 and "old" not in text


def test_repeat_stops_at_the_first_failure(tool):
    script = 'echo x >> log; test "$(wc -l < log)" -lt 2 || exit 7'
    done = tool.run("run", "--repeat", "5", "--", "sh", "-c", script)
    assert done.returncode == 7
    assert (tool.folder / "log").read_text() == "x\n" * 2
    assert "run 2 of 5" in done.stderr


def test_repeat_ends_on_a_signal(tool):
    """A job that exits with 0 on SIGTERM is not started again."""
    process = tool.start("run", "--repeat", "5", "--", "sh", "-c",
                         "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
    assert process.stdout.readline() == b"ready\n"
    os.kill(process.pid, signal.SIGTERM)
    stdout, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert stdout == b""


def test_repeat_quiet(tool):
    assert tool.run("run", "--repeat", "2", "--summary", "none", "--", "true").stderr == ""
    assert tool.run("run", "--repeat", "2", "--summary", "full", "--", "true").stderr.count("Result ") == 2


def test_repeat_counts_nobody_twice(tool):
    """Processes left by an earlier run are not members of a later one."""
    done = tool.run("run", "--repeat", "2", "--summary", "line", "-n", "base", "--", "sh", "-c",
                    f"sleep 5 >/dev/null 2>&1 & {LONGER}")
    assert done.returncode == 0
    seen = [json.loads(tool.run("show", "--json", str(r["number"])).stdout)["processes"] for r in runs(tool)]
    assert [p["left"] for p in seen] == [1, 1]
    assert len({p["seen"] for p in seen}) == 1


# ---- attach ----

@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "x = bytearray(40_000_000); print('ready', flush=True); input()"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.stdin.close()
    process.stdout.close()
    process.wait()


def test_attach_for_a_while(tool, sleeper):
    done = tool.run("attach", "--for", "0.5s", "--json", "out.json", sleeper.pid)
    assert done.returncode == 0
    assert sleeper.poll() is None
    summary = json.loads((tool.folder / "out.json").read_text())
    jsonschema.validate(summary, schema())
    assert summary["ram"]["main"]["peak_bytes"] > 40_000_000
    assert summary["exit"]["code"] is None
    assert "bytearray" in " ".join(summary["command"])


def test_attach_to_the_end(tool, sleeper):
    process = tool.start("attach", "--progress=100ms", str(sleeper.pid))
    assert b"RAM" in process.stderr.readline()
    sleeper.stdin.write(b"\n")
    sleeper.stdin.flush()
    sleeper.wait(30)
    assert process.wait(30) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_attach_ends_with_a_summary_on_a_signal(tool, sleeper, number):
    process = tool.start("attach", "--progress=100ms", str(sleeper.pid))
    assert b"RAM" in process.stderr.readline()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"hiwater" in stderr
    assert sleeper.poll() is None


def test_attach_by_name(tool, sleeper):
    done = tool.run("attach", "--name", "bytearray.40_000_000", "--for", "0.3s", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((tool.folder / "out.json").read_text())["ram"]["main"]["peak_bytes"] > 40_000_000


def test_attach_to_nobody(tool):
    gone = subprocess.Popen(["true"])
    gone.wait()
    done = tool.run("attach", gone.pid)
    assert done.returncode == 1
    assert str(gone.pid) in done.stderr
    assert tool.run("attach", "--name", "no such process anywhere at all").returncode == 1
