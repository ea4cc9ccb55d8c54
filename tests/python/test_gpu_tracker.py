# SPDX-License-Identifier: MIT
"""hiwater.compat.gpu_tracker, the Tracker: gpu-tracker's forms and texts, with correct figures."""
import csv
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from gpu_tracker_helpers import golden, masked
from track_helpers import MIB, ROOT, wait_for

SLACK = 12 * MIB
BEGIN = "import hiwater.compat.gpu_tracker as gput\n"
BYTES = "ram_unit='bytes', gpu_ram_unit='bytes', time_unit='seconds', disable_logs=True"


def run(program, text, **options):
    import textwrap

    return program.run(BEGIN + textwrap.dedent(text), **options)


# ---- truth ---------------------------------------------------------------------------------------------------------------

def test_a_burst_between_two_rows_is_exact(program):
    """gpu-tracker, which samples once a second, missed it."""
    [told] = run(program, f"""
        before = int(open("/proc/self/statm").read().split()[1]) * 4096
        with gput.Tracker({BYTES}) as tracker:
            block = fill(300); time.sleep(0.05); del block
        usage = tracker.resource_usage
        tell(rise=usage.max_ram.main.total_rss - before, ram=usage.max_ram.combined.total_rss, main=usage.max_ram.main.total_rss,
             time=usage.compute_time.time, threads=usage.cpu_utilization.main_n_threads,
             private=usage.max_ram.main.private_rss, shared=usage.max_ram.main.shared_rss)
    """)
    assert 300 * MIB - MIB <= told["rise"] <= 300 * MIB + SLACK and told["ram"] == told["main"]
    assert told["private"] + told["shared"] == told["main"] and told["private"] >= 300 * MIB
    assert 0.05 <= told["time"] < 30 and told["threads"] == 1


def test_forks_and_daemons_belong(program):
    """Forks of 300 MB in 30 mappings, and a daemonised grandchild."""
    [told] = run(program, f"""
        blocks = [fill(10) for _ in range(30)]
        def wait(): time.sleep(1.5)
        with gput.Tracker({BYTES}) as tracker:
            pids = []
            for _ in range(4):
                pid = os.fork()
                if pid == 0: wait(); os._exit(0)
                pids.append(pid)
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    blocks.clear(); own = fill(200); wait(); wait(); os._exit(0)
                time.sleep(0.5); os._exit(0)
            os.wait(); time.sleep(0.5)
            for pid in pids: os.waitpid(pid, 0)
        ram = tracker.resource_usage.max_ram
        tell(combined=ram.combined.total_rss, rest=ram.descendants.total_rss,
             threads=tracker.resource_usage.cpu_utilization.combined_n_threads)
    """)
    assert told["combined"] >= 450 * MIB and told["rest"] >= 200 * MIB and told["threads"] >= 6


DAEMON = """
import os, sys, time
def daemon(mib):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            own = bytearray(mib << 20); own[::4096] = b"x" * len(own[::4096]); time.sleep(1.5); os._exit(0)
        os._exit(0)
    os.wait()
"""


def test_a_daemon_whose_parent_no_look_has_seen(program):
    """It does not belong to another program."""
    run(program, f"""
        import subprocess
        DAEMON = {DAEMON!r}
        exec(DAEMON)
        with gput.Tracker(process_id=os.getpid(), {BYTES}) as tracker:
            daemon(200); time.sleep(1.2)
        tell(rest=tracker.resource_usage.max_ram.descendants.total_rss)
        stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1.5)"])
        with gput.Tracker(process_id=stranger.pid, {BYTES}) as tracker:
            daemon(200); time.sleep(1.2)
        tell(rest=tracker.resource_usage.max_ram.descendants.total_rss)
        stranger.wait()
    """)
    mine, none = program.told()
    assert mine["rest"] >= 200 * MIB and none["rest"] == 0


def test_processors_over_the_whole_time(program):
    """Children that run for milliseconds count: their CPU time comes from the kernel, not from
    samples."""
    [told] = run(program, f"""
        import resource, subprocess
        with gput.Tracker(sleep_time=0.5, n_expected_cores=1, {BYTES}) as tracker:
            for _ in range(40): subprocess.run(["/bin/sh", "-c", "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done"])
        usage = tracker.resource_usage
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = usage.cpu_utilization
        tell(used=used.ru_utime + used.ru_stime, mean=cpu.combined.mean_sum_percent, most=cpu.combined.max_sum_percent,
             time=usage.compute_time.time, hardware=cpu.combined.mean_hardware_percent)
    """)
    measured = told["mean"] / 100 * told["time"]
    assert told["used"] * 0.7 - 0.1 <= measured <= told["used"] * 1.5 + 0.5
    assert told["hardware"] == told["mean"] <= told["most"]


