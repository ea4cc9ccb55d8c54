# SPDX-License-Identifier: MIT
"""hiwater.compat.gpumemprof: events, alerts, figures, phases, files, on a stand-in for PyTorch's
allocator."""
import json
import subprocess
import sys

from memory_helpers import BEFORE, HERE, run_with
from track_helpers import DEADLINE, ROOT, pythons


def test_events_and_figures(program):
    run_with(program, """
        gpu.allocate(100 * MIB)  # what was there before is no allocation
        tracker = MemoryTracker(device="cuda:0", sampling_interval=0.01)
        assert tracker.backend == "cuda" and tracker.total_memory == 1000 * MIB and not tracker.is_tracking
        assert tracker.get_events() == [] and tracker.get_memory_timeline()["timestamps"] == []
        before = time.time()
        tracker.start_tracking()
        tracker.start_tracking()
        looked(tracker)
        block = gpu.allocate(50 * MIB)
        looked(tracker)
        gpu.free(block)
        looked(tracker)
        tracker.stop_tracking()
        tracker.stop_tracking()
        events = tracker.get_events()
        kinds = [e.event_type for e in events]
        assert kinds[0] == "start" and kinds[-1] == "stop" and kinds.count("start") == 1
        assert [k for k in kinds if k not in ("sample", "warning")] == ["start", "peak", "peak", "allocation", "deallocation", "stop"]
        first, peak = tracker.get_events(event_type="peak")
        assert first.memory_allocated == 100 * MIB and first.context == "New peak memory: 100.00 MB"
        [up], [down] = tracker.get_events("allocation"), tracker.get_events("deallocation")
        assert (up.memory_change, up.memory_allocated, up.context) == (50 * MIB, 150 * MIB, "Memory allocated: 50.00 MB")
        assert (down.memory_change, down.memory_allocated, down.context) == (-50 * MIB, 100 * MIB, "Memory freed: 50.00 MB")
        assert isinstance(up.memory_allocated, int) and (up.device_id, up.backend, up.metadata) == (0, "cuda", None)
        assert up.device_used == up.memory_reserved == 150 * MIB and up.device_free == 850 * MIB and up.device_total == 1000 * MIB
        assert before <= events[0].timestamp <= up.timestamp <= down.timestamp <= time.time()
        stats = tracker.get_statistics()
        wanted = dict(backend="cuda", peak_memory=150 * MIB, total_allocations=1, total_deallocations=1, alert_count=0,
                      total_allocation_bytes=50 * MIB, total_deallocation_bytes=50 * MIB, average_allocation_size=50 * MIB,
                      average_deallocation_size=50 * MIB, total_events=len(events), events_last_hour=len(events),
                      current_memory_allocated=100 * MIB, current_memory_reserved=150 * MIB, memory_utilization_percent=15,
                      oom_flight_recorder_enabled=False, last_oom_dump_path=None, session_status="completed")
        assert {k: stats[k] for k in wanted} == wanted
        seconds = stats["tracking_duration_seconds"]
        assert 0 < seconds <= events[-1].timestamp - before + 0.1
        assert stats["allocations_per_second"] == 1 / seconds and stats["bytes_allocated_per_second"] == 50 * MIB / seconds
        assert tracker.get_statistics()["tracking_duration_seconds"] == seconds  # it stands still
        assert stats["tracking_start_time"] >= before and stats["last_memory_check"] <= time.time()
        assert tracker.events == events and tracker.get_events(last_n=3) == events[-3:]
        assert tracker.get_events(since=up.timestamp) == [e for e in events if e.timestamp >= up.timestamp]
        assert tracker.get_events("sample", 2, up.timestamp) == [e for e in events if e.event_type == "sample"][-2:]
        assert tracker.get_events("nothing") == [] and tracker.get_alerts() == []
        line = tracker.get_memory_timeline(interval=3600)
        assert line["allocated"] == [100 * MIB] and line["reserved"] == [150 * MIB] and line["timestamps"] == [events[0].timestamp]
        assert set(line) == {"timestamps", "allocated", "reserved", "device_used", "device_free", "device_total"}
        refused(ValueError, "interval must be > 0", tracker.get_memory_timeline, 0)
        tracker.clear_events()
        assert tracker.get_events() == [] and tracker.stats["peak_memory"] == tracker.stats["total_allocations"] == 0
    """)


def test_a_burst_between_two_readings(program):
    """The allocator's high-water mark proves the burst, also in a run shorter than an interval."""
    run_with(program, """
        gpu.allocate(800 * MIB)
        gpu.free(1)
        with MemoryTracker(sampling_interval=60) as tracker:
            gpu.free(gpu.allocate(500 * MIB))
            gpu.free(gpu.allocate(900 * MIB))
        assert tracker.get_statistics()["peak_memory"] == 900 * MIB
        [peak] = tracker.get_events("peak")
        assert peak.memory_allocated == 900 * MIB and peak.context == "New peak memory: 900.00 MB"
        with MemoryTracker(sampling_interval=60) as tracker:  # the mark is of before
            gpu.allocate(10 * MIB)
        assert tracker.get_statistics()["peak_memory"] == 10 * MIB
    """)


