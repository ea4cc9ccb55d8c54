# SPDX-License-Identifier: MIT
"""What hiwater lacks does not keep a job from starting or change its end: without recording, without samples, and at
last hiwater becomes the command. Each step is one line."""
import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time

import pytest
from cli_helpers import HERE, HIWATER, as_nobody, ended, wait_for
from stress_jobs import valid, warnings_of

JOB = ["sh", "-c", "echo out; sleep 0.3; exit 7"]
UID = 61237  # nobody else's, so that the limit counts hiwater's alone


def sandboxed(tool, what, *args, **options):
    return subprocess.run([sys.executable, HERE / "sandbox.py", what, HIWATER, "run", *args], cwd=tool.folder, env=tool.env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, **options)


# ---- system calls that a sandbox refuses ----

@pytest.mark.parametrize("what", ["no-pidfd", "no-epoll", "no-waitid", "no-ppoll", "no-poll"])
def test_a_call_that_can_be_replaced_is_not_missed(tool, what):
    done = sandboxed(tool, what, "--json", "run.json", "--summary", "none", "--", *JOB)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "")
    run = valid((tool.folder / "run.json").read_text())
    assert run["exit"]["code"] == 7 and run["ram"]["main"]["peak_bytes"] > 0
    assert run["sampling"]["samples"] > 1


@pytest.mark.parametrize("what", ["no-ppoll", "no-poll"])
def test_waiting_without_poll_is_no_busy_loop(tool, what):
    done = sandboxed(tool, what, "--json", "run.json", "--summary", "none", "--", "sleep", "2")
    assert done.returncode == 0, done.stderr
    assert json.loads((tool.folder / "run.json").read_text())["sampling"]["cpu_s"] < 1


def test_attach_waits_without_poll(tool):
    """It samples, ends at --for and with SIGTERM, and is no busy loop."""
    with subprocess.Popen(["sleep", "1000"]) as job:
        try:
            attached = [sys.executable, HERE / "sandbox.py", "no-poll", HIWATER, "attach", "--json", "run.json", "--summary", "none"]
            done = subprocess.run([*attached, "--for", "2s", str(job.pid)], cwd=tool.folder, env=tool.env, timeout=30, check=False)
            run = valid((tool.folder / "run.json").read_text())
            assert done.returncode == 0 and run["sampling"]["samples"] > 1
            assert run["time"]["wall_s"] >= 1.9 and run["sampling"]["cpu_s"] < 1
            with subprocess.Popen([*attached, "-o", "x.hiw", str(job.pid)], cwd=tool.folder, env=tool.env) as process:
                wait_for((tool.folder / "x.hiw").exists, "it measures")
                process.terminate()
                assert process.wait(30) == 0
        finally:
            job.kill()


ALONE = [sys.executable, "-S", "-c", "import time; print('out'); time.sleep(0.3); raise SystemExit(7)"]  # waits for no child


@pytest.mark.release  # a sanitizer needs /proc, address space and processes of its own
@pytest.mark.parametrize("what", ["no-wait4", "refused-wait4"])
def test_without_wait4_the_job_is_measured_to_its_end(tool, what):
    done = sandboxed(tool, what, "--json", "run.json", "--summary", "none", "--", *ALONE)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "")
    run = valid((tool.folder / "run.json").read_text())
    assert run["exit"]["code"] == 7 and run["ram"]["main"]["peak_bytes"] > 0 and run["time"]["user_s"] > 0
    assert run["sampling"]["cpu_s"] < 1
    killed = sandboxed(tool, what, "--summary", "none", "--", sys.executable, "-S", "-c", "import os; os.kill(os.getpid(), 9)")
    assert killed.returncode in (137, -9), killed.stderr


@pytest.mark.release  # a sanitizer needs /proc, address space and processes of its own
@pytest.mark.parametrize("what", ["no-wait", "refused-wait"])
def test_without_a_way_to_wait_hiwater_becomes_the_command(tool, what):
    done = sandboxed(tool, what, "-o", "x.hiw", "--", *ALONE)
    assert (done.returncode, done.stdout) == (7, "out\n"), done.stderr
    assert done.stderr.count("\n") == 1 and "the job is not measured: cannot wait for processes: " in done.stderr
    strict = sandboxed(tool, what, "--strict", "--", "touch", "began")
    assert strict.returncode == 125 and not (tool.folder / "began").exists()
    assert strict.stderr.count("\n") == 1 and "not started" in strict.stderr


