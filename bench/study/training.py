# SPDX-License-Identifier: MIT
"""What the trainings of the study share: the clock of the epochs, and the tools that run inside the
program.

STUDY_TIMES names the file that gets the duration of each epoch, one number a line, and after
them the end of the last one on the monotonic clock. STUDY_INSIDE
names the tool of inside.py that is used, if any."""
import contextlib
import os
import time

import inside


def epochs(n):
    """Counts the epochs and writes their durations at the end."""
    took = []
    for epoch in range(n):
        began = time.perf_counter()
        yield epoch
        took.append(time.perf_counter() - began)
    end, path = time.monotonic(), os.environ.get("STUDY_TIMES")
    if path:
        with open(path, "w") as file:
            file.writelines(f"{t:.6f}\n" for t in [*took, end])


@contextlib.contextmanager
def tool():
    """Yields a function that is to be called after each step with the loss."""
    name = os.environ.get("STUDY_INSIDE")
    with inside.TOOLS[name]() if name else contextlib.nullcontext(None) as step:
        yield step or (lambda loss: None)
