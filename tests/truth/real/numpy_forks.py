# SPDX-License-Identifier: MIT
"""Eight forks that share 300 MB of numpy arrays and only sleep."""
import os
import time

import numpy

arrays = [numpy.ones(10_000_000 // 8) for _ in range(30)]
pids = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        time.sleep(0.8)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