def test_a_mean_is_never_over_the_most(program):
    """Also where share * time / time rounds to the next larger number."""
    assert 0.7214844075832684 * 0.7111917696952796 / 0.7111917696952796 > 0.7214844075832684
    [told] = run(program, """
        from hiwater.compat._figures import _share
        share = _share([0.7214844075832684], [0.7111917696952796])
        tell(mean=share.mean, most=share.max)
    """)
    assert told["mean"] == told["most"] == 0.7214844075832684


# ---- figures and texts -------------------------------------------------------------------------------------------------------

def test_what_was_used_before_the_start_is_nobodys(program):
    """CPU time of the interpreter before the run counts neither for main in the first sample, nor
    for descendants in the last."""
    run(program, f"""
        import subprocess
        def spin(seconds):
            end = time.process_time() + seconds
            while time.process_time() < end: pass
        spin(0.5)
        child = subprocess.Popen([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.7: pass"])
        with gput.Tracker(sleep_time=0.1, {BYTES}) as idle:
            child.wait()
        used = idle.resource_usage.cpu_utilization
        assert used.main.max_sum_percent <= 30 and used.main.mean_sum_percent < used.descendants.mean_sum_percent, used
        for i in range(3):
            with gput.Tracker(sleep_time=0.1, {BYTES}) as alone:
                spin(0.2)
            used = alone.resource_usage.cpu_utilization
            assert used.descendants.max_sum_percent == 0 < used.main.max_sum_percent, used
    """)


def test_text_and_json_have_its_form(program):
    program.run(BEGIN + """
with gput.Tracker(disable_logs=True) as tracker: pass
(FOLDER / "a.txt").write_text(str(tracker))
(FOLDER / "a.json").write_text(json.dumps(tracker.to_json(), indent=1))
""")
    assert masked((program.folder / "a.txt").read_text()) == golden("gpu_tracker-5.txt").rstrip("\n")
    assert masked((program.folder / "a.json").read_text()) == golden("gpu_tracker-5.json").rstrip("\n")


def test_states(program):
    run(program, f"""
        def refused(act, words):
            try: act()
            except RuntimeError as e: assert str(e) == words, str(e)
            else: raise AssertionError(words)
        early = ("Cannot display the tracker in string or JSON format before tracking completes. Exit the content manager or "
                 "call the stop() method before calling to_json() or str()")
        tracker = gput.Tracker({BYTES})
        assert repr(tracker) == "State: NEW" and tracker.state is gput.Tracker.State.NEW and tracker.resource_usage is None
        refused(tracker.stop, "Cannot stop tracking when tracking has not started yet.")
        refused(tracker.to_json, early)
        assert tracker.start() is None
        assert repr(tracker) == "State: STARTED"
        block = fill(50)
        deadline = time.monotonic() + 60
        while tracker.resource_usage.max_ram.main.total_rss < 50 * MIB:  # while it tracks
            assert time.monotonic() < deadline; time.sleep(0.01)
        refused(lambda: str(tracker), early)
        refused(tracker.start, "Cannot start tracking when tracking has already started.")
        tracker.stop()
        assert repr(tracker) == "State: STOPPED" and tracker.resource_usage is tracker.resource_usage
        refused(tracker.stop, "Cannot stop tracking when tracking has already stopped.")
        refused(tracker.start, "Cannot start tracking when tracking has already stopped.")
        import pickle
        assert pickle.loads(pickle.dumps(tracker)).to_json() == tracker.to_json()
        assert gput.Tracker.State.NEW.value == 0 and gput.Tracker.State.STOPPED.value == 2
    """)


BAD = [
    ({"sleep_time": 0.05}, "Sleep time of 0.05 is invalid. Must be at least 0.1 seconds."),
    ({"ram_unit": "milliunit"}, '"milliunit" is not a valid RAM unit. Valid values are bytes, gigabytes, kilobytes, megabytes, '
                                "terabytes"),
    ({"gpu_ram_unit": "milliunit"}, '"milliunit" is not a valid GPU RAM unit. Valid values are bytes, gigabytes, kilobytes, '
                                    "megabytes, terabytes"),
    ({"time_unit": "milliunit"}, '"milliunit" is not a valid time unit. Valid values are days, hours, minutes, seconds'),
    ({"gpu_brand": "intel"}, '"intel" is not a valid GPU brand. Supported values are "nvidia" and "amd".'),
    ({"tracking_file": "a.txt"}, 'Invalid file name: "a.txt". Valid file extensions are ".csv" and ".sqlite".'),
]


