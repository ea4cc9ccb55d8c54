# SPDX-License-Identifier: MIT
"""hiwater run --trace: what a job that uses NVTX did, as its recording has it."""
import json
import os
import pathlib
import signal
import sqlite3
import struct
import subprocess
import sys
import time

import pytest

from cli_helpers import HERE, HIWATER, as_nobody, ended, wait_for

RANGES = """SELECT (SELECT text FROM trace_name WHERE id = site.name), coalesce((SELECT text FROM trace_name WHERE id = site.domain), ''),
    site.process, site.tid, start, coalesce(duration, 0), coalesce(depth, 0), coalesce(flags, 0)
    FROM trace_range JOIN trace_site AS site ON site.id = trace_range.site ORDER BY start"""
UNCLOSED, CROSSING, INVALID = 1, 2, 4


@pytest.fixture(scope="session")
def nvtx_job(tmp_path_factory):
    """The job, for any user to run."""
    path = tmp_path_factory.mktemp("nvtx") / "job"
    subprocess.run(["cc", "-O1", "-g", "-D_GNU_SOURCE", "-o", path, HERE / "nvtx_job.c", "-ldl", "-lpthread"], check=True)
    path.parent.chmod(0o755)
    return str(path)


class Range:
    def __init__(self, row):
        self.name, self.domain, self.process, self.tid, self.start, self.duration, self.depth, self.flags = row
        self.end = self.start + (self.duration or 0)


class Recording:
    def __init__(self, path):
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.db.text_factory = lambda b: b.decode(errors="surrogateescape")

    def all(self, sql, *args):
        return self.db.execute(sql, args).fetchall()

    def ranges(self, name=None):
        found = [Range(row) for row in self.all(RANGES)]
        return [r for r in found if name is None or r.name == name]

    def stat(self, name):
        """count, total, min of all ranges of this name."""
        return self.all("SELECT sum(count), sum(total), min(min) FROM trace_stat WHERE kind = 'range' AND"
                        " name = (SELECT id FROM trace_name WHERE text = ?)", name)[0]

    def lost(self):
        return {cause: n for cause, n in self.all("SELECT cause, sum(n) FROM trace_lost GROUP BY cause") if n}

    def close(self):
        self.db.close()


@pytest.fixture
def traced(tool, tmp_path, nvtx_job):
    """Runs the job traced; the result and its recording."""
    opened = []

    def run(*words, options=(), command=None, **more):
        path = tmp_path / f"run{len(opened)}.hiw"
        result = tool.run("run", "--trace", *options, "-o", path, "--summary", "none", "--", *(command or [nvtx_job]), *words, **more)
        opened.append(Recording(path))
        return result, opened[-1]

    yield run
    for recording in opened:
        recording.close()


# ---- what is recorded ----------------------------------------------------------------------------


def test_fifty_ranges(traced):
    """Each is at least as long as it slept, and all together are no longer than the program measured."""
    result, recording = traced("ranges", 50, 10)
    count, total, least = recording.stat("step")
    measured = int(result.stdout)
    assert (result.returncode, result.stderr, count) == (0, "", 50)
    assert least >= 10_000_000
    assert measured * 0.99 <= total <= measured
    rows = recording.ranges("step")
    assert len(rows) == 50 and all(a.end <= b.start for a, b in zip(rows, rows[1:]))
    assert all((r.depth, r.flags) == (0, 0) for r in rows)
    assert recording.lost() == {}


def test_ranges_lie_on_the_axis_of_the_run(traced):
    result, recording = traced("sleep", 300, "ranges", 1, 100)
    (step,) = recording.ranges("step")
    (wall,) = recording.all("SELECT value FROM meta WHERE key = 'last_ns'")[0]
    assert result.returncode == 0
    assert 300_000_000 <= step.start and step.end <= int(wall)


def test_the_window_ends_with_the_run(traced):
    """It is closed when the recorder has read the last event, which is a little later."""
    _, recording = traced("ranges", 3, 1)
    (begin, end), = recording.all('SELECT "start", "end" FROM trace_window')
    (ended,), = recording.all("SELECT value FROM meta WHERE key = 'ended_ns'")
    assert (begin, end) == (0, int(ended))


