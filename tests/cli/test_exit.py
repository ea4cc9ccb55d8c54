# SPDX-License-Identifier: MIT
"""hiwater ends with the job's status."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest
from cli_helpers import HERE, HIWATER, wait_for


@pytest.mark.parametrize("code", [0, 1, 3, 124, 255])
def test_exit_status_is_the_jobs(tool, code):
    assert tool.run("run", "--", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("name", ["TERM", "KILL", "INT", "SEGV", "ABRT", "USR1", "PIPE", "HUP", "QUIT", "RTMIN"])
def test_dies_by_the_jobs_signal(tool, name):
    number = int(signal.SIGRTMIN if name == "RTMIN" else signal.Signals[f"SIG{name}"])
    done = tool.run("run", "--", "sh", "-c", f"kill -{number} $$")
    assert done.returncode == -number
    assert "hiwater" in done.stderr


def test_where_vfork_is_forbidden_the_job_is_forked(tool):
    done = subprocess.run([sys.executable, HERE / "sandbox.py", "no-vfork", HIWATER, "run", "--", "sh", "-c", "exit 3"],
                          env=tool.env, capture_output=True, text=True, cwd=tool.folder)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr


def test_shell_sees_128_and_the_signal(tool):
    done = subprocess.run(["sh", "-c", '"$1" run -- sh -c "kill -TERM \\$\\$"; echo $?', "sh", HIWATER], env=tool.env,
                          capture_output=True, text=True, cwd=tool.folder)
    assert done.stdout.strip() == "143"


def test_leaves_no_core(tool):
    tool.run("run", "--", "sh", "-c", "ulimit -c 0; kill -SEGV $$")
    assert not list(tool.folder.glob("core*"))


def test_command_not_found(tool):
    done = tool.run("run", "--", "no-such-command")
    assert done.returncode == 127
    assert done.stderr.startswith("hiwater: cannot run 'no-such-command': No such file or directory; shell builtins, ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    assert not tool.history.exists()


def test_command_not_executable(tool):
    path = tool.folder / "data"
    path.write_text("no program\n")
    done = tool.run("run", path)
    assert done.returncode == 126
    assert done.stderr == f"hiwater: cannot run '{path}': Permission denied\n"


@pytest.mark.parametrize("command, status, hint", [
    ("cd", 127, "No such file or directory; shell builtins, functions and aliases are not programs"),
    ("echo hello", 127, "No such file or directory; to run a shell command line, use sh -c 'LINE'"),
    ("A=1", 127, "No such file or directory; to set variables, use env NAME=VALUE COMMAND"),
    ("./script", 127, "No such file or directory; the file exists, but the interpreter in its first line, or its loader, does not"),
    ("./none", 127, "No such file or directory"),
    ("./folder", 126, "Permission denied; it is a folder"),
    ("", 127, "No such file or directory"),
])
def test_says_why_it_is_no_program(tool, command, status, hint):
    (tool.folder / "folder").mkdir()
    script = tool.folder / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = tool.run("run", "--", command, env={"PATH": tool.folder})  # without programs: cd may be one
    assert (done.returncode, done.stderr) == (status, f"hiwater: cannot run '{command}': {hint}\n")


def test_script_without_interpreter_line(tool):
    path = tool.folder / "script"
    path.write_text("exit 9\n")
    path.chmod(0o755)
    assert tool.run("run", path).returncode == 9


@pytest.mark.parametrize("args", [["--no-such-option", "true"], ["-i", "0", "true"], [], ["--repeat", "x", "true"],
                                  ["-o", ".", "true"], ["-o", "x%x/", "true"], ["-n", "x" * 1001, "true"],
                                  ["--strict", "-o", "/no/such/folder/x.hiw", "true"], ["--strict", "--json", "/no/such/folder/x", "true"],
                                  ["--json", "-", "true"], ["--summary-file", "/", "true"], ["--units", "mb", "true"],
                                  ["-o", "x.hiw", "--no-record", "true"], ["-o", "x.hiw", "--repeat", "2", "true"],
                                  ["--request", "ram", "true"], ["--progress=1ms", "true"]])
def test_a_wrong_command_line_is_125(tool, args):
    mark = tool.folder / "started"
    args = [*args[:-1], "touch", mark] if args else args
    done = tool.run("run", *args)
    assert done.returncode == 125
    assert done.stderr.startswith("hiwater: ") and done.stderr.count("\n") == 1
    assert not mark.exists()


def test_existing_output_is_refused_with_strict(tool):
    (tool.folder / "x.hiw").write_text("mine")
    done = tool.run("run", "--strict", "-o", "x.hiw", "touch", "started")
    assert done.returncode == 125
    assert "x.hiw" in done.stderr
    assert (tool.folder / "x.hiw").read_text() == "mine"
    assert not (tool.folder / "started").exists()


def test_cpu_of_who_outlives_main_is_over_their_time(tool):
    job = "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done) & exit 0"
    done = tool.run("run", "--wait", "--no-record", "--summary", "line", "--", "sh", "-c", job)
    said = dict(word.split("=", 1) for word in done.stderr.split() if "=" in word)
    assert float(said["cores"]) <= 1.1, done.stderr
    assert float(said["cores"]) > 0, done.stderr


def test_wait_measures_until_all_have_ended(tool):
    """Wall time, history, peak and cores cover all processes that were followed; main's own end is reported separately."""
    hold = f"{sys.executable} -S -c 'x = bytearray(b\"x\") * (50 << 20); import time; time.sleep(1.2)'"
    done = tool.run("run", "--wait", "-n", "waited", "--json", "run.json", "--", "sh", "-c", f"({hold}) & exit 4")
    assert done.returncode == 4
    run = json.loads((tool.folder / "run.json").read_text())
    assert run["time"]["wall_s"] > 1.2 > run["time"]["main_wall_s"] > 0
    assert run["ram"]["combined"]["at_s"] <= run["time"]["wall_s"]
    assert run["run"]["recording"]
    text = done.stderr.replace("\u00a0", " ")
    wall = re.search(r"exit 4 +wall (\S+) s +main ended at \d", text)
    assert wall and float(wall[1]) >= 1.2, text
    entry, = (line for line in tool.run("runs").stdout.splitlines() if "waited" in line)
    assert any(float(seconds) >= 1.2 for seconds in re.findall(r"(\d+\.\d+) s\b", entry)), entry
    shown = json.loads(tool.run("show", "--json", "waited").stdout)
    assert shown["time"] == run["time"]


