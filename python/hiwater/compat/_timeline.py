# SPDX-License-Identifier: MIT
"""How a run went, out of its recording (docs/recording.md), as looks: what main, its descendants and the machine used at
one time. Also of a recording that grows: each `take` gives what came since the last one."""
from __future__ import annotations

import contextlib
import heapq
import os
from dataclasses import dataclass, field, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any, Collection, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

    Row = Tuple[int, str, "Dict[str, Any]"]

NS = 1e9
SAME_NS = 500_000
MOST_WINDOWS = 20000


@dataclass
class Look:
    """Bytes, seconds, and shares of one unit (1.0: one core or GPU busy). t_s counts from the run's start; *_cpu_s and
    host_* are counters. What is unknown has its last value, 0 before the first."""

    t_s: float = 0.0
    ram_main: float = 0.0
    ram_rest: float = 0.0
    ram: float = 0.0
    system: float = 0.0
    gpu_main: float = 0.0
    gpu_rest: float = 0.0
    gpu: float = 0.0
    gpu_used: float = 0.0
    gpu_busy: float = 0.0
    gpu_seen: bool = False  # whether gpu_busy has been read yet
    main_threads: int = 0
    threads: int = 0
    main_cpu_s: float = 0.0
    cpu_s: float = 0.0
    host_busy_s: float = 0.0
    host_s: float = 0.0

    @property
    def rest_threads(self) -> int:
        return max(self.threads - self.main_threads, 0) if self.main_threads else 0


@dataclass
class _Query:
    """A table's metrics by the names they have here. gauges have several values in a window, counters one; id: of its entities,
    where there are several."""

    entity: str
    gauges: Dict[str, str]
    counters: Dict[str, str]
    means: Tuple[str, ...] = ()
    id: bool = False
    where: str = "1"

    def of_looks(self) -> str:
        columns = {**self.gauges, **self.counters, **{name: name for name in self.means}}
        return self._select("t", columns, self.entity + "_recent") + "ORDER BY at"

    def of_windows(self) -> str:
        """Several become one where there are many: the most that was held, the last count."""
        columns = {**{name: f"max({of}_max)" for name, of in self.gauges.items()},
                   **{name: f"max({of})" for name, of in self.counters.items()},
                   **{name: f"sum({name} * 1.0 * span) / sum(CASE WHEN {name} IS NOT NULL THEN span END)" for name in self.means}}
        return self._select("max(t + span)", columns, self.entity + "_sample") + (
            f"GROUP BY t / (SELECT max(1000000000, max(t) / {MOST_WINDOWS}) FROM job_sample){', id' * self.id} ORDER BY at")

    def _select(self, at: str, columns: Dict[str, str], table: str) -> str:
        named = ", ".join(f"{of} AS {name}" for name, of in columns.items())
        return f"SELECT {at} AS at, {'id, ' * self.id}{named} FROM {table} WHERE t > ? AND {self.where} "


_QUERIES = (
    _Query("job", {"ram": "ram", "ram_main": "ram_main", "ram_rest": "ram_rest", "threads": "threads", "gpu": "gpu_mem",
                   "gpu_main": "gpu_mem_main", "gpu_rest": "gpu_mem_rest"}, {"cpu": "cpu_user + cpu_system"}),
    _Query("process", {"threads": "threads"}, {"cpu": "cpu_user + cpu_system"},
           where="id = (SELECT id FROM process WHERE is_main)"),
    _Query("host", {"system": "mem_used"}, {
        "busy": "cpu_user + cpu_system",
        "whole": "cpu_user + cpu_system + cpu_idle + coalesce(cpu_iowait, 0) + coalesce(cpu_steal, 0)"}),
    _Query("gpu", {"mem": "mem"}, {}, ("busy",), id=True),
)