def test_nested(traced):
    _, recording = traced("nested")
    (outer,) = recording.ranges("outer")
    inner = recording.ranges("inner")
    assert outer.depth == 0 and [r.depth for r in inner] == [1, 1]
    assert all(outer.start <= r.start and r.end <= outer.end and r.flags == 0 for r in inner)


def test_ranges_that_cross(traced):
    _, recording = traced("crossing", "across")
    (a,), (b,), (across,) = (recording.ranges(name) for name in ("a", "b", "across"))
    assert (a.domain, b.domain) == ("one", "two")
    assert a.start <= b.start <= a.end <= b.end
    assert a.flags == b.flags == across.flags == CROSSING


def test_a_range_without_an_end(traced):
    _, recording = traced("open", "nested")
    (open_range,) = recording.ranges("open")
    assert open_range.flags == UNCLOSED
    assert open_range.end >= recording.ranges("outer")[0].end
    assert recording.ranges("outer")[0].depth == 1


def test_threads_and_their_names(traced):
    _, recording = traced("threads", 8)
    rows = recording.ranges("thread")
    names = dict(recording.all("SELECT tid, name FROM trace_thread"))
    assert len({r.tid for r in rows}) == len(rows) == 8
    assert sorted(names[r.tid] for r in rows) == [f"worker {i}" for i in range(8)]


def test_a_fork_is_a_process_of_its_own(traced):
    _, recording = traced("nested", "fork", 32, "nested")
    children = recording.ranges("child")
    assert len(children) == 32
    assert len({r.process for r in children}) == 1
    assert children[0].process not in {r.process for r in recording.ranges("outer")}
    pids = dict(recording.all("SELECT id, pid FROM trace_process"))
    assert len(pids) == 2 and children[0].tid == pids[children[0].process]
    assert len(recording.ranges("outer")) == 2


def test_a_process_without_our_descriptors(traced, nvtx_job):
    """Python's subprocess closes them: then the file is found through /proc."""
    program = f"import subprocess; subprocess.run([{nvtx_job!r}, 'ranges', '3', '1'], close_fds=True, check=True)"
    result, recording = traced(command=[sys.executable, "-c", program])
    assert result.returncode == 0
    assert recording.stat("step")[0] == 3


def test_another_user(traced, nvtx_job):
    """It can open neither the recorder's descriptors nor a file: the socket is left."""
    prefix = as_nobody()
    program = f"import subprocess; subprocess.run({[*prefix, nvtx_job, 'ranges', '3', '1']!r}, close_fds=True, check=True)"
    result, recording = traced(command=[sys.executable, "-c", program])
    assert result.returncode == 0, result.stderr
    assert recording.stat("step")[0] == 3


def test_a_program_executed_by_another(traced, nvtx_job):
    """The same process, with another program: both are followed."""
    _, recording = traced("ranges", 2, 1, command=["sh", "-c", f'{nvtx_job} nested; exec {nvtx_job} "$@"', "sh"])
    assert recording.stat("step")[0] == 2 and len(recording.ranges("outer")) == 1


def test_a_name_is_kept_and_never_interpreted(traced):
    result, recording = traced("name")
    assert [r.name for r in recording.ranges()] == ["\x1b[2J"]
    assert "\x1b" not in result.stderr


def test_a_phase_has_its_ranges(traced, tool, nvtx_job):
    """Ranges are summed by the phase in which they began."""
    _, recording = traced(
        command=["sh", "-c", f"{HIWATER} mark x; {sys.executable} -c 'import os, socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM);"
                             f" s.connect(chr(0) + os.environ[\"HIWATER_SOCKET\"][1:]); s.send(b\"phase+ work\")';"
                             f" sleep 0.2; {nvtx_job} ranges 3 5"])
    rows = recording.all("SELECT phase, count FROM trace_stat WHERE kind = 'range'")
    (number,) = recording.all("SELECT number FROM phase WHERE name = 'work'")[0]
    assert rows == [(number, 3)]


