# SPDX-License-Identifier: MIT
"""hiwater run --trace and hiwater trace on the fakes of a CUDA driver and of CUPTI (tests/fake): what the recording has,
against what the program says of itself and what the driver logged."""
import collections
import json
import os
import pathlib
import signal
import sqlite3
import subprocess

import pytest

from cli_helpers import HIWATER, ROOT, wait_for

BUILD = pathlib.Path(os.environ.get("HIWATER_BUILD", ROOT / "build")).resolve()
DRIVERS = BUILD / "tests" / "fake" / "drivers"
SCRIPT = str(BUILD / "cuda-script")
MIB = 1 << 20
DEVICE_MEMORY = "('device', 'managed', 'array')"


class Traced:
    """A run of cuda-script: what it said, what the driver logged, its recording."""

    def __init__(self, folder, scenarios, *options, cupti="cupti-13", words="", env=None, check=True):
        self.recording, self.log = folder / "run.hiw", folder / "log"
        self.env = {**os.environ, "LD_LIBRARY_PATH": f"{DRIVERS / 'cuda-traced'}:{DRIVERS / cupti}",
                    "HIWATER_FAKE_CUPTI": words, "HIWATER_FAKE_GPU_LOG": str(self.log), **(env or {})}
        self.command = [HIWATER, "run", *(options or ["--trace"]), "-o", str(self.recording), "--", SCRIPT, *scenarios.split()]
        if check:
            self.done = subprocess.run(self.command, env=self.env, capture_output=True, text=True, timeout=60)
            assert self.done.returncode == 0, self.done.stderr
            self.said = dict(line.split("=") for line in self.done.stdout.splitlines() if "=" in line)

    def says(self, key):
        return int(self.said[key])

    def sql(self, text, *args):
        with sqlite3.connect(f"file:{self.recording}?mode=ro", uri=True) as db:
            return db.execute(text, args).fetchall()

    def json(self, *options):
        done = subprocess.run([HIWATER, "trace", str(self.recording), "--json", *options], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def hiwater(self, command, *options):
        return subprocess.run([HIWATER, command, str(self.recording), *options], capture_output=True, text=True, check=True).stdout

    def lost(self):
        return {cause: n for cause, n in self.sql("SELECT cause, sum(n) FROM trace_lost GROUP BY cause")
                if n and cause != "thinned"}

    def logged(self, kind):
        """(name, stream, start, end) of each work that the driver ran."""
        rows = [line.split() for line in self.log.read_text().splitlines()]
        return [(r[1], int(r[2]), int(r[3]), int(r[4])) for r in rows if int(r[0]) == kind]

    def use(self, device, kinds=DEVICE_MEMORY):
        """Peak of the bytes that are allocated, and what is at the end."""
        live = peak = 0
        for n, in self.sql(f"SELECT m.bytes FROM trace_memory AS m JOIN trace_site AS s ON s.id = m.site WHERE s.device = ? AND "
                           f"s.target IN {kinds} ORDER BY m.t", device):
            live += n
            assert live >= 0
            peak = max(peak, live)
        return peak, live


def union(spans):
    total = end = 0
    for a, b in sorted(spans):
        total += max(0, b - max(a, end))
        end = max(end, b)
    return total


def test_peaks_are_exact(tmp_path):
    run = Traced(tmp_path, "memory vmm")
    assert run.use(0) == (run.says("peak"), run.says("live"))
    assert run.use(1) == (run.says("vmm_peak"), 0)
    assert run.lost() == {}
    rows = {(device, kind): (peak, live) for device, kind, peak, live in run.sql("SELECT device, memory, peak, live FROM trace_peak")}
    assert rows[0, "gpu"] == (run.says("peak"), run.says("live")) and rows[1, "gpu"] == (run.says("vmm_peak"), 0)
    shown = {m["device"]: m for m in run.json()["memory"]}
    assert (shown[0]["method"], *(shown[n]["kinds"]["gpu"]["peak_bytes"] for n in (0, 1))) == ("exact", run.says("peak"), run.says("vmm_peak"))
    text = run.hiwater("trace")
    assert f"peak {run.says('peak') / MIB:.1f} MiB at " in text and "exact: calls of this process" in text
    summary = json.loads(run.hiwater("show", "--json"))
    assert {d["gpu"]: d["memory_peak_bytes"] for d in summary["trace"]["devices"]} == {0: run.says("peak"), 1: run.says("vmm_peak")}
    text = run.hiwater("show")
    assert f"allocated {run.says('peak') / MIB:.1f} MiB on GPU 0, at " in text


@pytest.mark.parametrize("cupti, words", [("cupti-13", "zero=10"), ("cupti-13", "zero=10 thread"), ("cupti-13.3", "zero=10")])
def test_ten_thousand_launches_on_three_streams(tmp_path, cupti, words):
    run = Traced(tmp_path, "launches", cupti=cupti, words=words)
    truth, found = run.logged(10), run.json()
    assert len(truth) == run.says("launches") == 10000
    timed = truth[10:]  # the first ten have no times
    assert found["records"]["invalid"] == 10 and found["records"]["lost"] == 0 and found["records"]["complete"] is True
    by_name = collections.defaultdict(list)
    for name, _, start, end in timed:
        by_name[{"_Z4gemmPfS_i": "gemm(float*, float*, int)", "_Z3addPf": "add(float*)"}[name]].append(end - start)
    lines = {line["name"]: line for line in found["lines"]}
    assert lines.keys() == by_name.keys()
    for name, durations in by_name.items():
        assert lines[name]["count"] == len(durations)
        assert lines[name]["total_s"] == pytest.approx(sum(durations) / 1e9, rel=1e-9)
        assert lines[name]["min_s"] == min(durations) / 1e9 and lines[name]["max_s"] == max(durations) / 1e9
    device, = found["devices"]
    # Each buffer's difference of the clocks has an error of its own, of some microseconds.
    assert device["busy_s"] == pytest.approx(union((a, b) for _, _, a, b in timed) / 1e9, rel=0.01, abs=1e-3)
    launches = {line["name"]: line["count"] for line in run.json("--by", "api")["lines"]}
    assert launches == {"cuLaunchKernel": 10000, "cuCtxSynchronize": 1}
    assert run.lost() == {}


def test_each_kernel_has_its_launch(tmp_path):
    run = Traced(tmp_path, "few copies")
    rows = run.sql("SELECT k.start, l.start FROM trace_kernel AS k LEFT JOIN trace_launch AS l USING (correlation)")
    assert len(rows) == run.says("few") and all(launch is not None and kernel > launch - 100000 for kernel, launch in rows)


def test_copies(tmp_path):
    run = Traced(tmp_path, "copies")
    copies = {c["name"]: c for c in run.json()["copies"]}
    assert copies["HtoD"]["bytes"] == 65536 == copies["HtoD"]["pageable_bytes"]
    assert copies["HtoD"]["total_s"] == pytest.approx(6553e-9)
    assert copies["memset"]["bytes"] == 65536
    assert sum(c["count"] for c in copies.values()) == run.says("copies") + run.says("fills")


def test_graphs(tmp_path):
    run = Traced(tmp_path, "graphs")
    assert {line["name"]: line["count"] for line in run.json()["lines"]} == {"graph 7": run.says("graphs")}
    (tmp_path / "nodes").mkdir()
    run = Traced(tmp_path / "nodes", "graphs", env={"HIWATER_TRACE_GRAPH_NODES": "1"})
    assert {line["name"]: line["count"] for line in run.json()["lines"]} == {"node()": run.says("nodes")}
    assert run.sql("SELECT count(*) FROM trace_kernel WHERE flags & 16") == [(run.says("nodes"),)]


def test_an_out_of_memory_is_marked(tmp_path):
    run = Traced(tmp_path, "oom", env={"HIWATER_FAKE_GPU_BYTES": str(1 << 30)})
    assert run.use(0) == (run.says("oom_peak"), 0)
    marks = run.sql("SELECT n.text, count(*) FROM trace_range AS r JOIN trace_site AS s ON s.id = r.site JOIN trace_name AS n ON "
                    "n.id = s.name WHERE r.duration IS NULL GROUP BY 1")
    assert marks == [("cuMemAlloc_v2 of 209715200 bytes: out of memory (2)", 8)]
    assert run.sql("SELECT count(*) FROM trace_memory WHERE flags & 8") == [(10,)]
    failure, = run.json()["failures"]
    assert (failure["text"], failure["count"]) == ("cuMemAlloc_v2 of 209715200 bytes: out of memory (2)", 8)
    at, = run.sql("SELECT min(r.start) FROM trace_range AS r WHERE r.duration IS NULL")
    assert failure["at_s"] == pytest.approx(at[0] / 1e9, abs=1e-9)
    failed, = [line for line in run.hiwater("trace").splitlines() if line.startswith("failed")]
    assert "cuMemAlloc_v2 of 209715200 bytes" in failed and "again 7 times" in run.hiwater("trace")
    assert "cuMemAlloc_v2 of 209715200 bytes: out of memory (2), at" in run.hiwater("show")
    assert json.loads(run.hiwater("show", "--json"))["trace"]["failures"][0]["count"] == 8


def test_what_is_dropped_and_what_is_in_flight_is_told(tmp_path):
    run = Traced(tmp_path, "few unfinished", words="drops=7")
    assert run.lost() == {"dropped": 7, "incomplete": 1}
    assert run.json()["records"]["complete"] is False


@pytest.mark.parametrize("words, env, reason", [
    ("subscribe=39", {}, "othertool"), ("subscribe=15", {}, "result 15"), ("subscribe=41", {}, "confidential computing"),
    ("", {"NSYS_PROFILING_SESSION_ID": "1"}, "Nsight Systems"), ("", {"HIWATER_CUPTI": "/nowhere/libcupti.so.13"}, "/nowhere"),
])
def test_what_is_in_the_way_is_named(tmp_path, words, env, reason):
    run = Traced(tmp_path, "memory launches", words=words, env=env)
    assert reason in run.done.stderr
    assert run.sql("SELECT count(*) FROM trace_launch") == [(0,)]


@pytest.mark.parametrize("options, env, said", [
    (["--trace"], {}, True), (["--trace=ranges"], {}, False), (["--trace"], {"HIWATER_QUIET": "1"}, False),
    (["--trace"], {"CUDA_INJECTION64_PATH": "none"}, False),
])
def test_users_of_the_torch_profiler_are_warned_where_there_is_a_gpu(tmp_path, options, env, said):
    fake = {"HIWATER_NVML": str(DRIVERS / "550" / "libnvidia-ml.so.1")}
    run = Traced(tmp_path, "few", *options, env={**fake, **env})
    assert ("torch.profiler in this job will have no GPU events" in run.done.stderr) == said


def test_another_injection_is_left_alone(tmp_path):
    run = Traced(tmp_path, "memory", env={"CUDA_INJECTION64_PATH": "none"})
    assert run.says("peak") and run.sql("SELECT count(*) FROM trace_memory") == [(0,)]


def test_a_killed_job_has_all_its_calls(tmp_path):
    run = Traced(tmp_path, "memory launches killed", check=False)
    done = subprocess.run(run.command, env=run.env, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr  # hiwater ends as its job did
    assert run.use(0)[0] == 57 * MIB
    assert run.json("--by", "api")["lines"][0]["count"] == 10000
    (kernels,), = run.sql("SELECT coalesce(sum(count), 0) FROM trace_stat WHERE kind = 'kernel'")
    assert kernels < 10000 and run.lost() == {"incomplete": 10000 - kernels}
    since = run.json()["records"]["incomplete_since_s"]
    assert (since is None) == (kernels == 0)


def test_a_merged_job_has_the_sums_of_its_ranks(tmp_path):
    """Of two ranks, merged at once and one after the other; rows stay in the ranks' files."""
    job = tmp_path / "job"
    job.mkdir()
    runs = []
    for rank in range(2):
        (tmp_path / str(rank)).mkdir()
        env = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_NNODES": "1",
               "SLURMD_NODENAME": "n1", "SLURM_NODEID": "0", "SLURM_LOCALID": str(rank), "SLURM_JOB_NODELIST": "n1"}
        runs.append(Traced(tmp_path / str(rank), "memory few copies" if rank else "memory launches", env=env))
        runs[rank].recording.rename(job / f"n1-r{rank}.hiw")
        runs[rank].recording = job / f"n1-r{rank}.hiw"
    for output, inputs in (("all", [job]), ("again", [tmp_path / "all.hiw"]), ("one", [runs[0].recording]),
                           ("both", [tmp_path / "one.hiw", runs[1].recording])):
        done = subprocess.run([HIWATER, "merge", *inputs, "-o", tmp_path / f"{output}.hiw"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    whole = [run.json() for run in runs]
    for output in ("all", "again", "both"):
        runs[0].recording = tmp_path / f"{output}.hiw"
        merged = runs[0].json()
        assert merged["kernels"] == sum(w["kernels"] for w in whole)
        assert merged["kernels_s"] == pytest.approx(sum(w["kernels_s"] for w in whole))
        assert merged["records"]["events"] == merged["records"]["causes"]["thinned"] == sum(w["records"]["events"] for w in whole)
        assert merged["records"]["rows"] == 0 and merged["records"]["complete"]
        assert {line["median_method"] for line in merged["lines"]} == {"bounded"}
        assert [(d["rank"], d["device"], d["busy_s"], d["gaps"]) for d in merged["devices"]] == [
            (rank, d["device"], d["busy_s"], d["gaps"]) for rank, w in enumerate(whole) for d in w["devices"]]
        assert [(m["rank"], m["device"], m["kinds"]["gpu"]["peak_bytes"]) for m in merged["memory"]] == [
            (rank, m["device"], m["kinds"]["gpu"]["peak_bytes"]) for rank, w in enumerate(whole) for m in w["memory"]]
        summary = json.loads(subprocess.run([HIWATER, "show", runs[0].recording, "--json"], capture_output=True, text=True, check=True).stdout)
        assert summary["trace"]["events"] == merged["records"]["events"] and summary["trace"]["processes"] == 2
    done = subprocess.run([HIWATER, "compare", "--kernels", tmp_path / "all.hiw", tmp_path / "again.hiw"], capture_output=True, text=True)
    assert done.returncode == 0 and whole[0]["lines"][0]["name"][:8] in done.stdout, done.stderr


def test_it_can_be_read_while_it_runs(tmp_path):
    """What is complete is delivered at the exit of a call, once a second, and not only at the end."""
    run = Traced(tmp_path, "few slow wait", check=False)
    job = subprocess.Popen(run.command, env=run.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: "waiting" in job.stdout.readline(), "the job waits")
        wait_for(lambda: run.json()["lines"] and run.json()["lines"][0]["count"] == 5, "its kernels are in the recording")
    finally:
        job.communicate("\n", timeout=30)
    assert job.returncode == 0
