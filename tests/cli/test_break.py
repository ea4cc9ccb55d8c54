# SPDX-License-Identifier: MIT
"""Whatever happens to hiwater, the job goes on: its exit status and its output are its own."""
import contextlib
import ctypes
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
from cli_helpers import HIWATER, fill, processes, wait_for
from stress_jobs import (STATUS, check_integrity, child_of, figures, finish, line_of, rights_of_nobody, root_only, shown,
                         valid, wait_recorded, warnings_of)

MB = 1_000_000
JOB = ["sh", "-c", "echo out; sleep 1.15; echo more; exit 3"]


def unaffected(done, warnings=1):
    """The job's own is as it should be, and there is a summary; hiwater warned so many times."""
    assert done.returncode == STATUS, done.stderr
    assert done.stdout == "out\nmore\n"
    assert len(warnings_of(done.stderr)) == warnings, done.stderr
    assert re.search(r"^RAM +peak ", done.stderr, re.M), done.stderr


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
    """A file that holds nothing of the run is not left behind."""
    disks = {size: small_disk(size) for size in ("4k", "64k", "160k", "176k", "200k")}
    runs = {size: ({}, ["-i", "5ms", "-o", disk / "x.hiw"], []) for size, disk in disks.items()}
    for size, done in all_at_once(tool, runs).items():
        continues = "the recording has a gap of" in done.stderr  # the end fits into the space that was reserved for it
        unaffected(done, 1 + done.stderr.count("warning: the recording has a gap of"))
        assert str(disks[size]) in done.stderr or "space" in done.stderr
        if "no recording" in done.stderr and not continues:
            assert not list(disks[size].iterdir()), size
        else:
            assert shown(tool, disks[size] / "x.hiw")["ram"]["main"]["peak_bytes"] > 0, size


def test_disk_that_fills_up(stress, tool, small_disk):
    """What was recorded until then can be read; so can the end, if the space that was reserved for it is enough."""
    disk = small_disk("4m")
    process = stress.start(["-i", "10ms", "-o", disk / "x.hiw", "--json", "run.json"], "beat", "beat")
    wait_recorded(disk / "x.hiw")
    fill(disk)
    warned = line_of(process.stderr).decode()
    assert "warning" in warned and ("space" in warned or "full" in warned)
    stdout, stderr = finish(process)
    assert process.returncode == STATUS and stdout == "done\n"
    assert "RAM" in stderr
    summary = valid((tool.folder / "run.json").read_text())
    assert summary["exit"]["code"] == STATUS and summary["ram"]["main"]["peak_bytes"] > 0
    before = shown(tool, disk / "x.hiw")
    assert before["ram"]["main"]["peak_bytes"] > 0
    told = tool.run("show", disk / "x.hiw").stdout
    assert "recorder was lost" not in told
    if before["run"]["complete"]:
        assert before["exit"]["code"] == STATUS
        assert ["the recording has a gap of" in line for line in warnings_of(stderr)] == [True]
    else:
        assert not warnings_of(stderr)
        assert re.search(r"end not recorded: the recording stopped,.*(space|full)", told, re.S), told
        assert any(n["about"] == "exit" and "recording stopped" in n["why"] for n in before["notes"])
    (disk / "filler").unlink()
    check_integrity(disk / "x.hiw")
    assert shown(tool, disk / "x.hiw")["time"] == before["time"]


def test_disk_that_is_full_for_a_while(stress, tool, small_disk):
    """The recording has a gap, and its end."""
    disk = small_disk("1m")
    process = stress.start(["-i", "10ms", "-o", disk / "x.hiw", "--json", "run.json"], "beat", "beat")
    wait_recorded(disk / "x.hiw")
    fill(disk)
    warned = line_of(process.stderr).decode()
    assert "recording stopped: cannot write" in warned and "unless it can be written again" in warned, warned
    (disk / "filler").unlink()
    assert "the recording continues; it has a gap of" in line_of(process.stderr).decode()
    stdout, stderr = finish(process)
    assert process.returncode == STATUS and stdout == "done\n"
    assert not warnings_of(stderr)
    check_integrity(disk / "x.hiw")
    summary, again = valid((tool.folder / "run.json").read_text()), shown(tool, disk / "x.hiw")
    assert again["run"]["complete"] and again["exit"]["code"] == STATUS and figures(again) == figures(summary)
    for one in (summary, again):
        assert [f["evidence"]["recording_gap_s"] for f in one["findings"] if f["code"] == "blind-spots"][0] > 0


