# SPDX-License-Identifier: MIT
"""hiwater.compat.gpumemprof at low memory and out-of-memory errors: exceptions, bundles, the
watchdog, and the recording of a killed program."""
import json
import os
import signal
import sqlite3
import stat

from memory_helpers import BEFORE, run_with
from track_helpers import wait_for


def test_which_exceptions(program):
    run_with(program, """
        class ResourceExhaustedError(Exception): pass
        ours = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        wrapped = ValueError("training failed")
        wrapped.__cause__ = ours
        looped = ValueError("a"); looped.__cause__ = looped
        for exception, reason in (
                (ours, "torch.cuda.OutOfMemoryError"), (ResourceExhaustedError(), "tensorflow.ResourceExhaustedError"),
                (RuntimeError("CUDA out of memory."), "message_pattern:out of memory"),
                (RuntimeError("HIP out of memory."), "message_pattern:out of memory"),
                (RuntimeError("RESOURCE EXHAUSTED: x"), "message_pattern:resource exhausted"),
                (RuntimeError("failed to allocate 3 bytes"), "message_pattern:failed to allocate"),
                (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
                 "message_pattern:cublas_status_alloc_failed"),
                (RuntimeError("std::bad_alloc"), "message_pattern:std::bad_alloc"),
                (MemoryError(), "MemoryError"), (OSError(errno.ENOMEM, "Cannot allocate memory"), "ENOMEM"), (wrapped, "torch.cuda.OutOfMemoryError"),
                (ValueError("x"), None), (OSError(errno.ENOENT, "x"), None), (KeyboardInterrupt(), None), (looped, None)):
            found = classify_oom_exception(exception)
            assert (found.is_oom, found.reason) == (reason is not None, reason), (exception, found)
    """)


def test_bundles(program):
    run_with(program, """
        logging.disable(logging.CRITICAL)
        tracker = MemoryTracker(sampling_interval=0.01, enable_oom_flight_recorder=True, oom_dump_dir="dumps", oom_buffer_size=40)
        tracker.start_tracking()
        gpu.allocate(30 * MIB)
        looked(tracker)
        def step():
            with tracker.capture_oom(context="step", metadata={"epoch": 5}):
                gpu.allocate(5000 * MIB)
        refused(torch.OutOfMemoryError, "CUDA out of memory", step)
        path = pathlib.Path(tracker.last_oom_dump_path)
        assert tracker.get_statistics()["last_oom_dump_path"] == str(path) and path.parent == pathlib.Path("dumps")
        import re
        assert re.fullmatch(r"oom_dump_\\d{8}T\\d{6}Z_%d_cuda_1" % os.getpid(), path.name)
        said = {p.stem: json.loads(p.read_text()) for p in path.iterdir()}
        assert set(said) == {"manifest", "events", "metadata", "environment"}
        assert said["manifest"]["files"] == ["manifest.json", "events.json", "metadata.json", "environment.json"]
        assert said["manifest"]["reason"] == said["metadata"]["reason"] == "torch.cuda.OutOfMemoryError"
        assert said["manifest"]["event_count"] == len(said["events"]) == said["metadata"]["captured_event_count"] <= 40
        assert said["manifest"]["bundle_name"] == path.name and said["manifest"]["backend"] == "cuda"
        assert said["events"][-1]["event_type"] == "error" and said["events"][-1]["context"] == "OOM detected (torch.cuda.OutOfMemoryError)"
        m = said["metadata"]
        assert (m["exception_type"], m["exception_module"], m["context"]) == ("OutOfMemoryError", "torch", "step")
        assert "Tried to allocate 5000.00 MiB" in m["exception_message"]
        custom = m["custom_metadata"]
        assert custom["epoch"] == 5 and custom["sample_allocated_bytes"] == 30 * MIB and custom["total_memory_bytes"] == 1000 * MIB
        assert custom["driver"] == {"device_free_bytes": 870 * MIB, "device_total_bytes": 1000 * MIB}
        assert custom["tracker_stats"]["total_allocations"] == 1 and custom["collector_capabilities"]["backend"] == "cuda"
        assert said["environment"]["pid"] == os.getpid() and said["environment"]["system"]["cuda_available"] is True
        assert "PATH" not in json.dumps(said["environment"])
        assert tracker.handle_exception(ValueError("x")) is None and tracker.last_oom_dump_path == str(path)
        def harmless():
            with tracker.capture_oom(): raise KeyError("y")
        refused(KeyError, "y", harmless)
        with tracker.capture_oom(): pass
        assert len(os.listdir("dumps")) == 1
        tracker.stop_tracking()
        off = MemoryTracker()
        assert off.handle_exception(MemoryError()) is None
        os.mkdir("full"); os.chmod("full", 0o500)
        nowhere = MemoryTracker(enable_oom_flight_recorder=True, oom_dump_dir="/proc/dumps")
        assert nowhere.handle_exception(MemoryError()) is None  # it cannot be written, and nobody suffers
    """)