def test_stopped_and_resumed(program):
    run_with(program, """
        tracker = MemoryTracker(sampling_interval=0.01)
        for i in range(2):
            tracker.start_tracking()
            gpu.allocate(20 * MIB)
            looked(tracker)
            tracker.stop_tracking()
            gpu.allocate(100 * MIB)  # nobody looks
        stats = tracker.get_statistics()
        assert stats["total_allocations"] == 2 and stats["total_allocation_bytes"] == 40 * MIB
        assert stats["peak_memory"] == 140 * MIB
        kinds = [e.event_type for e in tracker.get_events()]
        assert kinds.count("start") == kinds.count("stop") == 2
        sessions = {e.session_id for e in tracker.get_events()}
        assert len(sessions) == 2 and tracker.get_session_summary().session_id in sessions
        assert tracker.get_session_summary().status == "completed"
    """)


def test_alerts(program):
    run_with(program, """
        logging.disable(logging.CRITICAL)
        tracker = MemoryTracker(sampling_interval=0.01)
        seen = []
        def broken(event): raise RuntimeError("a callback")
        tracker.add_alert_callback(broken)
        tracker.add_alert_callback(seen.append)
        tracker.set_threshold("fragmentation_threshold", float("inf"))
        assert tracker.thresholds == {"memory_warning_percent": 80.0, "memory_critical_percent": 95.0,
                                      "memory_leak_threshold": 104857600.0, "fragmentation_threshold": float("inf")}
        tracker.start_tracking()
        block = gpu.allocate(90 * MIB)
        looked(tracker)
        assert seen == []
        gpu.allocate(720 * MIB)  # 81%, and 720 MiB at once
        looked(tracker)
        large, warnings = [e for e in seen if e.metadata.get("large_allocation")], [e for e in seen if "usage_percent" in e.metadata]
        assert [e.context for e in large] == ["Large allocation detected: 720.00 MB"]
        assert warnings and {(e.event_type, e.context) for e in warnings} == {("warning", "WARNING: Memory usage at 81.0%")}
        assert warnings[0].metadata == {"usage_percent": 81.0} and warnings[0].memory_change == 720 * MIB
        assert len(warnings) >= 2  # one a reading, while it lasts
        gpu.allocate(140 * MIB)  # 95%
        looked(tracker)
        assert seen[-1].event_type == "critical" and seen[-1].context == "CRITICAL: Memory usage at 95.0%"
        tracker.thresholds = {"memory_warning_percent": 97, "memory_critical_percent": 98}  # as the page assigns it
        looked(tracker)
        n = len(seen)
        looked(tracker)
        assert len(seen) == n
        tracker.set_threshold("memory_warning_percent", 50)
        looked(tracker)
        assert seen[-1].event_type == "warning" and len(seen) > n
        tracker.thresholds = {"memory_warning_percent": 97, "memory_critical_percent": 98, "fragmentation_threshold": 0.02}
        gpu.free(block)  # 90 of 950 MiB are cache, half of them in split blocks
        looked(tracker)
        assert seen[-1].context == "High fragmentation: 4.7%" and 0.047 < seen[-1].metadata["fragmentation"] < 0.048
        tracker.remove_alert_callback(seen.append)
        tracker.remove_alert_callback(print)
        tracker.enable_alerts = False
        looked(tracker)
        n = len(tracker.get_alerts())
        looked(tracker)
        tracker.stop_tracking()
        assert len(tracker.get_alerts()) == n == tracker.get_statistics()["alert_count"]
        assert tracker.get_alerts(last_n=2) == tracker.get_alerts()[-2:]
        assert {e.event_type for e in seen} == {"warning", "critical"} and tracker.get_events("critical")
        refused(ValueError, "Unknown threshold: nothing", tracker.set_threshold, "nothing", 1)
        refused(ValueError, "Unknown threshold", tracker.set_threshold, "memory_leak_threshold", 1)  # it was assigned away
    """)


def test_thresholds_that_nothing_reaches(program):
    """Numbers whose digits do not fit a rule."""
    run_with(program, """
        for value in (1e300, -1e300, 1e18, float("inf"), float("nan"), 1.7e308):
            for name in ("memory_warning_percent", "memory_critical_percent", "memory_leak_threshold", "fragmentation_threshold"):
                tracker = MemoryTracker(sampling_interval=0.001)
                tracker.set_threshold(name, value)
                with tracker:
                    looked(tracker)
                assert tracker.get_events("error") == [], tracker.get_events("error")
    """)


