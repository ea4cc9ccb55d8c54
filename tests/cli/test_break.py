# SPDX-License-Identifier: MIT
"""Whatever happens to hiwater, the job goes on: its exit status and its output are its own. And jobs that are hard."""
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
import stress_jobs
from cli_helpers import HIWATER, ended, processes, state_of, wait_for
from stress_jobs import STATUS, check_integrity, child_of, finish, shown, valid, value, wait_recorded, warnings_of

MB = 1_000_000
JOB = ["sh", "-c", "echo out; sleep 1.15; echo more; exit 3"]
HARMFUL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")


def unaffected(done, warnings=1):
    """The job's own is as it should be, and there is a summary; hiwater warned so many times."""
    assert done.returncode == STATUS, done.stderr
    assert done.stdout == "out\nmore\n"
    assert len(warnings_of(done.stderr)) == warnings, done.stderr
    assert re.search(r"^RAM +peak ", done.stderr, re.M), done.stderr


def root_only():
    if os.geteuid() != 0:
        pytest.skip("not root: cannot mount")


@pytest.fixture
def small_disk(tmp_path):
    """Makes a file system of so many bytes."""
    root_only()
    made = []

    def make(size, *options):
        where = tmp_path / f"disk{len(made)}"
        where.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", "mode=777", *options]), "none", where],
                          check=False, capture_output=True).returncode:
            pytest.skip("not allowed to mount")
        made.append(where)
        return where

    yield make
    for where in made:
        subprocess.run(["umount", "-l", where], check=True)


def rights_of_nobody():
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"] if os.geteuid() == 0 else []


def all_at_once(tool, runs):
    """Several runs side by side: {name: (environment, arguments, rights)} gives {name: what came of it}."""
    started = {}
    for name, (env, args, rights) in runs.items():
        started[name] = subprocess.Popen([*rights, HIWATER, "run", *map(str, args), "--", *JOB], env=dict(tool.env, **env),
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                         cwd="/" if rights else tool.folder)
        tool.started.append(started[name])
    done = {}
    for name, process in started.items():
        out, err = process.communicate(timeout=60)
        done[name] = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    return done


# ---- where nothing can be written ----

def test_disk_full_from_the_start(tool, small_disk):
    disks = {size: small_disk(size) for size in ("4k", "64k", "160k")}
    runs = {size: ({}, ["-i", "5ms", "-o", disk / "x.hiw"], []) for size, disk in disks.items()}
    for size, done in all_at_once(tool, runs).items():
        unaffected(done)
        assert str(disks[size]) in done.stderr or "space" in done.stderr


def test_disk_that_fills_up(stress, tool, small_disk):
    """What was recorded until then can be read."""
    disk = small_disk("4m")
    process = stress.start(["-i", "10ms", "-o", disk / "x.hiw", "--json", "run.json"], "beat", "beat")
    wait_recorded(disk / "x.hiw")
    with contextlib.suppress(OSError), open(disk / "filler", "wb", buffering=0) as filler:
        while filler.write(b"x" * 4096):
            pass
    warned = process.stderr.readline().decode()
    assert "warning" in warned and ("space" in warned or "full" in warned)
    stdout, stderr = finish(process)
    assert process.returncode == STATUS and stdout == "done\n"
    assert not warnings_of(stderr) and "RAM" in stderr
    summary = valid((tool.folder / "run.json").read_text())
    assert summary["exit"]["code"] == STATUS and summary["ram"]["main"]["peak_bytes"] > 0
    before = shown(tool, disk / "x.hiw")
    assert before["ram"]["main"]["peak_bytes"] > 0 and before["run"]["complete"] is False
    (disk / "filler").unlink()
    check_integrity(disk / "x.hiw")
    assert shown(tool, disk / "x.hiw")["time"] == before["time"]


def test_disk_full_for_everything_else(tool, small_disk):
    disk = small_disk("4k")
    with contextlib.suppress(OSError):
        (disk / "filler").write_bytes(b"x" * 8192)
    done = tool.run("run", "--no-record", "--json", disk / "run.json", "--summary-file", disk / "run.txt", "--", *JOB)
    unaffected(done, 2)
    for name in ("run.json", "run.txt"):
        assert re.search(rf"^hiwater: warning: {disk}/{name} was not written: No space", done.stderr, re.M), done.stderr
    assert [p.name for p in disk.iterdir()] == ["filler"]


