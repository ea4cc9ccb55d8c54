# SPDX-License-Identifier: MIT
"""A job in a v1 memory cgroup with a limit: the memory it was charged, and kills for lack of memory."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest
from cli_helpers import DEADLINE, HERE, HIWATER, as_nobody, state_of, wait_for

MIB = 1 << 20
LIMIT = 128 * MIB
TOO_MUCH = 400  # MiB


def own_group(controller="memory"):
    """The folder of this process's v1 group of that controller, or None."""
    for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            break
    else:
        return None
    for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split()[:3]
        if kind == "cgroup" and controller in options.split(","):
            root, point = before.split()[3:5]
            return pathlib.Path(point) / os.path.relpath(path, root)
    return None


def remove(folder):
    """Removes a group and those below; the kernel takes the last process out a moment after its end."""
    for below in [f for f in folder.iterdir() if f.is_dir()]:
        remove(below)

    def gone():
        try:
            folder.rmdir()
        except OSError:
            return False
        return True
    wait_for(gone, f"{folder} is empty")


class Group:
    """A group of the test's own, with a limit; enter is for Popen's preexec_fn."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "memory.limit_in_bytes").write_text(str(LIMIT), encoding="ascii")
        try:  # without this, the excess goes to swap
            (folder / "memory.memsw.limit_in_bytes").write_text(str(LIMIT), encoding="ascii")
        except OSError:
            pass

    @property
    def path(self):
        """As the kernel names it, below the mount."""
        mount = self.folder
        while not mount.is_mount():
            mount = mount.parent
        return f"/{self.folder.relative_to(mount)}"

    def enter(self):
        (self.folder / "cgroup.procs").write_text("0", encoding="ascii")

    def number(self, name):
        return int((self.folder / name).read_text(encoding="ascii"))

    def kills(self):
        return int((self.folder / "memory.oom_control").read_text(encoding="ascii").split("oom_kill ")[1])

    def below(self):
        return [f.name for f in self.folder.iterdir() if f.is_dir()]


@pytest.fixture
def group():
    own = own_group()
    if own is None:
        pytest.skip("no v1 memory cgroup to write: this machine has no such hierarchy")
    folder = own / f"hiwater-test-{os.getpid()}"
    try:
        folder.mkdir()
        made = Group(folder)
    except OSError as e:
        pytest.skip(f"no v1 memory cgroup to write: {e.strerror}")
    yield made
    remove(folder)


@pytest.fixture(scope="session")
def hog(tmp_path_factory):
    program = tmp_path_factory.mktemp("hog") / "hog"
    subprocess.run(["cc", "-O1", "-o", program, HERE / "hog.c"], check=True)
    return str(program)


@pytest.fixture
def measured(tool, group):
    """Runs hiwater in the group; returns the result and its JSON."""
    def run(*args, options=(), prefix=(), folder=tool.folder, **more):
        file = folder / "summary.json"
        file.unlink(missing_ok=True)
        command = [*prefix, HIWATER, "run", "--json", file, *options, "--", *args]
        done = subprocess.run(list(map(str, command)), env=tool.env, cwd=folder, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=2 * DEADLINE, preexec_fn=group.enter, check=False, **more)
        return done, json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return run


@pytest.fixture
def quota():
    """A v1 cpu group with a fifth of a core."""
    own = own_group("cpu")
    if own is None:
        pytest.skip("no v1 cpu cgroup to write: this machine has no such hierarchy")
    folder = own / f"hiwater-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "cpu.cfs_quota_us").write_text("20000", encoding="ascii")
    except OSError as e:
        pytest.skip(f"no v1 cpu cgroup to write: {e.strerror}")
    yield folder
    remove(folder)


def finding(summary, code="out-of-memory"):
    return next((f for f in summary["findings"] if f["code"] == code), None)


def note(summary, about):
    return [n["why"] for n in summary["notes"] if n["about"] == about]


def log_is_readable(prefix=()):
    """Whether the user that prefix switches to may read the kernel's log."""
    return subprocess.run([*prefix, "dd", "if=/dev/kmsg", "of=/dev/null", "count=1", "bs=8192", "iflag=nonblock"],
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def test_what_the_kernel_charged(measured, group, hog):
    done, summary = measured(hog, "fill", 60)
    assert done.returncode == 3
    cgroup = summary["ram"]["cgroup"]
    assert 60 * MIB <= cgroup["peak_bytes"] <= group.number("memory.max_usage_in_bytes")
    assert cgroup["method"] == "exact"
    assert cgroup["limit_bytes"] == summary["ram"]["limit_bytes"] == LIMIT
    assert cgroup["oom_kills"] == 0
    assert summary["exit"] == {"code": 3, "signal": None, "oom_killed": False, "raised": None}
    assert finding(summary) is None
    assert note(summary, "ram.cgroup") == []


@pytest.mark.release  # a sanitizer's own process is a stranger in the group
def test_no_limit_is_said_as_such(measured, group, hog):
    for name in ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes"):
        if (group.folder / name).exists():
            (group.folder / name).write_text("-1", encoding="ascii")
    _, summary = measured(hog, "fill", 20)
    cgroup = summary["ram"]["cgroup"]
    if cgroup["limit_bytes"] is None:  # a group above it may have one
        assert cgroup["peak_bytes"] >= 20 * MIB
        assert note(summary, "ram.cgroup") == []
        assert note(summary, "ram.cgroup.limit_bytes") == ["neither the job's cgroup nor those above it have a limit"]


def test_the_mark_of_an_earlier_job_is_not_this_ones(measured, group, hog):
    subprocess.run([hog, "fill", "100"], preexec_fn=group.enter, check=False)
    assert group.number("memory.max_usage_in_bytes") >= 100 * MIB
    done, summary = measured(hog, "fill", 30)
    assert summary["ram"]["cgroup"]["peak_bytes"] < 90 * MIB
    assert summary["ram"]["cgroup"]["method"] == "sampled"
    assert re.search(r"cgroup\s+peak\s.{1,20}\ssampled\s10/s", done.stderr, re.S)


def test_a_mark_that_rises_is_this_jobs(measured, group, hog):
    subprocess.run([hog, "fill", "40"], preexec_fn=group.enter, check=False)
    _, summary = measured(hog, "fill", 80)
    assert 80 * MIB <= summary["ram"]["cgroup"]["peak_bytes"] <= 110 * MIB
    assert summary["ram"]["cgroup"]["method"] == "exact"


def test_others_in_the_group(tool, measured, group, hog):
    other = subprocess.Popen([hog, "hold", "10"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=group.enter)
    try:
        assert other.stdout.readline() == b"holds\n"
        done, summary = measured(hog, "fill", 30)
        assert done.returncode == 3
        assert summary["ram"]["cgroup"] is None
        assert note(summary, "ram.cgroup") == ["the job shared its cgroup with other processes"]
        assert summary["ram"]["limit_bytes"] == LIMIT
        done, summary = measured(hog, "fill", TOO_MUCH)
        assert done.returncode == -9
        assert summary["ram"]["cgroup"] is None
        assert summary["exit"]["oom_killed"]
        assert "for lack of memory" in finding(summary)["message"]
        assert other.poll() is None
    finally:
        other.communicate(timeout=DEADLINE)


def waits(pid):
    """How often a process has waited, for its next sample for example."""
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"), re.M)[1])


@pytest.mark.parametrize("log", [True, False])
def test_a_stranger_in_the_group_is_not_the_job(tool, group, hog, log):
    """The kernel kills another process, and a user the job: only the log separates the two."""
    prefix = [] if log else as_nobody(tool.folder)
    if log_is_readable(prefix) != log:
        pytest.skip("the kernel's log can be read by everybody" if not log else "the kernel's log cannot be read")
    file = tool.folder / "summary.json"
    run = subprocess.Popen([*prefix, HIWATER, "run", "--json", file, "--no-record", "--", "sh", "-c", "echo; read x; kill -9 $$"],
                           env=tool.env, cwd=tool.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, preexec_fn=group.enter)
    assert run.stdout.readline() == "\n"
    with subprocess.Popen([hog, "hold", "1"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=group.enter):
        assert subprocess.run([hog, "fill", str(TOO_MUCH)], preexec_fn=group.enter, check=False).returncode == -9
        assert group.kills() == 1
        before = waits(run.pid)
        wait_for(lambda: waits(run.pid) > before + 15, "what is read once a second was read")
        _, stderr = run.communicate("x\n", timeout=DEADLINE)
    assert run.returncode == -9, stderr
    summary = json.loads(file.read_text(encoding="utf-8"))
    assert not summary["exit"]["oom_killed"]
    found = finding(summary)
    assert found["message"].startswith(
        "The kernel killed a process for lack of memory in the job's cgroup, which other processes share; "
        + ("its log does not name pid" if log else "it may have been pid"))
    assert "(sh), which SIGKILL ended" in found["message"]
    assert ("victim_pid" in found["evidence"]) != log
    assert ("suspected" in summary["incident"]["event"]) != log


def test_others_come_later(tool, group, hog):
    file = tool.folder / "summary.json"
    run = tool.start("run", "--json", file, "--", hog, "hold", "30", stdin=subprocess.PIPE, preexec_fn=group.enter)
    assert run.stdout.readline() == b"holds\n"
    other = subprocess.Popen([hog, "hold", "10"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=group.enter)
    try:
        assert other.stdout.readline() == b"holds\n"
        run.stdin.close()
        assert run.wait(DEADLINE) == 0
        assert json.loads(file.read_text(encoding="utf-8"))["ram"]["cgroup"] is None
    finally:
        other.communicate(timeout=DEADLINE)


def test_main_runs_out_of_memory(tool, measured, group, hog):
    recording = tool.folder / "run.hiw"
    done, summary = measured(hog, "fill", TOO_MUCH, options=["-o", recording])
    assert done.returncode == -9
    assert group.kills() == 1
    assert summary["exit"] == {"code": 137, "signal": 9, "oom_killed": True, "raised": None}
    cgroup = summary["ram"]["cgroup"]
    assert cgroup["oom_kills"] == 1
    assert 0.9 * LIMIT <= cgroup["peak_bytes"] <= LIMIT
    found = finding(summary)
    assert found["severity"] == "error"
    assert found["evidence"]["oom_kills"] == 1
    assert found["evidence"]["limit_bytes"] == LIMIT
    assert found["evidence"]["victim"] == "hog"
    assert found["evidence"]["victim_pid"] == summary["processes"]["list"][0]["pid"]
    assert found["message"].startswith(f"The kernel killed pid {found['evidence']['victim_pid']} (hog) for lack of memory")
    text = " ".join(done.stderr.replace("\u00a0", " ").split())
    assert "KILLED by signal 9" in text and "out-of-memory" not in text  # it is reported once
    assert re.search(r"Events at .* out of memory, the kernel ended it killed: hog\[\d+\], .* MiB "
                     r"filled: limit of the cgroup 128 MiB processes of the job \d+ MiB .*grew: .* try: ", text), text
    shown = json.loads(tool.run("show", "--json", recording).stdout)
    assert shown["run"]["complete"]
    for key in ("exit", "ram", "findings", "incident"):
        assert shown[key] == summary[key]
    assert_incident(summary["incident"], found["evidence"]["victim_pid"])
    assert "Events" in done.stderr


def assert_incident(incident, victim):
    """The victim used nearly all of the limit, and the story says so."""
    assert incident["event"] == f"out of memory: the kernel killed hog[{victim}]"
    assert incident["limit_bytes"] == LIMIT
    assert 0.7 * LIMIT <= incident["used_bytes"] <= 1.05 * LIMIT  # includes files charged to others
    assert [p["pid"] for p in incident["processes"] if p["killed"]] == [victim] == [incident["processes"][0]["pid"]]
    assert 0.7 * LIMIT <= incident["processes"][0]["bytes"] <= 1.05 * LIMIT
    assert "larger limit than 128 MiB" in incident["remedy"]


@pytest.mark.parametrize("alert", [False, True])
def test_the_kernel_kills_hiwater_too(tool, group, hog, alert):
    """hiwater first, which frees too little, then the job: no process is left to write an end. The last frames decide."""
    def enter():
        group.enter()
        pathlib.Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    recording = tool.folder / "run.hiw"
    options = ["--alert", "ram > 70% of limit"] if alert else []
    done = subprocess.run([HIWATER, "run", "-i", "20ms", "-o", recording, *options, "--", hog, "grow", "400"], env=tool.env,
                          cwd=tool.folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=enter,
                          timeout=2 * DEADLINE, check=False)
    assert done.returncode == -9 and group.kills() >= 1
    wait_for(lambda: group.kills() == 2 or not (group.folder / "cgroup.procs").read_text(), "the job was killed, too")
    summary = json.loads(tool.run("show", "--json", recording).stdout)
    assert summary["run"]["complete"] is False
    incident = summary["incident"]
    assert incident["event"].startswith("the recording breaks off close to the memory limit")
    assert incident["limit_bytes"] == LIMIT
    # Committed at each sample from the rule on, else once a second: up to 50 MiB are missing.
    assert incident["used_bytes"] > (0.7 if alert else 0.4) * LIMIT
    assert 5 * MIB < incident["growth_bytes_per_s"] < 80 * MIB  # a MiB every 20 ms, and the delays of the machine
    assert "hog" in [p["name"] for p in incident["processes"]]
    text = tool.run("show", recording).stdout
    assert "end not recorded: the recorder was lost" in " ".join(text.replace("\u00a0", " ").split())
    assert "for lack of memory" in " ".join(text.split())


@pytest.mark.release  # a sanitizer's own memory is close to the limit
def test_a_recorder_lost_far_from_the_limit_tells_no_story(tool, group, hog):
    recording = tool.folder / "run.hiw"
    job = subprocess.Popen([HIWATER, "run", "-i", "20ms", "-o", recording, "--", hog, "hold", "20"], env=tool.env,
                           cwd=tool.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=group.enter)
    assert job.stdout.readline() == "holds\n"
    wait_for(lambda: tool.run("show", recording).returncode == 0, "the recording")
    job.kill()
    job.wait()
    job.stdin.close()
    job.stdout.close()
    summary = json.loads(tool.run("show", "--json", recording).stdout)
    assert summary["run"]["complete"] is False and summary["incident"] is None
    wait_for(lambda: not (group.folder / "cgroup.procs").read_text(), "the job has ended")


def test_the_story_names_who_held_the_rest(tool, measured, group, hog):
    """Another process of the job uses 40 MiB and is still running when the victim is killed; main continues for a while."""
    if not log_is_readable():
        pytest.skip("the kernel's log cannot be read")
    recording = tool.folder / "run.hiw"
    code = ('exec 3<"$1"; "$0" hold 40 <&3 >held & other=$!; while ! test -s held; do sleep 0.01; done; "$2" mark held; '
            '"$0" fill 400; '
            'kill $other; wait; exit 4')  # a mark triggers a sample at once
    fifo = tool.folder / "stdin"
    os.mkfifo(fifo)
    keeper = os.open(fifo, os.O_RDWR)
    try:
        done, summary = measured("sh", "-c", code, hog, fifo, HIWATER, options=["-o", recording])
    finally:
        os.close(keeper)
    assert done.returncode == 4, done.stderr
    incident = summary["incident"]
    victim, other = [p for p in incident["processes"] if p["name"] == "hog"]
    assert victim["killed"] and not other["killed"]
    assert 38 * MIB <= other["bytes"] <= 45 * MIB
    assert victim["bytes"] >= 50 * MIB
    assert json.loads(tool.run("show", "--json", recording).stdout)["incident"] == incident


def test_the_shell_sees_137(tool, group, hog):
    done = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", HIWATER, "run", "--", hog, "fill", str(TOO_MUCH)], env=tool.env,
                          cwd=tool.folder, capture_output=True, text=True, preexec_fn=group.enter, check=False)
    assert done.returncode == 137
    assert "out of memory, the kernel ended it" in " ".join(done.stderr.split())


def test_a_child_runs_out_of_memory(measured, group, hog):
    done, summary = measured(hog, "child", TOO_MUCH)
    assert done.returncode == 4
    assert group.kills() == 1
    assert summary["exit"] == {"code": 4, "signal": None, "oom_killed": True, "raised": None}
    assert summary["ram"]["cgroup"]["oom_kills"] == 1
    found = finding(summary)
    assert "for lack of memory" in found["message"]
    if log_is_readable():  # else it may be unknown: only main reaped it
        child = [p for p in summary["processes"]["list"] if p["peak_bytes"] > LIMIT // 2]
        assert [found["evidence"]["victim_pid"]] == [p["pid"] for p in child]
        assert_incident(summary["incident"], child[0]["pid"])


def test_how_it_grew(measured, group, hog):
    """Since when and how fast, also if the last sample is from after the victim's end."""
    done, summary = measured("sh", "-c", 'sleep 1.5; "$0" grow 400; exit 4', hog)
    assert done.returncode == 4 and group.kills() == 1
    incident, found = summary["incident"], finding(summary)
    assert 1.2 < incident["growing_since_s"] < 3
    assert 15 * MIB < incident["growth_bytes_per_s"] < 60 * MIB  # a MiB every 20 ms, and the delays of the machine
    assert 0 < found["evidence"]["growing_since_s"] < 3.5


def test_a_short_run_that_ran_out_of_memory_is_kept(tool, measured, hog):
    """Others shorter than a window leave nothing in the history."""
    if not log_is_readable():
        pytest.skip("the kernel's log cannot be read")
    measured(hog, "fill", 30)
    assert not list(tool.history.glob("*.hiw"))
    _, summary = measured(hog, "fill", TOO_MUCH)
    kept = list(tool.history.glob("*.hiw"))
    assert len(kept) == 1
    assert json.loads(tool.run("show", "--json", "last").stdout)["incident"] == summary["incident"] is not None


@pytest.mark.release  # a sanitizer's own process is a stranger in the group
def test_a_kill_from_before_is_none_of_this_run(measured, group, hog):
    subprocess.run([hog, "fill", str(TOO_MUCH)], preexec_fn=group.enter, check=False)
    assert group.kills() == 1
    done, summary = measured(hog, "killed", 10)
    assert done.returncode == -9
    assert summary["ram"]["cgroup"]["oom_kills"] == 0
    assert summary["exit"] == {"code": 137, "signal": 9, "oom_killed": False, "raised": None}
    assert finding(summary) is None


@pytest.mark.parametrize("cgroup", ["auto", "new", "none"])
def test_a_kill_by_somebody_is_not_lack_of_memory(measured, hog, cgroup):
    done, summary = measured(hog, "killed", 20, options=[f"--cgroup={cgroup}"])
    assert done.returncode == -9
    assert not summary["exit"]["oom_killed"]
    assert finding(summary) is None or "suspected" in finding(summary)["message"]  # another process's, with none
    assert cgroup == "none" or finding(summary) is None


def test_a_group_is_made(measured, group, hog):
    subprocess.run([hog, "fill", "100"], preexec_fn=group.enter, check=False)
    done, summary = measured(hog, "fill", 60, options=["--cgroup=new"])
    assert done.returncode == 3
    cgroup = summary["ram"]["cgroup"]
    assert 60 * MIB <= cgroup["peak_bytes"] <= 75 * MIB
    assert cgroup["limit_bytes"] == LIMIT  # that of the parent group
    assert cgroup["oom_kills"] == 0
    assert group.below() == []


def test_a_job_in_a_group_that_was_made_runs_out_of_memory(measured, group, hog):
    done, summary = measured(hog, "fill", TOO_MUCH, options=["--cgroup=new"])
    assert done.returncode == -9
    assert summary["exit"] == {"code": 137, "signal": 9, "oom_killed": True, "raised": None}
    assert summary["ram"]["cgroup"]["oom_kills"] == 1
    assert "(hog) for lack of memory" in finding(summary)["message"]
    assert group.below() == []


def test_the_group_goes_where_there_is_no_job(tool, measured, group):
    done, _ = measured("no-such-command", options=["--cgroup=new"])
    assert done.returncode == 127
    wait_for(lambda: group.below() == [], "the group is gone")


def test_a_group_in_which_somebody_lives_on_stays(tool, group, hog):
    """Neither killed nor reaped, and hiwater reports the group."""
    code = 'exec 3<&0; "$0" hold 5 <&3 >out 2>&1 & while ! test -s out; do sleep 0.01; done; exit 4'
    run = tool.start("run", "--summary", "none", "--cgroup=new", "--", "sh", "-c", code, hog, stdin=subprocess.PIPE,
                     preexec_fn=group.enter)
    try:
        _, stderr = run.wait(DEADLINE), run.stderr.read().decode()
        assert run.returncode == 4
        below = group.below()
        assert len(below) == 1
        assert stderr == (f"hiwater: warning: cannot remove the cgroup {group.path}/{below[0]}: "
                          "1 of the job's processes are still running in it\n")
        assert int((group.folder / below[0] / "cgroup.procs").read_text(encoding="ascii"))
    finally:
        run.stdin.close()


def test_a_group_that_the_job_cannot_enter(tool, measured, group):
    """The job runs outside, measured."""
    prefix = [sys.executable, HERE / "sandbox.py", "no-byte"]
    done, summary = measured("sh", "-c", "exit 7", options=["--cgroup=new", "--summary", "none"], prefix=prefix)
    assert done.returncode == 7
    assert done.stderr == ("hiwater: warning: the job cannot enter the new cgroup: Permission denied; "
                           "it runs in the cgroup of hiwater\n")
    assert summary["exit"]["code"] == 7 and summary["ram"]["main"]["peak_bytes"] > 0
    assert group.below() == []
    done, summary = measured("touch", tool.folder / "started", options=["--cgroup=new", "--strict"], prefix=prefix)
    assert done.returncode == 125 and not (tool.folder / "started").exists()
    assert group.below() == []


def test_a_group_that_cannot_be_made(tool, measured, group):
    prefix = as_nobody(tool.folder)
    done, summary = measured("touch", tool.folder / "started", options=["--cgroup=new", "--strict", "--no-record"], prefix=prefix)
    assert done.returncode == 125
    assert done.stderr.startswith("hiwater: --cgroup=new: no permission to create a group: ")
    assert done.stderr.endswith("; the job was not started (--strict)\n") and done.stderr.count("\n") == 1
    assert done.stderr.count("--cgroup=new") == 1
    assert summary is None
    assert not (tool.folder / "started").exists()
    assert group.below() == []


def test_no_group_is_read(measured, hog):
    done, summary = measured(hog, "fill", 30, options=["--cgroup=none"])
    assert done.returncode == 3
    assert summary["ram"]["cgroup"] is None
    assert summary["ram"]["limit_bytes"] is None
    assert note(summary, "ram.cgroup") == ["no cgroup was read"]


def test_without_a_group_the_log_names_the_victim(measured, hog):
    if not log_is_readable():
        pytest.skip("the kernel's log cannot be read")
    done, summary = measured(hog, "fill", TOO_MUCH, options=["--cgroup=none"])
    assert done.returncode == -9
    assert summary["exit"]["oom_killed"]
    assert summary["ram"]["cgroup"] is None
    assert "(hog) for lack of memory" in finding(summary)["message"]


def test_a_limit_that_was_not_seen_is_not_the_machines(tool, group, hog):
    """The job goes into a group with a limit by itself, as a launcher below it may: the limit it reached is not the machine's memory."""
    if not log_is_readable():
        pytest.skip("the kernel's log cannot be read")
    file = tool.folder / "summary.json"
    done = tool.run("run", "--json", file, "--", "sh", "-c", 'echo $$ > "$1/cgroup.procs"; exec "$0" fill "$2"', hog, group.folder, TOO_MUCH)
    assert done.returncode == -9, done.stderr
    incident = json.loads(file.read_text())["incident"]
    # It may have been sampled only before its exec.
    assert incident["event"].startswith(("out of memory: the kernel killed hog", "out of memory: the kernel killed sh["))
    assert incident["used_bytes"] <= LIMIT * 1.1
    text = " ".join(done.stderr.replace("\u00a0", " ").split())
    if incident["limit_bytes"] is not None:  # the group was read between the move and the end
        assert incident["limit_bytes"] == LIMIT and "larger limit than 128 MiB" in text
        return
    assert "of the cgroup that the process was moved into" in text and "a machine with more" not in text


def test_without_a_group_or_the_log_the_machine_counts(tool, measured, hog):
    prefix = as_nobody(tool.folder, hog)
    done, summary = measured(hog, "fill", TOO_MUCH, options=["--cgroup=none", "--no-record"], prefix=prefix)
    assert done.returncode == -9
    found = finding(summary)
    if log_is_readable(prefix):
        assert "(hog) for lack of memory" in found["message"]
        return
    assert not summary["exit"]["oom_killed"]  # not for certain
    assert found["evidence"]["host_oom_kills"] >= 1
    assert "(hog): out of memory is suspected, the kernel killed " in found["message"]


@pytest.mark.parametrize("mounted", [False, True])
def test_attached_to_a_group(tool, group, hog, mounted):
    """Its values are the group's, as all its processes are measured; one is in a group below."""
    below = group.folder / "below"
    below.mkdir()

    def enter_below():
        (below / "cgroup.procs").write_text("0", encoding="ascii")
    file = tool.folder / "summary.json"
    jobs = [subprocess.Popen([hog, "hold", "20"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=enter)
            for enter in (group.enter, enter_below)]
    try:
        for job in jobs:
            assert job.stdout.readline() == b"holds\n"
        done = tool.run("attach", "--cgroup", group.folder if mounted else group.path, "--for", "1s", "--json", file)
        assert done.returncode == 0, done.stderr
        summary = json.loads(file.read_text(encoding="utf-8"))
        assert sorted(p["pid"] for p in summary["processes"]["list"]) == sorted(job.pid for job in jobs)
        cgroup = summary["ram"]["cgroup"]
        assert 40 * MIB <= cgroup["peak_bytes"] <= 60 * MIB
        assert cgroup["limit_bytes"] == LIMIT
        assert cgroup["oom_kills"] == 0
        assert 40 * MIB <= summary["ram"]["combined"]["peak_bytes"] <= 50 * MIB
    finally:
        for job in jobs:
            job.communicate(timeout=DEADLINE)


@pytest.mark.parametrize("given", ["short", "name"])
def test_attached_to_a_container(tool, group, hog, given):
    """A container is the cgroup that has its id in its name: all processes in it and below."""
    container = "0123456789ab" + f"{os.getpid():052x}"
    scope = group.folder / f"docker-{container}.scope"
    (scope / "below").mkdir(parents=True)

    def enter(folder):
        return lambda: (folder / "cgroup.procs").write_text("0", encoding="ascii")
    file = tool.folder / "summary.json"
    jobs = [subprocess.Popen([hog, "hold", "20"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=enter(folder))
            for folder in (scope, scope / "below", group.folder)]
    try:
        for job in jobs:
            assert job.stdout.readline() == b"holds\n"
        docker = tool.folder / "docker"
        docker.write_text(f"#!/bin/sh\necho {jobs[1].pid}\n", encoding="ascii")
        docker.chmod(0o755)
        done = tool.run("attach", "--container", container[:12] if given == "short" else "web", "--for", "500ms", "--json", file,
                        env={"PATH": f"{tool.folder}:{os.environ['PATH']}"})
        assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
        summary = json.loads(file.read_text(encoding="utf-8"))
        assert sorted(p["pid"] for p in summary["processes"]["list"]) == sorted(job.pid for job in jobs[:2])
        assert 40 * MIB <= summary["ram"]["cgroup"]["peak_bytes"] <= 60 * MIB
    finally:
        for job in jobs:
            job.communicate(timeout=DEADLINE)


def test_who_comes_into_the_group_belongs_to_it(tool, group, hog):
    """None of the attached processes has started it."""
    file = tool.folder / "summary.json"
    recorder = tool.folder / "hiwater"  # as a program that measures itself has one
    recorder.symlink_to(pathlib.Path(sys.executable).resolve())
    # it enters the group itself: between a fork there and the exec it would be a stranger
    (tool.folder / "attach").write_text(f"open('{group.folder}/cgroup.procs', 'w').write('0'); print('ready', flush=True); input()")
    jobs = [subprocess.Popen([hog, "hold", "20"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=group.enter)]
    run = tool.start("attach", "--cgroup", group.path, "--json", file, "--progress=100ms")
    other = None
    try:
        assert jobs[0].stdout.readline() == b"holds\n"
        assert run.stderr.readline()  # it has sampled
        other = subprocess.Popen([recorder, "attach", "--control"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tool.folder)
        assert other.stdout.readline() == b"ready\n"
        jobs.append(subprocess.Popen([hog, "hold", "30"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=group.enter))
        assert jobs[1].stdout.readline() == b"holds\n"
        for _ in range(100):
            if b"2 processes" in run.stderr.readline():
                break
    finally:
        for job in [*jobs, *([other] if other else [])]:
            job.communicate(timeout=DEADLINE)
    assert run.wait(DEADLINE) == 0
    summary = json.loads(file.read_text(encoding="utf-8"))
    assert sorted(p["pid"] for p in summary["processes"]["list"]) == sorted(job.pid for job in jobs)
    assert summary["exit"]["code"] is None  # none of several has the job's
    assert 50 * MIB <= summary["ram"]["combined"]["peak_bytes"] <= 60 * MIB
    if summary["ram"]["cgroup"] is None:  # a slow machine: a fork was seen there before it was known to belong to it
        assert any(n["about"] == "ram.cgroup" and "shared" in n["why"] for n in summary["notes"]), summary["notes"]
    else:
        assert summary["ram"]["cgroup"]["peak_bytes"] >= 50 * MIB  # it is still the job's alone


@pytest.mark.parametrize("how", ["the last one left", "interrupted"])
def test_who_comes_into_the_group_right_before_the_end_belongs_to_it(tool, group, hog, how):
    """The group's processes are read once a second, and once more before the run would end."""
    file = tool.folder / "summary.json"
    jobs = [subprocess.Popen([hog, "hold", "20"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=group.enter)]
    run = tool.start("attach", "--cgroup", group.path, "--json", file, "--progress=100ms")
    try:
        assert jobs[0].stdout.readline() == b"holds\n"
        assert run.stderr.readline()  # it has sampled
        jobs.append(subprocess.Popen([hog, "hold", "30"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=group.enter))
        assert jobs[1].stdout.readline() == b"holds\n"
        if how == "interrupted":
            run.send_signal(signal.SIGINT)
            assert run.wait(DEADLINE) == 0
        else:
            jobs[0].communicate(timeout=DEADLINE)
            assert any(re.search(rb"RAM 3\d", line) for line in run.stderr)  # it continues with the other alone
    finally:
        for job in jobs:
            job.communicate(timeout=DEADLINE)
    assert run.wait(DEADLINE) == 0
    summary = json.loads(file.read_text(encoding="utf-8"))
    assert sorted(p["pid"] for p in summary["processes"]["list"]) == sorted(job.pid for job in jobs)


def test_attached_to_a_job_that_runs_out_of_memory(tool, group, hog):
    """Attached before it grows: the shell waits for a line."""
    file = tool.folder / "summary.json"
    job = subprocess.Popen(["sh", "-c", f"read x; exec {hog} fill {TOO_MUCH}"], stdin=subprocess.PIPE, preexec_fn=group.enter)
    run = tool.start("attach", "--cgroup", group.path, "--json", file, "--progress=100ms")
    try:
        assert run.stderr.readline()  # the first line of progress: it has sampled
        job.stdin.write(b"x\n")
        job.stdin.close()
        assert job.wait(DEADLINE) == -9
        assert run.wait(DEADLINE) == 0
    finally:
        if job.poll() is None:
            job.kill()
    summary = json.loads(file.read_text(encoding="utf-8"))
    assert summary["exit"]["oom_killed"]
    assert summary["ram"]["cgroup"]["oom_kills"] == 1
    assert "for lack of memory" in finding(summary)["message"]


def test_attached_to_a_group_that_is_not_there(tool, group):
    done = tool.run("attach", "--cgroup", f"{group.path}/none")
    assert done.returncode == 1
    assert "none" in done.stderr and done.stderr.count("\n") == 1
    done = tool.run("attach", "--cgroup", group.path)
    assert done.returncode == 1
    assert done.stderr == f"hiwater: no process is in the cgroup '{group.path}'\n"


def test_a_job_that_its_quota_holds_back(tool, quota):
    """Its memory is charged to a group that contains the test, too: the quota still throttles the job."""
    file = tool.folder / "summary.json"
    spin = "end=$((SECONDS + 11)); while [ $SECONDS -lt $end ]; do :; done"
    done = subprocess.run([HIWATER, "run", "--json", file, "--", "bash", "-c", spin], env=tool.env, cwd=tool.folder, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * DEADLINE, check=False,
                          preexec_fn=lambda: (quota / "cgroup.procs").write_text("0", encoding="ascii"))
    assert done.returncode == 0
    summary = json.loads(file.read_text(encoding="utf-8"))
    found = finding(summary, "cpu-throttled")
    assert found["evidence"]["quota_cores"] == 0.2
    assert found["evidence"]["throttled_ratio"] > 0.5
    assert found["evidence"]["throttled_s"] > 1
    assert "cpu-throttled" in done.stderr


def test_a_group_that_a_killed_run_left_is_removed_by_the_next(tool, group):
    """The group of a live recorder stays, even if empty; so does one that still contains the job of a killed run."""
    def start(*command):
        return tool.start("run", "--cgroup=new", "--no-record", "--summary", "none", "--", *command, stdin=subprocess.PIPE,
                          preexec_fn=group.enter)

    def made(process):
        return f"hiwater-{process.pid}-0"

    killed, living, populated = start("sh", "-c", "echo; read x"), start("sh", "-c", "echo $$; read x"), start("sh", "-c", "echo $$; read x")
    for process in (killed, living):
        process.stdout.readline()
    job = int(populated.stdout.readline())
    assert sorted(group.below()) == sorted(map(made, (killed, living, populated)))
    for process in (killed, populated):
        process.kill()
        process.wait(DEADLINE)
    killed.stdin.close()
    procs = group.folder / made(killed) / "cgroup.procs"
    wait_for(lambda: not procs.read_text(encoding="ascii"), "the group is empty")
    assert made(killed) in group.below()
    assert start("true").wait(DEADLINE) == 0
    assert sorted(group.below()) == sorted(map(made, (living, populated)))
    living.stdin.close()
    populated.stdin.close()
    wait_for(lambda: state_of(job) is None, "the orphan has ended")
    assert living.wait(DEADLINE) == 1
    procs = group.folder / made(populated) / "cgroup.procs"
    wait_for(lambda: not procs.read_text(encoding="ascii"), "the group is empty")
    (group.folder / "hiwater-1-0").mkdir()
    in_use = os.open(group.folder / "hiwater-1-0", os.O_RDONLY)
    fcntl.flock(in_use, fcntl.LOCK_SH)
    assert start("true").wait(DEADLINE) == 0
    assert group.below() == ["hiwater-1-0"]
    os.close(in_use)


# Writes MiB of files into /dev/shm, waits, and removes them: with little memory of its own.
FILL_SHM = "trap 'rm -f {file}' EXIT; dd if=/dev/zero of={file} bs=1M count={mib} 2>/dev/null; sleep {sleep}; exit 3"


@pytest.fixture
def shm_file():
    if not os.path.ismount("/dev/shm") or not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm to write")
    file = pathlib.Path(f"/dev/shm/hiwater-test-{os.getpid()}")
    yield file
    file.unlink(missing_ok=True)


@pytest.mark.release  # a sanitizer's own process is a stranger in the group
def test_files_in_tmpfs_fill_the_limit(measured, shm_file):
    """They cannot be reclaimed; 118 of 128 MiB are over 90 %."""
    done, summary = measured("sh", "-c", FILL_SHM.format(file=shm_file, mib=118, sleep=1.5))
    ram = summary["ram"]
    assert ram["shmem"] == {"peak_bytes": ram["shmem"]["peak_bytes"], "method": "sampled", "source": "cgroup"}
    assert 118 * MIB <= ram["shmem"]["peak_bytes"] <= 126 * MIB
    assert ram["shmem"]["peak_bytes"] <= ram["unreclaimable_peak_bytes"] <= LIMIT
    assert ram["combined"]["peak_bytes"] < 30 * MIB
    near = finding(summary, "memory-near-limit")
    assert "cannot be reclaimed: tmpfs and shared memory 11" in near["message"]
    assert 118 * MIB <= near["evidence"]["shmem_bytes"] <= 126 * MIB
    text = " ".join(done.stderr.replace("\u00a0", " ").split())
    assert re.search(r"tmpfs and shared memory 1[12]\d MiB", text) and "file cache" not in text
    assert finding(summary, "failed") and "Findings OK" not in text


def test_page_cache_fills_no_limit(measured, tool):
    """It fills the group, and alarms nobody."""
    done, summary = measured("sh", "-c", "dd if=/dev/zero of=big bs=1M count=300 2>/dev/null; sync big; sleep 1.5; rm big")
    assert done.returncode == 0
    assert summary["ram"]["cgroup"]["peak_bytes"] > 0.9 * LIMIT
    assert summary["ram"]["unreclaimable_peak_bytes"] < 0.5 * LIMIT
    assert finding(summary, "memory-near-limit") is None


def test_out_of_memory_by_files_in_tmpfs(tool, group, shm_file):
    """The job's processes are small; so is hiwater, which the kernel may choose. What was known is kept."""
    def enter():
        group.enter()
    recording = tool.folder / "run.hiw"
    command = f"i=0; while [ $i -lt 200 ]; do dd if=/dev/zero of={shm_file} bs=1M count=1 seek=$i conv=notrunc 2>/dev/null; " \
              "i=$((i + 1)); sleep .01; done"
    subprocess.run([HIWATER, "run", "-o", recording, "--", "sh", "-c", command], env=tool.env, cwd=tool.folder,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=enter,
                   timeout=2 * DEADLINE, check=False)
    wait_for(lambda: not (group.folder / "cgroup.procs").read_text(), "the job has ended, too")  # it may outlive hiwater
    shm_file.unlink(missing_ok=True)
    assert group.kills() >= 1
    incident = json.loads(tool.run("show", "--json", recording).stdout)["incident"]
    assert incident["filled_by"][0]["what"] == "shmem"
    assert 0.4 * LIMIT <= incident["filled_by"][0]["bytes"] <= LIMIT
    assert incident["limit_bytes"] == LIMIT and 0.4 * LIMIT <= incident["used_bytes"] <= LIMIT
    assert "removing files in /dev/shm" in incident["remedy"]
    text = " ".join(tool.run("show", recording).stdout.replace("\u00a0", " ").split())
    assert "filled: limit of the cgroup 128 MiB tmpfs and shared memory" in text