def test_what_goes_wrong_in_the_loop_is_an_event(program):
    run_with(program, """
        tracker = MemoryTracker(sampling_interval=0.01)
        seen = []
        tracker.add_alert_callback(seen.append)
        tracker.thresholds["memory_leak_threshold"] = "much"
        tracker.start_tracking()
        until(lambda: seen)
        assert seen[0].event_type == "error" and "much" in seen[0].context and seen[0].context.startswith("Tracking error:")
        tracker.thresholds["memory_leak_threshold"] = 1
        looked(tracker)
        tracker.stop_tracking()
        assert tracker.get_statistics()["alert_count"] >= 1
    """)


def test_bounded(program):
    run_with(program, """
        tracker = MemoryTracker(sampling_interval=0.001, max_events=20)
        with tracker:
            until(lambda: tracker.get_statistics()["history_dropped_events"] > 5)
        stats = tracker.get_statistics()
        assert stats["total_events"] == stats["history_retained_events"] == len(tracker.get_events()) == 20
        large = MemoryTracker(sampling_interval=0.001, max_events=10, enable_oom_flight_recorder=True, oom_buffer_size=50)
        assert large.oom_buffer_size == 50 and MemoryTracker(oom_buffer_size=0).oom_buffer_size == 10000
        with large:
            until(lambda: large.get_statistics()["history_dropped_events"] > 60)
        assert len(large.get_events()) == 10 and len(large.get_events("sample", last_n=3)) == 3
        path = large.handle_exception(MemoryError())
        assert len(json.load(open(path + "/events.json"))) == 50
    """)


def test_arguments_that_make_no_sense(program):
    run_with(program, """
        refused(ValueError, "sampling_interval must be > 0", MemoryTracker, sampling_interval=0)
        refused(ValueError, "max_events must be >= 1", MemoryTracker, max_events=0)
        refused(ValueError, "native_history_max_entries must be >= 1", MemoryTracker, native_history_max_entries=0)
        refused(ValueError, "Device cuda:3 is not available", MemoryTracker, 3)
        refused(ValueError, "Only CUDA/ROCm or MPS devices are supported for GPU memory tracking", MemoryTracker, "cpu")
        refused(RuntimeError, "MPS backend is not available in this runtime", MemoryTracker, "mps")
        refused(ValueError, "device and collector cannot be provided together", MemoryTracker, "cuda:0",
                collector=build_device_memory_collector("cuda:0"))
        refused(ValueError, "rank must be < world_size", MemoryTracker, rank=2, world_size=2)
        refused(ValueError, "rank must be < world_size", MemoryTracker, rank=1)
        tracker = MemoryTracker()
        refused(RuntimeError, "Tracking must be active before entering a phase.", tracker.enter_phase, "a")
        tracker.start_tracking()
        refused(ValueError, "phase name must be a non-empty string", tracker.enter_phase, " ")
        tracker.stop_tracking()
        refused(ValueError, "Unsupported format: xml", tracker.export_events, "a", format="xml")
        stand_in_torch.install(gpus=0)
        refused(RuntimeError, "No supported GPU backend is available", MemoryTracker)
        refused(RuntimeError, "CUDA/ROCm backend is not available in this runtime", MemoryTracker, "cuda:0")
        refused(ValueError, "Integer device IDs are only supported for CUDA/ROCm backends", MemoryTracker, 0)
        sys.modules["torch"] = None
        refused(ImportError, "pip install torch", MemoryTracker)
    """)


def test_other_backends(program):
    run_with(program, """
        torch = stand_in_torch.install(gpus=2, hip="6.4")
        with MemoryTracker(device=1, sampling_interval=0.01) as tracker:
            torch.gpus[1].allocate(10 * MIB)
            looked(tracker)
        capabilities = tracker.collector_capabilities
        assert tracker.backend == "rocm" and tracker.get_events("allocation")[0].device_id == 1
        assert capabilities["sampling_source"] == capabilities.sampling_source == "torch.cuda.memory_* (HIP runtime)"
        assert dict(capabilities)["supports_device_total"] is True and capabilities.get("supports_device_free") is True
        torch = stand_in_torch.install(mps=True)
        with MemoryTracker(sampling_interval=0.01) as tracker:
            torch.gpus[0].allocate(10 * MIB)
            looked(tracker)
        assert tracker.backend == "mps" and str(tracker.device) == "mps" and tracker.total_memory == 1000 * MIB
        [event] = tracker.get_events("allocation")
        assert (event.memory_change, event.active_memory, event.inactive_memory) == (10 * MIB, None, None)
        assert detect_torch_runtime_backend() == "mps"
        assert get_system_info()["detected_backend"] == "mps" and get_system_info()["memory_total"] > 0
        torch = stand_in_torch.install()
        info = get_gpu_info("cuda:0")
        assert info["device_name"] == "NVIDIA H100" and info["total_memory"] == 1000 * MIB and "memory_stats" in info
        assert (format_bytes(0), format_bytes(1536), format_bytes(-5 << 20, 1)) == ("0 B", "1.50 KB", "-5.0 MB")
        assert convert_bytes(3, "GB", "MB") == 3072
        refused(ValueError, "Invalid unit", convert_bytes, 1, "x", "B")
    """)


