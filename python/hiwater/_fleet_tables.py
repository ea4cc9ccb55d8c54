# SPDX-License-Identifier: MIT
"""The four tables of a fleet (docs/fleet.md): a column is one row here, with its type, which does not depend on the
values. Units are at the end of the names. None (null) is unknown, never 0."""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

    Row = Dict[str, Any]

TABLES: Dict[str, Tuple[Tuple[str, str], ...]] = {
    "job": (
        ("run", "string"), ("name", "string"), ("scheduler", "string"), ("cluster", "string"), ("scheduler_job", "string"),
        ("step", "string"), ("array_task", "int64"), ("restart", "int64"), ("user", "string"), ("command", "string"),
        ("state", "string"), ("exit_code", "int64"), ("complete", "bool"),
        ("started", "time"), ("ended", "time"), ("wall_s", "double"), ("stagger_s", "double"),
        ("nodes", "int64"), ("nodes_missing", "int64"), ("ranks", "int64"), ("ranks_missing", "numbers"), ("ranks_cut_off", "numbers"),
        ("recordings", "int64"), ("recordings_unreadable", "int64"),
        ("cpus", "int64"), ("cpu_s", "double"), ("cpu_user_s", "double"), ("cpu_system_s", "double"), ("cpu_ratio", "double"),
        ("peak_ram_bytes", "int64"), ("peak_ram_low_bytes", "int64"), ("peak_ram_high_bytes", "int64"), ("peak_ram_method", "string"),
        ("worst_node", "string"), ("worst_node_peak_ram_bytes", "int64"), ("worst_node_limit_bytes", "int64"), ("worst_node_ram_ratio", "double"),
        ("request_ram_bytes", "int64"), ("request_time_s", "double"), ("request_gpus", "int64"),
        ("gpus", "int64"), ("gpus_from", "string"), ("gpu_sm_active_ratio", "double"), ("gpu_sm_active_min_ratio", "double"),
        ("gpu_sm_active_max_ratio", "double"), ("gpu_busy_ratio", "double"), ("gpu_peak_memory_bytes", "int64"), ("gpu_memory_bytes", "int64"),
        ("gpu_energy_j", "double"), ("cpu_energy_j", "double"), ("read_bytes", "int64"), ("write_bytes", "int64"),
        ("oom_kills", "int64"), ("hiwater_version", "string"),
    ),
    "rank": (
        ("run", "string"), ("part", "string"), ("recording", "string"), ("rank", "int64"), ("local_rank", "int64"), ("node", "string"),
        ("started", "time"), ("wall_s", "double"), ("exit_code", "int64"), ("cut_off", "bool"),
        ("cpus", "int64"), ("cpu_s", "double"), ("cpu_user_s", "double"), ("cpu_system_s", "double"),
        ("peak_ram_bytes", "int64"), ("peak_ram_low_bytes", "int64"), ("peak_ram_high_bytes", "int64"), ("peak_ram_method", "string"),
        ("limit_bytes", "int64"), ("capacity_bytes", "int64"),
        ("read_bytes", "int64"), ("write_bytes", "int64"), ("processes", "int64"), ("hiwater_version", "string"),
    ),
    "gpu": (
        ("run", "string"), ("node", "string"), ("uuid", "string"), ("name", "string"), ("allocated", "bool"), ("memory_bytes", "int64"),
        ("peak_memory_bytes", "int64"), ("job_peak_memory_bytes", "int64"), ("busy_ratio", "double"), ("sm_active_ratio", "double"),
        ("sm_occupancy_ratio", "double"), ("tensor_active_ratio", "double"), ("dram_active_ratio", "double"),
        ("power_w", "double"), ("energy_j", "double"), ("temperature_max_celsius", "double"), ("throttled_s", "double"),
        ("ecc_uncorrected", "int64"), ("xid_errors", "int64"),
    ),
    "window": (
        ("run", "string"), ("node", "string"), ("started", "time"), ("span_s", "double"), ("ram_min_bytes", "int64"),
        ("ram_mean_bytes", "double"), ("ram_max_bytes", "int64"), ("cores", "double"), ("read_bytes", "int64"), ("write_bytes", "int64"),
        ("gpu_sm_active_min_ratio", "double"), ("gpu_sm_active_mean_ratio", "double"), ("gpu_sm_active_max_ratio", "double"),
        ("gpu_busy_ratio", "double"), ("gpu_peak_memory_bytes", "int64"), ("gpu_power_w", "double"),
    ),
}
PERSONAL = ("user", "command", "name", "recording")
"""Columns that collect --redact leaves null."""