def test_without_wait_the_run_is_over_with_main(tool):
    done = tool.run("run", "--no-record", "--json", "run.json", "--", "sh", "-c", "sleep 2 >/dev/null 2>&1 & sleep 0.3; exit 4")
    assert done.returncode == 4
    time_of = json.loads((tool.folder / "run.json").read_text())["time"]
    assert time_of["wall_s"] == time_of["main_wall_s"]
    assert "main ended" not in done.stderr.replace("\u00a0", " ")


@pytest.mark.parametrize("files", [32, 36, 40, 60])
def test_few_files_may_be_open(tool, files):
    """Open descriptors leave room for those that are opened briefly: the job is measured, and what is left out is reported."""
    line = f"ulimit -n {files} && exec {HIWATER} run --no-record --json run.json -- sh -c 'sleep 0.3; exit 7'"
    done = subprocess.run(["sh", "-c", line], cwd=tool.folder, env=tool.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 7, done.stderr
    assert "Result" in done.stderr and "Too many open files" not in done.stderr
    run = json.loads((tool.folder / "run.json").read_text())
    assert run["time"]["wall_s"] > 0.3 and run["ram"]["main"]["peak_bytes"] > 0 and run["processes"]["seen"] >= 1
    assert any(str(files) in n["why"] for n in run["notes"] if n["about"] == "sampling")


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="needs unshare and root")
def test_proc_of_another_pid_namespace(tool):
    """PIDs of one namespace mean nothing in the /proc of another: no process is read, rather than all."""
    done = subprocess.run(["unshare", "--pid", "--fork", HIWATER, "run", "--no-record", "--json", "run.json", "--",
                           "sh", "-c", "sleep 0.3; exit 7"], cwd=tool.folder, env=tool.env, capture_output=True, text=True, timeout=60)
    if "unshare:" in done.stderr:
        pytest.skip(f"unshare: {done.stderr.strip()}")
    assert done.returncode == 7, done.stderr
    run = json.loads((tool.folder / "run.json").read_text())
    assert run["processes"] == {"seen": None, "seen_at_least": False, "peak_alive": None, "left": None, "list": [], "ranks_started": None,
                                "ranks": []}
    assert run["ram"]["combined"]["peak_bytes"] is None and run["ram"]["cgroup"] is None
    assert run["ram"]["main"]["method"] == "bounded" and run["ram"]["main"]["high_bytes"] > 0
    assert run["time"]["wall_s"] > 0.3 and run["time"]["user_s"] + run["time"]["system_s"] < 0.3
    assert any("another pid namespace" in n["why"] for n in run["notes"] if n["about"] == "processes")
    assert "--mount-proc" in " ".join(done.stderr.split())
    doctor = subprocess.run(["unshare", "--pid", "--fork", HIWATER, "doctor"], env=tool.env, capture_output=True, text=True, timeout=60)
    assert "another pid namespace" in " ".join(doctor.stdout.split())


