# SPDX-License-Identifier: MIT
"""What the rows of bench/run are made of: a row, and the statistics behind its result."""
import dataclasses
import random
import statistics


@dataclasses.dataclass
class Row:
    what: str
    figure: str
    budget: str
    comparison: str
    result: str  # ok, MISS, not resolved, - (no budget)


def spread(values, unit, scale=1.0):
    """Median and the range of the middle half."""
    low, middle, high = quartiles(values)
    places = 1 if middle / scale >= 100 else 3
    return (f"{middle / scale:.{places}f} {unit} ({low / scale:.{places}f}..{high / scale:.{places}f}, "
            f"n={len(values)})")


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0], values[0]
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def within(values, budget):
    """The result for times that other load on the machine can only lengthen: a miss only if no try
    was within the budget."""
    return "ok" if statistics.median(values) < budget else "MISS" if min(values) >= budget else "not resolved"


def result_of(is_met):
    return "ok" if is_met else "MISS"


def confidence(values, rounds=10000):
    """95% interval of the mean, by bootstrap (10,000 resamples, fixed seed)."""
    chance = random.Random(0)
    means = sorted(statistics.fmean(chance.choices(values, k=len(values))) for _ in range(rounds))
    return means[int(rounds * 0.025)], means[int(rounds * 0.975)]


def differences(runs):
    """What each round's middle run took more than the two around it."""
    return [2 * with_it / (before + after) - 1 for before, with_it, after in runs]


def floors(runs):
    return [after / before - 1 for before, _, after in runs]


def added(shares, budget=0.005):
    """The figure and the result for the relative time added to a training: a miss only if the whole
    interval is over the budget."""
    low, high = confidence(shares)
    return (f"{statistics.mean(shares):+.2%}, 95% interval {low:+.2%}..{high:+.2%}",
            "ok" if high < budget else "MISS" if low > budget else "not resolved")