@pytest.mark.release  # a sanitizer takes SIGBUS
@pytest.mark.parametrize("file", ["x.hiw-shm", "x.hiw-wal"])
def test_a_file_next_to_the_recording_is_truncated(stress, tool, file):
    """SQLite maps the one (SIGBUS) and reads the other."""
    process = stress.start(["-i", "10ms", "-o", "x.hiw", "--json", "run.json"], "beat", "beat")
    wait_recorded(tool.folder / "x.hiw")
    before = shown(tool, "x.hiw")["time"]["wall_s"]
    os.truncate(tool.folder / file, 0)
    assert f"{file} was truncated" in line_of(process.stderr).decode()
    assert "the recording continues; it has a gap of" in line_of(process.stderr).decode()

    def recorded():
        done = tool.run("show", "--json", "x.hiw")  # another process: it reads the new index
        return done.returncode == 0 and (json.loads(done.stdout)["time"]["wall_s"] or 0) > before + 2

    wait_for(recorded, "the recording continues")
    stdout, _ = finish(process)
    assert process.returncode == STATUS and stdout == "done\n"
    check_integrity(tool.folder / "x.hiw")
    summary, again = valid((tool.folder / "run.json").read_text()), shown(tool, "x.hiw")
    assert again["run"]["complete"] and again["exit"]["code"] == STATUS and figures(again) == figures(summary)
    assert sorted(p.name for p in tool.folder.glob("x.hiw*")) == ["x.hiw"]


@pytest.mark.parametrize("how", ["truncated", "overwritten", "replaced"])
def test_a_recording_that_another_program_changes(stress, tool, how):
    """It is reported at the end, and another file is never taken for it."""
    other = tool.folder / "other.hiw"
    assert tool.run("run", "-n", "other", "-o", other, "--summary", "none", "--", *JOB).returncode == STATUS
    process = stress.start(["-i", "20ms", "-n", "this", "-o", "x.hiw", "--json", "run.json"], "beat", "beat")
    recording = tool.folder / "x.hiw"
    wait_recorded(recording)
    if how == "truncated":
        os.truncate(recording, 0)
    elif how == "overwritten":
        with open(recording, "r+b") as f:
            f.write(os.urandom(40000))
    else:
        os.rename(other, recording)
        wait_for(lambda: not (tool.folder / "x.hiw-wal").exists(), "the journal is not that of the other file")
        assert shown(tool, recording)["run"]["name"] == "other"
    stdout, stderr = finish(process)
    assert process.returncode == STATUS and stdout == "done\n" and "RAM" in stderr
    valid((tool.folder / "run.json").read_text())
    if how == "replaced":
        assert f"another program replaced {recording} during the run: its recording is {tool.folder}/x-2.hiw" in stderr
        again = shown(tool, "x-2.hiw")
        assert again["run"]["name"] == "this" and again["run"]["complete"] and again["exit"]["code"] == STATUS
        assert shown(tool, recording)["run"]["name"] == "other"
    else:
        assert f"another program has {how} {recording}" in stderr
        assert "hiwater show" not in stderr
        assert tool.run("show", "./x.hiw").returncode == 1
        assert sorted(p.name for p in tool.folder.glob("x*")) == ["x.hiw"]


def test_a_recording_that_lost_its_name_leaves_the_next_one_alone(stress, tool):
    """Both had the same names of a journal and an index."""
    process = stress.start(["-i", "20ms", "-n", "this", "-o", "x.hiw"], "beat", "beat")
    wait_recorded(tool.folder / "x.hiw")
    os.rename(tool.folder / "x.hiw", tool.folder / "y.hiw")
    wait_for(lambda: not (tool.folder / "x.hiw-wal").exists(), "it has noticed")
    other = tool.start("run", "-n", "other", "-o", "x.hiw", "--summary", "none", "--", "sh", "-c", "read x", stdin=subprocess.PIPE)
    wait_recorded(tool.folder / "x.hiw")
    _, stderr = finish(process)
    assert f"no recording: {tool.folder}/x.hiw was removed or renamed during the run" in stderr
    assert finish(other)[1] == ""
    check_integrity(tool.folder / "x.hiw")
    first, second = shown(tool, "y.hiw"), shown(tool, "x.hiw")
    assert first["run"]["name"] == "this" and first["run"]["complete"] and second["run"]["name"] == "other" and second["run"]["complete"]
    assert "recording_gap_s" not in json.dumps(second)
    assert sorted(p.name for p in tool.folder.glob("?.hiw*")) == ["x.hiw", "y.hiw"]