def test_old_bundles_go(program):
    run_with(program, """
        def dump(tracker, n):
            return [tracker.handle_exception(MemoryError(), metadata={"text": "x" * 200000}) for _ in range(n)]
        os.makedirs("a/oom_dump_of_somebody")  # no manifest: none of ours
        os.makedirs("a/other")
        few = MemoryTracker(enable_oom_flight_recorder=True, oom_dump_dir="a", oom_max_dumps=3)
        paths = dump(few, 5)
        assert len(set(paths)) == 5 and sorted(os.listdir("a")) == sorted(["oom_dump_of_somebody", "other", *[os.path.basename(p) for p in paths[2:]]])
        small = MemoryTracker(enable_oom_flight_recorder=True, oom_dump_dir="b", oom_max_dumps=0, oom_max_total_mb=1)
        paths = dump(small, 8)
        left = sorted(os.listdir("b"))
        assert paths[-1].endswith(left[-1]) and 2 <= len(left) < 8
        huge = [small.handle_exception(MemoryError(), metadata={"text": "x" * (2 << 20)})]
        assert os.listdir("b") == [os.path.basename(huge[0])]  # the newest stays, however large
        recorder = OOMFlightRecorder(OOMFlightRecorderConfig(enabled=True, dump_dir="c", buffer_size=2))
        for i in range(3): recorder.record_event({"n": i})
        path = recorder.dump(reason="r", exception=ValueError("v"), context=None, backend="my own/one")
        assert json.load(open(path + "/events.json")) == [{"n": 1}, {"n": 2}] == recorder.snapshot_events()
        assert "_my_own_one_" in path and json.load(open(path + "/manifest.json"))["schema_version"] == 1
        recorder.clear()
        assert recorder.snapshot_events() == [] and OOMFlightRecorder(OOMFlightRecorderConfig()).dump(
            reason="r", exception=ValueError(), context=None, backend="x") is None
    """)


def test_history_of_the_allocator(program):
    """PyTorch's own history, if requested and available."""
    run_with(program, """
        logging.disable(logging.CRITICAL)
        calls = []
        torch.cuda.memory = __import__("types").SimpleNamespace(
            _record_memory_history=lambda **how: calls.append(how), _snapshot=lambda device=None: {"segments": [], "device_traces": []})
        tracker = MemoryTracker(enable_oom_flight_recorder=True, enable_native_cuda_history=True, native_history_max_entries=7)
        def step():
            with tracker.capture_oom(): raise MemoryError
        refused(MemoryError, "", step)
        manifest = json.load(open(tracker.last_oom_dump_path + "/manifest.json"))
        assert manifest["native_history_enabled"] and "cuda_allocator_snapshot.pickle" in manifest["files"]
        assert set(manifest["files"]) == set(os.listdir(tracker.last_oom_dump_path))
        assert [set(c) for c in calls] == [{"max_entries", "device"}, {"enabled", "device"}] and calls[0]["max_entries"] == 7
        del torch.cuda.memory
        refused(MemoryError, "", step)
        assert len(os.listdir(tracker.last_oom_dump_path)) == 4
        stand_in_torch.install(mps=True)
        refused(ValueError, "native allocator history is unavailable for backend 'mps'", MemoryTracker, enable_native_cuda_history=True)
    """)