def test_phases(program):
    run_with(program, """
        tracker = MemoryTracker(sampling_interval=60)
        with tracker:
            with tracker.phase("epoch", metadata={"epoch": 3}) as outer:
                gpu.allocate(10 * MIB)
                with tracker.phase("load") as inner:
                    refused(RuntimeError, "LIFO", outer.close)
                    other = []
                    thread = threading.Thread(target=lambda: refused(RuntimeError, "different thread", inner.close) or other.append(1))
                    thread.start(); thread.join()
                    assert other == [1] and inner.phase_path == "epoch / load" and not inner.closed
            handle = tracker.enter_phase("by hand")
            handle.close(); handle.close()
        enter, exit = tracker.get_events("phase_enter"), tracker.get_events("phase_exit")
        assert [e.context for e in enter] == ["Phase entered: epoch", "Phase entered: epoch / load", "Phase entered: by hand"]
        assert [e.context for e in exit] == ["Phase exited: epoch / load", "Phase exited: epoch", "Phase exited: by hand"]
        scope = enter[1].metadata["phase_scope"]
        assert scope["path"] == ["epoch", "load"] and scope["depth"] == 2 and scope["thread_name"] == "MainThread"
        assert scope["parent_scope_id"] == enter[0].metadata["phase_scope"]["scope_id"]
        assert enter[0].metadata["phase_scope"]["attributes"] == {"epoch": 3}
        assert enter[0].memory_allocated == 0 and exit[0].memory_allocated == 10 * MIB
    """)


V2 = ["schema_version", "timestamp_ns", "event_type", "collector", "sampling_interval_ms", "pid", "host", "device_id",
      "allocator_allocated_bytes", "allocator_reserved_bytes", "allocator_active_bytes", "allocator_inactive_bytes",
      "allocator_change_bytes", "device_used_bytes", "device_free_bytes", "device_total_bytes", "context", "metadata"]


def test_exports(program):
    run_with(program, f"V2 = {V2!r}" + """
tracker = MemoryTracker(sampling_interval=0.02)
tracker.export_events("nothing.csv")
assert not os.path.exists("nothing.csv")
with tracker:
    gpu.allocate(900 * MIB)
    looked(tracker)
tracker.export_events("a.csv")
tracker.export_events("a.json", format="json")
events = tracker.get_events()
rows, records = list(csv.DictReader(open("a.csv"))), json.load(open("a.json"))
assert list(rows[0]) == list(records[0]) == V2 and len(rows) == len(records) == len(events)
for event, row, record in zip(events, rows, records):
    assert record["schema_version"] == 2 and record["sampling_interval_ms"] == 20 and record["pid"] == os.getpid()
    assert record["event_type"] == event.event_type and record["collector"] == "gpumemprof.cuda_tracker"
    assert abs(record["timestamp_ns"] - event.timestamp * 1e9) < 1000 and record["allocator_change_bytes"] == (event.memory_change or 0)
    assert record["metadata"]["supports_device_total"] is True and record["metadata"]["backend"] == "cuda"
    assert record["metadata"]["sampling_source"] == "torch.cuda.memory_allocated/reserved"
    assert record["metadata"]["session_id"] == event.session_id and str(record["metadata"]) == row["metadata"]
    assert {k: "" if v is None else str(v) for k, v in record.items()} == row
loaded = load_telemetry_events("a.json")
assert [telemetry_event_to_dict(e) for e in loaded] == records
assert telemetry_event_from_record(records[0]) == loaded[0]
refused(ValueError, "Missing required telemetry fields: context", validate_telemetry_record, {k: v for k, v in records[0].items() if k != "context"})
refused(ValueError, "device_used_bytes cannot exceed", validate_telemetry_record, {**records[0], "device_used_bytes": 10**12})
refused(ValueError, "Unsupported schema_version: 7", validate_telemetry_record, {"schema_version": 7})
old = telemetry_event_from_record({"timestamp": 1.5, "event_type": "peak", "memory_allocated": 5, "device_id": 0, "total_memory": 9})
assert (old.timestamp_ns, old.device_free_bytes, old.device_used_bytes) == (1500000000, 4, 5)
assert old.collector == "gpumemprof.cuda_tracker" and old.device_id == 0
for record, collector, device in (({"memory_mb": 2, "device": "/GPU:1"}, "tfmemprof.memory_tracker", 1), ({"device": "cpu"}, "mine", -1),
                                  ({"memory_allocated": 5}, "gpumemprof.cpu_tracker", -1), ({"memory_mb": 1}, "tfmemprof.memory_tracker", 0),
                                  ({"metadata_backend": "rocm", "device": "cuda:2"}, "gpumemprof.rocm_tracker", 2)):
    old = telemetry_event_from_record({"timestamp_ns": 1, **record}, default_collector="mine")
    assert (old.collector, old.device_id, old.event_type) == (collector, device, "sample"), old
    assert old.allocator_allocated_bytes == record.get("memory_mb", 0) * MIB + record.get("memory_allocated", 0)
refused(ValueError, "missing a valid timestamp", telemetry_event_from_record, {"timestamp": True})
refused(ValueError, "Legacy record conversion is disabled", telemetry_event_from_record, {"timestamp": 1}, False)
""")


