# SPDX-License-Identifier: MIT
"""Programs written for gpu-memory-profiler and stormlog, run by each of them and by
hiwater.compat.gpumemprof with only the import changed, on the same stand-in for PyTorch's
allocator; and with the real PyTorch where no GPU is needed.

docs/compat.md lists the deliberate differences."""
import json
import os
import subprocess

import pytest
from memory_helpers import HERE
from track_helpers import COMMAND, CORE, ROOT

pytestmark = pytest.mark.full

PYTHON = ROOT / ".venv-memory-trackers" / "bin" / "python"

IMPORTS = {
    "gpumemprof": "from gpumemprof import MemoryTracker, CPUMemoryTracker, classify_oom_exception, load_telemetry_events\n"
                  "from gpumemprof.tracker import MemoryWatchdog\nimport gpumemprof as package",
    "stormlog": "from stormlog import MemoryTracker, CPUMemoryTracker, classify_oom_exception, load_telemetry_events\n"
                "from stormlog.tracker import MemoryWatchdog\nimport stormlog as package",
    "ours": "from hiwater.compat.gpumemprof import MemoryTracker, CPUMemoryTracker, classify_oom_exception, "
            "load_telemetry_events\nfrom hiwater.compat.gpumemprof.tracker import MemoryWatchdog\nimport hiwater.compat.gpumemprof as package",
}

BEFORE = f"""
import csv, json, os, pathlib, sys, time
sys.path.insert(0, {str(HERE)!r})
import logging; logging.disable(logging.CRITICAL)
MIB = 1 << 20
def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)
def tell(**values): json.dump(values, open("told.json", "w"), default=str)
"""

STAND_IN = """
import stand_in_torch
torch = stand_in_torch.install()
gpu = torch.gpus[0]
"""


def told_by(which, text, folder, stand_in=True):
    """The output of the program, run with the package of this name."""
    if not PYTHON.exists():
        pytest.fail(f"no {PYTHON}: run make test-full")
    folder = folder / which
    folder.mkdir(exist_ok=True)
    file = folder / "program.py"
    file.write_text(BEFORE + (STAND_IN if stand_in else "") + IMPORTS[which] + "\n" + text)
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("HIWATER", "SLURM", "OMPI", "RANK", "PYTHON"))}
    env = {**keep, "HIWATER_COMMAND": COMMAND, "HIWATER_CORE": CORE, "HIWATER_DIR": str(folder / "history"),
           **({"PYTHONPATH": str(ROOT / "python")} if which == "ours" else {})}
    done = subprocess.run([PYTHON, file], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "told.json").read_text())


def all_of(text, folder, **options):
    return {which: told_by(which, text, folder, **options) for which in IMPORTS}


WORKLOAD = """
tracker = MemoryTracker(device="cuda:0", sampling_interval=0.02, max_events=5000, enable_oom_flight_recorder=True,
                        oom_dump_dir="dumps", oom_buffer_size=1000)
seen = []
tracker.add_alert_callback(lambda event: seen.append(event.event_type))
watchdog = MemoryWatchdog(tracker)
tracker.start_tracking()
time.sleep(0.1)
for size in (100, 300, 450):   # 850 MiB: a warning
    block = gpu.allocate(size * MIB)
    time.sleep(0.1)
until(lambda: "warning" in seen)
gpu.free(block)
time.sleep(0.1)
gpu.allocate(560 * MIB)        # 96%
until(lambda: "critical" in seen)
time.sleep(0.1)
try:
    with tracker.capture_oom(context="step", metadata={"epoch": 5}):
        gpu.allocate(2000 * MIB)
except RuntimeError:
    pass
tracker.stop_tracking()
stats = tracker.get_statistics()
timeline = tracker.get_memory_timeline(interval=0.05)
tracker.export_events("a.csv")
tracker.export_events("a.json", format="json")
bundle = pathlib.Path(tracker.last_oom_dump_path)
events = tracker.get_events()
tell(stats=stats, kinds=[e.event_type for e in events], contexts=[e.context for e in events],
     fields=sorted(vars(events[0])), metadata={e.event_type: sorted(e.metadata or {}) for e in events},
     alerts=len(tracker.get_alerts()), seen=sorted(set(seen)), timeline=timeline,
     columns=list(csv.DictReader(open("a.csv")).fieldnames), records=json.load(open("a.json")),
     bundle={p.name: json.loads(p.read_text()) for p in bundle.iterdir()}, calls=torch.calls, cleanup=watchdog.get_cleanup_stats(),
     thresholds=tracker.thresholds, capabilities=dict(tracker.collector_capabilities) if package.__name__ != "stormlog" else {})
"""


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    return all_of(WORKLOAD, tmp_path_factory.mktemp("workload"))


