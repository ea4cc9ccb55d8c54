# SPDX-License-Identifier: MIT
"""The rows of a finished job in the tables of a fleet (docs/fleet.md): what exists once, a GPU, a CPU package, counts
once, whatever the number of ranks that recorded it."""
from __future__ import annotations

from ._fleet_job import add, as_number, end_of, job_ram, least, mean, most, ram_of, scaled, start_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

    from ._fleet_job import Curve, Job, Node
    from ._fleet_read import Part
    from ._fleet_tables import Row

COMMAND_MOST = 512  # characters


def rows_of(job: Job) -> Dict[str, List[Row]]:
    """The rows of each table. Raises Unreadable."""
    gpus = _gpu_rows(job)
    chosen = [g["uuid"] for g in gpus if g["_chosen"]]
    windows = {name: node.windows(job, chosen) for name, node in sorted(job.nodes.items())}
    rows = {"job": [_job_row(job, gpus, [curve for curve, _ in windows.values()])], "rank": _rank_rows(job), "gpu": gpus,
            "window": [row for name, (curve, gpu) in windows.items() for row in _window_rows(job, name, curve, gpu)]}
    for table in rows.values():
        for row in table:
            row["run"] = job.run
    return rows


# ---- CPU, input and output -------------------------------------------------------------------------------------------

def _cpu(part: Part) -> Tuple[Optional[int], Optional[int]]:
    """User and system time in ns: what the kernel reported of processes that were waited for, or the last sample, the
    larger; both are lower bounds."""
    return tuple(most((part.integer(f"reaped_{mode}_ns"), part.value("job", f"cpu_{mode}", "last"))) for mode in ("user", "system"))


def _written(part: Part) -> Optional[int]:
    written, cancelled = part.value("job", "write_bytes", "last"), part.value("job", "write_cancelled", "last")
    return None if written is None else max(0, int(written - (cancelled or 0)))


def _job_cpu(job: Job) -> Tuple[Optional[int], Optional[int]]:
    """Per node the sum of the ranks, or what the recorder of the node saw of all of them, the larger."""
    user: List[Any] = []
    system: List[Any] = []
    for node in job.nodes.values():
        ranks = [_cpu(p) for p in node.ranks] + [(line.get("user_ns"), line.get("system_ns")) for line in node.lines]
        seen = [_cpu(p) for p in node.unions]
        for place, sums in ((0, user), (1, system)):
            sums.append(most((add(as_number(r[place]) for r in ranks), add(s[place] for s in seen))))
    return add(user), add(system)


# ---- GPUs ------------------------------------------------------------------------------------------------------------

def _allocated(parts: Sequence[Part]) -> Optional[List[str]]:
    known = [text for text in (p.known_text("allocated_gpus") for p in parts) if text is not None]
    return sorted({uuid for text in known for uuid in text.split(",") if uuid}) if known else None


def _gpu_rows(job: Job) -> List[Row]:
    """A row for each UUID, from the recording of its node, else from the rank that observed it longest."""
    rows = []
    for node in job.nodes.values():
        allocated = _allocated([*node.unions, *node.ranks])
        found: Dict[str, List[Tuple[Part, int, Any, Any]]] = {}
        for part in node.sources:
            for number, uuid, name, memory in part.gpus:
                found.setdefault(str(uuid), []).append((part, number, name, memory))
        for uuid, seen in sorted(found.items()):
            part, number, name, memory = max(seen, key=lambda s: (s[0].integer("ended_ns") or 0, s[0].path))
            rows.append(_gpu_row(node, uuid, name, memory, allocated, part, number, [(p, n) for p, n, _, _ in seen]))
    return rows


def _gpu_row(node: Node, uuid: str, name: Any, memory: Any, allocated: Optional[List[str]], part: Part, number: int,
             seen: List[Tuple[Part, int]]) -> Row:
    used = [u for u in (p.value("gpu", "job_mem", "max", n) for p, n in seen) if u]
    peaks = [p.value("gpu", "job_mem", "max", n) for p, n in seen]
    is_mine = allocated is not None and uuid in allocated

    def ratio(metric: str) -> Optional[float]:
        return scaled(part.mean("gpu", metric, number), 1e6)

    throttled = [t for t in (part.increase("gpu", f"throttle_{why}", number) for why in ("power", "thermal", "hw", "other")) if t is not None]
    return {
        "node": node.name, "uuid": uuid, "name": name if isinstance(name, str) else None, "allocated": None if allocated is None else is_mine,
        "memory_bytes": memory if isinstance(memory, int) else None, "peak_memory_bytes": part.value("gpu", "mem", "max", number),
        # of several ranks on one GPU, the parts' peaks may be of different times
        "job_peak_memory_bytes": peaks[0] if len(peaks) == 1 else used[0] if len(used) == 1 else 0 if peaks.count(0) == len(peaks) else None,
        "busy_ratio": ratio("busy"), "sm_active_ratio": ratio("sm_active"), "sm_occupancy_ratio": ratio("sm_occupancy"),
        "tensor_active_ratio": ratio("tensor_active"), "dram_active_ratio": ratio("dram_active"),
        "power_w": scaled(part.mean("gpu", "power", number), 1e6), "energy_j": scaled(part.increase("gpu", "energy", number), 1e6),
        "temperature_max_celsius": scaled(part.value("gpu", "temp", "max", number), 1e3), "throttled_s": sum(throttled) / 1e9 if throttled else None,
        "ecc_uncorrected": part.increase("gpu", "ecc_uncorrected", number), "xid_errors": part.increase("gpu", "xid", number),
        "_chosen": is_mine if allocated is not None else bool(used),
    }