def test_watchdog(program):
    run_with(program, """
        from hiwater.compat.gpumemprof import tracker as module
        tracker = MemoryTracker(sampling_interval=0.01)
        watchdog = MemoryWatchdog(tracker=tracker, auto_cleanup=True, cleanup_threshold=0.9, aggressive_cleanup_threshold=0.97)
        now = [1000.0]
        module.time = __import__("types").SimpleNamespace(time=lambda: now[0], time_ns=time.time_ns)
        tracker.start_tracking()
        block = gpu.allocate(850 * MIB)
        looked(tracker)
        assert tracker.get_alerts() and torch.calls == []  # it warns, but below the threshold
        gpu.allocate(60 * MIB)
        looked(tracker, 4)
        assert torch.calls == ["empty_cache"] and watchdog.get_cleanup_stats() == {
            "cleanup_count": 1, "last_cleanup_time": 1000.0, "auto_cleanup_enabled": True, "cleanup_threshold": 0.9,
            "aggressive_cleanup_threshold": 0.97}
        gpu.allocate(45 * MIB)  # 95.5%: critical, not aggressive
        now[0] += 29
        looked(tracker, 4)
        assert torch.calls == ["empty_cache"]
        now[0] += 2
        looked(tracker, 4)
        assert torch.calls == ["empty_cache"] * 2
        gpu.allocate(30 * MIB)  # 98.5%
        now[0] += 31
        looked(tracker, 4)
        assert torch.calls == ["empty_cache"] * 2 + ["synchronize", "empty_cache"]
        assert [e.context for e in tracker.get_events("cleanup")] == [
            "Performed standard memory cleanup"] * 2 + ["Performed aggressive memory cleanup"]
        watchdog.auto_cleanup = False
        now[0] += 31
        looked(tracker, 4)
        assert watchdog.cleanup_count == 3
        watchdog.force_cleanup()
        watchdog.force_cleanup(aggressive=True)
        assert watchdog.cleanup_count == 5 and torch.calls[-1] == "empty_cache"
        def broken(): raise RuntimeError("the device is lost")
        torch.cuda.empty_cache = broken
        watchdog.force_cleanup()
        assert tracker.get_events("error")[-1].context == "Cleanup failed: the device is lost"
        tracker.stop_tracking()
        assert gpu.reserved == gpu.allocated
    """)


# ---- after a kill --------------------------------------------------------------------------------------------------------

def test_a_killed_program_leaves_a_recording(program):
    """After kill -9 the recording has samples, alerts and phases, and is finished."""
    process = program.start(BEFORE + """
tracker = MemoryTracker(sampling_interval=0.01)
tracker.start_tracking()
block = gpu.allocate(500 * MIB)
with tracker.phase("train"):
    gpu.allocate(470 * MIB)
    until(lambda: (tracker.get_statistics()["recording"] or "") and os.path.exists(tracker.get_statistics()["recording"]))
    tell(path=tracker.get_statistics()["recording"])
    time.sleep(60)
""")
    path = wait_for(program.told, "the recording is there")[0]["path"]
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    shown = wait_for(lambda: (lambda s: s if s["run"]["complete"] else None)(program.shown(path)), "the recording is finished")
    assert shown["series"]["cuda:0/allocated"]["max"] == 970 << 20
    assert shown["series"]["cuda:0/total"]["last"] == 1000 << 20
    assert [p["name"] for p in shown["phases"]] == ["train"]
    with sqlite3.connect(path) as db:
        marks = [row[0] for row in db.execute("SELECT text FROM event WHERE kind = 'mark'")]
    assert "critical: CRITICAL: Memory usage at 97.0%" in marks
    assert shown["run"]["name"] == "gpumemprof cuda:0"


