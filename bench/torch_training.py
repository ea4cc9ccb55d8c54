#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains two convolutions on the CPU, which oneDNN does.

    bench/torch_training.py STEPS [profiled]

profiled: with torch.profiler around all steps, as its documentation has it, and its trace written."""
import contextlib
import os
import sys
import tempfile

import torch

torch.manual_seed(0)
torch.set_num_threads(1)  # threads that wait for each other use CPU time that depends on other load
model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3), torch.nn.ReLU(),
                            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
profiler = torch.profiler.profile() if sys.argv[2:] == ["profiled"] else contextlib.nullcontext()
with profiler:
    for _ in range(int(sys.argv[1])):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
if sys.argv[2:] == ["profiled"]:
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(os.path.join(folder, "trace.json"))