@dataclass
class Timeline:
    """Of the recording at path, which need not be there yet. uuids: the GPUs whose utilisation counts; system_uuids: those
    whose memory does."""

    path: str
    uuids: Collection[str] = ()
    system_uuids: Collection[str] = ()
    _last_ns: int = -1
    _is_alone: bool = False  # main has started nothing: all processor time is its own
    _look: Look = field(default_factory=Look)
    _before_s: Optional[float] = None  # processor time of main from before the run, where the job's begins with 0
    _gpus: Dict[str, Dict[str, float]] = field(default_factory=dict)

    def take(self) -> List[Look]:
        """Each look since the last call; those of the last five minutes are there (all that a reader who comes each
        second needs)."""
        return self._read([q.of_looks() for q in _QUERIES])

    def whole(self) -> List[Look]:
        """The run from its beginning: at full rate if that is still there, else its windows, each as a look at its end with
        the most that was held in it."""
        self._last_ns, self._look, self._before_s = -1, Look(), None
        if self._ask("SELECT (SELECT min(t) FROM job_recent) > (SELECT min(t + span) FROM job_sample)") == [(1,)]:
            windows = self._read([q.of_windows() for q in _QUERIES])
            return [*self._beginning(windows[:1]), *windows]
        return self.take()

    def _beginning(self, first: List[Look]) -> List[Look]:
        """What the counters were when the run began. Of main that is not kept: what was used in its first window is main's."""
        counted = {(entity, metric): value / NS for entity, metric, value in self._ask(
            "SELECT entity, metric, min FROM summary WHERE entity IN ('job', 'host') AND metric LIKE 'cpu_%' AND min IS NOT NULL")}
        made = []
        for look in first:
            cpu_s = sum(counted.get(("job", name), 0.0) for name in ("cpu_user", "cpu_system"))
            host = {name: value for (entity, name), value in counted.items() if entity == "host"}
            made.append(replace(look, t_s=0.0, cpu_s=cpu_s, main_cpu_s=max(look.main_cpu_s - (look.cpu_s - cpu_s), 0.0),
                                host_busy_s=host.get("cpu_user", 0.0) + host.get("cpu_system", 0.0), host_s=sum(host.values())))
        return made

    def started(self) -> Optional[float]:
        """When the run began, seconds since the epoch."""
        rows = self._ask("SELECT value FROM meta WHERE key = 'started_wall_ns'")
        return int(rows[0][0]) / NS if rows else None

    def is_over(self) -> bool:
        return bool(self._ask("SELECT 1 FROM meta WHERE key = 'ended_ns'"))

    def recorder_pid(self) -> Optional[int]:
        rows = self._ask("SELECT value FROM meta WHERE key = 'recorder_pid'")
        return int(rows[0][0]) if rows else None

    def file_bytes(self) -> Tuple[int, int]:
        """The most mapped files and shared memory that main held, and that one of the others did."""
        rows = self._ask("SELECT id = (SELECT id FROM process WHERE is_main), max(most) FROM (SELECT id, rss_file_max AS most "
                         "FROM process_sample UNION ALL SELECT id, rss_file FROM process_recent) GROUP BY 1")
        most = {is_main: most for is_main, most in rows}
        return most.get(1) or 0, most.get(0) or 0

    def _ask(self, sql: str) -> List[Tuple[Any, ...]]:
        if not os.path.exists(self.path):
            return []
        from .._errors import Error
        from .._recording import Recording

        with contextlib.suppress(Error):
            return Recording(self.path).query(sql)[1]
        return []

    def _read(self, queries: Sequence[str]) -> List[Look]:
        if not os.path.exists(self.path):
            return []
        import sqlite3

        from .._recording import _connection

        try:
            with _connection(self.path) as c:
                c.execute("BEGIN")  # all tables as of one commit
                names = dict(c.execute("SELECT id, uuid FROM gpu WHERE coalesce(parent, '') = ''").fetchall())
                self._is_alone = c.execute("SELECT count(*) FROM process").fetchone() == (1,)
                tables = [self._rows(c, query.entity, sql) for query, sql in zip(_QUERIES, queries)]
        except sqlite3.Error:
            return []  # not there yet, or gone
        return list(self._looks(heapq.merge(*tables, key=lambda row: row[0]), names))

    def _rows(self, c: sqlite3.Connection, entity: str, sql: str) -> List[Row]:
        cursor = c.execute(sql, [self._last_ns])
        columns = [d[0] for d in cursor.description]
        return [(row[0], entity, dict(zip(columns, row))) for row in cursor.fetchall()]

    def _looks(self, rows: Iterable[Row], uuids: Dict[int, str]) -> Iterator[Look]:
        """A look begins with the job's readings; what else is read within half a millisecond belongs to it."""
        opened: Optional[int] = None
        for at, entity, values in rows:
            if opened is not None and at > opened + SAME_NS:
                yield replace(self._look, t_s=opened / NS)
                opened = None
            self._apply(entity, values, uuids)
            self._last_ns = at
            if opened is None and entity == "job":
                opened = at
        if opened is not None:
            yield replace(self._look, t_s=opened / NS)

    def _apply(self, entity: str, v: Dict[str, Any], uuids: Dict[int, str]) -> None:
        look = self._look
        if entity == "job":
            if v["ram_main"] is not None or v["ram_rest"]:  # at the end nothing is held any more: the last look counts
                _set(look, v, ("ram", "ram_main", "ram_rest", "threads", "gpu", "gpu_main", "gpu_rest"))
            look.cpu_s = max(look.cpu_s, (v["cpu"] or 0) / NS)
            look.main_cpu_s = look.cpu_s if self._is_alone else look.main_cpu_s
        elif entity == "process":
            look.main_threads = look.main_threads if v["threads"] is None else v["threads"]
            self._take_main((v["cpu"] or 0) / NS)
        elif entity == "host":
            _set(look, v, ("system",))
            if v["busy"] is not None and v["whole"] is not None:
                look.host_busy_s, look.host_s = v["busy"] / NS, v["whole"] / NS
        elif v["id"] in uuids:
            self._take_gpu(uuids[v["id"]], v)

    def _take_main(self, used_s: float) -> None:
        look = self._look
        if self._before_s is None:
            self._before_s = max(used_s - look.cpu_s, 0.0)
        look.main_cpu_s = max(look.main_cpu_s, used_s - self._before_s)

    def _take_gpu(self, uuid: str, v: Dict[str, Any]) -> None:
        known = self._gpus.setdefault(uuid, {"mem": 0.0, "busy": 0.0})
        known.update((name, v[name]) for name in known if v[name] is not None)
        self._look.gpu_used = sum(g["mem"] for u, g in self._gpus.items() if u in self.system_uuids)
        self._look.gpu_seen |= v["busy"] is not None and uuid in self.uuids
        self._look.gpu_busy = sum(g["busy"] for u, g in self._gpus.items() if u in self.uuids) / 1e6


