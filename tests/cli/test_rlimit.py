# SPDX-License-Identifier: MIT
"""Limits of single processes (ulimit), and what is said of runs that fail."""
import json
import os
import resource
import subprocess
import sys

import pytest
from cli_helpers import DEADLINE, HIWATER

MIB = 1 << 20
GROW = "kept = []\nwhile True: kept.append(bytearray(b'x') * (8 << 20))"


def words(text):
    return " ".join(text.replace("\u00a0", " ").split())


def limited(tool, limits, *command):
    """Runs hiwater under these limits; its result and its JSON."""
    file = tool.folder / "summary.json"
    lines = "; ".join(f"ulimit -{option} {kib}" for option, kib in limits.items())
    done = subprocess.run(["bash", "-c", lines + '; exec "$0" "$@"', HIWATER, "run", "--no-record", "--json", str(file), "--",
                           *command], env=tool.env, cwd=tool.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=2 * DEADLINE, check=False)
    return done, json.loads(file.read_text(encoding="utf-8"))


def finding(summary, code):
    return next((f for f in summary["findings"] if f["code"] == code), None)


@pytest.mark.release  # a sanitizer needs address space of its own
@pytest.mark.parametrize("option,key,words_of_it", [("v", "address_space", "address space"), ("d", "data", "data segment")])
def test_a_job_that_fails_at_its_limit(tool, option, key, words_of_it):
    done, summary = limited(tool, {option: 800000}, sys.executable, "-c", GROW)
    assert done.returncode == 1 and "MemoryError" in done.stderr
    of = summary["ram"]["rlimits"][key]
    assert of["limit_bytes"] == 800000 * 1024
    assert 0.5 * of["limit_bytes"] < of["peak_bytes"] <= of["limit_bytes"]
    assert of["name"].startswith("python")
    assert summary["ram"]["limit_bytes"] is None or summary["ram"]["limit_bytes"] != of["limit_bytes"]
    text = words(done.stderr)
    assert "Findings OK" not in text
    assert f"{words_of_it} at least" in text and "of 781 limit" in text
    assert finding(summary, "failed")


@pytest.mark.release  # a sanitizer needs address space of its own
@pytest.mark.parametrize("option,of", [("v", "address space"), ("d", "data segment")])
def test_one_allocation_beyond_the_limit(tool, option, of):
    """RAM stays small: the limit of the process, not the machine's memory, is the one to name."""
    done, summary = limited(tool, {option: 300000}, sys.executable, "-c", "x = bytearray(10 ** 9)")
    assert done.returncode == 1 and "MemoryError" in done.stderr
    message = finding(summary, "failed")["message"]
    assert f"; a limit of 293 MiB on the {of} of a process applies." in message, message
    assert "not the likely cause" not in message


@pytest.mark.release  # a sanitizer needs address space of its own
def test_the_address_space_is_exact_enough_to_judge(tool):
    """Its size is read with each sample, and resident pages are part of it."""
    done, summary = limited(tool, {"v": 800000}, sys.executable, "-c", GROW)
    found = finding(summary, "rlimit")
    assert found["severity"] == "error", summary["ram"]["rlimits"]
    assert "781 MiB limit on address space" in found["message"] and "ulimit -v" in found["message"]
    assert found["evidence"]["limit_bytes"] == 800000 * 1024


@pytest.mark.release  # a sanitizer needs address space of its own
def test_each_process_is_judged_alone(tool):
    """Three of 200 MiB: together they use more than each may."""
    job = ("import os, time\nfor i in range(2):\n  if os.fork() == 0: break\n"
           "kept = bytearray(b'x') * (200 << 20); time.sleep(1.5)")
    done, summary = limited(tool, {"v": 500000}, sys.executable, "-c", job)
    assert done.returncode == 0, done.stderr
    assert summary["ram"]["combined"]["peak_bytes"] > 500 * MIB
    assert 200 * MIB < summary["ram"]["rlimits"]["address_space"]["peak_bytes"] < 400 * MIB
    assert finding(summary, "rlimit") is None


def test_a_limit_that_the_job_sets_itself(tool):
    done = tool.run("run", "--no-record", "--json", "s.json", "--", "bash", "-c",
                    "ulimit -v 900000; python3 -c 'import time; x = bytearray(b\"x\") * (700 << 20); time.sleep(.5)'; exit 0")
    assert done.returncode == 0
    summary = json.loads((tool.folder / "s.json").read_text(encoding="utf-8"))
    assert summary["ram"]["rlimits"]["address_space"]["limit_bytes"] == 900000 * 1024
    assert summary["ram"]["rlimits"]["address_space"]["peak_bytes"] >= 700 * MIB


def test_the_limit_of_the_resident_size_is_not_judged(tool):
    done, summary = limited(tool, {"m": 1024}, sys.executable, "-c", "x = bytearray(b'x') * (64 << 20)")
    assert done.returncode == 0
    assert summary["ram"]["rlimits"] == {"address_space": None, "data": None, "rss_bytes": MIB}
    assert "RLIMIT_RSS, which Linux ignores" in words(done.stderr)
    assert finding(summary, "rlimit") is None and "Findings OK" in words(done.stderr)


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY, reason="there is a limit here")
def test_without_limits_there_are_none(tool):
    tool.run("run", "--no-record", "--json", "s.json", "--", "true")
    summary = json.loads((tool.folder / "s.json").read_text(encoding="utf-8"))
    assert summary["ram"]["rlimits"] == {"address_space": None, "data": None, "rss_bytes": None}
    assert [n for n in summary["notes"] if n["about"] == "ram.rlimits"]


@pytest.mark.parametrize("command,says", [
    ("exit 3", "The job ended with exit status 3."),
    ("nothing-of-that-name", "exit status 127: a command was not found"),
    ("kill -SEGV $$", "SIGSEGV (an invalid memory access) ended the job"),
    pytest.param("sh -c 'kill -ABRT $$'; exit 1", "SIGABRT (the program aborted itself) ended sh[",
                 marks=pytest.mark.skipif(os.geteuid() != 0, reason="exit records are for root")),
])
def test_a_failure_is_never_ok(tool, command, says):
    done = tool.run("run", "--no-record", "--", "sh", "-c", command)
    text = words(done.stderr)
    assert "Findings OK" not in text and "failed" in text
    assert says in text


def test_success_is_ok(tool):
    assert "Findings OK" in words(tool.run("run", "--no-record", "--", "true").stderr)
