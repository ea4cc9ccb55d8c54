# SPDX-License-Identifier: MIT
"""The rows of a finished job in the tables of a fleet (docs/fleet.md)."""
from __future__ import annotations

from ._fleet_job import add, as_number, cpu_of, least, mean, most, ram_of, scaled, text_of, written_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from ._fleet_job import Curve, Job
    from ._fleet_tables import Row

COMMAND_MOST = 512  # characters


def rows_of(job: Job) -> Dict[str, List[Row]]:
    """The rows of each table. Raises Unreadable."""
    gpus = _gpu_rows(job)
    ids: Dict[str, List[int]] = {}
    for gpu in gpus:
        if gpu["_chosen"]:
            ids.setdefault(gpu["node"], []).append(gpu["_id"])
    rows = {"job": [_job_row(job, gpus)], "rank": [_rank_row(job, part) for part in job.parts], "gpu": gpus,
            "window": [row for name, (curve, gpu) in job.curves(ids).items() for row in _window_rows(job, name, curve, gpu)]}
    for table in rows.values():
        for row in table:
            row["run"] = job.run
    return rows


# ---- GPUs ------------------------------------------------------------------------------------------------------------

def _allocated(parts: List[Row]) -> Optional[List[str]]:
    known = [p["allocated_gpus"] for p in parts if isinstance(p["allocated_gpus"], str)]
    return sorted({uuid for text in known for uuid in text.split(",") if uuid and uuid != "none"}) if known else None


def _gpu_rows(job: Job) -> List[Row]:
    """A row for each UUID."""
    of_part = {p.get("number"): p for p in job.parts}
    nodes = {link["gpu"]: of_part[link["part"]]["node"] for link in job.recording.table("part_gpu") if link["part"] in of_part} if job.is_merged else {}
    rows = []
    for number, uuid, name, memory in job.recording.gpus:
        node = text_of(nodes.get(number, job.nodes[0]["name"] if job.nodes and not job.is_merged else ""))
        rows.append(_gpu_row(job, node, number, str(uuid), name, memory))
    return rows


def _gpu_row(job: Job, node: str, number: int, uuid: str, name: Any, memory: Any) -> Row:
    r = job.recording
    allocated = _allocated([p for p in job.parts if text_of(p["node"]) == node])
    is_mine = allocated is not None and uuid in allocated
    used = r.value("gpu", "job_mem", "max", number)

    def ratio(metric: str) -> Optional[float]:
        return scaled(r.mean("gpu", metric, number), 1e6)

    throttled = [t for t in (r.increase("gpu", f"throttle_{why}", number) for why in ("power", "thermal", "hw", "other")) if t is not None]
    return {
        "node": node, "uuid": uuid, "name": name if isinstance(name, str) else None, "allocated": None if allocated is None else is_mine,
        "memory_bytes": memory if isinstance(memory, int) else None, "peak_memory_bytes": r.value("gpu", "mem", "max", number),
        "job_peak_memory_bytes": used, "busy_ratio": ratio("busy"), "sm_active_ratio": ratio("sm_active"),
        "sm_occupancy_ratio": ratio("sm_occupancy"), "tensor_active_ratio": ratio("tensor_active"), "dram_active_ratio": ratio("dram_active"),
        "power_w": scaled(r.mean("gpu", "power", number), 1e6), "energy_j": scaled(r.increase("gpu", "energy", number), 1e6),
        "temperature_max_celsius": scaled(r.value("gpu", "temp", "max", number), 1e3), "throttled_s": sum(throttled) / 1e9 if throttled else None,
        "ecc_uncorrected": r.increase("gpu", "ecc_uncorrected", number), "xid_errors": r.increase("gpu", "xid", number),
        "_chosen": is_mine if allocated is not None else bool(used), "_id": number,
    }


def _gpu_columns(job: Job, gpus: List[Row]) -> Row:
    """Of the job's GPUs: those that were allocated, or if that is not known, those on which it used memory."""
    chosen = [g for g in gpus if g["_chosen"]]
    known = _allocated(job.parts) is not None
    if not known and not gpus and job.recording.integer("gpu_queried") != 1:
        return {}
    sm = [g["sm_active_ratio"] for g in chosen]
    return {"gpus": len(chosen), "gpus_from": "allocated" if known else "used", "gpu_sm_active_ratio": mean(sm),
            "gpu_sm_active_min_ratio": least(sm), "gpu_sm_active_max_ratio": most(sm), "gpu_busy_ratio": mean(g["busy_ratio"] for g in chosen),
            "gpu_peak_memory_bytes": most(g["peak_memory_bytes"] for g in chosen), "gpu_memory_bytes": add(g["memory_bytes"] for g in chosen),
            "gpu_energy_j": add(g["energy_j"] for g in chosen)}


# ---- the job ---------------------------------------------------------------------------------------------------------

def _worst_node(job: Job) -> Row:
    """The node nearest to its limit, or to its memory where there is no limit."""
    best: Row = {}
    for node in job.nodes:
        peak, limit = as_number(node["ram_peak_bytes"]), as_number(node["limit_bytes"]) or as_number(node["capacity_bytes"])
        if peak is not None and limit and peak / limit > best.get("worst_node_ram_ratio", -1):
            best = {"worst_node": text_of(node["name"]), "worst_node_peak_ram_bytes": peak, "worst_node_limit_bytes": limit,
                    "worst_node_ram_ratio": peak / limit}
    return best