def test_ranges_become_phases(traced):
    """Of the main process alone; what happens in one is summed in it."""
    _, recording = traced("ranges", 3, 50, "nested", "fork", 5, options=("--phase-range", "^(step|outer|child)$"))
    phases = recording.all("SELECT number, name, began, ended FROM phase ORDER BY began")
    assert [name for _, name, _, _ in phases] == ["step"] * 3 + ["outer"]
    rows = recording.ranges("step") + recording.ranges("outer")
    assert [(r.start, r.end) for r in rows] == [(began, ended) for _, _, began, ended in phases]
    stats = recording.all("SELECT (SELECT text FROM trace_name WHERE id = name), phase, count FROM trace_stat WHERE kind = 'range'")
    assert {(name, phase) for name, phase, _ in stats} == {("step", phases[0][0]), ("step", phases[1][0]), ("step", phases[2][0]),
                                                         ("outer", phases[3][0]), ("inner", phases[3][0]), ("child", 0)}


def test_too_many_phases(traced):
    result, recording = traced("ranges", 10_005, 0, options=("--phase-range", "step"), timeout=300)
    assert "5 more ranges match; the first 10000 are phases" in result.stderr
    assert recording.stat("step")[0] == 10_005


def test_windows(traced):
    _, recording = traced("ranges", 6, 200, options=("--step", "^st.p$", "--trace-window", "steps=3-4", "--trace-window", "200ms+300ms"))
    (steps,), (span,) = (recording.all('SELECT "start", "end" FROM trace_window WHERE why = ?', why) for why in ("steps 3-4", "200ms+300ms"))
    rows = recording.ranges("step")
    assert rows[1].start <= steps[0] <= rows[2].start and rows[3].end <= steps[1]
    assert 200_000_000 <= span[0] < span[1]
    assert recording.all("SELECT value FROM meta WHERE key = 'trace_step_re'") == [("^st.p$",)]


def test_windows_that_did_not_open_are_named(traced):
    never = ("steps=300-400", "1h+3s", "range=^nothing", "api", "alert")
    result, recording = traced("ranges", 6, 20, options=("--step", "^st.p$", *(w for n in (*never, "steps=3-4") for w in ("--trace-window", n))))
    said = [line.split('"')[1] for line in result.stderr.splitlines() if "did not open" in line]
    assert said == ["steps 300-400", "1h+3s", "range ^nothing", "api"], result.stderr
    assert recording.all("SELECT why FROM trace_window") == [("steps 3-4",)]


def test_the_usual_window_is_the_whole_run(traced):
    _, recording = traced("sleep", 20)
    (window,) = recording.all('SELECT "start", "end", why FROM trace_window')
    assert window[0] == 0 and window[1] >= 20_000_000 and window[2] == "whole run"


# ---- what was written before the end is there -------------------------------------------------------


def counter_of(path):
    return struct.unpack("Q", path.read_bytes()[:8])[0]


def pushes_and_pops(recording):
    """Of them that are in the recording: an end that is missing is one less."""
    count, = recording.all("SELECT sum(count) FROM trace_stat WHERE kind = 'range'")[0]
    unclosed, = recording.all("SELECT count(*) FROM trace_range WHERE flags & 1")[0]
    return 2 * (count or 0) - unclosed


@pytest.mark.parametrize("most", [1, 2, 5_001, 40_000])
def test_a_job_that_kills_itself(traced, tmp_path, most):
    result, recording = traced("loop", tmp_path / "count", most)
    done = counter_of(tmp_path / "count")
    assert result.returncode == -signal.SIGKILL
    assert recording.lost() == {}
    assert pushes_and_pops(recording) == done


