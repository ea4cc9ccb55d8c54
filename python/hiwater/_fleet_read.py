# SPDX-License-Identifier: MIT
"""Reads what `hiwater collect` needs of one recording, which may be anybody's and is not trusted.

A recording is read into memory through one descriptor that was checked first (a regular file, no symbolic link, not
too large), so nothing that is put in its place afterwards is opened, no lock is taken, and a file that shrinks
meanwhile raises no SIGBUS. SQLite then gets the copy: without triggers, views and virtual tables, and with a limit of
time for each recording."""
from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import tempfile
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

    from ._fleet_job import Job

BYTES_MOST = 256 << 20  # four times the default limit of a recording
TIME_MOST_S = 20.0  # for the statements on one recording
STEPS = 100_000  # of SQLite's machine, between two reads of the clock
SCHEMA = 2
ROWS_MOST = 1 << 21  # of a table of a merged recording: two million ranks
WINDOWS_MOST = 1002  # buckets in which a run can have windows
_JOURNAL_MODE_AT, _JOURNAL_MODES = 18, b"\x01\x01"  # of the file's header: with a rollback journal, or none


class Unreadable(Exception):
    """The recording cannot be used; the text says why."""


class Part:
    """One recording. Facts are those of src/model/facts.def; a fact that is unknown, or of another type, is None."""

    def __init__(self, path: str, facts: Dict[str, Any]) -> None:
        self.path = path
        self._facts = facts
        self.values: Dict[Tuple[Any, Any], Dict[Any, List[Any]]] = {}
        """The table summary: (entity, metric) -> {id: (n, min, max, max_at, last, sum, span)}."""
        self.gpus: List[Tuple[int, Any, Any, Any]] = []
        """id, UUID, name, total memory."""
        self.tables: Dict[str, List[Dict[str, Any]]] = {}
        self.connection: Optional[sqlite3.Connection] = None

    def integer(self, fact: str) -> Optional[int]:
        value = self._facts.get(fact)
        return value if isinstance(value, int) else None

    def text(self, fact: str) -> Optional[str]:
        value = self._facts.get(fact)
        return value if isinstance(value, str) and value else None

    def known_text(self, fact: str) -> Optional[str]:
        """As text, but an empty one is known, too."""
        value = self._facts.get(fact)
        return value if isinstance(value, str) else None

    def table(self, name: str) -> List[Dict[str, Any]]:
        """The rows of part, node, problem or part_gpu, which only a merged recording has."""
        return self.tables.get(name, [])

    def value(self, entity: str, metric: str, column: str, entity_id: int = 0) -> Any:
        """A number of the table summary, or None."""
        row = self.values.get((entity, metric), {}).get(entity_id)
        found = row[_COLUMNS.index(column)] if row else None
        return found if isinstance(found, (int, float)) else None

    def mean(self, entity: str, metric: str, entity_id: int = 0) -> Optional[float]:
        total, span = self.value(entity, metric, "sum", entity_id), self.value(entity, metric, "span", entity_id)
        return total / span if span and total is not None else None

    def increase(self, entity: str, metric: str, entity_id: int = 0) -> Optional[int]:
        """By how much a counter grew during the run."""
        first, last = self.value(entity, metric, "min", entity_id), self.value(entity, metric, "max", entity_id)
        return int(last - first) if first is not None and last is not None else None


_COLUMNS = ("n", "min", "max", "max_at", "last", "sum", "span")


# ---- files -----------------------------------------------------------------------------------------------------------