def _state(job: Job, codes: List[Any]) -> str:
    if job.cut_off():
        return "cut off"
    if any(codes):
        return "failed"
    return "unknown" if None in codes or not codes else "completed"


def _job_row(job: Job, gpus: List[Row]) -> Row:
    r, ranked = job.recording, job.ranked()
    user, system = cpu_of(r)
    cpu, cpus = add((user, system)), r.integer("cpus")
    codes = [as_number(p["exit_code"]) for p in ranked]
    missing, cut_off = job.missing(), job.cut_off()
    first = min(ranked or job.parts, key=lambda p: (p["rank"] is None, p["rank"] or 0), default={})
    starts = [p["start_ns"] for p in ranked if p["start_ns"] is not None]
    oom = add(as_number(p.get("oom_killed")) for p in job.parts) if job.is_merged else r.value("job", "oom_kills", "max")
    return {
        **{key: r.text(key) for key in ("scheduler", "cluster", "scheduler_job", "step")},
        **{key: first.get(key) for key in ("name", "user", "restart")}, "array_task": r.integer("array_task"),
        "command": text_of(first.get("command"))[:COMMAND_MOST] or None, "state": _state(job, codes), "exit_code": most(codes),
        "complete": not (missing or cut_off or job.missing_nodes() or job.unreadable),
        "started": job.start_ns, "ended": job.start_ns + job.wall_ns, "wall_s": job.wall_ns / 1e9, "stagger_s": (max(starts) - min(starts)) / 1e9 if starts else None,
        "nodes": len(job.nodes) + job.missing_nodes(), "nodes_missing": job.missing_nodes(), "ranks": job.ranks, "ranks_missing": missing,
        "ranks_cut_off": sorted({p["rank"] for p in cut_off if p["rank"] is not None}), "recordings": sum(1 for p in job.parts if p["has_recording"]),
        "recordings_unreadable": job.unreadable, "cpus": cpus, "cpu_s": scaled(cpu, 1e9), "cpu_user_s": scaled(user, 1e9),
        "cpu_system_s": scaled(system, 1e9), "cpu_ratio": cpu / (cpus * job.wall_ns) if cpu is not None and cpus and job.wall_ns > 0 else None,
        **ram_of(r), **_worst_node(job), "request_ram_bytes": first.get("request_bytes"),
        "request_time_s": scaled(as_number(first.get("request_time_ns")), 1e9), "request_gpus": first.get("request_gpus"), **_gpu_columns(job, gpus),
        "cpu_energy_j": scaled(add(as_number(n["energy_uj"]) for n in job.nodes), 1e6),
        "read_bytes": r.value("job", "read_bytes", "last"), "write_bytes": written_by(r), "oom_kills": oom, "hiwater_version": r.text("version"),
    }


def _rank_row(job: Job, p: Row) -> Row:
    user, system = as_number(p["user_ns"]), as_number(p["system_ns"])
    return {
        "part": p["kind"], "recording": p["file"], "rank": None if p["kind"] in ("node", "run") else p["rank"], "local_rank": p["local_rank"],
        "node": p["node"], "started": as_number(p["started_wall_ns"]), "wall_s": scaled(as_number(p["wall_ns"]), 1e9), "exit_code": p["exit_code"],
        "cut_off": bool(p["has_recording"] and not p["complete"]), "cpus": p["cpus"], "cpu_s": scaled(add((user, system)), 1e9),
        "cpu_user_s": scaled(user, 1e9), "cpu_system_s": scaled(system, 1e9), "peak_ram_bytes": p["ram_peak_bytes"], "peak_ram_low_bytes": p["ram_low_bytes"],
        "peak_ram_high_bytes": p["ram_high_bytes"], "peak_ram_method": p["ram_method"], "limit_bytes": p["limit_bytes"], "capacity_bytes": p["capacity_bytes"],
        "read_bytes": p["read_bytes"], "write_bytes": p["write_bytes"], "processes": p["processes"], "hiwater_version": p["version"],
    }


def _window_rows(job: Job, node: str, curve: Curve, gpu: Curve) -> List[Row]:
    rows = []
    for bucket in sorted(curve.keys() | gpu.keys()):
        span, low, middle, high, cores, read, write = curve.get(bucket, (None,) * 7)
        sm_min, sm_mean, sm_max, busy, memory, power = gpu.get(bucket, (None,) * 6)
        rows.append({
            "node": node, "started": bucket * job.width, "span_s": scaled(span, 1e9), "ram_min_bytes": low, "ram_mean_bytes": middle,
            "ram_max_bytes": high, "cores": cores, "read_bytes": read, "write_bytes": write, "gpu_sm_active_min_ratio": scaled(sm_min, 1e6),
            "gpu_sm_active_mean_ratio": scaled(sm_mean, 1e6), "gpu_sm_active_max_ratio": scaled(sm_max, 1e6), "gpu_busy_ratio": scaled(busy, 1e6),
            "gpu_peak_memory_bytes": memory, "gpu_power_w": scaled(power, 1e6),
        })
    return rows
