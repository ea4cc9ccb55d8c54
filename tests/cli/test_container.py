# SPDX-License-Identifier: MIT
"""Jobs whose work a daemon does: the client is recognised, and the container can be attached to. The daemon's
command is a script."""
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

MIB = 1 << 20
HOLD = f"x = bytearray({64 * MIB}); print('ready', flush=True); input()"


def command(folder, name, script):
    """A program of that name in a folder, for PATH."""
    folder = folder / "bin"
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n" + textwrap.dedent(script))
    file.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.fixture
def holder():
    """A process of 64 MiB that is no child of hiwater."""
    job = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "ready\n"
    yield job
    job.communicate("\n")


def plain(text):
    return re.sub(r"\s+", " ", text)


def test_the_work_of_a_client_was_not_seen(tool):
    env = command(tool.folder, "docker", "sleep 0.3\n")
    done = tool.run("run", "--no-record", "--json", "s.json", "--", "docker", "run", "image", env=env)
    assert done.returncode == 0, done.stderr
    text = plain(done.stderr)
    assert "Findings OK" not in text and "hiwater attach --container" in text and "docker" in text
    finding, = (f for f in json.loads((tool.folder / "s.json").read_text())["findings"] if f["code"] == "blind-spots")
    assert finding["evidence"]["client"] == "docker" and finding["evidence"]["client_ratio"] > 0.5


def test_a_client_beside_other_work_warns_nobody(tool):
    env = command(tool.folder, "ssh", "exit 0\n")
    done = tool.run("run", "--no-record", "--json", "s.json", "--", "sh", "-c", "ssh host make; sleep 0.5", env=env)
    assert done.returncode == 0, done.stderr
    assert not [f for f in json.loads((tool.folder / "s.json").read_text())["findings"] if "client" in f["evidence"]]


def test_attached_to_a_container_by_name(tool, holder):
    env = command(tool.folder, "docker", f"""
        test "$1" = inspect && test "$2" = --format && test "$3" = '{{{{.State.Pid}}}}' && test "$4" = web || exit 1
        echo {holder.pid}
        """)
    done = tool.run("attach", "--container", "web", "--for", "300ms", "--no-record", "--json", "a.json", env=env)
    assert done.returncode == 0, done.stderr
    ram = json.loads((tool.folder / "a.json").read_text())["ram"]["main"]
    assert ram["high_bytes"] >= 64 * MIB
    assert "no container's cgroup" in done.stderr  # the stand-in is an ordinary process


def test_podman_is_asked_where_docker_does_not_know_it(tool, holder):
    env = command(tool.folder, "docker", "echo 'Error: No such object: web' >&2; exit 1\n")
    command(tool.folder, "podman", f"echo {holder.pid}\n")
    done = tool.run("attach", "--container", "web", "--for", "200ms", "--no-record", env=env)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script, text", [
    ("echo 'Error: No such object: web' >&2; exit 1", "docker: Error: No such object: web"),
    ("echo 0", "docker: the container is not running"),
    ("echo nonsense", "docker: its answer is not a PID"),
    ("exit 3", "docker: it failed without a message"),
    ("echo 2147483600", "docker reports the container's process as 2147483600"),
])
def test_no_such_container(tool, script, text):
    env = command(tool.folder, "docker", script)
    env["PATH"] = f"{tool.folder / 'bin'}:/usr/bin:/bin"
    done = tool.run("attach", "--container", "web", "--for", "1s", env=env)
    assert done.returncode == 1 and text in done.stderr, done.stderr


def test_no_container_program(tool):
    (tool.folder / "empty").mkdir()
    done = tool.run("attach", "--container", "0123456789ab", env={"PATH": str(tool.folder / "empty")})
    assert done.returncode == 1
    assert "docker: not installed" in done.stderr
    assert done.stderr.endswith(
        "check the name (docker ps), start docker, or give the container's id (at least 12 digits) or --cgroup PATH\n")
    assert tool.run("attach", "--container", "-x").returncode == 2
    assert tool.run("attach", "--container", "web", "1").returncode == 2


@pytest.mark.release  # a sanitizer's library must be the first one
def test_an_interrupted_wait_reads_nothing(tool, holder):
    """A poll that fails leaves the events of the one before: a read would then wait beyond the time limit."""
    library = tool.folder / "stale_poll.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, pathlib.Path(__file__).with_name("stale_poll.c")], check=True)
    env = command(tool.folder, "docker", f"unset LD_PRELOAD; echo {holder.pid}; sleep 0.5\n")
    done = tool.run("attach", "--container", "web", "--for", "200ms", "--no-record", env={**env, "LD_PRELOAD": str(library)})
    assert done.returncode == 0, (done.returncode, done.stderr)