@pytest.mark.parametrize("what", ["no-poll", "refused-poll", "only-poll-refused"])
def test_without_poll_everything_is_printed(tool, what):
    done = sandboxed(tool, what, "--summary", "full", "-o", "no/x.hiw", "--", *JOB)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert len(warnings_of(done.stderr)) == 1 and re.search(r"^RAM +peak ", done.stderr, re.M), done.stderr


def test_without_waitid_a_stop_is_seen(tool):
    """hiwater follows a job that stops, and the job goes on with it."""
    done = sandboxed(tool, "no-waitid", "--summary", "none", "--", "sh", "-c",
                     "(sleep 0.2; kill -CONT $$) & kill -STOP $$; echo on; exit 7")
    assert (done.returncode, done.stdout) == (7, "on\n"), done.stderr


def test_without_a_timer_the_kernel_says_what_it_knows(tool):
    done = sandboxed(tool, "no-timerfd", "--json", "run.json", "--summary", "none", "--", *JOB)
    assert (done.returncode, done.stdout) == (7, "out\n"), done.stderr
    assert done.stderr.count("\n") == 1 and "no samples were taken" in done.stderr and "limit" not in done.stderr
    run = valid((tool.folder / "run.json").read_text())
    assert run["exit"]["code"] == 7 and run["time"]["wall_s"] > 0.2
    assert run["ram"]["main"]["high_bytes"] > 0 and run["time"]["user_s"] + run["time"]["system_s"] > 0
    assert run["sampling"]["samples"] == 0


@pytest.mark.parametrize("rule", [["--limit", "ram=1TiB"], ["--alert", "ram > 1TiB"]], ids=["limit", "alert"])
def test_without_a_timer_rules_are_checked_at_the_start_and_end(tool, rule):
    done = sandboxed(tool, "no-timerfd", "--summary", "none", *rule, "--", *JOB)
    assert (done.returncode, done.stdout) == (7, "out\n"), done.stderr
    first = done.stderr.splitlines()[0]
    assert "no samples were taken" in first and first.endswith("; limits and alerts are checked only at the start and at the end"), done.stderr


def test_without_signalfd_hiwater_becomes_the_command(tool):
    done = sandboxed(tool, "no-signalfd", "-o", "x.hiw", "--", "sh", "-c", "echo ${HIWATER_SOCKET-none}; exit 7")
    assert (done.returncode, done.stdout) == (7, "none\n"), done.stderr
    assert done.stderr.count("\n") == 1 and "the job is not measured: cannot read signals" in done.stderr
    assert not (tool.folder / "x.hiw").exists()
    strict = sandboxed(tool, "no-signalfd", "--strict", "--", "touch", "began")
    assert strict.returncode == 125 and not (tool.folder / "began").exists()
    assert strict.stderr.count("\n") == 1 and "not started" in strict.stderr


# ---- /proc ----

ROOT_WITHOUT_PROC = """
set -e
cd "$1"; mkdir root
for path in /*; do
    case $path in /proc) continue;; esac
    if [ -L "$path" ]; then cp -P "$path" root; elif [ -d "$path" ]; then mkdir "root$path"; mount --rbind "$path" "root$path"; fi
done
shift
exec chroot root "$@"
"""


@pytest.mark.release  # a sanitizer needs /proc, address space and processes of its own
@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="needs unshare and root")
def test_no_proc_folder_at_all(tool):
    done = subprocess.run(["unshare", "--mount", "sh", "-c", ROOT_WITHOUT_PROC, "sh", tool.folder, HIWATER, "run", "--no-record",
                           "--json", tool.folder / "run.json", "--summary", "none", "--", *JOB],
                          env=tool.env, cwd=tool.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if "unshare:" in done.stderr or "mount:" in done.stderr or "chroot:" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stdout) == (7, "out\n"), done.stderr
    run = valid((tool.folder / "run.json").read_text())
    assert run["exit"]["code"] == 7 and run["ram"]["main"]["high_bytes"] > 0


# ---- processes ----