def test_out_of_memory_is_told(program):
    """The recording keeps full-rate data around the error, and the bundle names the recording."""
    program.env["HIWATER_COMPAT_RECORD"] = "1"
    [told] = run_with(program, """
        logging.disable(logging.CRITICAL)
        tracker = MemoryTracker(sampling_interval=0.01, enable_oom_flight_recorder=True)
        with tracker:
            until(lambda: os.path.exists(tracker.get_statistics()["recording"] or ""))
            try: gpu.allocate(5000 * MIB)
            except RuntimeError as e: path = tracker.handle_exception(e, context="tensor_allocation")
        tell(bundle=json.load(open(path + "/metadata.json")), path=tracker.get_statistics()["recording"])
    """)
    assert told["bundle"]["custom_metadata"]["hiwater_recording"] == told["path"]
    shown = program.shown(told["path"])
    assert "Tried to allocate 5000.00 MiB" in json.dumps(shown["incident"])


def test_another_run_hears_it(program):
    """hiwater.track in the program, and an enclosing hiwater run: no second recorder is started."""
    run_with(program, """
        os.environ["HIWATER_COMPAT_RECORD"] = "1"
        with hiwater.track(output="a.hiw", exact=False) as run:
            with MemoryTracker(sampling_interval=0.01) as tracker:
                gpu.allocate(200 * MIB)
                looked(tracker, 5)
                assert len(recorders()) == 1 and tracker.get_statistics()["recording"] is None
        assert run.summary.series["cuda:0/allocated"].max == 200 * MIB
    """)
    program.run(BEFORE + """
os.environ["HIWATER_COMPAT_RECORD"] = "1"
with MemoryTracker(sampling_interval=0.01) as tracker:
    gpu.allocate(300 * MIB)
    looked(tracker, 5)
    assert recorders() == []
""", program.env["HIWATER_COMMAND"], "run", "--summary", "none", "-o", program.folder / "b.hiw", "--")
    assert program.shown("b.hiw")["series"]["cuda:0/allocated"]["max"] == 300 << 20


def command(folder, text):
    path = folder / "hiwater"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_recorder_that_fails_is_not_missed(program):
    """A recorder that is missing, ends at once, never answers, or is killed: the tracker does
    everything except recording."""
    text = """
        os.environ["HIWATER_COMPAT_RECORD"] = "1"
        tracker = MemoryTracker(sampling_interval=0.01)
        before = time.monotonic()
        tracker.start_tracking()
        assert time.monotonic() - before < 2
        gpu.allocate(100 * MIB)
        looked(tracker)
        for pid in recorders():
            with contextlib.suppress(ProcessLookupError): os.kill(pid, signal.SIGKILL)
        looked(tracker)
        tracker.stop_tracking()
        assert time.monotonic() - before < 15
        assert tracker.get_statistics()["total_allocations"] == 1
    """
    run_with(program, text)
    for says in ("exit 3", "exec sleep 20", None):
        program.env["HIWATER_COMMAND"] = command(program.folder, says) if says else "/nowhere/hiwater"
        run_with(program, text)


def test_a_forked_child_is_left_alone(program):
    run_with(program, """
        os.environ["HIWATER_COMPAT_RECORD"] = "1"
        tracker = MemoryTracker(sampling_interval=0.005)
        tracker.start_tracking()
        until(lambda: recorders())
        pid = os.fork()
        if pid == 0:
            tracker._add_event("error", 0, "in the child")
            assert len(tracker.get_alerts()) == 1
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        looked(tracker)
        assert tracker.get_alerts() == []
        tracker.stop_tracking()
        until(lambda: recorders() == [])
    """)