def test_bad_arguments(program):
    [told] = program.run(BEGIN + f"""
said = []
for arguments in {[arguments for arguments, _ in BAD]}:
    try: gput.Tracker(**arguments, disable_logs=True)
    except ValueError as e: said.append(str(e))
pathlib.Path("a.csv").write_text("")
try: gput.Tracker(tracking_file="a.csv", disable_logs=True)
except FileExistsError as e: said.append(str(e))
tell(said=said)
""")
    assert told["said"] == [*[words for _, words in BAD],
                            "File a.csv already exists. Set overwrite to True to overwrite the existing file."]


def test_importing_it_is_cheap(program):
    run(program, """
        assert not {"pandas", "numpy", "sqlite3", "psutil", "subprocess"} & set(sys.modules), sys.modules.keys()
        sys.modules["pandas"] = None
        pathlib.Path("t.csv").write_text("")
        try: gput.SubTrackingAnalyzer("t.csv", "t.csv").read_static_data()
        except ImportError as e: assert "pip install pandas" in str(e)
        else: raise AssertionError
    """)


# ---- files -----------------------------------------------------------------------------------------------------------------

STATIC = ("ram_unit,gpu_ram_unit,time_unit,ram_system_capacity,gpu_ram_system_capacity,system_core_count,n_expected_cores,"
          "system_gpu_count,n_expected_gpus").split(",")
DATA = ("main_ram,descendants_ram,combined_ram,system_ram,main_gpu_ram,descendants_gpu_ram,combined_gpu_ram,system_gpu_ram,"
        "gpu_sum_utilization_percent,gpu_hardware_utilization_percent,main_n_threads,descendants_n_threads,combined_n_threads,"
        "cpu_system_sum_utilization_percent,cpu_system_hardware_utilization_percent,cpu_main_sum_utilization_percent,"
        "cpu_main_hardware_utilization_percent,cpu_descendants_sum_utilization_percent,"
        "cpu_descendants_hardware_utilization_percent,cpu_combined_sum_utilization_percent,"
        "cpu_combined_hardware_utilization_percent,timestamp").split(",")


def rows_of(file):
    if file.suffix == ".sqlite":
        with sqlite3.connect(file) as c:
            static = c.execute("SELECT * FROM static_data")
            assert [d[0] for d in static.description] == STATIC and len(static.fetchall()) == 1
            found = c.execute("SELECT * FROM data ORDER BY rowid")
            return [dict(zip([d[0] for d in found.description], row)) for row in found]
    with open(file, newline="") as f:
        lines = list(csv.reader(f))
    assert lines[0] == STATIC and lines[2] == DATA
    return [dict(zip(DATA, map(float, line))) for line in lines[3:]]


@pytest.mark.parametrize("kind", ["csv", "sqlite"])
def test_a_tracking_file(program, kind):
    """One row each sleep_time, with the use at that time; the file grows while the tracker
    tracks."""
    file = program.folder / f"t.{kind}"
    [told] = run(program, f"""
        with gput.Tracker(sleep_time=0.25, tracking_file="t.{kind}", {BYTES}) as tracker:
            began = time.time()
            block = fill(100); time.sleep(1.2); middle = time.time(); del block
            deadline = time.monotonic() + 60
            def rows(): return sum(1 for _ in open("t.csv")) - 3
            while "{kind}" == "csv" and rows() < 2 and time.monotonic() < deadline: time.sleep(0.05)
            if "{kind}" == "csv": assert rows() >= 2
            time.sleep(0.6)
        tell(began=began, middle=middle, ended=time.time(), main=tracker.resource_usage.max_ram.main.total_rss)
    """)
    rows = rows_of(file)
    assert list(rows[0]) == DATA
    times = [r["timestamp"] for r in rows]
    assert times == sorted(times) and told["began"] - 1 <= times[0] and times[-1] <= told["ended"] + 0.01
    assert len(rows) >= 6 and all(b - a >= 0.12 for a, b in zip(times, times[1:-1]))
    assert max(r["main_ram"] for r in rows) >= 100 * MIB > max(r["main_ram"] for r in rows if r["timestamp"] > told["middle"] + 0.5)
    assert all(r["combined_ram"] >= r["main_ram"] > 0 and r["system_ram"] > 0 and r["main_n_threads"] == 1 for r in rows)
    assert max(r["main_ram"] for r in rows) <= told["main"]


