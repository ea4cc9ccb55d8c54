# SPDX-License-Identifier: MIT
"""Tools that a training uses from inside, each as its documentation recommends. STUDY_OUTPUT is the
folder for what they write. Each is a context manager that yields the function to call after each
step, or None."""
import contextlib
import json
import os
import pathlib
import threading
import time

OUTPUT = pathlib.Path(os.environ.get("STUDY_OUTPUT", "."))


@contextlib.contextmanager
def psutil_loop():
    """A thread that samples the tree each second and keeps the values."""
    import psutil

    process, end, rows = psutil.Process(), threading.Event(), []

    def sample():
        process.cpu_percent()
        while True:
            tree = [process, *process.children(recursive=True)]
            memory = 0
            for p in tree:
                with contextlib.suppress(psutil.Error):
                    memory += p.memory_info().rss
            rows.append((time.time(), process.cpu_percent(), memory))
            if end.wait(1):
                return

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield None
    finally:
        end.set()
        thread.join()
        (OUTPUT / "psutil.json").write_text(json.dumps(rows))


@contextlib.contextmanager
def torch_profiler():
    """The whole run, as torch.profiler's tutorial shows it."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        yield None
    profiler.export_chrome_trace(str(OUTPUT / "trace.json"))


@contextlib.contextmanager
def torch_profiler_schedule():
    """Ten steps of the run: wait 1, warm up 1, record 10, once."""
    from torch.profiler import ProfilerActivity, profile, schedule

    def write(profiler):
        profiler.export_chrome_trace(str(OUTPUT / "trace.json"))

    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=10, repeat=1),
                 on_trace_ready=write) as profiler:
        yield lambda loss: profiler.step()


@contextlib.contextmanager
def codecarbon():
    from codecarbon import OfflineEmissionsTracker

    tracker = OfflineEmissionsTracker(country_iso_code="DNK", output_dir=str(OUTPUT), log_level="error")
    tracker.start()
    try:
        yield None
    finally:
        tracker.stop()


@contextlib.contextmanager
def resource_tracker():
    from resource_tracker import ResourceTracker

    tracker = ResourceTracker(discover_cloud=False)
    tracker.start()
    yield None
    tracker.stop()
    (OUTPUT / "resource_tracker.json").write_text(json.dumps(list(tracker.get_combined_metrics()["process_memory_mib"])))


@contextlib.contextmanager
def hiwater_log():
    """hiwater from inside, with the loss logged at each step."""
    import hiwater

    with hiwater.track("study", output=str(OUTPUT / "log.hiw")) as run:
        yield lambda loss: run.log(loss=loss)


TOOLS = {
    "psutil loop": psutil_loop,
    "torch.profiler": torch_profiler,
    "torch.profiler, 10 steps": torch_profiler_schedule,
    "codecarbon": codecarbon,
    "resource-tracker": resource_tracker,
    "hiwater, run.log": hiwater_log,
}