def test_records_of_stormlog_are_read(program):
    """Schema 3, and records without a session or the capabilities of their collector, become records
    of schema 4; jobs and ranks in schema 2 are kept."""
    run_with(program, f"V2 = {V2!r}" + """
from hiwater.compat.gpumemprof import TelemetryEventV2, TelemetryEventV3, TelemetryEventV4
values = [3, 5, "sample", "stormlog.cuda_tracker", 100, 7, "here", 0, 10, 20, None, None, 1, 10, None, 100, None, {"backend": "cuda"}]
old = dict(zip(V2, values))
identity = {"job_id": "j", "rank": 1, "local_rank": 1, "world_size": 4}
three = {**old, "session_id": "s", **identity}
four = {**three, "schema_version": 4, "allocator_allocated_bytes": None, "allocator_change_bytes": None}
json.dump([three, {k: v for k, v in three.items() if k not in (*identity, "session_id")}, four], open("a.json", "w"))
loaded = load_telemetry_events("a.json")
assert [type(e) for e in loaded] == [TelemetryEventV4] * 3 and {e.schema_version for e in loaded} == {4}
assert [(e.session_id[:6], e.job_id, e.rank, e.world_size) for e in loaded] == [("s", "j", 1, 4), ("legacy", None, 0, 1), ("s", "j", 1, 4)]
capabilities = loaded[0].metadata["memory_capabilities"]
assert capabilities["supports_allocator_allocated"] and not capabilities["supports_device_free"] and capabilities["backend"] == "cuda"
assert not loaded[2].metadata["memory_capabilities"]["supports_allocator_allocated"]
for event in loaded: validate_telemetry_record(telemetry_event_to_dict(event))
assert load_telemetry_events("a.json", session_id="s") == [loaded[0], loaded[2]]
refused(ValueError, "Requested session_id not found: x", load_telemetry_events, "a.json", session_id="x")
assert telemetry_event_from_record({**three, "session_id": None}, default_session_id="d").session_id == "d"
refused(ValueError, "allocator_allocated_bytes must be an integer", telemetry_event_from_record, {**three, "allocator_allocated_bytes": None})
refused(ValueError, "Missing required telemetry fields: metadata", telemetry_event_from_record, {k: v for k, v in three.items() if k != "metadata"})
refused(ValueError, "Unknown telemetry fields: more", telemetry_event_from_record, {**three, "more": 1})
refused(ValueError, "memory_capabilities must be an object", validate_telemetry_record, four)
event = TelemetryEventV2(**{**old, "schema_version": 2}, job_id="j", rank=2, world_size=3)
record = telemetry_event_to_dict(event)
assert record["job_id"] == "j" and record["local_rank"] == 0 and telemetry_event_from_record(record) == event
assert list(telemetry_event_to_dict(TelemetryEventV2(**{**old, "schema_version": 2}))) == V2
refused(ValueError, "rank must be < world_size", TelemetryEventV2, **{**old, "schema_version": 2}, rank=3)
assert telemetry_event_to_dict(TelemetryEventV3(**three))["schema_version"] == 3
""")


def test_phases_and_sessions_by_hand(program):
    """As a program for stormlog calls them."""
    run_with(program, """
from hiwater.compat.gpumemprof.phases import PhaseProtocolError, PhaseRecorder
from hiwater.compat.gpumemprof.telemetry_sink import AppendOnlyTelemetrySink
phases = PhaseRecorder()
outer, entered = phases.enter(session_id="s", rank=1, name=" epoch ", attrs={"n": 3})
assert (entered.event_type, entered.context, entered.path) == ("phase_enter", "Phase entered: epoch", ("epoch",))
assert entered.metadata["phase_scope"]["attributes"] == {"n": 3} and outer.rank == 1 and entered.scope_id == outer.scope_id
inner, _ = phases.enter(session_id="s", rank=1, name="load")
other, _ = phases.enter(session_id="s", rank=2, name="other")
assert inner.path == ("epoch", "load") and other.path == ("other",)
refused(PhaseProtocolError, "strict LIFO order", phases.exit, outer)
assert phases.exit(inner).context == "Phase exited: epoch / load" and phases.exit(other).event_type == "phase_exit"
assert phases.exit_phase(session_id="s", rank=1, scope_id=outer.scope_id, thread_id=outer.thread_id).path == ("epoch",)
refused(PhaseProtocolError, "No active phase", phases.exit, outer)
refused(ValueError, "non-empty", phases.enter, session_id="s", rank=0, name=" ")
sink = AppendOnlyTelemetrySink(TelemetrySinkConfig("sink"))
session = sink.start_session()
assert sink.start_session() == session == sink.current_session() and session.status == "running"
sink.close("completed")
assert json.load(open("sink/manifest.json"))["sessions"][0]["session_id"] == session.session_id
""")