def _bytes_of(path: str, most: int) -> Tuple[bytes, os.stat_result]:
    """The contents of a regular file. Raises Unreadable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as e:
        kind = "a symbolic link, which is not followed" if os.path.islink(path) else e.strerror
        raise Unreadable(str(kind)) from e
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise Unreadable("a folder, not a recording" if stat.S_ISDIR(found.st_mode) else "not a regular file")
        if found.st_size > most:
            raise Unreadable(f"{found.st_size} bytes; files above {most} are not read")
        data = os.read(fd, found.st_size)
        if len(data) != found.st_size:
            raise Unreadable("it changed while it was read")
        return data, found
    except OSError as e:
        raise Unreadable(str(e.strerror)) from e
    finally:
        os.close(fd)


@contextlib.contextmanager
def _connected(path: str) -> Iterator[Tuple[sqlite3.Connection, os.stat_result]]:
    """A connection to a copy of the recording; of one that was cut off, with its journal."""
    data, found = _bytes_of(path, BYTES_MOST)
    if not data.startswith(b"SQLite format 3\0"):
        raise Unreadable("not a recording (no SQLite file)")
    journal = _bytes_of(path + "-wal", BYTES_MOST)[0] if os.path.lexists(path + "-wal") else b""
    with contextlib.ExitStack() as stack:
        if journal or not hasattr(sqlite3.Connection, "deserialize"):  # Python 3.11
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hiwater-collect-"))
            copy = os.path.join(folder, "run.hiw")
            for name, content in ((copy, data), (copy + "-wal", journal)):
                with open(name, "xb") as file:
                    file.write(content)
            connection = sqlite3.connect(copy)
            stack.callback(connection.close)
        else:
            if data[_JOURNAL_MODE_AT:_JOURNAL_MODE_AT + 2] != _JOURNAL_MODES:
                data = data[:_JOURNAL_MODE_AT] + _JOURNAL_MODES + data[_JOURNAL_MODE_AT + 2:]
            connection = sqlite3.connect(":memory:")
            stack.callback(connection.close)
            connection.deserialize(data)  # type: ignore[attr-defined,unused-ignore]
        end = time.monotonic() + TIME_MOST_S
        connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection, found


# ---- tables ----------------------------------------------------------------------------------------------------------

_SUMMARY = """SELECT entity, metric, id, n, min, max, max_at, last, sum, span FROM summary WHERE entity = 'gpu'
 OR entity = 'host' AND metric = 'energy' OR entity = 'job' AND metric IN
 ('ram', 'ram_low', 'cpu_user', 'cpu_system', 'read_bytes', 'write_bytes', 'write_cancelled', 'oom_kills')"""


@contextlib.contextmanager
def opened(path: str, settle_s: float) -> Iterator[Optional[Part]]:
    """A recording, whose windows are at hand while the block lasts; None if it is still written: its recorder lives, or it
    has no end and changed within the last settle_s seconds (its recorder may run on another machine). Raises Unreadable."""
    with _connected(path) as (connection, found):
        part = _part(path, connection)
        if part.integer("ended_ns") is None and (_is_written(part) or time.time() - found.st_mtime < settle_s):
            yield None
            return
        part.connection = connection
        try:
            yield part
        finally:
            part.connection = None


def _part(path: str, connection: sqlite3.Connection) -> Part:
    try:
        _refuse_code(connection)
        part = Part(path, dict(connection.execute("SELECT key, value FROM meta")))
        if part.integer("schema") != SCHEMA:
            raise Unreadable(f"schema {part.integer('schema')}; this hiwater collects schema {SCHEMA}")
        if not part.text("id") or part.integer("started_wall_ns") is None:
            raise Unreadable("neither its id nor its start is known")
        for entity, metric, number, *rest in connection.execute(_SUMMARY):
            part.values.setdefault((entity, metric), {})[number] = rest
        if any(entity == "gpu" for entity, _ in part.values):
            part.gpus = connection.execute("SELECT id, uuid, name, memory FROM gpu WHERE uuid IS NOT NULL ORDER BY id").fetchall()
        if part.text("part") == "job":
            part.tables = {table: _dicts(connection, table) for table in _MERGED}
        return part
    except sqlite3.Error as e:
        raise Unreadable(_reason(e)) from e


_MERGED = ("part", "node", "problem", "part_gpu")


def _dicts(connection: sqlite3.Connection, table: str) -> List[Dict[str, Any]]:
    cursor = connection.execute(f"SELECT * FROM {table} LIMIT {ROWS_MOST}")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor]


def _reason(e: sqlite3.Error) -> str:
    return f"reading it took over {TIME_MOST_S:.0f} s" if "interrupted" in str(e) else str(e)


def _refuse_code(connection: sqlite3.Connection) -> None:
    """No recording has triggers, views or virtual tables."""
    row = connection.execute("SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') "
                             "OR sql LIKE 'CREATE VIRTUAL%' LIMIT 1").fetchone()
    if row:
        kind = "virtual table" if row[0] == "table" else row[0]
        raise Unreadable(f"it has a {kind} ({row[1]!r}), which no recording has")


def _is_written(part: Part) -> bool:
    """True if the process that writes it is still running, on this machine."""
    pid, start = part.integer("recorder_pid"), part.integer("recorder_start")
    if not pid or part.text("boot_id") != _boot_id():
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19]) == start
    except (OSError, ValueError, IndexError):
        return False


def _boot_id() -> Optional[str]:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return None


# ---- windows ---------------------------------------------------------------------------------------------------------

class Samples:
    """The windows of one recording, merged into buckets of wall time, which all nodes have in common: bucket k is from
    k * width to (k + 1) * width, in ns since 1970.

    rows    bucket -> (span, ram_min, ram_mean, ram_max, cpu, read, write), the last three cumulative
    first   the last three at the start"""

    def __init__(self, first: Tuple[Any, ...]) -> None:
        self.first = first
        self.rows: Dict[int, Tuple[Any, ...]] = {}


class JobSamples:
    """Of each node of a job: Samples of its recording, else of each of its ranks; and of its GPUs together
    bucket -> (sm_min, sm_mean, sm_max, busy_mean, mem_max of one GPU, power of a GPU)."""

    def __init__(self) -> None:
        self.nodes: Dict[str, Dict[Any, Samples]] = {}
        self.gpu: Dict[str, Dict[int, Tuple[Any, ...]]] = {}

    def of_node(self, name: str) -> List[Samples]:
        return list(self.nodes.get(name, {}).values()) or [Samples((0, 0, 0))]


_KNOWN = "total({0} * 1.0 * span) / nullif(total(CASE WHEN {0} IS NOT NULL THEN span END), 0)"
_RUN = f"""SELECT (t + ?1) / ?2, total(span), min(coalesce(ram_min, ram)), {_KNOWN.format("ram")}, max(coalesce(ram_max, ram)),
 max(cpu_user + cpu_system), max(read_bytes), max(write_bytes - coalesce(write_cancelled, 0))
 FROM job_sample WHERE t BETWEEN 0 AND ?3 GROUP BY 1 ORDER BY 1"""
_PARTS = f"""SELECT p.node, p.number, (r.t + p.start_ns + ?1) / ?2, total(r.span), min(coalesce(r.ram_min, r.ram)),
 {_KNOWN.format("ram")}, max(coalesce(r.ram_max, r.ram)), max(r.user + r.system), max(r.read), max(r.written)
 FROM part_row r JOIN part p ON p.rows = r.part LEFT JOIN node n ON n.name IS p.node
 WHERE p.counts = 1 AND (p.kind = 'node') = coalesce(n.has_union, 0) AND r.t + p.start_ns BETWEEN 0 AND ?3 GROUP BY 2, 3 ORDER BY 2, 3"""
_GPU = f"""SELECT (t + ?1) / ?2, min(coalesce(sm_active_min, sm_active)), {_KNOWN.format("sm_active")}, max(coalesce(sm_active_max, sm_active)),
 {_KNOWN.format("busy")}, max(coalesce(mem_max, mem)), {_KNOWN.format("power")}
 FROM gpu_sample WHERE t BETWEEN 0 AND ?3 AND id IN (IDS) GROUP BY 1 ORDER BY 1"""


def read_windows(job: Job, gpus: Dict[str, List[int]]) -> JobSamples:
    """The windows of a job whose recording is open; gpus: the ids on each node. Raises Unreadable."""
    r, made = job.recording, JobSamples()
    if r.connection is None:
        raise Unreadable("it is not open")
    values = (job.start_ns, job.width, job.wall_ns)
    try:
        if job.is_merged:
            for node, number, bucket, *rest in r.connection.execute(_PARTS, values):
                parts = made.nodes.setdefault(str(node), {})
                parts.setdefault(number, Samples((0, 0, 0))).rows[bucket] = tuple(rest)
        else:
            before = [r.value("job", f"cpu_{mode}", "min") for mode in ("user", "system")]
            own = Samples((None if None in before else sum(before), 0, 0))
            own.rows = {bucket: tuple(rest) for bucket, *rest in r.connection.execute(_RUN, values)}
            made.nodes[job.nodes[0]["name"]] = {0: own}
        for node, ids in gpus.items():
            found = r.connection.execute(_GPU.replace("IDS", ",".join(str(int(i)) for i in ids)), values)
            made.gpu[node] = {bucket: tuple(rest) for bucket, *rest in found}
    except sqlite3.Error as e:
        raise Unreadable(_reason(e)) from e
    curves = [*(s.rows for parts in made.nodes.values() for s in parts.values()), *made.gpu.values()]
    if any(len(curve) > WINDOWS_MOST or not all(isinstance(bucket, int) for bucket in curve) for curve in curves):
        raise Unreadable("its windows are not those of a run between its start and its end")
    return made
