# SPDX-License-Identifier: MIT
"""Reads the samples of a recording (docs/recording.md): the use of main, its descendants and the
machine at one instant. For a growing recording, each `read_new` returns the samples since the
previous call."""
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
class Sample:
    """Bytes, seconds, and shares of one unit (1.0: one core or GPU busy). t_s counts from the start
    of the run; *_cpu_s and host_* are counters. Unknown values keep their last value, 0 before the
    first."""

    t_s: float = 0.0
    ram_main: float = 0.0
    ram_descendants: float = 0.0
    ram: float = 0.0
    system: float = 0.0
    gpu_main: float = 0.0
    gpu_descendants: float = 0.0
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
    def descendants_threads(self) -> int:
        return max(self.threads - self.main_threads, 0) if self.main_threads else 0


@dataclass
class _Query:
    """The metrics of a table, by the names of fields here. A window has several values of a gauge,
    one of a counter; id: select the id of the entity as well."""

    entity: str
    gauges: Dict[str, str]
    counters: Dict[str, str]
    means: Tuple[str, ...] = ()
    id: bool = False
    where: str = "1"

    def of_samples(self) -> str:
        columns = {**self.gauges, **self.counters, **{name: name for name in self.means}}
        return self._select("t", columns, self.entity + "_recent") + "ORDER BY at"

    def of_windows(self) -> str:
        """Merges windows if there are more than MOST_WINDOWS: the maximum of a gauge, the last
        value of a counter."""
        columns = {**{name: f"max({of}_max)" for name, of in self.gauges.items()},
                   **{name: f"max({of})" for name, of in self.counters.items()},
                   **{name: f"sum({name} * 1.0 * span) / sum(CASE WHEN {name} IS NOT NULL THEN span END)" for name in self.means}}
        return self._select("max(t + span)", columns, self.entity + "_sample") + (
            f"GROUP BY t / (SELECT max(1000000000, max(t) / {MOST_WINDOWS}) FROM job_sample){', id' * self.id} ORDER BY at")

    def _select(self, at: str, columns: Dict[str, str], table: str) -> str:
        named = ", ".join(f"{of} AS {name}" for name, of in columns.items())
        return f"SELECT {at} AS at, {'id, ' * self.id}{named} FROM {table} WHERE t > ? AND {self.where} "


_QUERIES = (
    _Query("job", {"ram": "ram", "ram_main": "ram_main", "ram_descendants": "ram_descendants", "threads": "threads", "gpu": "gpu_mem",
                   "gpu_main": "gpu_mem_main", "gpu_descendants": "gpu_mem_descendants"}, {"cpu": "cpu_user + cpu_system"}),
    _Query("process", {"threads": "threads"}, {"cpu": "cpu_user + cpu_system"},
           where="id = (SELECT id FROM process WHERE is_main)"),
    _Query("host", {"system": "mem_used"}, {
        "busy": "cpu_user + cpu_system",
        "whole": "cpu_user + cpu_system + cpu_idle + coalesce(cpu_iowait, 0) + coalesce(cpu_steal, 0)"}),
    _Query("gpu", {"mem": "mem"}, {}, ("busy",), id=True),
)