def test_a_job_that_is_killed_in_a_loop(tool, tmp_path, nvtx_job):
    """It writes faster than anything can read: what is read and what was counted as lost are all, but one that was
    being written."""
    job = tool.start("run", "--trace", "-o", "a.hiw", "--summary", "none", "--", nvtx_job, "loop", tmp_path / "count", 0)
    wait_for(lambda: (tmp_path / "count").exists() and (tmp_path / "count").stat().st_size and counter_of(tmp_path / "count") > 500_000,
             "the loop runs")
    child, = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()[:1]
    os.kill(int(child), signal.SIGKILL)
    assert job.wait(30) == -signal.SIGKILL
    recording = Recording(tmp_path / "a.hiw")
    lost = recording.lost()
    done = counter_of(tmp_path / "count")
    thinned = lost.pop("thinned", 0)  # rows alone: their sums are there
    assert set(lost) == {"overwritten"} and thinned >= 0
    count, invalid = recording.all("SELECT sum(count), sum(invalid) FROM trace_stat WHERE kind = 'range'")[0]
    assert invalid == 0
    assert abs(2 * count + lost["overwritten"] - done) <= 4  # a range that is cut by a loss has one end
    recording.close()


def test_a_killed_recorder_leaves_the_job_alone(tool, tmp_path, nvtx_job):
    job = tool.start("run", "--trace", "-o", "a.hiw", "--", nvtx_job, "ranges", "3", "1", "ready", tmp_path / "ready", "sleep", "3000", "ranges",
                     "20", "10", "ready", tmp_path / "done")
    wait_for((tmp_path / "ready").exists, "the job runs")
    time.sleep(0.3)  # more than what a drain keeps back
    wait_for(lambda: Recording(tmp_path / "a.hiw").all("SELECT 1 FROM sqlite_master WHERE name = 'trace_range'"), "a commit", 10)
    job.kill()
    job.wait(10)
    wait_for((tmp_path / "done").exists, "the job goes on")
    assert Recording(tmp_path / "a.hiw").stat("step")[0] == 3


# ---- jobs that mean no good -------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["scribble", "unmap"])
def test_a_job_that_damages_the_memory(traced, word):
    """Neither the job nor the recorder is harmed; what came before is there."""
    result, recording = traced("nested", "sleep", 300, word, "ranges", 5, 1, "sleep", 300, word)
    assert result.returncode == 0 and int(result.stdout.split()[0]) >= 2
    assert recording.stat("outer")[0] >= 1


def test_the_memory_cannot_be_cut(traced):
    result, recording = traced("nested", "sleep", 300, "cut", "ranges", 5, 1)
    assert result.returncode == 0 and result.stdout.startswith("-1 1\n")
    assert recording.stat("outer")[0] == 1


def test_a_process_that_leaves_its_neighbours_alone(traced, nvtx_job):
    """One empties the memory of all; the next process is followed again or not, and ends as always."""
    result, _ = traced(command=["sh", "-c", f"{nvtx_job} nested cut; {nvtx_job} ranges 3 1; exit 7"])
    assert result.returncode == 7


# ---- off, out of reach, not there -------------------------------------------------------------------


def test_off_in_the_job(traced, nvtx_job):
    result, recording = traced(command=["env", "HIWATER_TRACE=off", nvtx_job, "ranges", "3", "1"])
    assert result.returncode == 0 and result.stderr == ""
    assert recording.all("SELECT count(*) FROM sqlite_master WHERE name = 'trace_range'") == [(0,)] or recording.ranges() == []


def test_off_for_all(tool, nvtx_job):
    result = tool.run("run", "--trace", "--summary", "none", "--", nvtx_job, "ranges", "1", "1", env={"HIWATER_TRACE": "off"})
    assert (result.returncode, result.stderr) == (0, "hiwater: the job is not traced: HIWATER_TRACE is off\n")


def test_an_empty_environment_is_named(traced, nvtx_job):
    result, recording = traced(command=["env", "-i", nvtx_job, "sleep", "1500"])
    assert result.returncode == 0
    assert "(job) is out of reach: its environment has no HIWATER_TRACE" in result.stderr
    assert any("out of reach" in text for (text,) in recording.all("SELECT text FROM event WHERE kind = 'note'"))