def test_whose_it_is(program):
    """job_id, rank and so on, given or from the launcher; records are then of schema 4."""
    program.env.update(SLURM_PROCID="1", SLURM_LOCALID="1", SLURM_NTASKS="4", SLURM_JOB_ID="77")
    run_with(program, """
        os.environ.update(SLURM_PROCID="1", SLURM_LOCALID="1", SLURM_NTASKS="4", SLURM_JOB_ID="77")
        with MemoryTracker() as tracker: pass
        event = tracker.get_events()[0]
        assert (event.job_id, event.rank, event.local_rank, event.world_size) == ("77", 1, 1, 4)
        with MemoryTracker(job_id="mine", rank=2, world_size=8) as tracker: pass
        event = tracker.get_events()[0]
        assert (event.job_id, event.rank, event.local_rank, event.world_size) == ("mine", 2, 1, 8)
        tracker.export_events("a.json", format="json")
        record = json.load(open("a.json"))[0]
        assert record["schema_version"] == 4 and record["rank"] == 2 and record["session_id"] == event.session_id
        assert record["metadata"]["memory_capabilities"]["supports_allocator_allocated"] is True
        refused(ValueError, "rank must be an integer", resolve_distributed_identity, env={"RANK": "x", "WORLD_SIZE": "2"})
        assert resolve_distributed_identity() == {"job_id": None, "rank": 0, "local_rank": 0, "world_size": 1}
    """)


def test_collectors_of_ones_own(program):
    run_with(program, """
        class Mine(DeviceMemoryCollector):
            failing = partial = False
            def name(self): return "tpu"
            def is_available(self): return True
            def sample(self):
                if self.failing: raise OSError("the device is gone")
                return DeviceMemorySample(None, None, 300, 700, 1000, None, None, 4)
            def sample_with_diagnostics(self):
                if not self.partial: return super().sample_with_diagnostics()
                sample = DeviceMemorySample(None, None, 300, None, 1000, None, None, 4)
                return DeviceMemorySampleResult(sample, ("device_free_bytes",), {"device_free_bytes": "not told"})
            def capabilities(self):
                return DeviceMemoryCapabilities("tpu", "mine.tpu", "mine", supports_device_used=True, supports_device_free=True,
                                                supports_device_total=True)
        collector = Mine()
        tracker = MemoryTracker(collector=collector, sampling_interval=0.01)
        assert (tracker.backend, tracker.total_memory, tracker.device) == ("tpu", 1000, None)
        tracker.thresholds["memory_warning_percent"] = 25
        tracker.start_tracking()
        looked(tracker)
        assert tracker.get_alerts()[-1].context == "WARNING: Memory usage at 30.0%"
        assert tracker.get_events()[-1].memory_allocated is None and tracker.get_events()[-1].device_used == 300
        collector.partial = True
        until(lambda: tracker.get_events("collector_degraded"))
        looked(tracker)
        event = tracker.get_events("sample")[-1]
        assert event.context == "Collected partial telemetry sample (device_free_bytes)."
        assert event.metadata["collector_health_status"] == "degraded" and event.device_free is None
        collector.partial = False
        until(lambda: tracker.get_events("collector_recovered"))
        collector.failing = True
        until(lambda: len(tracker.get_events("collector_degraded")) == 2)
        stats = tracker.get_statistics()
        assert stats["collector_health_status"] == "unhealthy" and stats["collector_last_error"] == "the device is gone"
        assert stats["current_device_used"] is None and stats["peak_memory"] is None and stats["peak_device_used"] == 300
        assert stats["memory_utilization_percent"] is None
        event = tracker.get_events("collector_degraded")[-1]
        assert event.context == "Collector unavailable; telemetry paused until recovery." and event.device_used == 300
        collector.failing = False
        until(lambda: len(tracker.get_events("collector_recovered")) == 2)
        tracker.stop_tracking()
        tracker.export_events("a.json", format="json")
        for event in load_telemetry_events("a.json"):
            assert event.schema_version == 4 and event.allocator_allocated_bytes is None and event.collector == "mine.tpu"
        class Liar(Mine):
            def sample(self): return DeviceMemorySample(5, None, 300, 700, 1000, None, None, 4)
        liar = MemoryTracker(collector=Liar(), sampling_interval=0.01)
        with liar: until(lambda: liar.get_events("collector_degraded"))
        assert "declares it unsupported" in liar.get_statistics()["collector_last_error"]
        refused(ValueError, "allocator features require", DeviceMemoryCapabilities, "a", "b", "c", supports_device_used=True,
                supports_bounded_profiling=True)
        legacy = DeviceMemoryCapabilities.from_mapping({"backend": "x", "supports_device_total": True})
        assert legacy.supports_allocator_allocated and legacy["supports_device_total"] and legacy.sampling_source == "unknown"
    """)


