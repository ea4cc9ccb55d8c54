# SPDX-License-Identifier: MIT
"""Framework figures of device memory, on stand-ins for torch.cuda, JAX and TensorFlow and a fake
driver with two GPUs."""
import os
import pathlib
import re

import pytest
from track_helpers import ROOT

BUILD = pathlib.Path(os.environ.get("HIWATER_BUILD", ROOT / "build")).resolve()
CARD = ROOT / "tests" / "fake" / "scenarios" / "cards" / "h100.conf"
GIB = 1 << 30

STAND_IN = """
import types
GIB = 1 << 30

class Touched(BaseException):
    'No Exception, which would be taken for a framework that fails.'

class FakeCuda(types.ModuleType):
    'What torch.cuda has of it. Anything that synchronises, sets something back or starts a device fails the test.'
    def __init__(self):
        super().__init__("torch.cuda")
        self.begun, self.asked, self.now, self.peak, self.counts = True, 0, [0, 0], [0, 0], [0, 0]
        self.reserved, self.idle = [0, 0], [0, 0]
    def is_initialized(self): return self.begun
    def device_count(self): return 2
    def get_device_properties(self, i): return types.SimpleNamespace(name="NVIDIA H100", uuid="0-1")
    def memory_stats(self, i):
        self.asked += 1
        if not self.begun: raise Touched("a device was started")
        return {"allocated_bytes.all.current": self.now[i], "allocated_bytes.all.peak": self.peak[i],
                "reserved_bytes.all.current": self.reserved[i], "reserved_bytes.all.peak": self.reserved[i],
                "inactive_split_bytes.all.current": self.idle[i], "num_alloc_retries": self.counts[0],
                "num_ooms": self.counts[1]}
    def hold(self, i, amount):
        self.now[i] = amount
        self.peak[i] = max(self.peak[i], amount)
        self.reserved[i] = max(self.reserved[i], 2 * amount)
    def __getattr__(self, name):
        raise Touched(f"torch.cuda.{name} was used")

def stand_in():
    torch = types.ModuleType("torch")
    torch.cuda, torch.version = FakeCuda(), types.SimpleNamespace(cuda="13.0", hip=None)
    sys.modules["torch"] = torch
    return torch.cuda

class OutOfMemoryError(RuntimeError):
    'As torch has it.'
"""


@pytest.fixture
def on_gpus(program):
    scenario = program.folder / "gpu.conf"
    scenario.write_text(f"[driver]\nlevel = 550\n[gpu 0-1]\ninclude = {CARD}\nmemory_used = processes 100Mi\n"
                        f"[process 0]\npid = @{program.folder}/main\nmemory = 5Gi\n")
    program.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"), HIWATER_FAKE_NVML=str(scenario))
    return program


def test_instances_are_told_by_their_own_numbers(on_gpus):
    """The first instance of GPU 0 is not confused with GPU 0 anywhere."""
    mig = (CARD.parent.parent / "mig.conf").read_text().replace("include = ", f"include = {CARD.parent.parent}/")
    (on_gpus.folder / "gpu.conf").write_text(mig.replace("$HIWATER_FAKE_PID", f"@{on_gpus.folder}/main"))
    on_gpus.run("""
(FOLDER / "main").write_text(str(os.getpid()))
with hiwater.track(output="a.hiw"):
    time.sleep(2.2)
from hiwater import _figures, _live
recording = hiwater.open("a.hiw")
figures = _figures.Since().read(recording)
assert 16 < figures["hiwater/gpu0.0_mem_gib"] < 17.1 and figures["hiwater/gpu0.0_sm_active"] > 0.6, figures
assert "hiwater/gpu0_sm_active" not in figures or figures["hiwater/gpu0_sm_active"] != figures["hiwater/gpu0.0_sm_active"], figures
said = _live.run_lines(recording.summary)
assert "MIG 0.0 SM active 63.0 %" in said and "MIG 0.0 peak 17" in said and "GPU 0" not in said, said
drawn, _ = _live.picture(recording, ())
assert all(f">{name} " in drawn for name in ("GPU 0", "MIG 0.0")) and ">GPU 1 " not in drawn, drawn  # which it does not use
""")