def _set(look: Look, values: Dict[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if values[name] is not None:
            setattr(look, name, values[name])


@dataclass
class Timepoint:
    """A look, and the share of processors that was used since the one before (1.0: one core)."""

    look: Look
    span_s: float = 0.0
    main_cores: float = 0.0
    rest_cores: float = 0.0
    cores: float = 0.0
    system_cores: Optional[float] = 0.0


class Timepoints:
    """Makes timepoints of looks, one each period_s, the first at first_s. n_cores: of the machine.

    The machine's processors are read once a second: timepoints before the second reading wait for it, those between two have
    the share of the last."""

    SHORTEST_S = 0.05  # processor time comes in steps of 10 ms: over less a share would mean nothing

    def __init__(self, first_s: float, period_s: float, n_cores: int) -> None:
        self._due_s = first_s * 0.9
        self._period_s = period_s
        self._n_cores = n_cores
        self._before: Optional[Look] = None
        self._last: Optional[Look] = None
        self._waiting: List[Timepoint] = []
        self._system: Optional[float] = None
        self._made = 0

    def take(self, looks: Iterable[Look]) -> Iterator[Timepoint]:
        for look in looks:
            self._take_host(look)
            self._last = look
            self._before = self._before or look
            if look.t_s >= self._due_s:
                self._due_s += self._period_s
                if self._due_s <= look.t_s:  # a gap
                    self._due_s = look.t_s + 0.9 * self._period_s
                self._waiting.append(self._point(look))
            if self._system is not None:
                yield from self._ready()

    def finish(self) -> Iterator[Timepoint]:
        """The end, if there is enough behind the last timepoint, or nothing else."""
        last, before = self._last, self._before
        if last and before and (not self._made or last.t_s - before.t_s >= max(self.SHORTEST_S, self._period_s / 2)):
            self._waiting.append(self._point(last))
        yield from self._ready()

    def _point(self, look: Look) -> Timepoint:
        before = self._before or look
        span = look.t_s - before.t_s
        cores = self._share(look.cpu_s - before.cpu_s, span)
        main = min(self._share(look.main_cpu_s - before.main_cpu_s, span), cores)
        self._before = look
        self._made += 1
        return Timepoint(look, span, main, round(cores - main, 9), cores, self._system)

    def _ready(self) -> Iterator[Timepoint]:
        while self._waiting:
            point = self._waiting.pop(0)
            point.system_cores = point.system_cores if point.system_cores is not None else self._system or 0.0
            yield point

    def _share(self, used_s: float, span_s: float) -> float:
        return round(min(max(used_s, 0.0) / span_s, float(self._n_cores)), 9) if span_s > 0 else 0.0

    def _take_host(self, look: Look) -> None:
        before = self._last
        if before and before.host_s and look.host_s > before.host_s:
            share = (look.host_busy_s - before.host_busy_s) / (look.host_s - before.host_s)
            self._system = round(share * self._n_cores, 9)