@dataclass
class Timeline:
    """The samples of the recording at path, which need not exist yet. uuids: the GPUs whose
    utilisation counts; system_uuids: the GPUs whose memory counts."""

    path: str
    uuids: Collection[str] = ()
    system_uuids: Collection[str] = ()
    _last_ns: int = -1
    _is_alone: bool = False  # main has no descendants: all CPU time is its own
    _sample: Sample = field(default_factory=Sample)
    _before_s: Optional[float] = None  # CPU time of main before the run; that of the job starts at 0
    _gpus: Dict[str, Dict[str, float]] = field(default_factory=dict)

    def read_new(self) -> List[Sample]:
        """The samples since the last call. A recording has those of the last five minutes at full
        rate."""
        return self._read([q.of_samples() for q in _QUERIES])

    def read_all(self) -> List[Sample]:
        """The samples of the whole run: at full rate if the recording still has them, else its
        windows, each as a sample at its end with the maxima of the window."""
        self._last_ns, self._sample, self._before_s = -1, Sample(), None
        if self._ask("SELECT (SELECT min(t) FROM job_recent) > (SELECT min(t + span) FROM job_sample)") == [(1,)]:
            windows = self._read([q.of_windows() for q in _QUERIES])
            return [*self._beginning(windows[:1]), *windows]
        return self.read_new()

    def _beginning(self, first: List[Sample]) -> List[Sample]:
        """A sample with the counters at the start of the run. The counter of main is not recorded:
        the use in the first window is attributed to main."""
        counted = {(entity, metric): value / NS for entity, metric, value in self._ask(
            "SELECT entity, metric, min FROM summary WHERE entity IN ('job', 'host') AND metric LIKE 'cpu_%' AND min IS NOT NULL")}
        made = []
        for sample in first:
            cpu_s = sum(counted.get(("job", name), 0.0) for name in ("cpu_user", "cpu_system"))
            host = {name: value for (entity, name), value in counted.items() if entity == "host"}
            made.append(replace(sample, t_s=0.0, cpu_s=cpu_s, main_cpu_s=max(sample.main_cpu_s - (sample.cpu_s - cpu_s), 0.0),
                                host_busy_s=host.get("cpu_user", 0.0) + host.get("cpu_system", 0.0), host_s=sum(host.values())))
        return made

    def started(self) -> Optional[float]:
        """Start of the run in seconds since the epoch; None if unknown."""
        rows = self._ask("SELECT value FROM meta WHERE key = 'started_wall_ns'")
        return int(rows[0][0]) / NS if rows else None

    def is_finished(self) -> bool:
        return bool(self._ask("SELECT 1 FROM meta WHERE key = 'ended_ns'"))

    def recorder_pid(self) -> Optional[int]:
        rows = self._ask("SELECT value FROM meta WHERE key = 'recorder_pid'")
        return int(rows[0][0]) if rows else None

    def file_bytes(self) -> Tuple[int, int]:
        """Peak of mapped files and shared memory of main, and of the largest other process, in
        bytes."""
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

    def _read(self, queries: Sequence[str]) -> List[Sample]:
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
            return []  # not complete yet, or removed
        return list(self._samples(heapq.merge(*tables, key=lambda row: row[0]), names))

    def _rows(self, c: sqlite3.Connection, entity: str, sql: str) -> List[Row]:
        cursor = c.execute(sql, [self._last_ns])
        columns = [d[0] for d in cursor.description]
        return [(row[0], entity, dict(zip(columns, row))) for row in cursor.fetchall()]

    def _samples(self, rows: Iterable[Row], uuids: Dict[int, str]) -> Iterator[Sample]:
        """Groups rows into samples. A sample starts with a row of the job and includes all rows
        within SAME_NS."""
        opened: Optional[int] = None
        for at, entity, values in rows:
            if opened is not None and at > opened + SAME_NS:
                yield replace(self._sample, t_s=opened / NS)
                opened = None
            self._apply(entity, values, uuids)
            self._last_ns = at
            if opened is None and entity == "job":
                opened = at
        if opened is not None:
            yield replace(self._sample, t_s=opened / NS)

    def _apply(self, entity: str, v: Dict[str, Any], uuids: Dict[int, str]) -> None:
        sample = self._sample
        if entity == "job":
            if v["ram_main"] is not None or v["ram_descendants"]:  # after the end of the job the last sample stays
                _set(sample, v, ("ram", "ram_main", "ram_descendants", "threads", "gpu", "gpu_main", "gpu_descendants"))
            sample.cpu_s = max(sample.cpu_s, (v["cpu"] or 0) / NS)
            sample.main_cpu_s = sample.cpu_s if self._is_alone else sample.main_cpu_s
        elif entity == "process":
            sample.main_threads = sample.main_threads if v["threads"] is None else v["threads"]
            self._apply_main((v["cpu"] or 0) / NS)
        elif entity == "host":
            _set(sample, v, ("system",))
            if v["busy"] is not None and v["whole"] is not None:
                sample.host_busy_s, sample.host_s = v["busy"] / NS, v["whole"] / NS
        elif v["id"] in uuids:
            self._apply_gpu(uuids[v["id"]], v)

    def _apply_main(self, used_s: float) -> None:
        sample = self._sample
        if self._before_s is None:
            self._before_s = max(used_s - sample.cpu_s, 0.0)
        sample.main_cpu_s = max(sample.main_cpu_s, used_s - self._before_s)

    def _apply_gpu(self, uuid: str, v: Dict[str, Any]) -> None:
        known = self._gpus.setdefault(uuid, {"mem": 0.0, "busy": 0.0})
        known.update((name, v[name]) for name in known if v[name] is not None)
        self._sample.gpu_used = sum(g["mem"] for u, g in self._gpus.items() if u in self.system_uuids)
        self._sample.gpu_seen |= v["busy"] is not None and uuid in self.uuids
        self._sample.gpu_busy = sum(g["busy"] for u, g in self._gpus.items() if u in self.uuids) / 1e6


