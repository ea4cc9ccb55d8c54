#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a PyTorch training on the CPU alone and with memory trackers around it, and prints one line
of JSON.

    bench/trackers.py ROUNDS SECONDS

Each round runs all trackers in random order, in this process. For each tracker: "inside", the
duration of the training, and "around", the time added by starting and stopping, in seconds.
"missing" has the reasons why a tracker could not run."""
import contextlib
import io
import json
import os
import random
import sys
import threading
import time

INTERVAL_S = 0.1
LIMIT_S = 600  # then no new round is started


def hiwater_around(train):
    import hiwater

    with hiwater.track("bench"):
        train()


def gpu_tracker_around(train):
    import gpu_tracker

    with gpu_tracker.Tracker(sleep_time=INTERVAL_S):
        train()


def stormlog_around(train):
    from stormlog import CPUMemoryTracker

    tracker = CPUMemoryTracker(sampling_interval=INTERVAL_S)
    tracker.start_tracking()
    try:
        train()
    finally:
        tracker.stop_tracking()


def memtracker_around(train):
    from memtracker.memory_sampler import track_peak_memory

    @track_peak_memory()
    def training():
        train()

    training()


def psutil_around(train):
    """A common hand-written sampler."""
    import psutil

    process, end = psutil.Process(), threading.Event()

    def sample():
        while not end.wait(INTERVAL_S):
            sum(p.memory_info().rss for p in [process, *process.children(recursive=True)])

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        train()
    finally:
        end.set()
        thread.join()


TRACKERS = {"alone": lambda train: train(), "hiwater": hiwater_around, "gpu-tracker": gpu_tracker_around,
            "stormlog": stormlog_around, "memtracker": memtracker_around, "a thread with psutil": psutil_around}


class Training:
    """A perceptron of three layers on generated data; a call runs `steps` steps and sets `took`
    (seconds)."""

    def __init__(self):
        import torch

        self.torch = torch
        torch.manual_seed(0)
        torch.set_num_threads(1)  # threads that wait for each other would measure other load of the machine
        self.x, self.y = torch.randn(4096, 256), torch.randint(10, (4096,))
        self.model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                                         torch.nn.Linear(512, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.steps = 20

    def __call__(self):
        began = time.perf_counter()
        for step in range(self.steps):
            rows = self.torch.arange(step * 256, (step + 1) * 256) % len(self.y)
            self.optimizer.zero_grad()
            self.torch.nn.functional.cross_entropy(self.model(self.x[rows]), self.y[rows]).backward()
            self.optimizer.step()
        self.took = time.perf_counter() - began

    def calibrate(self, seconds):
        """Sets the number of steps so that a call takes about `seconds`, by the fastest of three
        calls."""
        times = []
        for _ in range(3):
            self()
            times.append(self.took)
        self.steps = max(20, int(self.steps * seconds / min(times)))


def turn(around, train):
    """The duration of the training, and the time added around it, in seconds. Discards the output
    of the trackers."""
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        around(train)
    return train.took, time.perf_counter() - began - train.took


def main():
    rounds, seconds = int(sys.argv[1]), float(sys.argv[2])
    train = Training()
    missing, names = {}, []
    for name, around in TRACKERS.items():
        try:
            turn(around, train)  # also imports the package
            names.append(name)
        except Exception as e:
            missing[name] = f"{type(e).__name__}: {e}"
    train.calibrate(seconds)
    found = {name: {"inside": [], "around": []} for name in names}
    end = time.monotonic() + LIMIT_S
    while len(found["alone"]["inside"]) < rounds and time.monotonic() < end:
        for name in random.sample(names, len(names)):
            inside, around = turn(TRACKERS[name], train)
            found[name]["inside"].append(inside)
            found[name]["around"].append(around)
    print(json.dumps({**found, "missing": missing}))
    sys.stdout.flush()
    os._exit(0)  # some trackers leave threads running


if __name__ == "__main__":
    main()
