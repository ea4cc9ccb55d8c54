# SPDX-License-Identifier: MIT
"""Exported traces in the programs that others wrote for them: Holistic Trace Analysis reads the Chrome trace, nsys-ai the tables of nsys.
The work is of the test's choice, so what they must find is known."""
import json
import subprocess

import pytest
from cli_helpers import ROOT
from traced_runs import Traced

pytestmark = pytest.mark.full

MS = 10**6
JUDGES = ROOT / ".venv-judges" / "bin"
NAMES = ("gemm_wide", "add_small")
COPY_MS = 5


def judge(*command):
    if not JUDGES.exists():
        pytest.fail(f"no {JUDGES}: run make test-full")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def run(tool):
    """100 steps of 10 ms: gemm for 4 ms, at once in another stream add for 1 ms; at the end a copy of 5 ms."""
    path = tool.folder / "run.hiw"
    assert tool.run("run", "--summary", "none", "-o", path, "--gpu=none", "--", "sleep", "1.2").returncode == 0
    with Traced(path) as t:
        p = t.main()
        t.thread(p, 100, "trainer")
        t.device(p, 0, "NVIDIA H100 80GB HBM3")
        for i in range(100):
            at, id_ = 10 * i * MS, 2 * i + 1
            t.range(p, 100, f"batch {i}", at, at + 10 * MS)
            for stream, (name, length) in enumerate(zip(NAMES, (4 * MS, MS))):
                t.launch(p, 100, "cudaLaunchKernel", at + (stream + 1) * 10000, at + (stream + 1) * 10000 + 5000, correlation=id_ + stream)
                t.kernel(p, name, at + MS, at + MS + length, stream=7 + stream, correlation=id_ + stream, grid=(128, 1, 1), block=(256, 1, 1),
                         registers=32, shared=(0, 1024))
        t.launch(p, 100, "cudaMemcpyAsync", 995 * MS, 996 * MS, correlation=1000)
        t.copy(p, "pageable", "device", 1 << 20, 1000 * MS, (1000 + COPY_MS) * MS, correlation=1000, stream=7)
    return path


def test_hta(tool, run):
    folder = tool.folder / "hta"
    folder.mkdir()
    done = tool.run("export", run, "--to", "chrome", "-o", folder / "trace.json.gz")
    assert done.returncode == 0, done.stderr
    script = tool.folder / "judge.py"
    script.write_text(f"""
import json, logging
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
t = TraceAnalysis(trace_files={{0: {str(folder / 'trace.json.gz')!r}}}, trace_dir={str(folder)!r})
time = t.get_temporal_breakdown(visualize=False).iloc[0].to_dict()
_, kernels = t.get_gpu_kernel_breakdown(visualize=False)
launches = t.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
print("ANSWER" + json.dumps({{"time": {{k: float(v) for k, v in time.items()}}, "launches": len(launches),
    "kernels": {{r["name"]: [float(r["sum (us)"]), float(r["mean (us)"])] for _, r in kernels.iterrows()}}}}))
""")
    seen = json.loads(judge(JUDGES / "python", script).split("ANSWER")[1])
    assert seen["kernels"]["gemm_wide"] == [400000, 4000] and seen["kernels"]["add_small"] == [100000, 1000], seen
    assert seen["time"]["compute_time(us)"] == 400000 and seen["time"]["non_compute_time(us)"] == COPY_MS * 1000, seen
    assert seen["launches"] >= 200


def test_nsys_ai(tool, run):
    file = tool.folder / "trace.sqlite"
    done = tool.run("export", run, "--to", "nsys-sqlite", "-o", file)
    assert done.returncode == 0, done.stderr
    info = judge(JUDGES / "nsys-ai", "info", file)
    assert "H100" in info and "200" in info, info
    summary = judge(JUDGES / "nsys-ai", "summary", file)
    assert all(name in summary for name in NAMES) and summary.index(NAMES[0]) < summary.index(NAMES[1]), summary