def keys_of(value, prefix=""):
    """Types and keys of nested objects, except those of the user or of a session."""
    found = set()
    for key, item in value.items():
        found.add(prefix + key)
        if isinstance(item, dict):
            found |= keys_of(item, f"{prefix}{key}.")
    return found


def test_statistics(workload):
    """All keys of both packages, and the same sums, those of the workload."""
    ours, theirs, later = (workload[which]["stats"] for which in ("ours", "gpumemprof", "stormlog"))
    assert set(theirs) <= set(ours) and set(later) <= set(ours)
    mib = 1 << 20
    for stats in (ours, theirs, later):
        assert stats["peak_memory"] == 960 * mib and stats["total_allocations"] == 4 and stats["total_deallocations"] == 1
        assert stats["total_allocation_bytes"] == 1410 * mib and stats["total_deallocation_bytes"] == 450 * mib
        assert stats["current_memory_allocated"] == 960 * mib and stats["backend"] == "cuda"
        assert stats["oom_flight_recorder_enabled"] is True and 0.5 < stats["tracking_duration_seconds"] < 60
    for key in set(theirs):
        assert type(ours[key]) is type(theirs[key]) or key in ("last_memory_check",), key


def test_events(workload):
    """The same events with the same texts in the same order, except samples and the fragmentation
    of a warm cache."""
    def of(which):
        said = workload[which]
        kept = [(k, c) for k, c in zip(said["kinds"], said["contexts"])
                if k not in ("sample", "cleanup") and "fragmentation" not in c]
        return list(dict.fromkeys(kept))  # alerts are repeated while their condition lasts

    assert of("ours") == of("gpumemprof") == of("stormlog")
    assert workload["ours"]["kinds"].count("sample") > 20
    for which in ("gpumemprof", "stormlog"):
        assert set(workload[which]["fields"]) <= set(workload["ours"]["fields"])
        assert workload[which]["seen"] == workload["ours"]["seen"] == ["critical", "error", "warning"]
        assert workload[which]["thresholds"] == workload["ours"]["thresholds"]
    for kind, names in workload["gpumemprof"]["metadata"].items():
        assert set(names) <= set(workload["ours"]["metadata"].get(kind, names)), kind
    assert workload["ours"]["capabilities"].items() >= workload["gpumemprof"]["capabilities"].items()
    assert set(workload["ours"]["cleanup"]) == set(workload["gpumemprof"]["cleanup"])


def test_timelines(workload):
    ours, theirs, later = (workload[which]["timeline"] for which in ("ours", "gpumemprof", "stormlog"))
    assert set(theirs) <= set(ours) and set(later) == set(ours)
    for line in (ours, theirs, later):
        assert len({len(values) for values in line.values()}) == 1 and line["timestamps"] == sorted(line["timestamps"])
        assert max(line["allocated"]) == 960 << 20 and line["allocated"][-1] == 960 << 20


def test_exports(workload, tmp_path):
    """The columns of 0.2.2; each package reads the files of each."""
    assert workload["ours"]["columns"] == workload["gpumemprof"]["columns"]
    ours, theirs = (workload[which]["records"] for which in ("ours", "gpumemprof"))
    assert list(ours[0]) == list(theirs[0])
    for key in ours[0]:
        assert {type(r[key]) for r in theirs} >= {type(r[key]) for r in ours if r["event_type"] != "sample"}, key
    assert set(theirs[0]["metadata"]) <= set(ours[0]["metadata"])
    for which in IMPORTS:
        (tmp_path / f"{which}.json").write_text(json.dumps(workload[which]["records"]))
    read = f"""
tell(n=[len(load_telemetry_events(f"{tmp_path}/{{which}}.json")) for which in SEEN])
"""
    for which, seen in (("gpumemprof", ["gpumemprof", "ours"]), ("stormlog", list(IMPORTS)), ("ours", list(IMPORTS))):
        told = told_by(which, f"SEEN = {seen!r}" + read, tmp_path)
        assert told["n"] == [len(workload[other]["records"]) for other in seen]


