# SPDX-License-Identifier: MIT
"""Four workers that multiply and sort arrays of different sizes, and share an array of their
parent."""
import multiprocessing
import sys

import numpy

common = numpy.ones(5_000_000)


def work(task):
    numbers = numpy.random.default_rng(task).random(1_000_000 * (1 + task % 4))
    numbers *= common[:numbers.size]
    return float(numpy.sort(numbers)[numbers.size // 2])


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        medians = pool.map(work, range(24), chunksize=1)
    sys.exit(not all(0.49 < median < 0.51 for median in medians))