def test_no_place_for_the_history(tool, small_disk):
    locked, taken, disk = tool.folder / "locked", tool.folder / "taken", small_disk("1m")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    locked.mkdir(mode=0o555)
    taken.write_text("mine")
    tool.env.pop("XDG_STATE_HOME", None)
    places = {
        "read-only disk": {"HIWATER_DIR": str(disk / "history")},
        "no rights": {"HIWATER_DIR": str(locked)},
        "a file in its place": {"HIWATER_DIR": str(taken)},
        "no home": {"HIWATER_DIR": "", "HOME": ""},
        "home is gone": {"HIWATER_DIR": "", "HOME": "/dev/null/gone"},
        "path too long": {"HIWATER_DIR": "/tmp/" + "x" * 5000},
    }
    runs = {how: (env, [], rights_of_nobody() if how == "no rights" else []) for how, env in places.items()}
    for done in all_at_once(tool, runs).values():
        unaffected(done)
        assert "Again" not in done.stderr, "there is nothing to be shown again"
    tool.env = {k: v for k, v in tool.env.items() if k not in ("HIWATER_DIR", "HOME")}
    unaffected(tool.run("run", "--", *JOB))
    assert taken.read_text() == "mine" and not list(locked.iterdir())


def test_a_file_that_cannot_be_is_said_before_the_job_begins(tool):
    for path in ("no/such/folder/x.hiw", "/dev/null/x.hiw", ".", "x" * 5000 + ".hiw"):
        done = tool.run("run", "-o", path, "--", "touch", "began")
        assert done.returncode == 125 and done.stderr.count("\n") == 1, (path[:30], done.stderr)
    assert not (tool.folder / "began").exists()


def test_a_file_that_turns_out_not_to_be(tool):
    for done in all_at_once(tool, {path: ({}, ["-o", path], []) for path in ("/proc/x.hiw", "x" * 254 + ".hiw")}).values():
        unaffected(done)


@pytest.mark.parametrize("what", ["history", "output"])
def test_the_folder_is_removed_meanwhile(stress, tool, what):
    folder = tool.history if what == "history" else tool.folder / "sub"
    if what == "output":
        folder.mkdir()
    process = stress.start(["--json", "run.json", *(["-o", folder / "x.hiw"] if what == "output" else [])], "beat", "beat")
    path = wait_for(lambda: folder.exists() and list(folder.glob("*.hiw")), "the recording")[0]
    wait_recorded(path)
    shutil.rmtree(folder)
    before = (tool.folder / "beat").stat().st_size
    wait_for(lambda: (tool.folder / "beat").stat().st_size > before + 250, "windows go by")
    stdout, stderr = finish(process)
    assert process.returncode == STATUS and stdout == "done\n"
    assert "RAM" in stderr
    assert valid((tool.folder / "run.json").read_text())["run"]["recording"] is None
    assert len(warnings_of(stderr)) == 1, stderr
    assert "Again" not in stderr


def test_the_working_directory_is_removed(tool):
    gone = tool.folder / "gone"
    gone.mkdir()
    done = tool.run("run", "--", "sh", "-c", f"rmdir {gone}; echo out; sleep 1.15; echo more; exit 3",
                    preexec_fn=lambda: os.chdir(gone))
    unaffected(done, 0)
    again = tool.run("run", "--", *JOB, preexec_fn=lambda: (os.mkdir(gone), os.chdir(gone), os.rmdir(gone)))
    unaffected(again, 0)


# ---- streams ----

@pytest.mark.parametrize("closed", [">&- 2>&-", "<&- >&- 2>&-", "2>&-", "<&-", ">&-"])
def test_closed_streams(tool, closed):
    """What hiwater opens must not take their place and be written to by the job, nor by itself."""
    job = f"for n in 0 1 2; do test -e /proc/$$/fd/$n && set -- $* $n; done; echo $* > fds; echo out; echo err >&2; sleep {1.1 if '2' in closed else 0.1}; exit 3"
    done = tool.run("run", "-o", "x.hiw", "--json", "run.json", "--summary-file", "run.txt", "--", "sh", "-c", job,
                    preexec_fn=lambda: [os.close("<>2".index(c[0])) for c in closed.split()])
    assert done.returncode == STATUS
    assert {int(n) for n in (tool.folder / "fds").read_text().split()} == {0, 1, 2} - {"<>2".index(c[0]) for c in closed.split()}
    check_integrity(tool.folder / "x.hiw")
    assert shown(tool, "x.hiw")["exit"]["code"] == STATUS
    assert valid((tool.folder / "run.json").read_text())["exit"]["code"] == STATUS
    text = (tool.folder / "run.txt").read_text()
    assert "RAM" in text and "err" not in text.split()