def test_bundles(workload):
    ours, theirs, later = (workload[which]["bundle"] for which in ("ours", "gpumemprof", "stormlog"))
    assert set(ours) == set(theirs) == set(later)
    for name in ("manifest.json", "metadata.json", "environment.json"):
        assert keys_of(theirs[name]) <= keys_of(ours[name]), name
    for name in ("manifest.json", "metadata.json"):
        assert set(later[name]) <= set(ours[name])
    assert ours["manifest.json"]["schema_version"] == later["manifest.json"]["schema_version"]
    assert set(theirs["events.json"][0]) <= set(ours["events.json"][0])
    for bundle in (ours, theirs, later):
        assert bundle["metadata.json"]["reason"] == "torch.cuda.OutOfMemoryError"
        assert bundle["metadata.json"]["custom_metadata"]["epoch"] == 5
        errors = [e["context"] for e in bundle["events.json"] if e["event_type"] == "error"]  # a sample may coincide with it
        assert errors[-1] == "OOM detected (torch.cuda.OutOfMemoryError)"


# Errors of the originals, observed in the same run: their figures, and ours.
WRONG = """
import errno
gpu.allocate(100 * MIB)
with MemoryTracker(sampling_interval=0.5) as tracker:
    gpu.free(gpu.allocate(800 * MIB))       # a burst between two samples
    time.sleep(0.7)
calls = len(torch.calls)
tracker.set_threshold("memory_critical_percent", 50)
watchdog = MemoryWatchdog(tracker, aggressive_cleanup_threshold=0.95)
tracker.start_tracking()
block = gpu.allocate(500 * MIB)             # 60%: critical, far below 95%
until(lambda: watchdog.cleanup_count)
tracker.stop_tracking()
tell(peak=tracker.stats["peak_memory"] >> 20, calls=torch.calls,
     oom=[classify_oom_exception(e).is_oom for e in (MemoryError(), OSError(errno.ENOMEM, "x"),
          RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"))])
"""


def test_what_goes_wrong_there(tmp_path):
    told = all_of(WRONG, tmp_path)
    assert told["ours"] == {"peak": 900, "calls": ["empty_cache"], "oom": [True, True, True]}
    for which in ("gpumemprof", "stormlog"):
        assert told[which]["peak"] == 600 and "synchronize" in told[which]["calls"] and False in told[which]["oom"]


CPU = """
tracker = CPUMemoryTracker(sampling_interval=0.05)
with_block = tracker.start_tracking()
block = bytearray(200 * MIB); block[::4096] = b"x" * len(block[::4096])
time.sleep(0.3)
del block
time.sleep(0.2)
tracker.stop_tracking()
tracker.export_events("cpu.csv"); tracker.export_events("cpu.json", format="json")
tell(stats=tracker.get_statistics(), kinds=sorted({e.event_type for e in tracker.get_events()}), records=json.load(open("cpu.json")),
     timeline=sorted(tracker.get_memory_timeline()), contexts=sorted({e.context.split(" by ")[0].split(": ")[0] for e in tracker.get_events()}))
"""


def test_cpu(tmp_path):
    told = all_of(CPU, tmp_path, stand_in=False)  # with the real PyTorch installed
    ours, theirs, later = (told[which] for which in ("ours", "gpumemprof", "stormlog"))
    assert set(theirs["stats"]) <= set(ours["stats"]) and set(later["stats"]) <= set(ours["stats"])
    assert later["kinds"] == ours["kinds"] and set(theirs["kinds"]) | {"sample"} == set(ours["kinds"])
    assert ours["contexts"] == later["contexts"] and ours["timeline"] == theirs["timeline"] == later["timeline"]
    assert list(ours["records"][0]) == list(theirs["records"][0])
    for said in told.values():
        assert said["stats"]["peak_memory"] > 200 << 20 and said["stats"]["mode"] == "cpu"


REAL = """
import torch
said = {}
for name, device in (("none", None), ("cpu", "cpu"), ("cuda", "cuda:0"), ("number", 0), ("mps", "mps")):
    try: MemoryTracker(device=device)
    except Exception as e: said[name] = [type(e).__name__, str(e)]
try: torch.empty(1 << 60)
except RuntimeError as e: said["host"] = classify_oom_exception(e).is_oom
said["type"] = classify_oom_exception(torch.OutOfMemoryError("x")).reason
said["system"] = sorted(package.get_system_info()) if hasattr(package, "get_system_info") else None
said["gpu"] = package.get_gpu_info()
tell(**said)
"""


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="this machine has a GPU")
def test_the_real_pytorch(tmp_path):
    """The same error texts and exception types."""
    told = all_of(REAL, tmp_path, stand_in=False)
    for name in ("none", "cpu", "cuda", "number", "mps", "type", "gpu"):
        assert told["ours"][name] == told["gpumemprof"][name] == told["stormlog"][name], name
    assert told["ours"]["host"] is True and told["gpumemprof"]["host"] is False  # "Cannot allocate memory"