def test_files_of_an_interpreter_that_was_killed(program):
    """The rows and the pickle so far exist; nothing else is left."""
    process = program.start(BEGIN + """
tracker = gput.Tracker(sleep_time=0.1, tracking_file="t.csv", resource_usage_file="u.pkl", disable_logs=True)
tracker.start()
block = fill(80)
def rows(): return pathlib.Path("t.csv").read_text().splitlines()[3:]
while not any(float(row.split(",")[0] or 0) >= 80 * MIB / 1e9 for row in rows()[:-1]) or not os.path.exists("u.pkl"):
    time.sleep(0.05)
tell(folder=tracker._session.folder.path)
os.kill(os.getpid(), signal.SIGKILL)
""")
    process.communicate(timeout=100)
    [told] = program.told()
    wait_for(lambda: not os.path.exists(told["folder"]), "the recording is gone")
    assert max(r["main_ram"] for r in rows_of(program.folder / "t.csv")) >= 80 * MIB / 1e9
    [told] = run(program, """
        import pickle
        usage = pickle.load(open("u.pkl", "rb"))
        tell(main=usage.max_ram.main.total_rss, time=usage.compute_time.time, kind=type(usage).__module__)
    """)[1:]
    assert told["main"] >= 80 * MIB / 1e9 and told["time"] > 0 and told["kind"] == "hiwater.compat.gpu_tracker.tracker"


def test_what_killed_programs_left_goes_after_a_day(program):
    """The user's own old folders are removed; newer ones, and other folders, stay."""
    now = time.time()
    for name, age_s in (("hiwater-compat-00000old", 90000), ("hiwater-compat-00000new", 3600), ("else-old", 90000),
                        ("hiwater-0.1.0", 90000), ("hiwater-compat-mine", 90000)):
        folder = program.folder / "tmp" / name
        folder.mkdir(parents=True)
        (folder / "run.hiw").write_text("")
        for path in (folder / "run.hiw", folder):
            os.utime(path, (now - age_s, now - age_s))
    program.env["TMPDIR"] = str(program.folder / "tmp")
    run(program, "with gput.Tracker(disable_logs=True): pass")
    assert sorted(path.name for path in (program.folder / "tmp").iterdir()) == ["else-old", "hiwater-0.1.0", "hiwater-compat-00000new", "hiwater-compat-mine"]


def test_the_pickle_goes_with_an_orderly_end(program):
    run(program, """
        with gput.Tracker(resource_usage_file="u.pkl", disable_logs=True) as tracker:
            while not os.path.exists("u.pkl"): time.sleep(0.05)
            folder = tracker._session.folder.path
        assert not os.path.exists("u.pkl") and not os.path.exists(folder) and recorders() == []
        assert sorted(p.name for p in pathlib.Path(".").iterdir() if p.name.startswith(".")) == []
    """)


# ---- failures ----------------------------------------------------------------------------------------------------------------

def test_a_recorder_that_does_not_answer_is_ended(program):
    run(program, f"""
        tracker = gput.Tracker(n_join_attempts=2, join_timeout=0.2, {BYTES})
        tracker.start()
        block = fill(100)
        path = tracker._session.timeline.path
        def written():
            try: return hiwater.open(path).summary.ram.main.peak_bytes >= 100 * MIB
            except hiwater.Error: return False
        while not written(): time.sleep(0.05)
        [pid] = recorders()
        os.kill(pid, signal.SIGSTOP)
        tracker.stop()
        assert tracker.resource_usage.max_ram.main.total_rss >= 100 * MIB
        deadline = time.monotonic() + 60
        while recorders() and time.monotonic() < deadline: time.sleep(0.01)
        assert recorders() == []
    """, quiet=False)
    again = "WARNING:root:The tracking process is still alive after join timout. Attempting to join again..."
    assert program.stderr.splitlines() == [again, again, "WARNING:root:The tracking process is still alive after 2 attempts to "
                                           "join. Terminating the process by force..."]