def _set(sample: Sample, values: Dict[str, Any], names: Iterable[str]) -> None:
    for name in names:
        if values[name] is not None:
            setattr(sample, name, values[name])


@dataclass
class Timepoint:
    """A sample, and the share of CPUs used since the previous timepoint (1.0: one core)."""

    sample: Sample
    span_s: float = 0.0
    main_cores: float = 0.0
    descendants_cores: float = 0.0
    cores: float = 0.0
    system_cores: Optional[float] = 0.0


class Timepoints:
    """Makes timepoints from samples, one each period_s, the first at first_s. n_cores: CPUs of the
    machine.

    The CPU counters of the machine are read once a second: timepoints before the second read wait
    for it, later ones have the share of the last interval."""

    SHORTEST_S = 0.05  # CPU time advances in steps of 10 ms: a share over less would be meaningless

    def __init__(self, first_s: float, period_s: float, n_cores: int) -> None:
        self._due_s = first_s * 0.9
        self._period_s = period_s
        self._n_cores = n_cores
        self._before: Optional[Sample] = None
        self._last: Optional[Sample] = None
        self._waiting: List[Timepoint] = []
        self._system: Optional[float] = None
        self._made = 0

    def add(self, samples: Iterable[Sample]) -> Iterator[Timepoint]:
        for sample in samples:
            self._apply_host(sample)
            self._last = sample
            self._before = self._before or sample
            if sample.t_s >= self._due_s:
                self._due_s += self._period_s
                if self._due_s <= sample.t_s:  # a gap
                    self._due_s = sample.t_s + 0.9 * self._period_s
                self._waiting.append(self._point(sample))
            if self._system is not None:
                yield from self._ready()

    def finish(self) -> Iterator[Timepoint]:
        """A last timepoint, if enough time has passed since the previous one or there is none, and
        those that waited."""
        last, before = self._last, self._before
        if last and before and (not self._made or last.t_s - before.t_s >= max(self.SHORTEST_S, self._period_s / 2)):
            self._waiting.append(self._point(last))
        yield from self._ready()

    def _point(self, sample: Sample) -> Timepoint:
        before = self._before or sample
        span = sample.t_s - before.t_s
        cores = self._share(sample.cpu_s - before.cpu_s, span)
        main = min(self._share(sample.main_cpu_s - before.main_cpu_s, span), cores)
        self._before = sample
        self._made += 1
        return Timepoint(sample, span, main, round(cores - main, 9), cores, self._system)

    def _ready(self) -> Iterator[Timepoint]:
        while self._waiting:
            point = self._waiting.pop(0)
            point.system_cores = point.system_cores if point.system_cores is not None else self._system or 0.0
            yield point

    def _share(self, used_s: float, span_s: float) -> float:
        return round(min(max(used_s, 0.0) / span_s, float(self._n_cores)), 9) if span_s > 0 else 0.0

    def _apply_host(self, sample: Sample) -> None:
        before = self._last
        if before and before.host_s and sample.host_s > before.host_s:
            share = (sample.host_busy_s - before.host_busy_s) / (sample.host_s - before.host_s)
            self._system = round(share * self._n_cores, 9)
