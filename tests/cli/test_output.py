# SPDX-License-Identifier: MIT
"""stdin, stdout and stderr are the job's; what is ours is where and how it was asked for."""
import json
import os
import re
import signal
import stat
import subprocess
import sys

import jsonschema
import pytest
from cli_helpers import ROOT, ended, wait_for


def schema():
    return json.loads((ROOT / "docs" / "summary.schema.json").read_text())


def without(command, **options):
    """The same without hiwater."""
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)


def test_stdout_is_byte_identical(tool):
    code = "import os, sys; os.write(1, bytes(range(256)) * 4000); sys.stderr.write('own\\n')"
    process = tool.start("run", "--", sys.executable, "-c", code)
    stdout, stderr = process.communicate(timeout=60)
    assert stdout == bytes(range(256)) * 4000
    assert stderr.startswith(b"own\n")


def test_stdin_passes_through(tool):
    process = tool.start("run", "--", "cat", stdin=subprocess.PIPE)
    stdout, _ = process.communicate(b"one\0two\n" * 10000, timeout=60)
    assert stdout == b"one\0two\n" * 10000


def test_what_the_job_finds(tool):
    """Descriptors, limits, mask of files, groups, directory, niceness: those without hiwater."""
    command = ["sh", "-c", "ls /proc/self/fd; cat /proc/self/limits; umask; pwd; nice; "
                           "grep -E '^(Groups|Uid|Gid|Seccomp|NoNewPrivs|Cap|Sig[BIC])' /proc/self/status"]
    done = tool.run("run", "--summary", "none", "--", *command)
    bare = without(command, cwd=tool.folder)
    # The pending signals' limit is the user's, its count is not shown here.
    assert done.stdout == bare.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("words", [["runs"], ["doctor"], ["--help"], ["show", "last"], ["export", "last", "--to", "csv"]])