def test_who_keeps_the_files_and_was_stopped_goes_on(program):
    """The keeper writes the rest, and ends."""
    run(program, f"""
        import select
        tracker = gput.Tracker(sleep_time=0.1, tracking_file="t.csv", {BYTES})
        tracker.start()
        select.select([tracker._keeper._socket], [], [], 60)  # it is there
        folder = tracker._session.folder.path.encode()
        def is_it(entry):
            try: return folder in (entry / "cmdline").read_bytes().partition(b"_keeper import main")[2]
            except OSError: return False
        [pid] = [int(entry.name) for entry in pathlib.Path("/proc").glob("[0-9]*") if is_it(entry)]
        os.kill(pid, signal.SIGSTOP)
        while open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0] != "T": time.sleep(0.001)
        time.sleep(0.5)
        tracker.stop()
        assert len(open("t.csv").read().splitlines()) > 2
        deadline = time.monotonic() + 20
        while is_it(pathlib.Path(f"/proc/{{pid}}")) and time.monotonic() < deadline: time.sleep(0.01)
        assert not is_it(pathlib.Path(f"/proc/{{pid}}"))
    """)


def test_a_long_sleep_time_is_not_waited_for(program):
    """gpu-tracker waited, or lost the results."""
    run(program, f"""
        began = time.monotonic()
        with gput.Tracker(sleep_time=3000, {BYTES}) as tracker: block = fill(50)
        assert time.monotonic() - began < 60 and tracker.resource_usage.max_ram.main.total_rss >= 50 * MIB
    """)


def test_processes_that_end_before(program):
    """gpu-tracker ran a busy loop with thousands of warnings."""
    [told] = run(program, f"""
        import subprocess
        child = subprocess.Popen([sys.executable, "-c", "b = bytearray(60 << 20); import time; time.sleep(0.7)"])
        time.sleep(0.3)
        with gput.Tracker(process_id=child.pid, ram_unit="bytes", time_unit="seconds") as tracker:
            child.wait(); before = time.process_time(); time.sleep(1); spent = time.process_time() - before
        gone = gput.Tracker(process_id=child.pid)
        gone.start(); gone.stop()
        tell(main=tracker.resource_usage.max_ram.main.total_rss, spent=spent, none=gone.resource_usage.max_ram.main.total_rss,
             time=gone.resource_usage.compute_time.time, pid=child.pid)
    """, quiet=False)
    assert told["main"] >= 60 * MIB and told["spent"] < 0.5 and told["none"] == told["time"] == 0
    said = [line for line in program.stderr.splitlines() if "smi" not in line]
    assert said == [f"WARNING:root:The target process of ID {told['pid']} ended before tracking could begin."]


@pytest.mark.parametrize("file", [None, "t.csv"])
def test_forked_children_leave_it_alone(program, file):
    run(program, f"""
        tracker = gput.Tracker(sleep_time=0.1, tracking_file={file!r}, {BYTES})
        tracker.start()
        if os.fork() == 0:
            sys.exit(0)
        os.wait()
        time.sleep(0.3)
        assert os.path.exists(tracker._session.folder.path)
        tracker.stop()
        assert tracker.resource_usage.compute_time.time >= 0.3
    """)
    assert not file or len(rows_of(program.folder / file)) >= 2


def test_an_interpreter_that_ends_without_a_stop(program):
    run(program, f"""
        tracker = gput.Tracker({BYTES})
        tracker.start()
        tell(folder=tracker._session.folder.path)
    """)
    assert not pathlib.Path(program.told()[0]["folder"]).exists()


def test_sigterm_leaves_no_orphans(program):
    """gpu-tracker's own process kept running at 94 % of a core."""
    from track_helpers import recorders_of

    process = program.start(BEGIN + "gput.Tracker(disable_logs=True).start(); tell(ready=1); time.sleep(100)")
    wait_for(lambda: program.told(), "it tracks")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    wait_for(lambda: not recorders_of(process.pid), "its recorder has ended")


def test_a_program_that_uses_it_is_well_typed(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--python-version", "3.10",
                           str(pathlib.Path(__file__).parent / "typed_gpu_tracker.py")], capture_output=True, text=True,
                          env={"MYPYPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin"}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_typed_program_for_it_runs(program):
    process = program.start((pathlib.Path(__file__).parent / "typed_gpu_tracker.py").read_text())
    stdout, stderr = process.communicate(timeout=100)
    assert process.returncode == 0, stderr
    assert json.loads(stdout.splitlines()[-1])["compute_time"]["unit"] == "seconds"
