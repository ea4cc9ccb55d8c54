# SPDX-License-Identifier: MIT
"""The study's statistics: paired differences with a bootstrap interval."""
import random
import statistics

RESAMPLES = 10000


def interval(values, resamples=RESAMPLES):
    """The median and its 95 % bootstrap interval; the same numbers for the same values."""
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(resamples))
    return statistics.median(values), medians[int(0.025 * resamples)], medians[int(0.975 * resamples) - 1]


def paired(tool, none):
    """Relative differences of the rounds that both have: {round: value} each."""
    return [tool[r] / none[r] - 1 for r in sorted(tool) if r in none and none[r] > 0]
