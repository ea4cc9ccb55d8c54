# SPDX-License-Identifier: MIT
"""guest_cgroup_v2.py HIWATER HOG WORKLOAD: runs in a machine with cgroup v2, as root, and writes the results as
one JSON object; test_cgroup_v2.py starts it and judges."""
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

HIWATER, HOG, WORKLOAD = sys.argv[1:]
TOP = pathlib.Path("/sys/fs/cgroup")
MIB = 1 << 20
LIMIT = 64 * MIB
TOO_MUCH = "120"
NOBODY = 65534


class Group:
    """A group that is made for one case, with a limit or without."""

    def __init__(self, name, limit=None, above=TOP):
        self.folder = above / name
        self.folder.mkdir()
        if limit is not None:
            self.write("memory.max", limit)

    def write(self, name, value):
        (self.folder / name).write_text(str(value), encoding="ascii")

    def text(self, name):
        return (self.folder / name).read_text(encoding="ascii")

    def delegate(self, uid):
        """Delegates the controllers and the group, and creates a group in it for the user who starts hiwater."""
        self.write("cgroup.subtree_control", "+memory +cpu")
        leaf = Group("leaf", above=self.folder)
        for folder in (self.folder, leaf.folder):
            for path in (folder, folder / "cgroup.procs", folder / "cgroup.subtree_control"):
                os.chown(path, uid, uid)
        return leaf

    def below(self):
        return sorted(f.name for f in self.folder.iterdir() if f.is_dir())


def measure(group, *command, options=(), uid=0, record=True):
    """Runs hiwater in the group."""
    folder = pathlib.Path(tempfile.mkdtemp())
    os.chown(folder, uid, uid)

    def prepare():
        (group.folder / "cgroup.procs").write_text("0", encoding="ascii")
        if uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
    keep = ["-o", folder / "run.hiw"] if record else ["--no-record"]
    line = [HIWATER, "run", "--json", folder / "summary.json", *keep, *options, "--", *command]
    env = {**os.environ, "HIWATER_DIR": str(folder / "history"), "TMPDIR": str(folder)}
    done = subprocess.run(list(map(str, line)), cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          preexec_fn=prepare, check=False)
    result = {"status": done.returncode, "stderr": done.stderr, "summary": None, "cgroup_cpu_ns": None, "shown": None}
    if (folder / "summary.json").exists():
        result["summary"] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    if record and (folder / "run.hiw").exists():
        result["cgroup_cpu_ns"] = most_of(folder / "run.hiw", "cgroup_cpu")
        shown = subprocess.run([HIWATER, "show", "--json", folder / "run.hiw"], capture_output=True, text=True, check=False)
        result["shown"] = json.loads(shown.stdout) if shown.returncode == 0 else shown.stderr
    shutil.rmtree(folder)
    return result


def most_of(recording, column):
    """The last value of a counter of the job's."""
    database = sqlite3.connect(recording)
    try:
        return database.execute(f"SELECT max({column}) FROM job_sample").fetchone()[0]
    finally:
        database.close()


# ---- the cases -------------------------------------------------------------------------------------------------------

def charged():
    group = Group("charged", LIMIT)
    return {**measure(group, HOG, "fill", "30"), "mark": int(group.text("memory.peak"))}


def earlier_mark():
    group = Group("earlier", LIMIT)
    subprocess.run([HOG, "fill", "50"], check=False,
                   preexec_fn=lambda: (group.folder / "cgroup.procs").write_text("0", encoding="ascii"))
    return {**measure(group, HOG, "fill", "20"), "mark": int(group.text("memory.peak"))}


def out_of_memory():
    group = Group("oom", LIMIT)
    return {**measure(group, HOG, "fill", TOO_MUCH), "events": group.text("memory.events")}


def child_out_of_memory():
    return measure(Group("oom-child", LIMIT), HOG, "child", TOO_MUCH)


def all_of_the_group():
    """memory.oom.group: the kernel kills hiwater, too."""
    group = Group("oom-group", LIMIT)
    group.write("memory.oom.group", 1)
    return measure(group, "sh", "-c", f"sleep 2.5; {HOG} fill {TOO_MUCH}; true")


def killed():
    return measure(Group("killed", LIMIT), HOG, "killed", "10")


def shared():
    group = Group("shared", LIMIT)
    other = subprocess.Popen([HOG, "hold", "5"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             preexec_fn=lambda: (group.folder / "cgroup.procs").write_text("0", encoding="ascii"))
    other.stdout.readline()
    try:
        return measure(group, HOG, "fill", TOO_MUCH)
    finally:
        other.communicate()


def made(uid=0, what="fill", mib="30"):
    """--cgroup=new in a delegated group with a limit."""
    group = Group(f"made-{uid}-{mib}", LIMIT)
    leaf = group.delegate(uid)
    return {**measure(leaf, HOG, what, mib, options=["--cgroup=new"], uid=uid, record=uid == 0), "below": group.below()}


def made_beside_a_limit():
    """The group that hiwater is in has a limit, which a sibling group would escape."""
    group = Group("escape")
    leaf = group.delegate(0)
    leaf.write("memory.max", LIMIT)
    return {**measure(leaf, HOG, "fill", "10", options=["--cgroup=new", "--strict"]), "below": group.below()}


def made_without_delegation():
    """The parent group does not delegate the memory controller."""
    above = Group("undelegated")
    leaf = Group("leaf", above=above.folder)
    return {**measure(leaf, HOG, "fill", "10", options=["--cgroup=new", "--strict"]), "below": above.below()}


def none():
    return measure(Group("none", LIMIT), HOG, "fill", "20", options=["--cgroup=none"])


def forks():
    return measure(Group("forks"), WORKLOAD, "forks", "30")


def daemon():
    return measure(Group("daemon"), WORKLOAD, "daemon")


def busy():
    """Children that use a known amount of CPU time."""
    return measure(Group("busy"), WORKLOAD, "short-children", "50", "20")


def held_back():
    """The quota of the parent group, which other processes may share; it is reported for the job."""
    group = Group("quota")
    group.write("cpu.max", "20000 100000")
    group.write("cgroup.subtree_control", "+memory")
    leaf = Group("leaf", above=group.folder)
    spin = "import time; end = time.monotonic() + 11\nwhile time.monotonic() < end: pass"
    return {**measure(leaf, sys.executable, "-S", "-c", spin), "stat": group.text("cpu.stat")}


CASES = {
    "charged": charged, "earlier_mark": earlier_mark, "out_of_memory": out_of_memory,
    "child_out_of_memory": child_out_of_memory, "all_of_the_group": all_of_the_group, "killed": killed, "shared": shared,
    "made": made, "made_by_user": lambda: made(NOBODY),
    "made_out_of_memory": lambda: made(0, mib=TOO_MUCH), "made_beside_a_limit": made_beside_a_limit,
    "made_without_delegation": made_without_delegation, "none": none, "forks": forks, "daemon": daemon, "busy": busy,
    "held_back": held_back,
}


def main():
    os.umask(0o022)
    print(json.dumps({name: case() for name, case in CASES.items()}))


main()