def test_they_stand_beside_the_drivers(on_gpus):
    """Peaks and counts are those of the run, not of the program, which had 30 GiB and 5 retries
    before."""
    on_gpus.run(STAND_IN + """
cuda = stand_in()
cuda.hold(0, 30 * GIB); cuda.hold(0, GIB); cuda.reserved[0] = 2 * GIB; cuda.counts[:] = [5, 1]
(FOLDER / "main").write_text(str(os.getpid()))
with hiwater.track(output="a.hiw") as run:
    with run.phase("burst"):
        cuda.hold(0, 4 * GIB); cuda.idle[0] = GIB; cuda.counts[0] += 2
        time.sleep(1.2)
    cuda.hold(0, 2 * GIB)
    time.sleep(1.2)
(FOLDER / "summary.json").write_text(run.summary.to_json())
device, other = run.summary.gpu.devices
assert device.memory.job_peak_bytes == 5 * GIB
torch = device.framework["torch"]
assert torch.allocated_peak_bytes == 4 * GIB, torch
assert torch.reserved_peak_bytes == 8 * GIB and torch.alloc_retries == 2 and torch.ooms == 0, torch
assert torch.fragmentation_max == 0.125
assert other.framework == {}
assert "torch/gpu0/allocated_bytes" in run.summary.series
[p] = run.summary.phases
assert p.gpu.peak_bytes == 5 * GIB and p.gpu.method == "sampled" and p.energy.gpu_j > 0, p
assert 0 <= p.gpu.gpu_mean <= 1
assert "torch allocated peak 4.00 GiB" in str(run.summary) and "torch/gpu0" not in str(run.summary), str(run.summary)
assert hiwater.open("a.hiw").summary == run.summary
""")


def test_a_peak_between_two_looks_is_the_frameworks_own(on_gpus):
    """The framework's high-water mark shows the burst. A reset of the mark by the program is
    respected, and loses no reported peak."""
    on_gpus.run(STAND_IN + """
cuda = stand_in()
with hiwater.track(record=False) as run:
    cuda.hold(1, 7 * GIB); cuda.hold(1, GIB)
    run.log(loss=1)
    cuda.peak[1] = cuda.now[1]  # torch.cuda.reset_peak_memory_stats()
    time.sleep(0.2)
    run.log(loss=1)
    cuda.hold(1, 2 * GIB); cuda.hold(1, GIB)
assert run.summary.gpu.devices[1].framework["torch"].allocated_peak_bytes == 7 * GIB
assert run.summary.gpu.devices[0].framework == {}
""")


def test_gently_and_only_what_is_there(on_gpus):
    """Without a framework there is no thread and no read; with one, at most ten reads a second; no
    device is initialised."""
    on_gpus.run(STAND_IN + """
with hiwater.track(record=False) as run:
    run.log(loss=1)
    assert threading.active_count() == 1
    assert not {"torch", "jax", "tensorflow"} & set(sys.modules)
cuda = stand_in()
cuda.begun = False
with hiwater.track(record=False) as run:
    run.log(loss=1)
    assert cuda.asked == 0
    cuda.begun = True
    cuda.hold(0, GIB)
    end, n = time.monotonic() + 1, 0
    while time.monotonic() < end: run.log(loss=1); n += 1; time.sleep(0.001)
    asked = cuda.asked / 2
    assert n > 100 and asked <= 14, (n, asked)
assert threading.active_count() == 1 or time.sleep(1.5) or threading.active_count() == 1
assert run.warnings == [] and run.summary.series["loss"].n == n + 1
""")


def test_a_framework_that_fails_is_left_alone(program):
    program.run(STAND_IN + """
cuda = stand_in()
def broken(i): raise RuntimeError("CUDA error: device-side assert triggered")
cuda.memory_stats = broken
with hiwater.track(record=False) as run:
    with run.phase("p"): run.log(loss=1)
sys.modules["torch"] = types.ModuleType("torch")  # half imported
with hiwater.track(record=False) as run: run.log(loss=1)
assert run.summary.run.complete and run.warnings == []
""")