@pytest.mark.release  # a sanitizer's library reads /proc itself
@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="needs unshare and root")
@pytest.mark.parametrize("rights", [[], ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]])
def test_no_proc_is_mounted(tool, rights):
    """Files still get their names, the GPU helper is not part of the job, and main's peak is its own."""
    tool.folder.chmod(0o777)
    job = f"{sys.executable} -c 'import time; held = bytearray(40_000_000); time.sleep(1.3)'; exit 3"
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", 'umount -l /proc && exec "$@"', "sh", *rights,
                           HIWATER, "run", "--no-record", "--json", "run.json", "--summary-file", "run.txt", "--", "sh", "-c", job],
                          cwd=tool.folder, env=tool.env, capture_output=True, text=True, timeout=60)
    if "unshare:" in done.stderr or "umount:" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 3, done.stderr
    assert "cannot write" not in done.stderr and "mount it (mount -t proc proc /proc)" in " ".join(done.stderr.split())
    assert "exit 3" in (tool.folder / "run.txt").read_text()
    run = json.loads((tool.folder / "run.json").read_text())
    assert len(list(tool.folder.glob("run.*"))) == 2
    assert "hiwater-gpu" not in [p["name"] for p in run["processes"]["list"]]
    assert run["ram"]["main"]["peak_bytes"] is None or run["ram"]["main"]["peak_bytes"] < 20_000_000
    assert run["ram"]["main"]["high_bytes"] > 0
    if run["processes"]["list"]:  # by exit records
        assert run["ram"]["main"]["method"] == "exact" and run["processes"]["seen"] == 2, run["processes"]


def in_pids_of_its_own(tool, before=""):
    """Summary of a run in a PID namespace of its own, whose shell runs a command before it executes hiwater."""
    line = f"{before}exec {HIWATER} run --no-record --json run.json --summary none -- sh -c 'sleep 0.3; exit 7'"
    done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", line], cwd=tool.folder, env=tool.env,
                          capture_output=True, text=True, timeout=60)
    if "unshare:" in done.stderr:
        pytest.skip(f"unshare: {done.stderr.strip()}")
    assert done.returncode == 7, done.stderr
    return json.loads((tool.folder / "run.json").read_text())


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="needs unshare and root")
def test_a_cgroup_is_shared_with_those_whom_a_pid_namespace_does_not_show(tool):
    """v2 lists them as 0, v1 not at all; this test's own process is one of them."""
    run = in_pids_of_its_own(tool)
    assert run["processes"]["seen"] > 0 and run["ram"]["cgroup"] is None


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="needs unshare and root")
def test_a_cgroup_of_which_a_pid_namespace_shows_all_is_the_jobs(tool):
    lines = dict(line.split(":", 2)[1:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines())
    mounted = pathlib.Path("/sys/fs/cgroup/memory" if "memory" in lines else "/sys/fs/cgroup")
    group = mounted / lines["memory" if "memory" in lines else ""].lstrip("/") / f"hiwater-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as e:
        pytest.skip(f"no cgroup can be made: {e}")
    try:
        run = in_pids_of_its_own(tool, f"echo 0 > {group}/cgroup.procs && ")
        if not (group / ("memory.usage_in_bytes" if "memory" in lines else "memory.current")).exists():
            pytest.skip("no memory controller there")
    finally:
        group.rmdir()
    assert run["ram"]["cgroup"] and run["ram"]["cgroup"]["peak_bytes"] > 0


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="needs unshare and root")
def test_as_pid_1_it_exits_with_128_and_the_signal(tool):
    done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", HIWATER, "run", "--", "sh", "-c", "kill -TERM $$"],
                          env=tool.env, capture_output=True, text=True, cwd=tool.folder)
    if "unshare:" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 143


