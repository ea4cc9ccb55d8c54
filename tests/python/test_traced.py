# SPDX-License-Identifier: MIT
"""Traced runs from Python: track(trace=...), phases as NVTX ranges, ranges as tables. The package nvtx is the judge: it emits what the
probe must see."""
import contextlib
import json
import sqlite3
import subprocess

from track_helpers import COMMAND


def traced(program, path="a.hiw"):
    done = subprocess.run([COMMAND, "trace", "--json", program.folder / path], env=program.env, text=True, capture_output=True, check=True)
    return json.loads(done.stdout)


def windows(program, path="a.hiw"):
    with contextlib.closing(sqlite3.connect(program.folder / path)) as db:
        return {why for why, in db.execute("SELECT why FROM trace_window")}


def test_ranges_of_what_is_imported_later(program):
    program.run("""
with hiwater.track("train", output="a.hiw", trace="ranges") as run:
    import nvtx
    for i in range(50):
        with nvtx.annotate("step"):
            time.sleep(0.002)
    assert os.environ["HIWATER_TRACE"] and not run.warnings, run.warnings
assert "HIWATER_TRACE" not in os.environ and "NVTX_INJECTION64_PATH" not in os.environ
steps = run.ranges()
steps = steps[steps.name == "step"]
assert len(steps) == 50 and steps.duration_s.min() >= 0.002 and steps.depth.max() == 0, steps
assert set(steps.pid) == {os.getpid()} and steps.index.is_monotonic_increasing and str(steps.time.dtype).endswith("UTC]")
assert len(run.kernels()) == 0
s = run.summary
assert s.trace.events >= 50 and s.trace.lost == 0 and s.trace.ranges[0].name.endswith("step") and s.trace.ranges[0].count == 50, s.trace
""")


def test_workers_are_traced(program):
    program.run("""
import multiprocessing

def work(n):
    import nvtx
    for i in range(n):
        with nvtx.annotate("work"):
            pass

if __name__ == "__main__":
    with hiwater.track("train", output="a.hiw", trace=["ranges"]) as run:
        for method in ("fork", "spawn", "forkserver"):
            worker = multiprocessing.get_context(method).Process(target=work, args=(20,))
            worker.start()
            worker.join()
            assert worker.exitcode == 0
    made = run.ranges()
    assert made.groupby("pid").size().tolist() == [20, 20, 20], made
""")


def test_what_was_loaded_before_is_named(program):
    program.run("""
import warnings
import nvtx
nvtx.push_range("early")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    with hiwater.track("train", output="a.hiw", trace=True) as run:
        pass
assert len(run.warnings) == 1 and "package nvtx" in run.warnings[0] and "before the import" in run.warnings[0], run.warnings
""")


def test_phases_are_ranges(program):
    program.run("""
with hiwater.track("train", output="a.hiw", trace="ranges") as run:
    for epoch in range(3):
        with run.phase("epoch", nvtx=True, epoch=epoch):
            time.sleep(0.01)
    with run.phase("quiet"):
        pass
made = run.ranges()
assert made.name.tolist() == ["epoch"] * 3, made
assert [p.name for p in run.summary.phases] == ["epoch"] * 3 + ["quiet"]
""")
    assert traced(program)


def test_a_phase_without_nvtx_warns_once(program):
    program.run("""
import warnings
sys.modules["nvtx"] = None
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    with hiwater.track("train", output="a.hiw") as run:
        for i in range(2):
            with run.phase("epoch", nvtx=True):
                pass
assert len(said) == 1 and "pip install nvtx" in str(said[0].message), said
try:
    run.ranges()
except hiwater.Error as e:
    assert "has no trace" in str(e) and "run --trace" in str(e), e
else:
    raise AssertionError
""")


def test_invalid_layers_are_refused(program):
    program.run("""
for bad in ("kernel", ["ranges", "all"], 3):
    try:
        with hiwater.track("train", trace=bad, strict=True):
            pass
    except (ValueError, TypeError, hiwater.Error) as e:
        assert "trac" in str(e) or "string" in str(e), e
    else:
        raise AssertionError(bad)
""")


def test_steps_and_windows(program):
    program.run("""
run = hiwater.track("train", output="a.hiw", trace=True)
run.trace(steps=range(3, 6))
with run:
    for i in range(8):
        run.step()
        time.sleep(0.02)
    run.step(20)
    run.trace("range=^late")
    run.trace("last")
made = run.ranges()
assert made.name.tolist() == [f"step {i}" for i in (*range(8), 20)], made
assert (made["flags"] == 0).all() and made.duration_s[:8].min() >= 0.02, made
assert len(run.warnings) == 1 and "unknown window 'last'" in run.warnings[0], run.warnings
""", quiet=False)
    assert "the window \"range ^late\" did not open" in program.stderr
    assert windows(program) == {"steps 3-5"}, windows(program)


def test_a_window_while_it_runs_ends_the_whole_run(program):
    program.run("""
with hiwater.track("train", output="a.hiw", trace=True) as run:
    hiwater.step()
    time.sleep(0.3)
    run.trace("0s+1h")
    time.sleep(0.3)
assert not run.warnings, run.warnings
""")
    assert windows(program) == {"whole run", "0s+1h"}


def test_windows_that_cannot_be(program):
    program.run("""
run = hiwater.track("train")
for call, what in ((lambda: run.trace(), "either"), (lambda: run.trace("api", steps=range(3)), "either"), (lambda: run.trace(steps=3), "range"),
                   (lambda: run.trace(steps=range(3, 3)), "one after the other"), (lambda: run.trace(steps=range(0, 9, 2)), "one after the other"),
                   (lambda: run.trace(steps=range(-2, 3)), "from 0")):
    try:
        call()
    except (TypeError, ValueError) as e:
        assert what in str(e), e
    else:
        raise AssertionError(what)
with run:
    run.trace("api")
assert len(run.warnings) == 1 and "not traced" in run.warnings[0], run.warnings
try:
    hiwater.track("train", trace_window="api", strict=True).start()
except ValueError as e:
    assert "--trace" in str(e), e
else:
    raise AssertionError
""")