def test_without_the_library(tool, nvtx_job):
    missing = {"HIWATER_TRACE_LIBRARY": "/nonexistent/lib.so"}
    result = tool.run("run", "--trace", "--summary", "none", "--", nvtx_job, "ranges", "1", "1", env=missing)
    assert result.returncode == 0 and result.stderr.startswith("hiwater: warning: the job is not traced: ") and result.stdout.strip()
    result = tool.run("run", "--trace", "--strict", "--", nvtx_job, "ranges", "1", "1", env=missing)
    assert result.returncode == 125 and "--strict" in result.stderr and result.stdout == ""


def test_the_outer_one_follows(tool, nvtx_job, tmp_path):
    result = tool.run("run", "--trace", "-o", "outer.hiw", "--summary", "none", "--", HIWATER, "run", "--trace", "-o", "inner.hiw",
                      "--summary", "none", "--", nvtx_job, "ranges", "3", "1")
    assert result.returncode == 0
    assert result.stderr.count("the job is traced by the enclosing hiwater") == 1
    assert Recording(tmp_path / "outer.hiw").stat("step")[0] == 3
    assert Recording(tmp_path / "inner.hiw").all("SELECT count(*) FROM sqlite_master WHERE name = 'trace_range'") == [(0,)]


# ---- the command line -------------------------------------------------------------------------------


@pytest.mark.parametrize("options, said", [
    (["--trace=rangs"], "'rangs' is not something to trace; give some of ranges, memory, launches, kernels"),
    (["--trace=ranges,"], "is not something to trace"),
    (["--trace", "--no-record"], "--trace needs the recording"),
    (["--trace-limit", "1GB"], "--trace-limit is for --trace"),
    (["--step", "x"], "--step is for --trace"),
    (["--trace", "--trace-window", "later"], "unknown window 'later'; give one of 60s+5s, steps=10-20"),
    (["--trace", "--phase-range", "("], "'(' is not an extended regular expression"),
    (["--trace", "--trace-limit", "lots"], "lots"),
])
def test_a_wrong_command_line(tool, tmp_path, options, said):
    result = tool.run("run", *options, "--", "touch", tmp_path / "started")
    assert result.returncode == 125 and said in result.stderr
    assert not (tmp_path / "started").exists()


def test_attach_is_refused(tool):
    for option in ("--trace", "--trace=ranges"):
        result = tool.run("attach", option, os.getpid())
        assert result.returncode == 2 and "start it with hiwater run --trace" in result.stderr


def environment(tool, *options, **given):
    """The job's variables that are not hiwater's own environment."""
    result = tool.run("run", *options, "--summary", "none", "--", "env", "-0", env=given)
    assert result.returncode == 0
    return dict(line.split("=", 1) for line in result.stdout.split("\0") if "=" in line), result.stderr


def test_the_environment_of_the_job(tool):
    env, said = environment(tool, "--trace")
    library = env["NVTX_INJECTION64_PATH"]
    assert library.startswith("/") and library.endswith("/libhiwater-trace.so") and os.path.exists(library) and said == ""
    assert all(env[name] == library for name in ("CUDA_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64", "OPENCL_LAYERS"))
    assert env["ONEDNN_ITT_TASK_LEVEL"] == "1" and environment(tool, "--trace", ONEDNN_ITT_TASK_LEVEL="2")[0]["ONEDNN_ITT_TASK_LEVEL"] == "2"
    env, _ = environment(tool, "--trace=ranges")
    assert "CUDA_INJECTION64_PATH" not in env and "OPENCL_LAYERS" not in env and "INTEL_LIBITTNOTIFY64" in env
    env, _ = environment(tool, "--trace=kernels")
    assert "CUDA_INJECTION64_PATH" in env and "NVTX_INJECTION64_PATH" not in env
    env, _ = environment(tool)
    assert not [name for name in env if "INJECTION" in name or name.startswith("HIWATER_TRACE") and name not in tool.env]