def test_a_reading_that_hangs(program):
    run_with(program, """
        from hiwater.compat.gpumemprof import _tracking
        _tracking.STOP_LIMIT_S = 0.05
        tracker = MemoryTracker(sampling_interval=0.001)
        tracker.start_tracking()
        going, held = threading.Event(), threading.Event()
        ask = torch.cuda.memory_stats
        torch.cuda.memory_stats = lambda d=None: (held.set(), going.wait(), ask(d))[-1]
        held.wait()
        refused(TimeoutError, "Memory tracking thread did not stop within 0.05 seconds", tracker.stop_tracking)
        assert tracker.is_tracking
        going.set()
        tracker.stop_tracking()
        assert not tracker.is_tracking and tracker.get_events()[-1].event_type == "stop"
    """)


def test_cpu(program):
    run_with(program, """
        sys.modules["torch"] = None  # is not needed
        tracker = CPUMemoryTracker(sampling_interval=0.02)
        with tracker:
            with tracker.phase("fill"):
                fill(200)
            looked(tracker)
        stats = tracker.get_statistics()
        assert stats["mode"] == "cpu" and stats["peak_memory"] >= stats["current_memory_allocated"] + 150 * MIB  # by the kernel's mark
        assert stats["total_events"] == len(tracker.get_events()) and stats["tracking_duration_seconds"] > 0
        event = tracker.get_events("peak")[-1]
        assert event.context.startswith("New CPU peak RSS: ") and event.device_id == -1 and event.backend == "cpu"
        assert event.memory_allocated == stats["peak_memory"] and event.device_used is None
        assert {e.event_type for e in tracker.get_events()} >= {"start", "sample", "phase_enter", "phase_exit", "stop", "peak"}
        path = tracker.export_events_with_timestamp(".", "json")
        assert "cpu_tracker_" in path
        record = load_telemetry_events(path)[0]
        assert record.device_used_bytes == record.allocator_allocated_bytes > 0 and record.collector == "gpumemprof.cpu_tracker"
        assert set(tracker.get_memory_timeline()) == {"timestamps", "allocated", "reserved"}
    """)


def test_sink(program):
    run_with(program, """
        config = TelemetrySinkConfig("sink", flush_every_events=1, rollover_max_events=30, retention_max_files=3)
        tracker = MemoryTracker(sampling_interval=0.001, telemetry_sink_config=config)
        with tracker:
            until(lambda: tracker.get_statistics()["pruned_segment_count"] > 0)
        stats = tracker.get_statistics()
        assert stats["final_retained_files"] <= 3 and stats["rollover_count"] >= 3 and stats["final_retained_bytes"] > 0
        events = load_telemetry_events("sink")
        assert events[-1].event_type == "stop" and {e.session_id for e in events} == {tracker.get_session_summary().session_id}
        manifest = json.load(open("sink/manifest.json"))
        assert manifest["format"] == "stormlog.append_only_telemetry_sink" and manifest["schema_version"] == 2
        assert [s["status"] for s in manifest["sessions"]] == ["completed"] and all(s["closed"] for s in manifest["segments"])
        tracker.start_tracking(); tracker.stop_tracking()  # a second session
        assert len(json.load(open("sink/manifest.json"))["sessions"]) == 2
        refused(ValueError, "rollover_max_bytes must be >= 1", TelemetrySinkConfig, "x", rollover_max_bytes=0)
        refused(ValueError, "flush_every_seconds must be > 0", TelemetrySinkConfig, "x", flush_every_seconds=0.0)
        logging.disable(logging.CRITICAL)
        bounded = AppendOnlyTelemetrySink(TelemetrySinkConfig("bounded", max_buffer_bytes=40, failure_backoff_seconds=60.0))
        os.rmdir("bounded")
        for i in range(5): bounded.append({"event": i, "text": "x" * 10})
        said = bounded.failure_diagnostics()
        assert said["dropped_records"] == 4 and said["flush_failures"] == 1 and said["buffered_records"] == 1
        broken = MemoryTracker(sampling_interval=0.001, telemetry_sink_config=TelemetrySinkConfig("broken", flush_every_events=1))
        with broken:
            import shutil
            os.rename("broken", "gone")  # at once: the thread goes on writing
            shutil.rmtree("gone", ignore_errors=True)
            until(lambda: broken.get_session_summary().status == "incomplete")
            looked(broken)
        assert broken.get_session_summary().status == "incomplete"
    """)