def test_disk_full_for_everything_else(tool, small_disk):
    disk = small_disk("4k")
    with contextlib.suppress(OSError):
        (disk / "filler").write_bytes(b"x" * 8192)
    done = tool.run("run", "--no-record", "--json", disk / "run.json", "--summary-file", disk / "run.txt", "--", *JOB)
    unaffected(done, 2)
    for name in ("run.json", "run.txt"):
        assert re.search(rf"^hiwater: warning: cannot write {disk}/{name}: No space", done.stderr, re.M), done.stderr
    assert [p.name for p in disk.iterdir()] == ["filler"]


def test_a_recording_that_was_cut_is_not_said_to_be_saved(tool):
    """The limit of file sizes leaves no space that was reserved."""
    process = tool.start("run", "-i", "5ms", "--", "sh", "-c", "read x", stdin=subprocess.PIPE)
    wait_recorded(tool.history / "1.hiw")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
    assert "recording stopped: cannot write" in line_of(process.stderr).decode()
    _, stderr = finish(process)
    assert "(incomplete)" in stderr and not warnings_of(stderr), stderr


def test_numbers_of_runs_on_a_full_disk(tool, small_disk):
    """A number is given once, also where the disk is full when the newest run is removed; jobs go on meanwhile."""
    disk = small_disk("2m")

    def run():
        return tool.run("run", "--summary", "none", "--", "sh", "-c", "sleep 1.1", env={"HIWATER_DIR": disk})

    def numbers():
        return [int(line.split()[0]) for line in tool.run("runs", env={"HIWATER_DIR": disk}).stdout.splitlines()[1:]]
    for _ in range(2):
        assert run().returncode == 0
    for newest in (2, 3):
        fill(disk)
        done = run()
        assert done.returncode == 0 and len(warnings_of(done.stderr)) == 1 and "No space" in done.stderr, done.stderr
        assert numbers() == [1, newest]
        assert tool.run("runs", "--rm", str(newest), env={"HIWATER_DIR": disk}).returncode == 0
        (disk / "filler").unlink()
        assert run().returncode == 0
        assert numbers() == [1, newest + 1]


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
        "a home that is relative": {"HIWATER_DIR": "", "HOME": "home"},
        "home is gone": {"HIWATER_DIR": "", "HOME": "/dev/null/gone"},
        "path too long": {"HIWATER_DIR": "/tmp/" + "x" * 5000},
    }
    runs = {how: (env, [], rights_of_nobody() if how == "no rights" else []) for how, env in places.items()}
    for done in all_at_once(tool, runs).values():
        unaffected(done)
        assert "Recording" not in done.stderr, "there is nothing to be shown again"
    tool.env = {k: v for k, v in tool.env.items() if k not in ("HIWATER_DIR", "HOME")}
    unaffected(tool.run("run", "--", *JOB))
    assert taken.read_text() == "mine" and not list(locked.iterdir()) and not (tool.folder / "home").exists()


def test_a_file_that_cannot_be_is_said_before_the_job_begins(tool):
    for path in ("no/such/folder/x.hiw", "/dev/null/x.hiw", ".", "x" * 5000 + ".hiw"):
        done = tool.run("run", "--strict", "-o", path, "--", "touch", "began")
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
    assert "Recording" not in stderr


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
    os.set_blocking(read, False)

    def drained():  # then there is room
        with contextlib.suppress(BlockingIOError):
            while os.read(read, 65536):
                pass
        return process.poll() is not None

    wait_for(drained, "hiwater ended")
    os.close(read)
    assert process.returncode == STATUS


# ---- few resources ----

@pytest.mark.parametrize("files, most", [(64, 64), (40, 40), (32, 1000)])
def test_few_descriptors(stress, tool, files, most):
    """200 processes and hardly any file can be open: all are seen, and the job has the limit it had."""
    process = stress.start(["-i", "50ms", "-o", "x.hiw", "--json", "run.json"], "many", "200",
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, most)))
    job = child_of(process.pid)
    limits = pathlib.Path(f"/proc/{job}/limits").read_text()
    assert re.search(rf"Max open files +{files} +{most} ", limits)
    wait_for(lambda: (tool.folder / "x.hiw").exists(), "the recording")
    wait_recorded(tool.folder / "x.hiw")
    stdout, stderr = finish(process)
    assert process.returncode == STATUS, stderr
    assert not warnings_of(stderr), stderr
    summary = valid((tool.folder / "run.json").read_text())
    assert summary["processes"]["seen"] == 201 and summary["processes"]["peak_alive"] == 201
    assert summary["ram"]["combined"]["peak_bytes"] > 0
    check_integrity(tool.folder / "x.hiw")


