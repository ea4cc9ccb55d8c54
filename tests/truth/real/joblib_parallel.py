# SPDX-License-Identifier: MIT
"""Two loky workers that read a large array by memory mapping, as joblib passes it, and allocate
arrays."""
import sys

import joblib
import numpy


def work(numbers, task):
    return float(numpy.sqrt(numbers[task::8]).sum())


if __name__ == "__main__":
    numbers = numpy.full(12_000_000, 4.0)
    sums = joblib.Parallel(n_jobs=2)(joblib.delayed(work)(numbers, task) for task in range(8))
    sys.exit(sum(sums) != 2 * numbers.size)