def test_forked(program):
    """A worker that inherits a tracker: it does not touch files or session of the parent, raise or
    wait."""
    program.run(BEFORE + """
import threading
config = TelemetrySinkConfig("sink", flush_every_events=1)
for make in (lambda: MemoryTracker(sampling_interval=0.001, telemetry_sink_config=config),
             lambda: CPUMemoryTracker(sampling_interval=0.001, telemetry_sink_config=TelemetrySinkConfig("cpu", flush_every_events=1))):
    tracker = make()
    tracker.start_tracking()
    looked(tracker)
    phase = tracker.enter_phase("both")
    root = tracker._sink.root_dir
    held, go = threading.Event(), threading.Event()
    def hold():
        with tracker._lock, tracker._sink._lock, tracker._evidence._lock, tracker._phases._lock:
            held.set(); go.wait()
    holder = threading.Thread(target=hold)
    holder.start(); held.wait()  # while it holds them, files stay as they are
    kept = {p.name: p.read_bytes() for p in root.iterdir()}
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)
            assert not tracker.is_tracking
            with tracker.phase("worker"):
                phase.close()
            tracker._note("warning", "of the worker")
            tracker.get_statistics() if hasattr(tracker, "thresholds") else tracker.get_events()
            tracker.stop_tracking()
            with tracker:
                looked(tracker)
                with tracker.phase("its own"): pass
            assert not tracker.is_tracking
            assert {p.name: p.read_bytes() for p in root.iterdir()} == kept
            os._exit(0)
        except BaseException:
            import traceback; traceback.print_exc()
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    go.set(); holder.join()
    assert status == 0, status
    assert tracker.is_tracking and tracker.get_session_summary().status == "running"
    looked(tracker)
    phase.close()
    tracker.stop_tracking()
    assert [s["status"] for s in json.load(open(root / "manifest.json"))["sessions"]] == ["completed"]
    assert {e.pid for e in load_telemetry_events(root)} == {os.getpid()}
""")


def test_sink_that_was_cut_off(program):
    """Killed while writing a record: complete records stay, the session is interrupted."""
    run_with(program, """
        config = TelemetrySinkConfig("sink", flush_every_events=1)
        tracker = MemoryTracker(sampling_interval=0.001, telemetry_sink_config=config)
        tracker.start_tracking()
        looked(tracker, 5)
        os.kill(os.getpid(), signal.SIGKILL)
    """, status=-9)
    with open(program.folder / "sink" / "segment-000001.jsonl", "a", encoding="utf-8") as segment:
        segment.write('{"half": ')  # the program has ended
    run_with(program, """
        sink = AppendOnlyTelemetrySink(TelemetrySinkConfig("sink"))
        assert len(load_telemetry_events("sink")) >= 5
        assert [s["status"] for s in json.load(open("sink/manifest.json"))["sessions"]] == ["interrupted"]
    """)


def test_names(program):
    """The names of the replaced packages; importing does not import PyTorch."""
    run_with(program, """
        import hiwater.compat.gpumemprof as gpumemprof
        from hiwater.compat.gpumemprof.tracker import MemoryTracker, MemoryWatchdog, TrackingEvent
        from hiwater.compat.gpumemprof.oom_flight_recorder import classify_oom_exception
        from hiwater.compat.gpumemprof.cpu_profiler import CPUMemoryTracker
        for name in gpumemprof.__all__: assert getattr(gpumemprof, name)
        assert set(gpumemprof.__all__) <= set(dir(gpumemprof)) and gpumemprof.__version__ == "0.2.2"
        assert list(TrackingEvent(1.0, "peak", 1, 2, 3, 0, "text").__dict__)[:8] == [
            "timestamp", "event_type", "memory_allocated", "memory_reserved", "memory_change", "device_id", "context", "metadata"]
        refused(AttributeError, "has no attribute", getattr, gpumemprof, "GPUMemoryProfiler")
    """)


def test_on_every_python(program):
    """All share one extension module."""
    text = BEFORE + """
with MemoryTracker(sampling_interval=0.005) as tracker:
    gpu.allocate(10 * MIB)
    looked(tracker)
assert tracker.get_statistics()["peak_memory"] == 10 * MIB
tracker.export_events("a.json", format="json")
assert load_telemetry_events("a.json")[-1].event_type == "stop"
"""
    program.env["HIWATER_COMPAT_RECORD"] = "0"
    for python in pythons():
        process = program.start(text, str(python), interpreter=())
        _, stderr = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0 and stderr == "", f"{python}: {stderr}"


def test_a_program_that_uses_it_is_well_typed(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--python-version", "3.10",
                           str(HERE / "typed_memory_tracker.py")], capture_output=True, text=True,
                          env={"MYPYPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin"}, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_events_are_small(program):
    """Under 100 bytes per event, by the growth of this process."""
    [told] = run_with(program, """
        tracker = MemoryTracker(sampling_interval=60, max_events=200000)
        gpu.reserved = 700 * MIB
        tracker.start_tracking()
        def rss(): return int(open("/proc/self/statm").read().split()[1]) * 4096
        for i in range(100): tracker._read_once()
        before = rss()
        while tracker._list.stats()[0] < 60000:
            gpu.allocated = (gpu.allocated + 7 * MIB) % (700 * MIB)
            tracker._read_once()
        tell(each=(rss() - before) / 60000)
        tracker.stop_tracking()
    """)
    assert told["each"] < 100, json.dumps(told)
