# SPDX-License-Identifier: MIT
"""Timelines read from recordings: at full rate, and for long runs from windows."""
import sqlite3

import pytest
import gpu_tracker_helpers  # adds the package to sys.path
from track_helpers import MIB

from hiwater.compat._figures import figures
from hiwater.compat._timeline import _QUERIES, Sample, Timeline, Timepoints


def points_of(samples, first=0.1, period=1.0, cores=4):
    made = Timepoints(first, period, cores)
    return [*made.add(samples), *made.finish()]


def samples(until, step=0.1, **rates):
    """Samples with counters that grow evenly."""
    n = round(until / step)
    return [Sample(t_s=i * step, **{name: rate * i * step for name, rate in rates.items()}) for i in range(n + 1)]


def test_a_timepoint_each_period():
    made = points_of(samples(3.3, cpu_s=1.5, main_cpu_s=0.5, host_s=4, host_busy_s=3))
    assert [round(p.sample.t_s, 1) for p in made] == [0.1, 1.1, 2.1, 3.1]
    assert all(p.cores == pytest.approx(1.5) and p.main_cores == pytest.approx(0.5) and p.descendants_cores == pytest.approx(1)
               and p.system_cores == pytest.approx(3) for p in made)


def test_the_end_is_a_timepoint_if_there_is_enough_of_it():
    assert [round(p.sample.t_s, 1) for p in points_of(samples(1.8))] == [0.1, 1.1, 1.8]
    assert [round(p.sample.t_s, 1) for p in points_of(samples(1.5))] == [0.1, 1.1]
    assert [p.sample.t_s for p in points_of([Sample(t_s=0.01)])] == [0.01]
    assert points_of([]) == []


def test_a_gap_is_a_gap():
    made = points_of([*samples(1.2), Sample(t_s=7.0), Sample(t_s=7.5), Sample(t_s=8.0)])
    assert [round(p.sample.t_s, 1) for p in made] == [0.1, 1.1, 7.0, 8.0]


def test_whose_threads_are_not_known_yet_are_nobodys():
    """The first sample may precede the first read of the main process: that thread is not counted
    for its descendants."""
    assert [sample.descendants_threads for sample in (Sample(threads=1), Sample(threads=3, main_threads=2), Sample(threads=1, main_threads=2))] == [0, 1, 0]


def test_no_more_cores_than_there_are():
    """CPU time advances in steps, so that a share may seem larger than the machine."""
    made = points_of([Sample(), Sample(t_s=0.1), Sample(t_s=0.2, cpu_s=10, main_cpu_s=20)], period=0.1, cores=2)
    assert made[-1].cores == made[-1].main_cores == 2 and made[-1].descendants_cores == 0


def test_the_machines_share_is_waited_for():
    """It is read once a second: the first timepoints get the first share."""
    slow = [Sample(t_s=i / 10, host_s=4.0 * (i // 10) + 1, host_busy_s=2.0 * (i // 10) + 1) for i in range(25)]
    made = Timepoints(0.1, 0.1, 4)
    assert list(made.add(slow[:9])) == []
    assert [p.system_cores for p in made.add(slow[9:12])] == [2.0] * 11


def test_of_no_recording(tmp_path):
    timeline = Timeline(str(tmp_path / "none.hiw"))
    assert timeline.read_new() == timeline.read_all() == [] and timeline.started() is None and not timeline.is_finished()
    (tmp_path / "bad.hiw").write_text("no database")
    assert Timeline(str(tmp_path / "bad.hiw")).read_all() == []


def test_windows_without_a_value_are_no_zero():
    """A GPU that was not read for a while: the mean covers only the time with values."""
    with sqlite3.connect(":memory:") as c:
        c.execute("CREATE TABLE job_sample (t, span)")
        c.execute("CREATE TABLE gpu_sample (id, t, span, mem_max, busy)")
        c.execute("INSERT INTO job_sample VALUES (0, 500000000)")
        c.executemany("INSERT INTO gpu_sample VALUES (?, ?, ?, ?, ?)", [
            (1, 0, 300000000, 7, 800000), (1, 300000000, 600000000, 9, None), (1, 900000000, 100000000, None, 400000),
            (2, 0, 300000000, 5, None)])
        [query] = [q for q in _QUERIES if q.entity == "gpu"]
        assert sorted(row[1:] for row in c.execute(query.of_windows(), [-1])) == [(1, 9, 700000.0), (2, 5, None)]


def test_long_runs_are_read_in_windows(program):
    """The first minutes are no longer at full rate. The figures are about the same."""
    [told] = program.run("""
        import subprocess
        with hiwater.track(output="a.hiw") as run:
            block = fill(60)
            child = subprocess.Popen(["sleep", "2"])
            end = time.monotonic() + 1.5
            while time.monotonic() < end: pass
            del block; time.sleep(1.8); child.wait()
        tell(json=run.summary.to_dict())
    """)
    path = str(program.folder / "a.hiw")
    timeline = Timeline(path)
    fast = figures(told["json"], timeline, 1.0, 2)
    with sqlite3.connect(path) as c:
        (middle,) = c.execute("SELECT avg(t) FROM job_recent").fetchone()
        for table in ("job", "host", "process"):
            c.execute(f"DELETE FROM {table}_recent WHERE t < ?", [middle])
    windows = timeline.read_all()
    assert len(windows) <= 6 and windows[0].ram_main >= 60 * MIB > windows[-1].ram_main
    slow = figures(told["json"], timeline, 1.0, 2)
    assert (slow.main_threads, slow.threads, slow.descendants_threads) == (fast.main_threads, fast.threads, fast.descendants_threads) == (1, 2, 1)
    for name in ("cpu_main", "cpu_combined"):
        mean = getattr(slow, name).mean
        assert mean == pytest.approx(getattr(fast, name).mean, rel=0.35, abs=0.02) and mean <= getattr(slow, name).max
    assert slow.main == fast.main and slow.wall_s == fast.wall_s
