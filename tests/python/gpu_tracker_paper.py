# SPDX-License-Identifier: MIT
"""The tutorial of gpu-tracker's paper (arXiv 2404.01473, section III A), as printed; the prompt's
echoes are printed by hand."""

# Replaces torch.Tensor.cuda() by an allocation in RAM; a fake driver reads the pid of the user of
# device memory from the file `pid`.
TORCH = """
import os
class Tensor(list):
    def cuda(self):
        with open("pid", "w") as f: f.write(str(os.getpid()))
        return self
    def __mul__(self, other): return tensor([a * b for a, b in zip(self, other)])
def tensor(values): return Tensor(values)
"""

API = """
import {package} as gput
import torch

def example_function() -> torch.Tensor:
    t1 = torch.tensor(list(range(10000000))).cuda()
    t2 = torch.tensor(list(range(10000000))).cuda()
    return t1 * t2

tracker = gput.Tracker()
tracker.start()
example_function()
tracker.stop()

print(tracker)

with gput.Tracker() as tracker:
    example_function()
print(tracker)

with gput.Tracker(ram_unit='megabytes', gpu_ram_unit='megabytes', time_unit='seconds') as tracker:
    example_function()
print(tracker)

import json

print(json.dumps(tracker.to_json(), indent=1))

for line in (
    "tracker.max_ram", "tracker.max_ram.unit", "tracker.max_ram.main", "tracker.max_ram.main.total_rss",
    "tracker.max_gpu_ram", "tracker.compute_time",
):
    print(repr(eval(line)))
"""

SCRIPT = "python3 -c 'b = bytearray(100 << 20)'\nsleep 0.3\n"

COMMANDS = """
gpu-tracker -e "bash example-script.sh"
gpu-tracker -e 'bash example-script.sh' --tu=seconds --gru=megabytes --ru=megabytes
gpu-tracker -e 'bash example-script.sh' -o out.txt
cat out.txt; echo
gpu-tracker -e 'bash example-script.sh' -f json
gpu-tracker -e 'bash example-script.sh' -f json -o out.json
cat out.json; echo
"""