def _gpu_columns(job: Job, gpus: List[Row]) -> Row:
    """Of the job's GPUs: those that were allocated, or if that is not known, those on which it used memory."""
    chosen = [g for g in gpus if g["_chosen"]]
    known = _allocated(job.parts) is not None
    asked = any(p.integer("gpu_queried") == 1 for p in job.parts)
    if not known and not gpus and not asked:
        return {}
    sm = [g["sm_active_ratio"] for g in chosen]
    return {"gpus": len(chosen), "gpus_from": "allocated" if known else "used", "gpu_sm_active_ratio": mean(sm),
            "gpu_sm_active_min_ratio": least(sm), "gpu_sm_active_max_ratio": most(sm), "gpu_busy_ratio": mean(g["busy_ratio"] for g in chosen),
            "gpu_peak_memory_bytes": most(g["peak_memory_bytes"] for g in chosen), "gpu_memory_bytes": add(g["memory_bytes"] for g in chosen),
            "gpu_energy_j": add(g["energy_j"] for g in chosen)}


# ---- rows ------------------------------------------------------------------------------------------------------------

def _exit(status: Any) -> Tuple[Optional[int], Optional[int]]:
    """Exit code and signal of a status as waitpid returns it."""
    if not isinstance(status, int):
        return None, None
    return (None, status & 0x7F) if status & 0x7F else (status >> 8 & 0xFF, None)


def _exit_columns(statuses: Iterable[Any]) -> Row:
    """Of several ranks, the first signal, else the largest code."""
    ends = [_exit(status) for status in statuses]
    signals = [signal for _, signal in ends if signal]
    return {"exit_code": None if signals else most(code for code, _ in ends), "exit_signal": signals[0] if signals else None}



def _state(job: Job) -> str:
    ends = _exit_columns(p.integer("exit_status") for p in job.parts)
    if any(p.integer("ended_ns") is None for p in job.parts):
        return "cut off"
    if ends["exit_code"] is None and ends["exit_signal"] is None:
        return "unknown"
    return "failed" if ends["exit_code"] or ends["exit_signal"] else "completed"


def _job_row(job: Job, gpus: List[Row], curves: Sequence[Curve]) -> Row:
    user, system = _job_cpu(job)
    cpu, wall = add((user, system)), job.end_ns - job.start_ns
    cpus = add(node.cpus() for node in job.nodes.values()) if not job.missing_nodes() else None
    missing, cut_off = job.missing(), [p for p in job.parts if p.integer("ended_ns") is None]
    nodes = {node.name: node.ram(curve, not missing) for node, curve in zip((job.nodes[n] for n in sorted(job.nodes)), curves)}
    limits = {name: job.nodes[name].limit() for name in nodes}
    shares = {name: ram.peak / limits[name] for name, ram in nodes.items() if ram.peak is not None and limits[name]}
    worst = max(shares, key=lambda name: shares[name]) if shares else None
    starts = [start_of(p) for p in job.ranked]
    first = min(job.parts, key=lambda p: (p.text("part") == "node", p.integer("rank") or 0, p.path))
    return {
        **{key: first.text(key) for key in ("name", "scheduler", "cluster", "scheduler_job", "step", "user")},
        "array_task": first.integer("array_task"), "restart": first.integer("restart"),
        "command": (first.text("command") or "")[:COMMAND_MOST] or None, "state": _state(job), "recordings": len(job.parts),
        **_exit_columns(p.integer("exit_status") for p in job.ranked),
        "complete": not (missing or cut_off or job.missing_nodes() or job.unreadable),
        "started": job.start_ns, "ended": job.end_ns, "wall_s": wall / 1e9, "stagger_s": (max(starts) - min(starts)) / 1e9 if starts else None,
        "nodes": len(job.nodes) + job.missing_nodes(), "nodes_missing": job.missing_nodes(), "ranks": job.ranks,
        "ranks_missing": missing, "ranks_cut_off": sorted({p.integer("rank") for p in cut_off} - {None}), "recordings_unreadable": job.unreadable,
        "cpus": cpus, "cpu_s": scaled(cpu, 1e9), "cpu_user_s": scaled(user, 1e9), "cpu_system_s": scaled(system, 1e9),
        "cpu_ratio": cpu / (cpus * wall) if cpu is not None and cpus and wall > 0 else None,
        **job_ram(job, nodes, curves).columns(), "worst_node": worst, "worst_node_peak_ram_bytes": nodes[worst].peak if worst is not None else None,
        "worst_node_limit_bytes": limits[worst] if worst is not None else None, "worst_node_ram_ratio": shares.get(worst) if worst is not None else None,
        "request_ram_bytes": first.integer("request_bytes"), "request_time_s": scaled(first.integer("request_time_ns"), 1e9),
        "request_gpus": first.integer("request_gpus"), **_gpu_columns(job, gpus),
        "cpu_energy_j": scaled(add(most(p.increase("host", "energy") for p in n.sources) for n in job.nodes.values()), 1e6),
        "read_bytes": add(p.value("job", "read_bytes", "last") for p in _once(job)), "write_bytes": add(_written(p) for p in _once(job)),
        "oom_kills": most(p.value("job", "oom_kills", "max") for p in job.parts), "hiwater_version": first.text("version"),
    }