def limited(tool, most, *args):
    """hiwater run as a user of its own who may have so many processes."""
    as_nobody(tool.folder)
    return subprocess.run(["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--", "prlimit", f"--nproc={most}:{most}",
                           HIWATER, "run", "--no-record", "--summary", "none", *args],
                          env=tool.env, cwd="/", capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("most, measured", [(2, False), (3, False), (4, False), (6, False), (16, False), (17, True), (40, True)])
def test_no_process_is_taken_from_a_job_that_has_few(tool, most, measured):
    """hiwater itself is one, and leaves 16 or becomes the command."""
    done = limited(tool, most, "--json", tool.folder / "run.json", "--", "sh", "-c",
                   "grep 'Max processes' /proc/$$/limits; sleep 0.1; exit 7")
    assert done.returncode == 7 and done.stdout.split()[2] == str(most), done.stderr
    assert (tool.folder / "run.json").exists() == measured
    assert [line for line in done.stderr.splitlines() if "not measured" not in line] == []
    assert done.stderr.count("\n") == (not measured) and ("ulimit -u" in done.stderr) == (not measured)


def test_one_process_is_the_jobs(tool):
    done = limited(tool, 1, "--", "sh", "-c", "exit 7")
    assert done.returncode == 7 and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.release  # a sanitizer needs /proc, address space and processes of its own
def test_strict_takes_what_there_is(tool):
    assert limited(tool, 6, "--strict", "--", "sh", "-c", "exit 7").returncode == 7
    done = limited(tool, 1, "--strict", "--", "touch", tool.folder / "began")
    assert done.returncode == 125 and not (tool.folder / "began").exists()


@pytest.fixture
def process_cgroup():
    """A group (v1) with a limit of processes; gone afterwards."""
    group = pathlib.Path("/sys/fs/cgroup/pids") / f"hiwater-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "pids.max").write_text("max", encoding="ascii")
    except OSError as error:
        pytest.skip(f"no cgroup with a limit of processes: {error}")
    yield group
    wait_for(lambda: not (group / "cgroup.procs").read_text(encoding="ascii"), "the cgroup is empty")
    group.rmdir()


@pytest.mark.parametrize("most, measured", [(2, False), (16, False), (17, True)])
def test_no_process_is_taken_from_a_container_that_has_few(tool, process_cgroup, most, measured):
    (process_cgroup / "pids.max").write_text(str(most), encoding="ascii")
    done = tool.run("run", "--json", "run.json", "--summary", "none", "--", "sh", "-c", "sleep 0.1; exit 7",
                    preexec_fn=lambda: (process_cgroup / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii"))
    assert done.returncode == 7, done.stderr
    assert (tool.folder / "run.json").exists() == measured and done.stderr.count("\n") == (not measured)


# ---- the recording's place and name ----

def test_a_name_that_is_taken_gets_a_number(tool):
    (tool.folder / "x.hiw").write_text("mine")
    for n in (2, 3):
        done = tool.run("run", "-o", "x.hiw", "--", *JOB)
        assert (done.returncode, done.stdout) == (7, "out\n")
        assert len(warnings_of(done.stderr)) == 1 and f"x.hiw exists; this run is recorded in {tool.folder}/x-{n}.hiw" in done.stderr
        assert json.loads(tool.run("show", "--json", f"x-{n}.hiw").stdout)["exit"]["code"] == 7
    assert (tool.folder / "x.hiw").read_text() == "mine"


def test_a_name_that_a_folder_has_gets_a_number(tool):
    (tool.folder / "x.hiw").mkdir()
    done = tool.run("run", "-o", "x.hiw", "--", *JOB)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert len(warnings_of(done.stderr)) == 1 and f"this run is recorded in {tool.folder}/x-2.hiw" in done.stderr
    assert json.loads(tool.run("show", "--json", "x-2.hiw").stdout)["exit"]["code"] == 7


@pytest.mark.parametrize("args", [["-o", "/dev/full"], ["-o", "pipe"]])
def test_what_cannot_be_a_recording_is_a_warning_once(tool, args):
    os.mkfifo(tool.folder / "pipe")
    done = tool.run("run", *args, "--", *JOB)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert len(warnings_of(done.stderr)) == 1 and "no recording is written: " in done.stderr
    assert re.search(r"^RAM +peak ", done.stderr, re.M)
    strict = tool.run("run", "--strict", *args, "--", "touch", "began")
    assert strict.returncode == 125 and strict.stderr.count("\n") == 1 and not (tool.folder / "began").exists()


def test_attach_records_under_another_name_or_not_at_all(tool):
    (tool.folder / "x.hiw").write_text("mine")
    with subprocess.Popen(["sleep", "60"]) as job:
        again = tool.run("attach", "--for", "0.3s", "--summary", "none", "-o", "x.hiw", job.pid)
        nowhere = tool.run("attach", "--for", "0.3s", "--summary", "line", "-o", "no/x.hiw", job.pid)
        job.kill()
    assert again.returncode == 0 and len(warnings_of(again.stderr)) == 1, again.stderr
    assert (tool.folder / "x.hiw").read_text() == "mine" and (tool.folder / "x-2.hiw").exists()
    assert nowhere.returncode == 0 and len(warnings_of(nowhere.stderr)) == 1 and "ram_peak=" in nowhere.stderr, nowhere.stderr


@pytest.mark.parametrize("seconds", ["0.2", "1.3"])
def test_runs_that_take_a_name_at_the_same_time_have_a_file_each(tool, seconds):
    job = ["run", "-o", "rank", "--summary", "none", "--", "sh", "-c", f"sleep {seconds}; exit 7"]
    for process in [tool.start(*job) for _ in range(4)]:
        assert process.wait(60) == 7
    names = {"rank", "rank-2", "rank-3", "rank-4"}
    assert {path.name for path in tool.folder.glob("rank*")} == names
    for name in names:
        assert json.loads(tool.run("show", "--json", f"./{name}").stdout)["exit"]["code"] == 7


PLACES = {
    "no such folder": ["-o", "no/such/folder/x.hiw"],
    "no folder": ["-o", "/dev/null/x.hiw"],
    "json": ["--json", "no/such/folder/x.json"],
    "summary": ["--summary-file", "/dev/null/x"],
    "cgroup": ["--cgroup=new"],
}


@pytest.mark.release  # a sanitizer needs /proc, address space and processes of its own
@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_cannot_be_written_is_a_warning_once(tool, place):
    if place == "cgroup" and tool.run("run", "--cgroup=new", "--strict", "true").returncode == 0:
        pytest.skip("a cgroup can be made here")
    done = tool.run("run", *PLACES[place], "--", *JOB)
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert len(warnings_of(done.stderr)) == 1, done.stderr
    assert re.search(r"^RAM +peak ", done.stderr, re.M)
    assert tool.run("run", *PLACES[place], "--", *JOB, env={"HIWATER_QUIET": "1"}).stderr == ""
    strict = tool.run("run", "--strict", *PLACES[place], "--", "touch", "began")
    assert strict.returncode == 125 and strict.stderr.count("\n") == 1, strict.stderr
    assert not (tool.folder / "began").exists()


def test_a_file_whose_folder_the_job_makes_is_written(tool):
    done = tool.run("run", "--json", "made/run.json", "--summary", "none", "--", "sh", "-c", "mkdir made; exit 7")
    assert done.returncode == 7 and len(warnings_of(done.stderr)) == 1
    assert valid((tool.folder / "made" / "run.json").read_text())["exit"]["code"] == 7


def test_no_home_is_made(tool):
    home = tool.folder / "home" / "nobody"
    env = {"HOME": str(home), "HIWATER_DIR": ""}
    for more in ({}, {"XDG_STATE_HOME": str(home / "state")}):
        done = tool.run("run", "--", "sh", "-c", "sleep 1.2; exit 7", env=dict(env, **more))
        assert done.returncode == 7 and len(warnings_of(done.stderr)) == 1, done.stderr
        assert f"HOME is {home}: No such file or directory" in done.stderr
    assert not home.parent.exists()
    listed = tool.run("runs", env=env)
    assert listed.returncode == 1 and str(home) in listed.stderr


# ---- memory ----

@pytest.mark.release  # a sanitizer needs /proc, address space and processes of its own
@pytest.mark.parametrize("mib", [24, 32, 48, 64, 96, 128])
def test_little_address_space_is_enough_for_the_job(tool, mib):
    done = tool.run("run", "--summary", "none", "--", *JOB,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20)))
    if done.returncode == 127 and "shared libraries" in done.stderr:
        pytest.skip("hiwater itself is not loaded")
    assert (done.returncode, done.stdout) == (7, "out\n"), done.stderr
    assert len(warnings_of(done.stderr)) <= 1, done.stderr


# ---- --live ----

def test_live_without_its_program(tool):
    """hiwater-top is found beside hiwater, or in PATH."""
    (tool.folder / "bin").mkdir()
    alone = shutil.copy(HIWATER, tool.folder / "bin" / "hiwater")
    env = dict(tool.env, PATH="/usr/bin:/bin")
    if shutil.which("hiwater-top", path=env["PATH"]):
        pytest.skip("hiwater-top is installed")
    done = subprocess.run([alone, "run", "--live", "--", *JOB], env=env, cwd=tool.folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    if "shared libraries" in done.stderr:
        pytest.skip("the build's libraries are not found from elsewhere")
    assert (done.returncode, done.stdout) == (7, "out\n"), done.stderr
    assert len(warnings_of(done.stderr)) == 1 and "no view is shown" in done.stderr


# ---- descriptors ----

@pytest.mark.skipif(not shutil.which("flock"), reason="no flock")
def test_hiwater_keeps_nothing_that_it_inherited(tool):
    """A pipe, a lock, stdin and stdout: when the job closes them, they are closed."""
    os.mkfifo(tool.folder / "fifo")
    given = os.open(tool.folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(given, True)
    job = "exec 9>&- 8>&- 1>&-; echo closed >&2; while ! [ -e stop ]; do sleep 0.01; done; exit 7"
    process = subprocess.Popen(["sh", "-c", 'exec 8>fifo 9>lock; flock 9; exec "$@"', "sh", HIWATER, "run", "--no-record", "--summary",
                                "none", "--", "sh", "-c", job], cwd=tool.folder, env=tool.env, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    tool.started.append(process)
    assert process.stderr.readline() == b"closed\n"
    with open(tool.folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for ever if hiwater has it
    assert process.stdout.read() == b"", "the end of stdout"
    assert os.read(given, 1) == b"", "the end of the pipe"
    os.close(given)
    folder = pathlib.Path(f"/proc/{process.pid}/fd")
    assert [os.readlink(folder / str(fd)) for fd in (0, 1)] == ["/dev/null"] * 2
    assert process.poll() is None
    (tool.folder / "stop").touch()
    assert process.wait(60) == 7


def test_the_job_has_what_hiwater_inherited(tool):
    read, write = os.pipe()
    process = tool.start("run", "--no-record", "--summary", "none", "--", "sh", "-c", f"echo here >/dev/fd/{write}; cat; exit 7",
                         pass_fds=[write], stdin=subprocess.PIPE)
    os.close(write)
    out, _ = process.communicate(b"in", timeout=60)
    with os.fdopen(read) as stream:
        assert stream.read() == "here\n"
    assert (process.returncode, out) == (7, b"in")


def test_each_repetition_has_what_hiwater_inherited(tool):
    done = tool.run("run", "--repeat", "3", "--summary", "none", "--", "sh", "-c", "echo out; cat", input="in", stdin=None)
    assert done.returncode == 0 and done.stdout == "out\ninout\nout\n", done.stderr


@pytest.mark.parametrize("kind", ["pipe", "file", "socket"])
def test_a_file_that_names_a_descriptor_is_written_at_the_end(tool, kind):
    """/dev/stdout after the job has closed its own; hiwater's is opened before."""
    if kind == "pipe":
        read, write = os.pipe()
    elif kind == "socket":
        pair = socket.socketpair()
        read, write = (end.detach() for end in pair)
    else:
        write = os.open(tool.folder / "out", os.O_WRONLY | os.O_CREAT)
        read = os.open(tool.folder / "out", os.O_RDONLY)
    process = tool.start("run", "--no-record", "--summary", "none", "--json", "/dev/stdout", "--", "sh", "-c",
                         "echo '\"out\"'; exec >&-; exit 7", stdout=write)
    os.close(write)
    assert process.wait(60) == 7, process.stderr.read()
    with os.fdopen(read) as stream:
        first, rest = stream.read().split("\n", 1)
    assert first == '"out"' and valid(rest)["exit"]["code"] == 7


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_a_file_may_be_a_descriptor_above_nine(tool, folder):
    """`exec {fd}>out` of bash gives 10 and up. The file is neither replaced nor lost."""
    with open(tool.folder / "out", "w+") as out:
        out.write('"before"\n')
        out.flush()
        number = fcntl.fcntl(out.fileno(), fcntl.F_DUPFD, 40)
        done = tool.run("run", "--no-record", "--summary", "none", "--json", f"{folder}/{number}", "--", "sh", "-c", "exit 7",
                        pass_fds=(number,))
        os.close(number)
        assert (done.returncode, done.stderr) == (7, "")
        out.seek(0)
        before, rest = out.read().split("\n", 1)
    assert before == '"before"' and valid(rest)["exit"]["code"] == 7


def test_a_file_may_be_the_input_of_a_command(tool):
    """>(COMMAND) of bash is a name like /dev/fd/63."""
    if not shutil.which("bash"):
        pytest.skip("no bash")
    line = '"$0" run --no-record --summary none --json >(cat > run.json) -- sh -c "exit 7"; s=$?; wait $!; exit $s'
    done = subprocess.run(["bash", "-c", line, HIWATER], cwd=tool.folder, env=tool.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 7, done.stderr
    wait_for(lambda: (tool.folder / "run.json").read_text().endswith("}\n"), "the summary")
    assert valid((tool.folder / "run.json").read_text())["exit"]["code"] == 7


# ---- the end waits for nobody ----

def full_pipe():
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)
    return read, write


def test_the_end_waits_a_second_for_all_together_and_the_run_is_kept(tool):
    """A FIFO without a reader, and a stderr that nobody reads: they were 5 s each."""
    os.mkfifo(tool.folder / "fifo")
    os.mkfifo(tool.folder / "other")
    read, write = full_pipe()
    process = tool.start("run", "--json", "fifo", "--summary-file", "other", "--", "sh", "-c", "echo $$; exit 7", stderr=write)
    process.stdout.read()
    began = time.monotonic()
    assert process.wait(60) == 7
    assert time.monotonic() - began < 4
    os.close(read)
    os.close(write)
    assert json.loads(tool.run("show", "last", "--json").stdout)["exit"]["code"] == 7


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_reader_that_was_late_once_gets_the_summary(tool):
    """A warning at the start was waited for in vain; at the end the pipe is full for a moment."""
    read, write = full_pipe()
    process = tool.start("run", "-n", "last", "--", "sh", "-c", "echo here; read line; exit 7", stderr=write, stdin=subprocess.PIPE)
    assert process.stdout.readline()
    process.stdin.close()
    wait_for(lambda: process.poll() is not None or all(ended(pid) for pid in children_of(process.pid)), "the job has ended")
    os.close(write)
    with os.fdopen(read) as stream:
        text = stream.read().lstrip("x")
    assert process.wait(60) == 7
    assert "exit 7" in text or "status 7" in text, text


def test_what_was_not_written_can_be_shown(tool):
    """Also of a run that is too short for the history."""
    done = tool.run("run", "--json", "gone/x.json", "--summary", "none", "--", "sh", "-c", "exit 7", preexec_fn=lambda: None)
    assert done.returncode == 7
    assert json.loads(tool.run("show", "last", "--json").stdout)["exit"]["code"] == 7
    os.mkfifo(tool.folder / "fifo")
    done = tool.run("run", "--json", "fifo", "--summary", "none", "--", "sh", "-c", "exit 8")
    assert done.returncode == 8 and done.stderr.count("\n") == 1
    assert "cannot write fifo: " in done.stderr and "hiwater show --json 2\n" in done.stderr
    assert json.loads(tool.run("show", "--json", "last").stdout)["exit"]["code"] == 8
    done = tool.run("run", "-o", "x.hiw", "--json", "fifo", "--summary", "none", "--", "true")
    assert f"hiwater show --json {tool.folder}/x.hiw\n" in done.stderr


def test_a_run_kept_to_be_shown_names_those_that_it_removed(tool):
    tool.history.mkdir(parents=True)
    first = tool.run("run", "-o", tool.history / "1.hiw", "--summary", "none", "--", "true")
    assert first.returncode == 0, first.stderr
    for n in range(2, 201):
        shutil.copy(tool.history / "1.hiw", tool.history / f"{n}.hiw")
    os.mkfifo(tool.folder / "fifo")
    done = tool.run("run", "--json", "fifo", "--summary", "none", "--", "true")
    assert "hiwater show --json 201\n" in done.stderr
    assert re.search(r"warning: removed the oldest run from the history.*: 1$", done.stderr, re.M), done.stderr
    assert not (tool.history / "1.hiw").exists()


# ---- programs that are none ----

def elf(machine):
    return struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, machine, 1, 0x400000, 64, 0, 0, 64, 56, 1, 64, 0, 0)


FILES = {  # neither has anything to do with this machine
    "foreign": (elf(22), "the program is for s390x, this machine is"),
    "damaged": (elf(183 if os.uname().machine == "aarch64" else 62)[:40], "the program is damaged, or for another operating system"),
    "data": (b"echo no\0\n", "it is neither a program for this machine nor a script"),
}


@pytest.mark.parametrize("by_path", [False, True])
@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_or_foreign_program_is_not_given_to_the_shell(tool, kind, by_path):
    content, hint = FILES[kind]
    (tool.folder / kind).write_bytes(content + b"\ntouch began\n" * 9)
    (tool.folder / kind).chmod(0o755)
    done = tool.run("run", "--", kind if by_path else f"./{kind}", env={"PATH": f"{tool.folder}:/usr/bin:/bin"})
    assert done.returncode == 126 and done.stderr.count("\n") == 1
    assert "Exec format error; " in done.stderr and hint in done.stderr
    assert not (tool.folder / "began").exists()


def test_a_script_without_interpreter_line_gets_its_arguments(tool):
    path = tool.folder / "script"
    path.write_text('echo "$0" "$#" "$2"; exit 7\n')
    path.chmod(0o755)
    done = tool.run("run", "--summary", "none", "--", "script", "a", "b c", env={"PATH": f"{tool.folder}:/usr/bin:/bin"})
    assert (done.returncode, done.stdout) == (7, f"{path} 2 b c\n")


def test_the_search_for_a_program_is_that_of_a_shell(tool):
    """A file that may not be executed does not end the search; an empty folder is the current one."""
    for name in ("a", "b"):
        (tool.folder / name).mkdir()
    (tool.folder / "a" / "tool").write_text("#!/bin/sh\nexit 1\n")
    (tool.folder / "b" / "tool").write_text("#!/bin/sh\nexit 7\n")
    (tool.folder / "b" / "tool").chmod(0o755)
    (tool.folder / "here").write_text("#!/bin/sh\nexit 8\n")
    (tool.folder / "here").chmod(0o755)
    path = f"{tool.folder}/none:{tool.folder}/a:{tool.folder}/b::/usr/bin:/bin"
    assert tool.run("run", "--", "tool", env={"PATH": path}).returncode == 7
    assert tool.run("run", "--", "here", env={"PATH": path}).returncode == 8
    done = tool.run("run", "--", "tool", env={"PATH": f"{tool.folder}/a"})
    assert done.returncode == 126 and "Permission denied" in done.stderr


# ---- what a terminal would obey ----

CONTROLS = "\x1b[31mred\x1b]0;title\x07\x9b1m\n\rhiwater: forged"


@pytest.mark.parametrize("args", [
    ["run", "-n", "12\x1b[31m"], ["run", "-n", f"name:{CONTROLS}", "true"], ["run", f"--{CONTROLS}", "true"], ["run", "-i", CONTROLS, "true"],
    ["run", "-o", f"no/{CONTROLS}/x.hiw", "true"], ["run", "--json", f"no/{CONTROLS}/x", "true"], ["run", CONTROLS],
    ["run", "--alert", f"ram > {CONTROLS}", "true"], ["run", "-n", CONTROLS, "--alert", "cpu >= 0", "sleep", "0.3"],
    ["run", "-n", CONTROLS, "--summary", "line", "true"], ["run", "-n", CONTROLS, "--repeat", "2", "true"],
    ["show", CONTROLS], ["runs", "--rm", CONTROLS], ["compare", CONTROLS, "b"], ["check", "last", CONTROLS], ["export", CONTROLS, "--to", "csv"],
    ["report", CONTROLS], ["attach", CONTROLS], ["attach", "--name", f"({CONTROLS}"], ["top", CONTROLS], ["mark", CONTROLS], [CONTROLS]])
def test_no_message_has_control_characters(tool, args):
    done = tool.run(*args, env={"HIWATER_SOCKET": f"@{CONTROLS}"})
    text = done.stderr + done.stdout
    assert text
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]", text), text
    assert not re.search("^hiwater: forged", text, re.M), text
