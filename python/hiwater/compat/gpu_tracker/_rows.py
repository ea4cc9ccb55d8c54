# SPDX-License-Identifier: MIT
"""The settings of a tracker, and its timepoints as rows of a tracking file."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._timeline import Timepoint


@dataclass
class Plan:
    """Settings: units and their sizes (bytes, seconds), the machine, the files. Capacities are in
    these units."""

    sleep_time: float
    ram_unit: str
    gpu_ram_unit: str
    time_unit: str
    ram_size: float
    gpu_ram_size: float
    time_size: float
    ram_capacity: float
    gpu_ram_capacity: float
    n_cores: int
    n_expected_cores: int
    n_gpus: int
    uuids: List[str] = field(default_factory=list)
    system_uuids: List[str] = field(default_factory=list)
    tracking_file: Optional[str] = None
    resource_usage_file: Optional[str] = None

    @property
    def needs_keeper(self) -> bool:
        return self.tracking_file is not None or self.resource_usage_file is not None

    def static_row(self) -> Dict[str, Any]:
        return {"ram_unit": self.ram_unit, "gpu_ram_unit": self.gpu_ram_unit, "time_unit": self.time_unit,
                "ram_system_capacity": self.ram_capacity, "gpu_ram_system_capacity": float(self.gpu_ram_capacity),
                "system_core_count": self.n_cores, "n_expected_cores": self.n_expected_cores,
                "system_gpu_count": self.n_gpus, "n_expected_gpus": len(self.uuids)}

    def row(self, point: Timepoint, began: float) -> Dict[str, Any]:
        """The row of a timepoint. began: start of the run, seconds since the epoch."""
        sample = point.sample
        values: Dict[str, Any] = {}
        for name, ram in (("main", sample.ram_main), ("descendants", sample.ram_descendants), ("combined", sample.ram),
                          ("system", sample.system)):
            values[f"{name}_ram"] = ram / self.ram_size
        for name, ram in (("main", sample.gpu_main), ("descendants", sample.gpu_descendants), ("combined", sample.gpu),
                          ("system", sample.gpu_used)):
            values[f"{name}_gpu_ram"] = ram / self.gpu_ram_size
        values["gpu_sum_utilization_percent"] = sample.gpu_busy * 100.0
        values["gpu_hardware_utilization_percent"] = sample.gpu_busy * 100.0 / (len(self.uuids) or 1)
        values.update(main_n_threads=sample.main_threads, descendants_n_threads=sample.descendants_threads, combined_n_threads=sample.threads)
        for name, cores, n in (("system", point.system_cores or 0.0, self.n_cores), ("main", point.main_cores, self.n_expected_cores),
                               ("descendants", point.descendants_cores, self.n_expected_cores),
                               ("combined", point.cores, self.n_expected_cores)):
            values[f"cpu_{name}_sum_utilization_percent"] = cores * 100.0
            values[f"cpu_{name}_hardware_utilization_percent"] = cores * 100.0 / (n or 1)
        values["timestamp"] = began + sample.t_s
        return values
