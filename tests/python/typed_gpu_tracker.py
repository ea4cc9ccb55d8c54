# SPDX-License-Identifier: MIT
"""A typical program for gpu-tracker, for mypy --strict."""
import json
import pathlib
from typing import Dict, List, Optional, Tuple

import hiwater.compat.gpu_tracker as gput
import hiwater.compat.gpu_tracker_2 as gput2
from hiwater.compat.gpu_tracker.sub_tracker import SubTrackingResults
from hiwater.compat.gpu_tracker.tracker import ResourceUsage


@gput.sub_track("load", sub_tracking_file="sub.csv", overwrite=True)
def load(n: int) -> List[int]:
    return [n] * n


def main() -> None:
    with gput.Tracker(sleep_time=0.1, ram_unit="megabytes", time_unit="seconds", disable_logs=True, tracking_file="t.csv",
                      overwrite=True) as tracker:
        with gput.SubTracker("sum", sub_tracking_file="sub.csv") as block:
            total: int = sum(load(1000))
        usage: Optional[ResourceUsage] = tracker.resource_usage
    assert usage is not None
    peak: float = usage.max_ram.main.total_rss
    print(peak, total, block.code_block_name, tracker.state is gput.Tracker.State.STOPPED, gput.__version__)
    analyzer = gput.SubTrackingAnalyzer("t.csv", "sub.csv")
    pairs: List[Tuple[float, float]] = analyzer.load_timestamp_pairs("sum")
    print(pairs, analyzer.load_code_block_names())
    old: gput2.Tracker = gput2.Tracker(time_unit="seconds")
    old.start()
    live: float = old.max_ram.descendents.shared_rss
    old.stop()
    print(live, old.compute_time.time)
    values: Dict[str, Dict[str, object]] = tracker.to_json()
    print(json.dumps(values))


def compare(results: SubTrackingResults, paths: Dict[str, str]) -> str:
    return str(results) + str(gput.TrackingComparison(paths).compare("max"))


if __name__ == "__main__":
    main()
    pathlib.Path("sub.csv").unlink()