def test_a_stdout_that_is_closed_is_told(tool, words):
    assert tool.run("run", "--summary", "none", "--", "sleep", "1.2").returncode == 0
    done = tool.run(*words, stdout=None, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    assert done.returncode == 1 and "cannot write" in done.stderr, done


def test_streams_that_are_closed_stay_closed(tool):
    def close():
        os.close(0)
        os.close(2)

    command = ["sh", "-c", "ls /proc/self/fd"]
    process = tool.start("run", "--", *command, stdin=None, stderr=None, preexec_fn=close)
    stdout, _ = process.communicate(timeout=30)
    bare = subprocess.run(command, stdout=subprocess.PIPE, preexec_fn=close)
    assert stdout == bare.stdout


def test_the_environment_gains_one_variable(tool):
    done = tool.run("run", "--summary", "none", "--", "env", "-0")
    bare = without(["env", "-0"], env=tool.env)
    extra = set(done.stdout.split("\0")) - set(bare.stdout.split("\0"))
    assert set(bare.stdout.split("\0")) <= set(done.stdout.split("\0"))
    assert [e.split("=")[0] for e in extra] == ["HIWATER_SOCKET"]


def test_pipes_close_when_the_job_ends(tool):
    """hiwater holds none of them: a reader sees the end of the job's stdout although hiwater still works."""
    process = tool.start("run", "--wait", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!; exit 0", stderr=subprocess.DEVNULL)
    text = process.stdout.readline()
    # stdout of hiwater itself is the same pipe; it must not write there.
    left = int(text)
    os.kill(left, signal.SIGTERM)
    assert process.stdout.read() == b""
    assert process.wait(30) == 0
    assert ended(left)


def test_full_summary_is_the_default_also_without_a_terminal(tool):
    done = tool.run("run", "--", "sh", "-c", "true")
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) >= 3
    assert "hiwater" in lines[0]
    assert any("RAM" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_no_escapes_in_pipes(tool):
    for env in ({}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"CLICOLOR_FORCE": "0"}):
        assert "\x1b" not in tool.run("run", "--", "sh", "-c", "exit 3", env=env).stderr
    assert "\x1b" in tool.run("run", "--", "sh", "-c", "exit 3", env={"CLICOLOR_FORCE": "1"}).stderr
    assert "\x1b" not in tool.run("run", "--", "sh", "-c", "exit 3", env={"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}).stderr


def test_ascii_where_the_locale_is(tool):
    done = tool.run("run", "--", "sh", "-c", "true", "caf\u00e9 \u2603", env={"LC_ALL": "C"})
    assert done.stderr.isascii()


def test_a_command_with_escapes_is_made_harmless(tool):
    done = tool.run("run", "--", "true", "\x1b[31mred\x07\r\n")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stderr)


def test_summary_line(tool):
    done = tool.run("run", "--summary", "line", "--", "sh", "-c", "exit 3")
    assert re.fullmatch(r"hiwater \S+ exit=3 wall=\S+s ram_peak=\S+ .*\n", done.stderr)


def test_quiet(tool):
    assert tool.run("run", "--summary", "none", "--", "true").stderr == ""
    assert tool.run("run", "--", "true", env={"HIWATER_QUIET": "1"}).stderr == ""
    assert tool.run("run", "--summary=full", "--", "true", env={"HIWATER_QUIET": "1"}).stderr == ""
    assert tool.run("run", "--", "true", env={"HIWATER_QUIET": "0"}).stderr != ""


def test_plain(tool):
    by_option = tool.run("run", "--plain", "--", "sleep", "0.2").stderr
    by_environment = tool.run("run", "--", "sleep", "0.2", env={"ACCESSIBLE": "1"}).stderr
    for text in (by_option, by_environment):
        assert "---" not in text
        assert re.search(r"^RAM peak: ", text, re.M | re.I)
        assert text.isascii()


@pytest.mark.parametrize("units, pattern", [("iec", r"[KMG]iB"), ("si", r"\d [kKMG]B"), ("bytes", r"\d{6,}")])
def test_units(tool, units, pattern):
    done = tool.run("run", "--units", units, "--", "sleep", "0.2")
    assert re.search(pattern, done.stderr)
    if units != "iec":
        assert "iB" not in done.stderr


def test_amounts_in_bytes_say_so(tool):
    said = tool.run("run", "--plain", "--units", "bytes", "--", "sleep", "0.5").stderr
    assert re.search(r"^RAM peak: \d{6,} bytes of \d+ bytes .*, .* percent", said, re.M), said
    assert re.search(r"^RAM mean: \d{6,} bytes$", said, re.M), said


def test_json_file(tool):
    done = tool.run("run", "--json", "out.json", "-n", "base", "--", "sh", "-c", "exit 3")
    assert done.returncode == 3
    summary = json.loads((tool.folder / "out.json").read_text())
    jsonschema.validate(summary, schema())
    assert summary["exit"] == {"code": 3, "signal": None, "oom_killed": False, "raised": None}
    assert summary["command"] == ["sh", "-c", "exit 3"]
    assert summary["run"]["name"] == "base"
    assert 0 < summary["time"]["wall_s"] < 30
    assert summary["ram"]["main"]["peak_bytes"] > 0


@pytest.mark.parametrize("arguments, cut", [
    (range(20000), None),
    ([1, "x" * 5000, 2], 1),
    (["x" * 4000] * 16 + ["y" * 5000], 1),
    ([1, 2], 0),
], ids=["many", "long", "long-at-the-end", "none"])
def test_json_says_what_of_the_command_it_lacks(tool, arguments, cut):
    assert tool.run("run", "-o", "x.hiw", "--summary", "none", "--json", "out.json", "--", "true", *arguments).returncode == 0
    for text in (tool.folder / "out.json").read_text(), tool.run("show", "--json", "x.hiw").stdout:
        run = json.loads(text)
        missing = 1 + len(arguments) - len(run["command"]) if cut is None else cut
        notes = [n["why"] for n in run["notes"] if n["about"] == "command"]
        assert notes == ([f"too long to record: {missing} arguments are missing or cut"] if missing else [])


def test_json_of_a_killed_job(tool):
    tool.run("run", "--json", "out.json", "--", "sh", "-c", "kill -TERM $$")
    summary = json.loads((tool.folder / "out.json").read_text())
    jsonschema.validate(summary, schema())
    assert summary["exit"] == {"code": 143, "signal": 15, "oom_killed": False, "raised": None}


def test_files_are_replaced_as_a_whole(tool):
    path = tool.folder / "out.json"
    path.write_text("old")
    before = path.stat().st_ino
    tool.run("run", "--summary", "none", "--json", "out.json", "--summary-file", "out.txt", "--", "true",
             preexec_fn=lambda: os.umask(0o027))
    assert path.stat().st_ino != before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "hiwater" in (tool.folder / "out.txt").read_text()
    assert sorted(p.name for p in tool.folder.iterdir() if p.name.startswith("out")) == ["out.json", "out.txt"]


def test_summary_file_of_a_line(tool):
    tool.run("run", "--summary", "line", "--summary-file", "out.txt", "--", "true")
    assert re.fullmatch(r"hiwater \S+ exit=0 .*\n", (tool.folder / "out.txt").read_text())


def test_files_may_be_devices(tool):
    done = tool.run("run", "--summary", "none", "--json", "/dev/null", "--summary-file", "/dev/stderr", "--", "true")
    assert done.returncode == 0
    assert "hiwater" in done.stderr
    assert os.path.exists("/dev/null") and not os.path.isfile("/dev/null")


@pytest.mark.parametrize("command", [["run", "--summary", "none", "--json", "OUT", "--", "true"], ["export", "x.hiw", "-o", "OUT", "--to", "csv"],
                                     ["report", "x.hiw", "-o", "OUT"]])
def test_what_a_descriptor_has_open_is_not_replaced(tool, command):
    """/dev/stdout leads to a file where a shell has sent it to one: that is written, behind what is there, and the name stays a link."""
    if command[0] != "run":
        tool.run("run", "-o", "x.hiw", "--summary", "none", "--", "sleep", "0.1")
    link, file = tool.folder / "stdout", tool.folder / "there.txt"
    link.symlink_to("/proc/self/fd/1")
    with file.open("wb") as stdout:
        stdout.write(b"before\n")
        stdout.flush()
        done = tool.run(*[link if word == "OUT" else word for word in command], stdout=stdout, stderr=subprocess.PIPE)
    if "built without uPlot" in done.stderr:
        pytest.skip("built without uPlot, which cannot be had here")
    assert done.returncode == 0, done.stderr
    assert link.is_symlink() and os.readlink(link) == "/proc/self/fd/1"
    text = file.read_text()
    assert text.startswith("before\n") and len(text) > 100


def test_rank_in_names(tool):
    env = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1",
           "SLURM_NODEID": "0"}
    done = tool.run("run", "-o", "r%r.hiw", "--json", "r%r.json", "--summary-file", "r%r.txt", "-n", "rank%r", "--", "true",
                    env=env)
    assert (tool.folder / "r3.hiw").exists()
    assert json.loads((tool.folder / "r3.json").read_text())["run"]["name"] == "rank3"
    assert (tool.folder / "r3.txt").exists()
    # Ranks above 0 print one line.
    assert done.stderr.count("\n") == 1
    assert "rank=3" in done.stderr


def test_a_folder_has_a_recording_of_each_rank(tool):
    env = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2", "SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "SLURMD_NODENAME": "n5"}
    for _ in range(2):
        assert tool.run("run", "--summary", "none", "-o", "new/folder/", "--", "true", env=env).returncode == 0
    tool.run("run", "--summary", "none", "-o", "new/folder/", "--", "true", env={**env, "SLURM_RESTART_COUNT": "1"})
    tool.run("run", "--summary", "none", "-o", "new/", "--", "true")
    found = sorted(str(path.relative_to(tool.folder)) for path in (tool.folder / "new").rglob("*-r*.hiw"))
    assert found == sorted(["new/folder/7.2/n5-r3.hiw", "new/folder/7.2/n5-r3-2.hiw", "new/folder/7.2/n5-r3-1.hiw", f"new/{os.uname().nodename}-r0.hiw"])
    assert (tool.folder / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("option", ["-o", "--json", "--summary-file"])
def test_an_unknown_part_of_a_name_is_an_error_before_the_job(tool, option):
    done = tool.run("run", option, "r%x", "--", "touch", "started")
    assert done.returncode == 125 and "'%x' means nothing; give %r rank" in done.stderr
    assert not (tool.folder / "started").exists()


def test_a_folder_that_cannot_be_made_costs_the_recording_alone(tool):
    (tool.folder / "file").write_text("")
    done = tool.run("run", "--summary", "none", "-o", "file/there/", "--", "touch", "started")
    assert done.returncode == 0 and "no recording is written: cannot make the folder" in done.stderr
    assert (tool.folder / "started").exists()


def test_rank_0_prints_it_all(tool):
    env = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
    assert tool.run("run", "--", "true", env=env).stderr.count("\n") > 2
    env["SLURM_PROCID"] = "1"
    assert tool.run("run", "--summary", "full", "--", "true", env=env).stderr.count("\n") > 2


def test_progress(tool):
    process = tool.start("run", "--progress=100ms", "--summary", "none", "--", "sh", "-c", "echo ready; read x", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    lines = [process.stderr.readline().decode() for _ in range(3)]
    process.stdin.close()
    assert process.wait(30) == 1
    for line in lines:
        assert re.match(r"hiwater [\d.]+ m?s", line), line
        assert "RAM" in line
        assert "\x1b" not in line and "\r" not in line


def test_cgroup_none_makes_no_difference_to_the_job(tool):
    done = tool.run("run", "--cgroup=none", "--summary", "none", "--", "cat", "/proc/self/cgroup")
    assert done.stdout == without(["cat", "/proc/self/cgroup"]).stdout


def test_cgroup_new(tool):
    """In a group of its own, which is gone afterwards; or a refusal that says what to do."""
    done = tool.run("run", "--cgroup=new", "--strict", "--summary", "none", "--json", "out.json", "--", "sh", "-c",
                    "cat /proc/self/cgroup; sleep 0.5")
    if done.returncode == 125:
        assert "--cgroup=new" in done.stderr
        assert not (tool.folder / "out.json").exists()
        return
    own = re.findall(r"\S*/hiwater-\d+-\d+", done.stdout)
    assert own
    summary = json.loads((tool.folder / "out.json").read_text())
    assert summary["ram"]["cgroup"]["peak_bytes"] > 0
    path = own[0].split(":")[-1].lstrip("/")
    assert not [p for p in (f"/sys/fs/cgroup/{path}", f"/sys/fs/cgroup/memory/{path}") if os.path.exists(p)]


def test_disk_full_costs_one_warning(tool):
    """A job's bound on the size of files stands for a full disk: it is hiwater's too."""
    def limit():
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = tool.run("run", "-o", "x.hiw", "--", "sh", "-c", "sleep 1.3; exit 3", preexec_fn=limit)
    assert done.returncode == 3
    assert done.stderr.count("warning") == 1
    assert "RAM" in done.stderr


def test_weight(tool):
    """Under 6 MB, where no sanitizer is built in."""
    done = tool.run("run", "--json", "out.json", "--", "sleep", "0.3")
    assert done.returncode == 0
    used = json.loads((tool.folder / "out.json").read_text())["sampling"]["rss_peak_bytes"]
    assert used > 0
    if "asan" not in os.environ.get("HIWATER", "") and "tsan" not in os.environ.get("HIWATER", ""):
        assert used < 6_000_000


def test_the_recorder_can_be_read_meanwhile(tool):
    process = tool.start("run", "-o", "x.hiw", "--", "sh", "-c", "echo ready; read x", stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    wait_for((tool.folder / "x.hiw").exists, "the recording")
    shown = wait_for(lambda: (lambda d: d.returncode == 0 and d)(tool.run("show", "--json", "x.hiw")), "a summary")
    summary = json.loads(shown.stdout)
    jsonschema.validate(summary, schema())
    assert summary["run"]["complete"] is False
    process.stdin.close()
    assert process.wait(30) == 1
    assert json.loads(tool.run("show", "--json", "x.hiw").stdout)["run"]["complete"] is True
