# SPDX-License-Identifier: MIT
"""hiwater export --to perfetto of a busy run: processes that come and go, phases in phases, marks, a series, GPUs of a fake
driver. Whatever became of the run, its trace is one that hangs together: ids, parents, clocks, nesting."""
import collections
import os
import signal
import sqlite3
import sys

import pytest
from cli_helpers import DEADLINE, ROOT, wait_for
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
from stress_jobs import BUILD
from trace_data import Seen, rows_of, trace_of

JOB = """
import os, socket, subprocess, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("\\0" + os.environ["HIWATER_SOCKET"][1:])
stays = subprocess.Popen(["sleep", "600"])
s.send(b"phase+ all of it")
for epoch in range(4):
    s.send(f"phase+ epoch {epoch}".encode())
    children = [subprocess.Popen(["sh", "-c", "sleep 0.2 & sleep 0.1; wait"]) for _ in range(6)]
    s.send(b"phase+ step")
    for child in children:
        child.wait()
    s.send(b"phase- step")
    s.send(f"log loss={1 / (epoch + 1)} step={epoch}".encode())
    s.send(f"mark epoch {epoch} is over".encode())
    s.send(f"phase- epoch {epoch}".encode())
    time.sleep(0.5)
s.send(b"phase- all of it")
s.send(b"mark done")
if not os.environ.get("STAY"):
    stays.kill()
stays.wait()
"""


@pytest.fixture
def gpus(tool):
    scenario = tool.folder / "gpu.conf"
    card = ROOT / "tests" / "fake" / "scenarios" / "cards" / "a100.conf"
    scenario.write_text(f"[driver]\nlevel = 550\n[gpu 0-1]\ninclude = {card}\nutil = 25\n")
    return dict(tool.env, LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"), HIWATER_FAKE_NVML=str(scenario))


def expect_sound(trace, path):
    """What Perfetto's trace processor takes for granted, and drops or misplaces events where it is not so."""
    seen = Seen(trace)
    start = rows_of(path, "select value from meta where key = 'started_boot_ns'")[0][0]
    last = start + max(t for t, in rows_of(path, "select max(t + span) from job_sample union select max(t) from event "
                                                 "union select max(ended) from process") if t)
    assert 0 not in seen.tracks
    for uuid, track in seen.tracks.items():
        steps = set()
        while track.parent_uuid:  # up to a root, and never in a circle
            assert track.parent_uuid in seen.tracks and track.uuid not in steps, track
            steps.add(track.uuid)
            track = seen.tracks[track.parent_uuid]
    for uuid, events in seen.events.items():
        track, depth = seen.tracks[uuid], 0
        is_counter = track.HasField("counter")
        for n, (time, event) in enumerate(events):
            assert start <= time <= last + 10**9, (track, time - start)
            assert (event.type == pb.TrackEvent.TYPE_COUNTER) == is_counter, track
            assert not is_counter or n == 0 or time > events[n - 1][0], "one value at a time"
            depth += {pb.TrackEvent.TYPE_SLICE_BEGIN: 1, pb.TrackEvent.TYPE_SLICE_END: -1}.get(event.type, 0)
            assert depth >= 0, "no end without a beginning"
    expect_processes(seen, path, start)
    return seen


def expect_processes(seen, path, start):
    """Each has a track of its own, also where a pid was given out again, and a slice from its birth to its end."""
    tracks = collections.defaultdict(list)
    for uuid, track in seen.tracks.items():
        if track.HasField("process"):
            slices = seen.slices(uuid)
            assert len(slices) == 1 and (slices[0][2] is None or slices[0][2] >= slices[0][1])
            tracks[track.process.pid].append((slices[0][1] - start, slices[0][2] and slices[0][2] - start))
    stored = collections.defaultdict(list)
    for pid, born, ended in rows_of(path, "select pid, born, ended from process where id > 0"):
        stored[pid].append((born, ended))
    assert {p: sorted(b for b, _ in v) for p, v in tracks.items()} == {p: sorted(b for b, _ in v) for p, v in stored.items()}
    for pid, spans in tracks.items():
        known = sorted(s for s in stored[pid] if s[1] is not None)
        assert [s for s in sorted(spans, key=str) if s in known] == sorted(known, key=str)


def phases_in(seen, start):
    return [(n, b - start, e and e - start) for u in seen.named("phases") for n, b, e in seen.slices(u)]


def test_of_a_whole_run(tool, gpus):
    done = tool.run("run", "--summary", "none", "-i", "20ms", "-o", "run.hiw", "--", sys.executable, "-c", JOB, env=gpus)
    assert done.returncode == 0, done.stderr
    path = tool.folder / "run.hiw"
    db = sqlite3.connect(path)
    db.execute("update process set pid = (select pid from process where is_main) where id = (select max(id) from process)")
    db.commit()  # a number that was given out again
    db.close()
    seen = expect_sound(trace_of(tool, path), path)
    start = rows_of(path, "select value from meta where key = 'started_boot_ns'")[0][0]
    phases = phases_in(seen, start)
    assert sorted(n for n, *_ in phases) == ["all of it"] + [f"epoch {n}" for n in range(4)] + 4 * ["step"]
    assert len(seen.named("phases")) == 1, "phases in phases lie on one track"
    outer, = [p for p in phases if p[0] == "all of it"]
    for name, begin, end in phases:
        assert outer[1] <= begin <= end <= outer[2]
    marks, = seen.named("marks")
    assert [e.name for _, e in seen.events[marks]] == [f"epoch {n} is over" for n in range(4)] + ["done"]
    assert sum(d.name.startswith("GPU ") for d in seen.tracks.values()) == 2
    assert sum(d.HasField("process") for d in seen.tracks.values()) >= 26
    assert [v for _, v in seen.counter("loss")] == [1, 0.5, pytest.approx(1 / 3), 0.25]


def test_of_one_that_grows_and_is_cut_off(tool, gpus):
    """As it is written, again a while later, and after kill -9: what was there stays what it was."""
    run = tool.start("run", "--summary", "none", "-i", "20ms", "-o", "run.hiw", "--", sys.executable, "-c", JOB,
                     env=dict(gpus, STAY="1"), group=True)
    path = tool.folder / "run.hiw"
    wait_for(lambda: path.exists() and tool.run("show", path).returncode == 0 and
             rows_of(path, "select count(*) from phase where ended is not null")[0][0] >= 2, "phases are over")
    copy = tool.folder / "then.hiw"
    early = None
    while True:
        copy.unlink(missing_ok=True)
        assert tool.run("show", "--copy", copy, path).returncode == 0  # the trace and what it is judged by are of one moment
        seen = expect_sound(trace_of(tool, copy), copy)
        trace_of(tool, path)
        start = rows_of(copy, "select value from meta where key = 'started_boot_ns'")[0][0]
        ended = {p for p in phases_in(seen, start) if p[2]}
        assert early is None or early <= ended
        early = ended
        if run.poll() is not None:
            break
        wait_for(lambda: rows_of(path, "select count(*) from event where text = 'done'")[0][0] == 1, "the last mark")
        run.kill()
        run.wait(DEADLINE)
    assert len(early) == 9
    for pid, in rows_of(path, "select pid from process where ended is null and id > 0"):
        os.kill(pid, signal.SIGKILL)