def test_each_repetition_has_the_limit_of_the_first(tool):
    done = tool.run("run", "--repeat", "2", "--summary", "none", "--", "sh", "-c", "ulimit -n",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 1000)))
    assert done.returncode == 0 and done.stdout == "200\n" * 2


@pytest.mark.parametrize("files", [3, 5, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28])
def test_hardly_any_descriptors(tool, files):
    """Perhaps hiwater can't work then; but it comes to an end, and says so, or the job runs."""
    canaries = {p[0] for p in processes() if p[1] == "hiwater-probe"}
    done = tool.run("run", "--json", "run.json", "--", "sh", "-c", "echo out > out; exit 3",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    if (tool.folder / "out").exists():
        assert done.returncode == STATUS, done.stderr
    else:
        assert done.returncode in (125, 126, 127) and done.stderr
    assert not [p for p in processes() if p[1] == "hiwater-probe" and p[3] == 1 and p[0] not in canaries]


@pytest.mark.parametrize("files", [4, 8, 12, 14, 16, 17, 18, 19, 20, 22, 26, 30, 32, 34])
def test_few_descriptors_lose_nothing_in_silence(tool, files):
    """The job runs, as if alone; it is measured and all is written, or nothing is and one line says so."""
    done = tool.run("run", "-o", "x.hiw", "--json", "run.json", "--summary", "none", "--", "sh", "-c", "sleep 1.1; ulimit -n; exit 7",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    assert done.returncode == 7 and done.stdout == f"{files}\n", done.stderr
    written = [(tool.folder / name).exists() for name in ("x.hiw", "run.json")]
    if done.stderr:
        assert done.stderr.count("\n") == 1 and "the job is not measured" in done.stderr
    assert written == [not done.stderr] * 2


def inheriting(first, end, limit):
    """The files from first to end are open, and fewer than limit may be."""
    def prepare():
        for fd in range(first, end):
            os.dup2(0, fd, inheritable=True)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return {"preexec_fn": prepare, "close_fds": False}


@pytest.mark.parametrize("first, end, limit, measured", [
    (3, 62, 70, False), (3, 50, 64, False), (3, 190, 200, False), (3, 120, 200, True), (20, 200, 200, False), (50, 200, 200, True)])
def test_inherited_descriptors_count(tool, first, end, limit, measured):
    """What is left decides, not the limit; and processes leave what is needed to write all."""
    job = 'i=0; while [ $i -lt 40 ]; do sleep 1.2 & i=$((i+1)); done; wait; exit 7'
    done = tool.run("run", "-o", "x.hiw", "--json", "run.json", "--summary", "none", "--", "sh", "-c", job, **inheriting(first, end, limit))
    assert done.returncode == 7
    assert ("the job is not measured" in done.stderr) == (not measured) and done.stderr.count("\n") == (not measured), done.stderr
    assert [(tool.folder / name).exists() for name in ("x.hiw", "run.json")] == [measured] * 2
    if measured:
        assert json.loads((tool.folder / "run.json").read_text())["processes"]["seen"] == 41


@pytest.mark.parametrize("files", [19, 20, 32, 34])
def test_no_process_is_alive_for_ever_where_no_file_can_be_opened(tool, files):
    job = 'i=0; while [ $i -lt 12 ]; do sleep 0.7 & i=$((i+1)); done; wait'
    done = tool.run("run", "-o", "x.hiw", "--json", "run.json", "--summary", "none", "--wait", "--alert", "ram > 1KiB", "--on-alert", "true",
                    "--limit", "time = 1h", "--", "sh", "-c", job, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    assert done.returncode == 0
    assert json.loads((tool.folder / "run.json").read_text())["processes"]["left"] == 0


def test_a_start_without_a_descriptor_to_spare(tool):
    """They may also be gone after there were enough: another thread, the whole machine."""
    refused = [sys.executable, pathlib.Path(__file__).with_name("sandbox.py"), "no-pipe", HIWATER, "run", "-o", "x.hiw"]
    job = ["sh", "-c", "echo ${HIWATER_SOCKET-none}; exit 7"]
    env = {name: value for name, value in tool.env.items() if name != "HIWATER_SOCKET"}
    done = subprocess.run([*refused, "--", *job], cwd=tool.folder, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (7, "none\n"), done.stderr
    assert done.stderr.count("\n") == 1 and "the job is not measured" in done.stderr
    assert not (tool.folder / "x.hiw").exists()
    done = subprocess.run([*refused, "--limit", "time = 1h", "--", *job], cwd=tool.folder, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (7, "none\n") and done.stderr.count("\n") == 1, done.stderr
    assert "its limits are not enforced: " in done.stderr and "Too many open files" in done.stderr
    done = subprocess.run([*refused, "--strict", "--", *job], cwd=tool.folder, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (125, "") and "Too many open files" in done.stderr


def test_a_start_without_a_descriptor_to_spare_inside_another_run(tool):
    """The job alone finds what there was before this hiwater: the outer run's socket, and whether it is a subreaper."""
    job = """
import ctypes, os
mine = ctypes.c_int()
ctypes.CDLL(None).prctl(37, ctypes.byref(mine), 0, 0, 0)  # PR_GET_CHILD_SUBREAPER
print(os.environ["HIWATER_SOCKET"], mine.value)
"""
    def subreaper():
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER

    refused = [sys.executable, pathlib.Path(__file__).with_name("sandbox.py"), "no-pipe", HIWATER, "run", "--"]
    done = subprocess.run([*refused, sys.executable, "-c", job], cwd=tool.folder, env={**tool.env, "HIWATER_SOCKET": "@hiwater-1-outer-0"},
                          capture_output=True, text=True, timeout=60, preexec_fn=subreaper, check=False)
    assert "the job is not measured" in done.stderr
    assert done.stdout == "@hiwater-1-outer-0 1\n", done.stderr


def test_a_soft_limit_of_descriptors_is_no_reason_not_to_measure(tool):
    done = tool.run("run", "--json", "run.json", "--summary", "none", "--", "sh", "-c", "ulimit -n",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 1000)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "8\n", "")
    assert valid((tool.folder / "run.json").read_text())["processes"]["seen"] == 1


def test_hardly_any_descriptors_and_no_command(tool):
    done = tool.run("run", "--", "./none", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6)))
    assert done.returncode == 127 and "cannot run './none'" in done.stderr


def test_without_descriptors_no_strict_job_begins(tool):
    for options in ([], ["--limit", "time = 1h"]):
        done = tool.run("run", "--strict", *options, "--", "sh", "-c", "echo out > out",
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)))
        assert done.returncode == 125 and not (tool.folder / "out").exists()


@pytest.mark.release  # a sanitizer's frames need more
def test_a_small_stack(tool):
    """The least that a shell comes to life with."""
    def small():
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, 64 << 10))

    done = tool.run("run", "-o", "x.hiw", "--json", "run.json", "--", "sh", "-c", "ulimit -s; sleep 0.3; exit 7", preexec_fn=small)
    assert done.returncode == 7 and done.stdout == "64\n", done.stderr
    assert valid((tool.folder / "run.json").read_text())["exit"]["code"] == 7
    for command in (["show", "x.hiw"], ["runs"], ["doctor"], ["gpus"]):
        assert tool.run(*command, preexec_fn=small).returncode >= 0, command
    with subprocess.Popen(["sleep", "30"]) as job:
        attached = tool.run("attach", "--for", "300ms", str(job.pid), preexec_fn=small)
        looked = tool.run("top", "-n", "1", str(job.pid), preexec_fn=small)
        job.kill()
    assert attached.returncode == 0, attached.stderr
    assert looked.returncode == 0, looked.stderr


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


def test_out_of_memory(tool, stress_program, memory_cgroup):
    """The limit is hiwater's as well; the kernel takes the largest, which is the job."""
    (memory_cgroup / "memory.limit_in_bytes").write_text(str(120 * MB))
    done = tool.run("run", "-i", "10ms", "-o", "x.hiw", "--json", "run.json", "--", stress_program, "shrink", "400", "1",
                    preexec_fn=lambda: (memory_cgroup / "cgroup.procs").write_text(str(os.getpid())))
    assert done.returncode in (137, -9), done.stderr
    summary = valid((tool.folder / "run.json").read_text())
    assert summary["exit"] == {"code": 137, "signal": 9, "oom_killed": True, "raised": None}
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