def test_status_survives_a_parent_that_ignores_sigchld(tool):
    def ignore():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    assert tool.run("run", "--", "sh", "-c", "exit 3", preexec_fn=ignore).returncode == 3
    # And the job finds it as it was: a process whose parent ignores SIGCHLD has the bit in SigIgn.
    done = tool.run("run", "--summary", "none", "--", "grep", "SigIgn", "/proc/self/status", preexec_fn=ignore)
    assert int(done.stdout.split()[1], 16) & 1 << (signal.SIGCHLD - 1)


@pytest.mark.parametrize("stderr", ["closed", "full", "broken"])
def test_status_survives_bad_streams(tool, stderr):
    def close():
        os.close(1)
        os.close(2)

    if stderr == "closed":
        process = tool.start("run", "--", "sh", "-c", "exit 3", stdout=None, stderr=None, preexec_fn=close)
    elif stderr == "full":
        with open("/dev/full", "w", encoding="ascii") as full:
            process = tool.start("run", "--", "sh", "-c", "exit 3", stderr=full)
    else:
        reader, writer = os.pipe()
        os.close(reader)
        process = tool.start("run", "--", "sh", "-c", "exit 3", stderr=writer)
        os.close(writer)
    assert process.wait(30) == 3


def test_status_survives_unwritable_files(tool):
    """A file that cannot be written at the end causes a warning; the status is the job's."""
    process = tool.start("run", "--summary", "none", "--json", "gone/x.json", "--", "sh", "-c",
                         "rm -r gone; exit 3", preexec_fn=lambda: (tool.folder / "gone").mkdir())
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 3
    assert stderr.decode().startswith("hiwater: warning: cannot write gone/x.json: ")


def test_a_full_pipe_nobody_reads_does_not_hold_it_for_ever(tool):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(writer, True)
    process = tool.start("run", "--", "sh", "-c", "exit 3", stderr=writer)
    os.close(writer)
    assert process.wait(60) == 3
    os.close(reader)


def test_run_ends_with_main(tool):
    """Processes that main leaves running are neither killed nor waited for."""
    counter = tool.counter()
    done = tool.run("run", "--", "sh", "-c", '"$@" >/dev/null 2>&1 & while ! test -s "$3"; do sleep 0.01; done; exit 4',
                    "sh", *counter.command())
    assert done.returncode == 4
    pid = counter.wait_ready()
    os.kill(pid, 0)
    counter.finish()


def test_wait_follows_what_is_left(tool):
    counter = tool.counter()
    process = tool.start("run", "--wait", "--", "sh", "-c",
                         '"$@" >/dev/null 2>&1 & while ! test -s "$3"; do sleep 0.01; done; exit 4', "sh", *counter.command())
    pid = counter.wait_ready()
    wait_for(lambda: f"PPid:\t{process.pid}\n" in open(f"/proc/{pid}/status", encoding="ascii").read(),
             "hiwater adopted the orphan")
    assert process.poll() is None
    counter.finish()
    assert process.wait(30) == 4