def test_stderr_that_cannot_be_written(tool):
    with open("/dev/full", "w", encoding="ascii") as full:
        done = tool.run("run", "--json", "run.json", "--progress=100ms", "--", "sh", "-c", "echo out; sleep 0.3; exit 3",
                        stderr=full, stdout=subprocess.PIPE)
    assert done.returncode == STATUS and done.stdout == "out\n"
    assert valid((tool.folder / "run.json").read_text())["exit"]["code"] == STATUS


def test_the_reader_of_stderr_is_gone(tool):
    """No SIGPIPE ends hiwater before the job; the job's own is what it was."""
    read, write = os.pipe()
    job = "trap 'echo piped > piped' PIPE; sleep 0.3; grep ^SigIgn /proc/self/status; exit 3"
    process = tool.start("run", "--json", "run.json", "--progress=100ms", "--", "sh", "-c", job, stderr=write)
    os.close(write)
    assert b"RAM" in os.read(read, 200)
    os.close(read)
    stdout, _ = process.communicate(timeout=30)
    assert process.returncode == STATUS
    assert int(stdout.split()[1], 16) >> (signal.SIGPIPE - 1) & 1 == 0
    assert not (tool.folder / "piped").exists()
    assert valid((tool.folder / "run.json").read_text())["exit"]["code"] == STATUS


def test_nobody_reads_stderr(tool):
    """A full pipe must not hold the job up."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(write, b"x" * 4096):
            pass
    os.set_blocking(write, True)
    process = tool.start("run", "--no-record", "--progress=100ms", "--", "sh", "-c", "sleep 0.3; echo out > done; exit 3", stderr=write)
    os.close(write)
    wait_for((tool.folder / "done").exists, "the job ended")
    while os.read(read, 65536):  # then there is room
        pass
    os.close(read)
    assert process.wait(30) == STATUS


# ---- many, fast, strange ----

def pss_of_all(main):
    """What a process and its children hold, shared pages once: the kernel's own division."""
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
    sizes = value(path, "SELECT max(coalesce(rss_sum_max, rss_sum)) FROM job_sample")
    assert combined["high_bytes"] < sizes / 2, "they share nearly all"
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
        assert done.stderr.count("\n") == 1
        if done.returncode == 0:
            valid((tool.folder / "run.json").read_text())
            (tool.folder / "run.json").unlink()


# ---- few resources ----

