#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains two convolutions on the CPU, which oneDNN does.

    bench/torch_training.py STEPS FILE [profiled]

FILE gets the CPU seconds until the first step: of imports, which are the same whatever follows the training.
profiled: with torch.profiler around all steps, as its documentation has it, and its trace written."""
import contextlib
import os
import pathlib
import sys
import tempfile
import time

import torch

torch.manual_seed(0)
torch.set_num_threads(1)  # threads that wait for each other use CPU time that depends on other load
model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3), torch.nn.ReLU(),
                            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
is_profiled = sys.argv[3:] == ["profiled"]
profiler = torch.profiler.profile() if is_profiled else contextlib.nullcontext()
pathlib.Path(sys.argv[2]).write_text(str(time.process_time()))
with profiler:
    for _ in range(int(sys.argv[1])):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if is_profiled:
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(os.path.join(folder, "trace.json"))