def _once(job: Job) -> List[Part]:
    """Recordings that together have each process of the job once."""
    return [p for node in job.nodes.values() for p in (node.unions if node.lines and node.unions else node.ranks or node.unions)]


def _rank_rows(job: Job) -> List[Row]:
    rows = []
    for node in job.nodes.values():
        for part in [*node.ranks, *node.unions]:
            user, system = _cpu(part)
            kind = part.text("part") or ("rank" if job.ranks is not None else "run")
            rows.append({
                "part": kind, "recording": part.path, "rank": None if kind == "node" else part.integer("rank"),
                "local_rank": None if kind == "node" else part.integer("local_rank"), "node": node.name, "started": start_of(part),
                "wall_s": (end_of(part) - start_of(part)) / 1e9, **_exit_columns([part.integer("exit_status")]),
                "cut_off": part.integer("ended_ns") is None, "cpus": part.integer("cpus"), "cpu_s": scaled(add((user, system)), 1e9),
                "cpu_user_s": scaled(user, 1e9), "cpu_system_s": scaled(system, 1e9), **ram_of(part).columns(),
                "mean_ram_bytes": part.mean("job", "ram"), "limit_bytes": part.integer("limit_bytes"),
                "capacity_bytes": part.integer("capacity_bytes"), "read_bytes": part.value("job", "read_bytes", "last"),
                "write_bytes": _written(part), "processes": part.integer("processes_seen"),
                "own_cpu_s": scaled(part.integer("own_cpu_ns"), 1e9), "hiwater_version": part.text("version"),
            })
        rows += [_line_row(node, line) for line in node.lines]
    return rows


def _line_row(node: Node, line: Dict[str, Any]) -> Row:
    def integer(key: str) -> Optional[int]:
        return line[key] if isinstance(line.get(key), int) else None

    def text(key: str) -> Optional[str]:
        return line[key] if isinstance(line.get(key), str) else None

    user, system = integer("user_ns"), integer("system_ns")
    return {"part": "rank", "rank": integer("rank"), "local_rank": integer("local_rank"), "node": node.name, "started": integer("started_wall_ns"),
            "wall_s": scaled(integer("wall_ns"), 1e9), **_exit_columns([line.get("exit_status")]), "cut_off": False,
            "cpu_s": scaled(add((user, system)), 1e9), "cpu_user_s": scaled(user, 1e9), "cpu_system_s": scaled(system, 1e9),
            "peak_ram_bytes": integer("ram_peak_bytes"), "peak_ram_method": text("ram_method"), "hiwater_version": text("version")}


def _window_rows(job: Job, node: str, curve: Curve, gpu: Curve) -> List[Row]:
    rows = []
    for bucket in sorted(curve.keys() | gpu.keys()):
        span, low, middle, high, _, cores, read, write = curve.get(bucket, (None,) * 8)
        sm_min, sm_mean, sm_max, busy, memory, power = gpu.get(bucket, (None,) * 6)
        rows.append({
            "node": node, "started": bucket * job.width, "span_s": scaled(span, 1e9), "ram_min_bytes": low, "ram_mean_bytes": middle,
            "ram_max_bytes": high, "cores": cores, "read_bytes": read, "write_bytes": write, "gpu_sm_active_min_ratio": scaled(sm_min, 1e6),
            "gpu_sm_active_mean_ratio": scaled(sm_mean, 1e6), "gpu_sm_active_max_ratio": scaled(sm_max, 1e6), "gpu_busy_ratio": scaled(busy, 1e6),
            "gpu_peak_memory_bytes": memory, "gpu_power_w": scaled(power, 1e6),
        })
    return rows