def test_what_is_there_already(tool):
    env, said = environment(tool, "--trace", NVTX_INJECTION64_PATH="/other/nvtx.so", CUDA_INJECTION64_PATH="/other/cuda.so",
                            INTEL_LIBITTNOTIFY64="/other/itt.so", OPENCL_LAYERS="/a.so:/b.so")
    library = env["NVTX_INJECTION64_PATH"]
    assert library.endswith("/libhiwater-trace.so")
    assert env["HIWATER_TRACE_NVTX"] == "/other/nvtx.so"
    assert env["OPENCL_LAYERS"] == f"/a.so:/b.so:{library}"
    assert (env["CUDA_INJECTION64_PATH"], env["INTEL_LIBITTNOTIFY64"]) == ("/other/cuda.so", "/other/itt.so")
    assert said.count("it stays") == 2 and said.count("is called first") == 1


def test_what_an_ended_recorder_has_left_is_no_enclosing_run(traced, tool):
    """The process of that number may be another by now: it has not the file."""
    stale = f"3:{os.getpid()}:1:1:@nothing"
    result, recording = traced("ranges", "2", "1", env={"HIWATER_TRACE": stale})
    assert result.stderr == "" and recording.stat("step")[0] == 2


def test_the_nsys_line_of_a_window(traced, tool):
    for window in ("range=step", "range=^(step|stop)$"):
        traced("ranges", "40", "20", options=("--trace-window", window))
    said = [tool.run("trace", "--nsys", f"run{i}.hiw") for i in range(2)]
    assert "--capture-range=nvtx --nvtx-capture=step" in said[0].stdout
    assert said[1].stdout.startswith("nsys profile") and "capture" not in said[1].stdout


def test_repeated_runs_have_equal_environments(tool):
    result = tool.run("run", "--trace", "--repeat", "2", "--summary", "none", "--", "sh", "-c", "echo $NVTX_INJECTION64_PATH $HIWATER_TRACE_NVTX",
                      env={"NVTX_INJECTION64_PATH": "/other/nvtx.so"})
    one, two = result.stdout.splitlines()
    assert one == two and one.endswith(" /other/nvtx.so")


def test_the_descriptor_is_the_jobs_alone(tool):
    """Descriptors of the job: the streams, and the memory, by the number that the environment has."""
    program = ("import os; fd = os.environ['HIWATER_TRACE'].split(':')[0]; links = {n: os.readlink(f'/proc/self/fd/{n}') for n in"
               " os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}')};"
               " print(sorted(n for n in links if 'hiwater' in links[n]) == [fd])")
    result = tool.run("run", "--trace", "--summary", "none", "--", sys.executable, "-c", program)
    assert result.stdout == "True\n"
    result = tool.run("run", "--summary", "none", "--", "sh", "-c", "ls -l /proc/self/fd | grep -c memfd")
    assert result.stdout == "0\n"


@pytest.mark.parametrize("job, kept", [(None, 1), ("true", 0)])
def test_a_short_traced_run_is_kept_if_it_has_events(tool, nvtx_job, job, kept):
    result = tool.run("run", "--trace", "--summary", "none", "--", *([job] if job else [nvtx_job, "ranges", "1", "1"]))
    assert result.returncode == 0
    assert len(list(tool.history.glob("*.hiw"))) == kept


# ---- hiwater's own numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("by_shell", [False, True])
def test_the_trace_is_not_in_the_jobs_memory(tool, tmp_path, nvtx_job, by_shell):
    """The memory that the job touched for the trace, all of its 1.7 MB, is in no figure: traced or not, the peak is the
    same."""
    peaks = []
    for i, option in enumerate([[], ["--trace"]]):
        words = ["hold", "64", "threads", "40", "sleep", "400", "ranges", "200000", "0", "sleep", "1200"]
        command = ["sh", "-c", f"{nvtx_job} {' '.join(words)}; true"] if by_shell else [nvtx_job, *words]
        result = tool.run("run", *option, "-o", f"{i}.hiw", "--json", f"{i}.json", "--summary", "none", "--", *command)
        assert result.returncode == 0
        summary = json.loads((tmp_path / f"{i}.json").read_text())
        peaks.append(summary["ram"]["descendants" if by_shell else "main"]["peak_bytes"])
    assert abs(peaks[1] - peaks[0]) < 1 << 20, peaks
    assert 1 << 20 < summary["trace"]["probe_bytes"] < 4 << 20, summary["trace"]