def test_jax_and_tensorflow(program):
    program.run(STAND_IN + """
bridge, jax = types.ModuleType("jax._src.xla_bridge"), types.ModuleType("jax")
begun = [False]
bridge.backends_are_initialized = lambda: begun[0]
class Device:
    id, platform, local_hardware_id = 0, "gpu", 0
    def memory_stats(self): return {"bytes_in_use": 3 * GIB, "peak_bytes_in_use": 9 * GIB, "bytes_limit": 60 * GIB}
class Cpu:
    id, platform = 1, "cpu"
    def memory_stats(self): return None
def local_devices():
    if not begun[0]: raise Touched("jax was started")
    return [Device(), Cpu()]
jax.local_devices = local_devices
sys.modules.update({"jax": jax, "jax._src.xla_bridge": bridge})

eager, tensorflow = types.ModuleType("tensorflow.python.eager.context"), types.ModuleType("tensorflow")
context = types.SimpleNamespace(_initialized=False)
eager.context_safe = lambda: context
def devices(kind):
    if not context._initialized: raise Touched("tensorflow was started")
    return ["GPU:0"]
tensorflow.config = types.SimpleNamespace(list_logical_devices=devices, experimental=types.SimpleNamespace(
    get_memory_info=lambda name: {"current": 5, "peak": 8}))
sys.modules.update({"tensorflow": tensorflow, "tensorflow.python.eager.context": eager})

with hiwater.track(record=False) as run:
    begun[0] = context._initialized = True
    with run.phase("p"): pass
s = run.summary.series
assert s["jax/gpu0/allocated_bytes"].last == 3 * GIB and s["jax/gpu0/allocated_peak_bytes"].last == 9 * GIB
assert s["tensorflow/gpu0/allocated_bytes"].last == 5 and s["tensorflow/gpu0/allocated_peak_bytes"].last == 8
assert not [name for name in s if "gpu1" in name]
""")


@pytest.mark.parametrize("chosen, order, names, number, name", [
    (None, None, ["a", "a"], 1, "gpu1"),
    ("3,2", None, ["a", "a"], 0, "gpu3"),
    (" 3 , 2", None, ["a", "a"], 1, "gpu2"),
    ("GPU-12ab,GPU-77", None, ["a", "a"], 1, "GPU-77"),
    ("MIG-5", None, ["a"], 0, "MIG-5"),
    (None, None, ["a", "b"], 0, "GPU-u"),
    (None, "PCI_BUS_ID", ["a", "b"], 0, "gpu0"),
    ("1", None, ["a", "b"], 0, "gpu1"),
])
def test_which_device(program, chosen, order, names, number, name):
    environ = {k: v for k, v in (("CUDA_VISIBLE_DEVICES", chosen), ("CUDA_DEVICE_ORDER", order)) if v is not None}
    program.run(f"""
        from hiwater._frameworks import device_name
        assert device_name({number}, {names}, "GPU-u", {environ}) == {name!r}
    """)


def test_they_are_drawn_with_the_gpus(program):
    """Framework series are not drawn as series of the program; the wait for data only on
    request."""
    pytest.importorskip("matplotlib")
    program.run(STAND_IN + """
cuda = stand_in()
with hiwater.track(output="a.hiw") as run:
    cuda.hold(0, 4 * GIB)
    for i in run.wrap_loader(range(12)): run.log(loss=i); time.sleep(0.1)
axes = run.plot().axes
assert [a.get_ylabel() for a in axes] == ["RAM, GiB", "cores", "GPU memory, GiB", "loss"], [a.get_ylabel() for a in axes]
assert [line.get_label() for line in axes[2].lines] == ["torch gpu0 allocated", "torch gpu0 reserved"]
assert max(axes[2].lines[1].get_ydata()) == 8
assert [a.get_ylabel() for a in run.plot("data_wait").axes][-1] == "data_wait"
""")


# ---- out of memory -------------------------------------------------------------------------------------------------------------

def triggers(program, name):
    incident = program.shown(name)["incident"]
    return incident["event"] if incident else None


