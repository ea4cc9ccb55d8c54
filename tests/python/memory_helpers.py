# SPDX-License-Identifier: MIT
"""The common start of programs with a MemoryTracker: a stand-in for PyTorch, and a function that
waits."""
import pathlib

HERE = pathlib.Path(__file__).parent

BEFORE = f"""
sys.path.insert(0, {str(HERE)!r})
import contextlib, csv, errno, logging
import stand_in_torch

def until(condition, what="it", deadline=30):
    end = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < end, f"after {{deadline}} s still not: {{what}}"
        time.sleep(0.002)

def refused(kind, text, do, *args, **kwargs):
    try:
        do(*args, **kwargs)
    except kind as e:
        assert text in str(e), e
    else:
        raise AssertionError(f"not refused: {{text}}")

def looked(tracker, times=2):
    'So many readings later.'
    n = len(tracker.get_events("sample"))
    until(lambda: len(tracker.get_events("sample")) >= n + times)

torch = stand_in_torch.install()
gpu = torch.gpus[0]
from hiwater.compat.gpumemprof import *
"""


def run_with(program, text, **options):
    """Runs text after BEFORE; without a recorder unless one is requested."""
    import textwrap

    program.env.setdefault("HIWATER_COMPAT_RECORD", "0")
    return program.run(BEFORE + textwrap.dedent(text), **options)
