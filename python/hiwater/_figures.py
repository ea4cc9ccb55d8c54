# SPDX-License-Identifier: MIT
"""Figures of a run since the previous read, under fixed names, for loggers and experiment trackers.

hiwater/ram_gib              peak memory of the job, GiB
hiwater/cpu_cores            mean number of CPUs in use
hiwater/gpuN_mem_gib         peak memory of the job on GPU N, GiB (of the whole device, if the driver does not list processes)
hiwater/gpuN_busy            share of time in which some kernel ran on it, 0 to 1
hiwater/gpuN_sm_active       share of time in which its SMs had work, mean over the SMs, 0 to 1; only where available
hiwater/data_wait            share of time that the loop waited for data (`Run.wrap_loader`, callbacks), 0 to 1
hiwater/step_s               mean duration of a step, seconds (callbacks)

They are read from the growing recording; an unknown figure has no key.
"""
from __future__ import annotations

from ._recording import GPU_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple

    from ._recording import Recording

GIB = 1 << 30

_JOB = ("SELECT max(ram_max), max(t + span), min(t), "
        "max(cpu_user + cpu_system) FROM job_sample WHERE t >= ?1")
_BEFORE = "SELECT max(cpu_user + cpu_system) FROM job_sample WHERE t < ?1"
_GPU = (f"SELECT {GPU_NUMBER}, max(s.job_mem_max), max(s.mem_max), sum(s.busy * 1.0 * s.span) / sum(CASE WHEN s.busy IS NULL THEN 0 "
        "ELSE s.span END), sum(s.sm_active * 1.0 * s.span) / sum(CASE WHEN s.sm_active IS NULL THEN 0 ELSE s.span END) "
        f"FROM gpu_sample s JOIN gpu g ON g.id = s.id WHERE s.t >= ?1 GROUP BY g.id HAVING {GPU_NUMBER} IS NOT NULL")
_SERIES = ("SELECT s.name, sum(v.value), count(*) FROM series_value v JOIN series s ON s.id = v.series "
           "WHERE v.t >= ?1 AND s.name IN ('data_wait', 'step_time', 'steps') GROUP BY s.id")


class Since:
    """Keeps the end of the last window read, so that each window counts once."""

    def __init__(self) -> None:
        self._from_ns = 0
        self._cpu_ns: Optional[int] = None

    def read(self, recording: Recording) -> Dict[str, float]:
        """Raises hiwater.Error if the recording cannot be read."""
        figures: Dict[str, Optional[float]] = {}
        [[ram, end, begin, cpu]] = recording.query(_JOB, self._from_ns)[1]
        if end is None:
            return {}
        if self._cpu_ns is None:
            [[self._cpu_ns]] = recording.query(_BEFORE, self._from_ns)[1]
        figures["ram_gib"] = _over(ram, GIB)
        if cpu is not None and end > begin:
            figures["cpu_cores"] = (cpu - (self._cpu_ns or 0)) / (end - begin)
        for row in recording.query(_GPU, self._from_ns)[1]:
            figures.update(self._gpu(*row))
        figures.update(self._loop({name: (total, n) for name, total, n in recording.query(_SERIES, self._from_ns)[1]}))
        self._from_ns, self._cpu_ns = end, cpu
        return {f"hiwater/{name}": float(value) for name, value in figures.items() if value is not None}

    @staticmethod
    def _gpu(number: Any, job: Any, device: Any, busy: Any, active: Any) -> Dict[str, Optional[float]]:
        return {f"gpu{number}_mem_gib": _over(device if job is None else job, GIB), f"gpu{number}_busy": _over(busy, 1e6),
                f"gpu{number}_sm_active": _over(active, 1e6)}

    @staticmethod
    def _loop(sums: Dict[str, Tuple[Any, int]]) -> Dict[str, Optional[float]]:
        wait, time, steps = (sums.get(name, (None, 0))[0] for name in ("data_wait", "step_time", "steps"))
        return {"data_wait": wait / time if wait is not None and time else None,
                "step_s": time / steps if time and steps else None}


def _over(value: Any, by: float) -> Optional[float]:
    return None if value is None else value / by


def of_summary(summary: Any) -> Dict[str, float]:
    """The figures of a whole run, for trackers that keep one value of each."""
    figures = {"peak_ram_gib": _over(summary.ram_peak_bytes, GIB), "peak_gpu_gib": _over(summary.gpu_peak_bytes, GIB),
               "wall_s": summary.wall_s, "cpu_s": summary.cpu_s, "gpu_energy_j": summary.energy.gpu_j,
               "cpu_energy_j": summary.energy.cpu_j, "data_wait_s": summary.data_wait_s}
    return {f"hiwater/{name}": float(value) for name, value in figures.items() if value is not None}