def test_an_exception_that_leaves_the_block(on_gpus):
    """The exception is raised unchanged, and recorded once, although it leaves two phases and the
    block."""
    on_gpus.run(STAND_IN + """
cuda = stand_in()
(FOLDER / "main").write_text(str(os.getpid()))
try:
    with hiwater.track(output="a.hiw") as run:
        with run.phase("outer"), run.phase("inner"):
            time.sleep(1.2)
            cuda.hold(0, 3 * GIB); cuda.counts[1] += 1
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\\nGPU 0 has a total capacity of 79.6 GiB")
except OutOfMemoryError as e:
    assert "Tried" in str(e)
else:
    raise AssertionError
events = hiwater.open("a.hiw").columns("event")
said = [t for k, t in zip(events["kind"], events["text"]) if k == "trigger"]
assert len(said) == 1 and "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0" in said[0], said
assert run.summary.gpu.devices[0].framework["torch"].ooms == 1
assert run.summary.exit.oom_killed is False and run.summary.incident is not None
""")
    assert "out of memory" in triggers(on_gpus, "a.hiw")


def test_told_by_hand(program):
    program.run(STAND_IN + """
with hiwater.track(output="a.hiw") as run:
    try: raise OutOfMemoryError("CUDA out of memory.")
    except RuntimeError as e:
        assert run.oom(e) is True and run.oom(e) is True
    assert run.oom("the host's pinned pool\\nis empty") is True
    assert run.oom(ValueError("out of memory")) is False and run.oom(RuntimeError("something else")) is False
    time.sleep(1.1)
said = [t for k, t in zip(*[hiwater.open("a.hiw").columns("event")[c] for c in ("kind", "text")]) if k == "trigger"]
assert len(said) == 2 and "pool is empty" in said[1], said
""")


@pytest.mark.parametrize("made, begins", [
    ("MemoryError()", "host: MemoryError"), ("OSError(errno.ENOMEM, 'Cannot allocate memory')", "host: OSError: "),
    ("OSError(errno.ENOENT, 'x')", None),
    ("RuntimeError('CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)')", "RuntimeError: CUDA"),
    ("RuntimeError('RESOURCE_EXHAUSTED: Out of memory while trying to allocate 10 bytes')", "RuntimeError: RESOURCE"),
    ("RuntimeError(\"[enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't allocate memory\")", "host: RuntimeError: "),
    ("RuntimeError('CUDA error: an illegal memory access')", None), ("KeyboardInterrupt()", None),
    ("type('ResourceExhaustedError', (Exception,), {})('OOM when allocating tensor')", "ResourceExhaustedError: OOM"),
    ("type('OutOfMemoryError', (MemoryError,), {})('Out of memory allocating 10 bytes')", "OutOfMemoryError: Out"),
])
def test_what_says_that_memory_ran_out(program, made, begins):
    """Out-of-memory errors of a device, or of the host."""
    program.run(f"""
        import errno
        from hiwater._frameworks import oom_text
        assert (oom_text({made}) or "").startswith({begins!r} or "") and (oom_text({made}) is None) is {begins is None}
        assert len(oom_text(MemoryError("x" * 9000))) == 1000
    """)


def test_the_hosts_memory_is_no_devices(program):
    program.run("""
        import time, hiwater
        try:
            with hiwater.track(output="a.hiw"):
                time.sleep(1.2)
                bytearray(1 << 60)
        except MemoryError:
            pass
    """)
    incident = program.shown("a.hiw")["incident"]
    assert incident["event"] == "out of memory: host: MemoryError"
    assert "device" not in incident["remedy"] and "smaller chunks of data" in incident["remedy"]


def test_series_of_frameworks_are_named_alike():
    """The figures of python/hiwater match those that the recorder knows."""
    python = (ROOT / "python" / "hiwater" / "_frameworks.py").read_text()
    figures = re.findall(r'\{ "(\w+)", offsetof', (ROOT / "src" / "summary" / "framework.c").read_text())
    readers = python.split("# ---- readers:")[1].split("# ---- in a run")[0]
    assert set(figures) == {name for name in re.findall(r'"(\w+)":', readers) if name not in ("torch", "jax", "tensorflow")}