@pytest.mark.parametrize("files", [64, 40])
def test_few_descriptors(stress, tool, files):
    """200 processes and hardly any file can be open: all are seen, and the job has the limit it had."""
    process = stress.start(["-i", "50ms", "-o", "x.hiw", "--json", "run.json"], "many", "200",
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    job = child_of(process.pid)
    limits = pathlib.Path(f"/proc/{job}/limits").read_text()
    assert re.search(rf"Max open files +{files} +{files} ", limits)
    wait_for(lambda: (tool.folder / "x.hiw").exists(), "the recording")
    wait_recorded(tool.folder / "x.hiw")
    stdout, stderr = finish(process)
    assert process.returncode == STATUS, stderr
    assert not warnings_of(stderr), stderr
    summary = valid((tool.folder / "run.json").read_text())
    assert summary["processes"]["seen"] == 201 and summary["processes"]["peak_alive"] == 201
    assert summary["ram"]["combined"]["peak_bytes"] > 0
    check_integrity(tool.folder / "x.hiw")


@pytest.mark.parametrize("files", [3, 5, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28])
def test_hardly_any_descriptors(tool, files):
    """Perhaps hiwater can't work then; but it comes to an end, and says so, or the job runs."""
    canaries = {p[0] for p in processes() if p[1] == "hiwater-canary"}
    done = tool.run("run", "--json", "run.json", "--", "sh", "-c", "echo out > out; exit 3",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    if (tool.folder / "out").exists():
        assert done.returncode == STATUS, done.stderr
    else:
        assert done.returncode in (125, 126, 127) and done.stderr
    assert not [p for p in processes() if p[1] == "hiwater-canary" and p[3] == 1 and p[0] not in canaries]


@pytest.mark.parametrize("kib", [4000, 8000, 12000, 16000, 24000, 48000])
def test_little_address_space(tool, kib):
    """No hang, whatever does not fit."""
    began = time.monotonic()
    done = tool.run("run", "--", "sh", "-c", "echo out > out; exit 3",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (kib << 10, kib << 10)))
    assert time.monotonic() - began < 20
    if (tool.folder / "out").exists() and done.returncode not in (125, 126, 127):
        assert done.returncode in (STATUS, -signal.SIGABRT), done.stderr


def test_few_processes_allowed(tool):
    """No thread, no canary: the job needs neither."""
    if os.geteuid() == 0:
        uid = 61234  # nobody else's, so that the limit counts hiwater's alone
        tool.folder.chmod(0o777)
        rights = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    else:
        pytest.skip("not root: cannot become another user")
    for most in (1, 2, 3):
        done = subprocess.run([*rights, "sh", "-c", f'ulimit -u {most}; exec "$0" "$@"', HIWATER, "run", "--no-record", "--", "true"],
                              env=tool.env, cwd="/", capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (0, 125), (most, done.returncode, done.stderr)
        assert done.stderr
    assert done.returncode == 0, done.stderr


@pytest.fixture
def memory_cgroup():
    """A memory cgroup (v1) of its own; gone afterwards."""
    root = pathlib.Path("/sys/fs/cgroup/memory")
    if not (root / "memory.limit_in_bytes").exists() and not list(root.glob("*/memory.limit_in_bytes")):
        pytest.skip("no cgroup v1 memory controller")
    own = next(l.split(":", 2)[2] for l in pathlib.Path("/proc/self/cgroup").read_text().splitlines() if ":memory:" in l)
    group = root / own.lstrip("/") / f"hiwater-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("not allowed to make a cgroup")
    yield group
    wait_for(lambda: not (group / "cgroup.procs").read_text(), "the cgroup is empty")
    group.rmdir()


def test_out_of_memory(tool, stress_program, memory_cgroup):
    """The limit is hiwater's as well; the kernel takes the largest, which is the job."""
    (memory_cgroup / "memory.limit_in_bytes").write_text(str(120 * MB))
    done = tool.run("run", "-i", "10ms", "-o", "x.hiw", "--json", "run.json", "--", stress_program, "shrink", "400", "1",
                    preexec_fn=lambda: (memory_cgroup / "cgroup.procs").write_text(str(os.getpid())))
    assert done.returncode in (137, -9), done.stderr
    summary = valid((tool.folder / "run.json").read_text())
    assert summary["exit"] == {"code": 137, "signal": 9, "oom_killed": True}
    assert 60 * MB < summary["ram"]["main"]["peak_bytes"] < 121 * MB
    assert summary["ram"]["limit_bytes"] == pytest.approx(120 * MB, abs=65536)
    assert "out-of-memory" in [f["code"] for f in summary["findings"]]
    assert shown(tool, "x.hiw")["exit"] == summary["exit"]


def test_near_the_limit(tool, stress_program, memory_cgroup):
    """Nothing but the job lives in the cgroup besides hiwater: its figures are there."""
    (memory_cgroup / "memory.limit_in_bytes").write_text(str(300 * MB))
    done = tool.run("run", "-i", "10ms", "--json", "run.json", "--", stress_program, "shrink", "100", "1",
                    preexec_fn=lambda: (memory_cgroup / "cgroup.procs").write_text(str(os.getpid())))
    assert done.returncode == STATUS
    summary = valid((tool.folder / "run.json").read_text())
    assert summary["exit"]["oom_killed"] is False
    assert 100 * MB <= summary["ram"]["main"]["peak_bytes"] < 106 * MB
    assert summary["ram"]["limit_bytes"] == pytest.approx(300 * MB, abs=65536)


# ---- attach ----

@pytest.fixture
def running(tool, stress_program):
    """Starts a job of stress.c that hiwater did not start."""
    started = []

    def start(*job, **options):
        process = subprocess.Popen([stress_program, *map(str, job)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   cwd=tool.folder, **options)
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def test_attach_counts_only_what_rose_since(tool, running):
    """It held 300 MB before, and holds 20 now."""
    job = running("shrink", 300, 20)
    done = tool.run("attach", "--for", "0.5s", "--json", "run.json", "-i", "20ms", job.pid)
    assert done.returncode == 0, done.stderr
    main = valid((tool.folder / "run.json").read_text())["ram"]["main"]
    assert 20 * MB <= main["peak_bytes"] < 26 * MB, main
    assert main["high_bytes"] is None or main["high_bytes"] < 310 * MB


@pytest.mark.parametrize("grow", [40, 400])
def test_attach_to_what_grows(tool, running, grow):
    """To 60 MB, below the old mark, and to 420, above it."""
    job = running("shrink", 300, 20)
    process = tool.start("attach", "--json", "run.json", "-o", "x.hiw", "-i", "10ms", "--progress=100ms", job.pid)
    assert b"RAM" in process.stderr.readline()
    job.stdin.write(f"grow {grow}\n".encode())
    job.stdin.flush()
    assert job.stdout.readline() == b"grown\n"
    process.stderr.readline()
    process.stderr.readline()
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
    assert b"RAM" in process.stderr.readline()
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
