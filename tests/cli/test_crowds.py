# SPDX-License-Identifier: MIT
"""Jobs that are hard to measure: thousands of processes, storms of them, strange names; and attach to running processes."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest
import stress_jobs
from cli_helpers import HIWATER, ended, state_of, wait_for
from stress_jobs import (STATUS, check_integrity, child_of, finish, line_of, rights_of_nobody, root_only, shown,
                         valid, value, wait_recorded)

MB = 1_000_000
HARMFUL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")


# ---- many, fast, strange ----

def pss_of_all(main):
    """The memory of a process and its children, shared pages once: the kernel's own PSS."""
    children = pathlib.Path(f"/proc/{main}/task/{main}/children").read_text().split()
    return sum(int(re.search(r"^Pss:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1]) * 1024
               for pid in [main, *children])


def test_2000_processes(stress, tool):
    process = stress.start(["-i", "1s", "-o", "x.hiw", "--json", "run.json"], "many", "2000")
    began = time.monotonic()
    path = tool.folder / "x.hiw"
    wait_recorded(path)
    wait_for(lambda: value(path, "SELECT max(coalesce(processes_max, processes)) FROM job_sample") == 2001, "all are seen")
    truth = pss_of_all(child_of(process.pid))
    # Reading 2,000 maps has a budget of CPU time, so on a busy machine it comes later.
    wait_for(lambda: value(path, "SELECT coalesce(min(1.0 * ram_high / rss_sum), 1) FROM job_sample WHERE processes = 2001") < 0.5,
             "they share nearly all")
    middle = time.monotonic()
    summary = shown(tool, path)
    assert time.monotonic() - middle < 10
    assert summary["processes"]["seen"] == 2001
    stdout, stderr = finish(process)
    assert process.returncode == STATUS, stderr
    assert time.monotonic() - began < 30
    end = valid((tool.folder / "run.json").read_text())
    assert end["processes"]["seen"] == end["processes"]["peak_alive"] == 2001
    assert end["processes"]["left"] == 0
    assert len(end["processes"]["list"]) == 100
    combined = end["ram"]["combined"]
    assert combined["low_bytes"] <= 1.03 * truth and 0.97 * truth <= combined["high_bytes"], (truth, combined)
    assert end["ram"]["main"]["peak_bytes"] <= combined["low_bytes"] <= combined["peak_bytes"] <= combined["high_bytes"]
    assert value(path, "SELECT count(*) FROM process") >= 2001 or value(path, "SELECT count(*) FROM process WHERE name = 'others'")
    most = value(path, "SELECT max(n) FROM (SELECT count(*) AS n FROM process_sample GROUP BY t)")
    assert most <= 202, "the smallest are one row"
    assert max(map(len, stderr.splitlines())) <= 80
    check_integrity(path)


@pytest.mark.parametrize("rights", ["root", "user"])
def test_a_storm_of_3000_children(stress, tool, rights):
    out = tool.folder / "run.json"
    tool.folder.chmod(0o777)
    for parent in [*tool.folder.parents, *stress.program.parents]:
        if str(parent) in ("/tmp", "/"):
            break
        parent.chmod(parent.stat().st_mode | 0o011)
    command = ["run", "-i", "10ms", "--no-record", "--json", out, "--", stress.program, "storm", "3000"]
    if rights == "root":
        root_only()
        done = tool.run(*command)
    else:
        stress.program.parent.parent.chmod(0o755)
        done = subprocess.run([*rights_of_nobody(), HIWATER, *map(str, command)], env=tool.env, cwd="/", text=True, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    user, system = (int(n) / 1e6 for n in done.stdout.split())
    summary = valid(out.read_text())
    assert summary["time"]["user_s"] == pytest.approx(user, abs=0.03 + 0.01 * user)
    assert summary["time"]["system_s"] == pytest.approx(system, abs=0.03 + 0.05 * system)
    seen = summary["processes"]["seen"]
    assert (seen == 3001 if rights == "root" else 1 < seen <= 3001), seen
    assert summary["processes"]["peak_alive"] <= 9 + 1
    assert summary["processes"]["left"] == 0
    assert not [p for p in summary["processes"]["list"] if "canary" in p["name"]]


def test_hundreds_of_threads(stress, tool):
    process = stress.start(["-i", "10ms", "-o", "x.hiw", "--json", "run.json"], "threads", "500")
    path = tool.folder / "x.hiw"
    wait_recorded(path)
    wait_for(lambda: value(path, "SELECT max(coalesce(threads_max, threads)) FROM job_sample") == 501, "all are seen")
    _, stderr = finish(process)
    assert process.returncode == STATUS, stderr
    summary = valid((tool.folder / "run.json").read_text())
    assert summary["processes"]["seen"] == summary["processes"]["peak_alive"] == 1


NAMES = [b"a\nb", b"\x1b]0;owned\x07", b"\x1b[31mred", b"a) R 1 (b", b"))))", b"((((", b"\xff\xfe\x80", b"\xc3", b" ", b"\t\r\n\v",
         b"\xe2\x80\xaeevil", b"\xc2\x9b31m", b"\\\"'", b"%s%n%d", b"\xe2\x98\x83 snow", b"<b>&amp;", b"12345", b"\xed\xa0\x80"]


def harmless(text):
    assert not HARMFUL.search(text), ascii(HARMFUL.search(text))
    return text


def test_names_that_are_no_names(stress, tool):
    args = ["names", *(n.hex() for n in NAMES)]
    process = stress.start(["-i", "20ms", "-o", "x.hiw", "--json", "run.json", "--progress=100ms"], *args)
    wait_recorded(tool.folder / "x.hiw")
    meanwhile = tool.run("show", "--json", "x.hiw")
    assert len(valid(meanwhile.stdout)["processes"]["list"]) == len(NAMES) + 1
    _, stderr = finish(process)
    assert process.returncode == STATUS
    harmless(stderr)
    text = (tool.folder / "run.json").read_bytes().decode("utf-8")
    summary = valid(text)
    assert len(summary["processes"]["list"]) == len(NAMES) + 1
    names = {p["name"] for p in summary["processes"]["list"]}
    assert {"%s%n%d", "))))", "a) R 1 (b", "\\\"'", "\u2603 snow", "12345"} <= names
    for options in ([], ["--plain"], ["--summary", "line"], ["--why"]):
        harmless(tool.run("show", *options, "x.hiw").stdout)
    with_colours = tool.run("show", "x.hiw", env={"CLICOLOR_FORCE": "1"}).stdout
    harmless(re.sub(r"\x1b\[[0-9;]*m", "", with_colours.replace("\x1b[31mred", "\x07")))
    check_integrity(tool.folder / "x.hiw")


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_programs_with_such_names(tool, stress_program, name):
    """The command's own name, in the title, the line, and the list of runs."""
    if name in (b" ", b"\t\r\n\v"):
        name += b"x"
    program = f"{tool.folder}/{os.fsdecode(name)}"
    os.symlink(stress_program, program)
    done = tool.run("run", "-n", "n", "-o", "x.hiw", "--json", "run.json", "--", program, "many", "0")
    assert done.returncode == STATUS and done.stdout == "ready\n", done.stderr
    harmless(done.stderr)
    valid((tool.folder / "run.json").read_bytes().decode("utf-8"))
    for options in ([], ["--plain"], ["--summary", "line"]):
        text = harmless(tool.run("show", *options, "x.hiw").stdout)
        assert options != ["--summary", "line"] or text.count("\n") == 1
    tool.history.mkdir(mode=0o700)
    (tool.folder / "x.hiw").rename(tool.history / "1.hiw")
    assert harmless(tool.run("runs").stdout).count("\n") == 2
    json.loads(tool.run("runs", "--json").stdout)


def test_a_run_name_that_is_no_name(tool):
    for name in ("\x1b[31mx", "a\nb", "x" * 3000, "", "\u202ex", "1", "last"):
        done = tool.run("run", "-n", name, "--summary", "line", "--json", "run.json", "--", "true")
        assert done.returncode in (0, 125)
        harmless(done.stderr)
        assert done.stderr.count("\n") == 1 + ("name:" in done.stderr)  # a warning if it means another run
        assert ("name:" in done.stderr) == (name in ("1", "last"))
        if done.returncode == 0:
            valid((tool.folder / "run.json").read_text())
            (tool.folder / "run.json").unlink()


# ---- attach ----

@pytest.fixture
def running(tool, stress_program):
    """Starts a job of stress.c that hiwater did not start."""
    started = []

    def start(*job, **options):
        process = subprocess.Popen([stress_program, *map(str, job)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   cwd=tool.folder, **options)
        started.append(process)
        assert line_of(process.stdout) == b"ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_attach_counts_only_what_rose_since(tool, running):
    """It used 300 MB before, and uses 20 MB now."""
    job = running("shrink", 300, 20)
    done = tool.run("attach", "--for", "0.5s", "--json", "run.json", "-i", "20ms", job.pid)
    assert done.returncode == 0, done.stderr
    main = valid((tool.folder / "run.json").read_text())["ram"]["main"]
    assert 20 * MB <= main["peak_bytes"] < 26 * MB, main
    assert main["high_bytes"] is None or main["high_bytes"] < 310 * MB


@pytest.mark.parametrize("grow", [40, 400])
def test_attach_to_what_grows(tool, running, grow):
    """To 60 MB, below the old high-water mark, and to 420 MB, above it."""
    job = running("shrink", 300, 20)
    process = tool.start("attach", "--json", "run.json", "-o", "x.hiw", "-i", "10ms", "--progress=100ms", job.pid)
    assert b"RAM" in line_of(process.stderr)
    job.stdin.write(f"grow {grow}\n".encode())
    job.stdin.flush()
    assert line_of(job.stdout) == b"grown\n"
    line_of(process.stderr)
    line_of(process.stderr)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0 and job.poll() is None
    summary = valid((tool.folder / "run.json").read_text())
    main = summary["ram"]["main"]
    assert (20 + grow) * MB <= main["peak_bytes"] < (20 + grow + 6) * MB, main
    assert main["method"] in (("exact",) if grow == 400 else ("sampled", "bounded", "exact"))
    assert summary["exit"]["code"] is None
    assert stress_jobs.figures(shown(tool, "x.hiw")) == stress_jobs.figures(summary)


def test_attach_does_not_touch_the_mark(tool, running):
    job = running("shrink", 100, 5)
    assert tool.run("attach", "--for", "0.2s", job.pid).returncode == 0
    mark = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{job.pid}/status").read_text())
    assert int(mark[1]) * 1024 > 100 * MB


def test_main_ends_while_attached(tool, running):
    job = running("many", 5)
    process = tool.start("attach", "--json", "run.json", "-o", "x.hiw", "-i", "20ms", "--progress=100ms", job.pid)
    assert b"RAM" in line_of(process.stderr)
    job.stdin.close()
    assert job.wait(30) == STATUS
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    summary = valid((tool.folder / "run.json").read_text())
    assert summary["processes"]["seen"] == 6 and summary["processes"]["peak_alive"] == 6
    assert summary["processes"]["left"] == 0
    assert summary["run"]["complete"] is True
    assert b"RAM" in stderr


def test_attach_for(tool, running):
    job = running("many", 3)
    began = time.monotonic()
    done = tool.run("attach", "--for", "300ms", "--json", "run.json", "--no-record", job.pid)
    assert done.returncode == 0 and time.monotonic() - began < 10
    summary = valid((tool.folder / "run.json").read_text())
    assert 0.25 < summary["time"]["wall_s"] < 5
    assert summary["processes"]["left"] == 4 and job.poll() is None


def test_attach_by_name_takes_all(tool, running):
    jobs = [running("shrink", 1, 30), running("shrink", 1, 40)]
    path = jobs[0].args[0]
    done = tool.run("attach", "--name", f"^{re.escape(str(path))} shrink 1 [34]0$", "--for", "0.4s", "--json", "run.json", "-i", "20ms")
    assert done.returncode == 0, done.stderr
    summary = valid((tool.folder / "run.json").read_text())
    assert {p["pid"] for p in summary["processes"]["list"]} == {j.pid for j in jobs}
    assert 70 * MB <= summary["ram"]["combined"]["peak_bytes"] < 80 * MB


def test_attach_to_a_cgroup(tool, running, memory_cgroup):
    job = running("many", 4, preexec_fn=lambda: (memory_cgroup / "cgroup.procs").write_text(str(os.getpid())))
    inside = memory_cgroup.relative_to("/sys/fs/cgroup/memory")
    done = tool.run("attach", "--cgroup", f"/{inside}", "--for", "0.4s", "--json", "run.json")
    assert done.returncode == 0, done.stderr
    summary = valid((tool.folder / "run.json").read_text())
    assert summary["processes"]["seen"] == 5
    assert {p["name"] for p in summary["processes"]["list"]} == {"stress"}
    assert job.poll() is None
    job.stdin.close()
    assert job.wait(30) == STATUS
    missing = tool.run("attach", "--cgroup", f"/{inside}-not", "--for", "1s")
    assert missing.returncode in (1, 2) and missing.stderr.count("\n") == 1


def test_attach_to_nothing(tool):
    gone = subprocess.Popen(["true"])
    gone.wait()
    for pid in (gone.pid, 4194304, 99999999999, 0, -1, 1e3):
        done = tool.run("attach", "--for", "1s", "-o", "x.hiw", "--", str(pid))
        assert done.returncode in (1, 2), (pid, done.stderr)
        assert re.fullmatch(r"hiwater: [^\n]+\n", done.stderr), done.stderr
    assert not (tool.folder / "x.hiw").exists()


def test_attach_to_a_zombie(tool):
    process = subprocess.Popen(["sh", "-c", "exit 3"])
    wait_for(lambda: state_of(process.pid) == "Z", "a zombie")
    done = tool.run("attach", "--for", "5s", process.pid)
    assert process.wait() == 3
    assert done.returncode in (0, 1)
    assert done.returncode == 0 or done.stderr.count("\n") == 1


def test_kill_9_while_attached(tool, running):
    job = running("beat", "beat")
    process = tool.start("attach", "-o", "x.hiw", job.pid)
    wait_recorded(tool.folder / "x.hiw")
    process.kill()
    process.wait(30)
    before = (tool.folder / "beat").stat().st_size
    wait_for(lambda: (tool.folder / "beat").stat().st_size > before, "the job goes on")
    assert not ended(job.pid)
    assert shown(tool, "x.hiw")["ram"]["main"]["peak_bytes"] > 0
