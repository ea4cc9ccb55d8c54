# SPDX-License-Identifier: MIT
"""Recordings: finished, growing, or cut off.

Summaries come from the command (`hiwater show`), tables from SQLite (docs/recording.md), arrays
through the package's C extension. No other module reads recordings."""
from __future__ import annotations

import os
import pathlib
import sys
import threading
import weakref

from ._command import output_of
from ._errors import ArgumentTypeError, Error, one_of
from ._schema1 import now as _now

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

    from ._channel import Channel
    from ._summary import Summary

    Arrays = Dict[str, Union[memoryview, List[Optional[str]]]]
    Rows = Tuple[List[str], List[Tuple[Any, ...]]]

GPU_NUMBER = ("CASE WHEN coalesce(g.parent, '') = '' THEN g.number ELSE (SELECT w.number FROM gpu w WHERE w.uuid = g.parent) || '.' || "
              "g.number END")  # the number of the gpu g, as hiwater gpus shows it: 0, of an instance 0.1
SQLITE = b"SQLite format 3\0"  # the first bytes of a recording
RATES = {"windows": "sample", "full": "recent"}  # endings of the names of tables
_SAMPLED = {  # @ is the rate's ending
    "host": "SELECT s.t / 1e9 AS t_s, s.span / 1e9 AS span_s, s.* FROM host_@ s ORDER BY s.t",
    "job": "SELECT s.t / 1e9 AS t_s, s.span / 1e9 AS span_s, s.* FROM job_@ s ORDER BY s.t",
    "process": "SELECT s.t / 1e9 AS t_s, s.span / 1e9 AS span_s, p.pid AS pid, p.name AS name, s.* FROM process_@ s "
               "LEFT JOIN process p ON p.id = s.id ORDER BY s.t, s.id",
    "gpu": "SELECT s.t / 1e9 AS t_s, s.span / 1e9 AS span_s, g.number AS gpu, g.name AS name, s.* FROM gpu_@ s "
           "LEFT JOIN gpu g ON g.id = s.id ORDER BY s.t, s.id",
    "gpu_process": "SELECT s.t / 1e9 AS t_s, s.span / 1e9 AS span_s, p.pid AS pid, p.name AS name, g.number AS gpu, s.* "
                   "FROM gpu_process_@ s LEFT JOIN gpu_process p ON p.id = s.id LEFT JOIN gpu g ON g.id = p.gpu "
                   "ORDER BY s.t, s.id",
}
_LISTED = {
    "series": "SELECT v.t / 1e9 AS t_s, s.name AS name, v.step AS step, v.value AS value FROM series_value v "
              "JOIN series s ON s.id = v.series ORDER BY v.t, v.rowid",
    "event": "SELECT t / 1e9 AS t_s, kind, entity, id, phase, value AS value_ns, text FROM event ORDER BY rowid",
    "phase": "SELECT number, parent, name, facts, began / 1e9 AS begin_s, ended / 1e9 AS end_s, ram_before AS before_bytes, "
             "ram_peak AS peak_bytes, ram_after AS after_bytes, peak_exact FROM phase ORDER BY number",
}
_SITE = ("LEFT JOIN trace_site s ON s.id = r.site LEFT JOIN trace_name n ON n.id = s.name LEFT JOIN trace_name d ON d.id = s.domain "
         "LEFT JOIN trace_process p ON p.id = s.process ORDER BY r.start")
_WORK = "p.pid AS pid, s.device AS device, s.stream AS stream"
_TIMES = ("r.correlation AS correlation, (r.start - r.queued) / 1e9 AS queued_s, (r.start - r.submitted) / 1e9 AS submitted_s, "
          "coalesce(r.flags, 0) AS flags")
_TRACED = {  # of a traced run (docs/tracing.md)
    "range": "SELECT r.start / 1e9 AS t_s, r.duration / 1e9 AS duration_s, n.text AS name, d.text AS domain, p.pid AS pid, s.tid AS tid, "
             f"coalesce(r.depth, 0) AS depth, coalesce(r.flags, 0) AS flags FROM trace_range r {_SITE}",
    "kernel": f"SELECT r.start / 1e9 AS t_s, r.duration / 1e9 AS duration_s, n.text AS name, {_WORK}, s.grid_x AS grid_x, s.grid_y AS grid_y, "
              "s.grid_z AS grid_z, s.block_x AS block_x, s.block_y AS block_y, s.block_z AS block_z, s.registers AS registers, "
              f"s.shared_static AS shared_static, s.shared_dynamic AS shared_dynamic, {_TIMES} FROM trace_kernel r {_SITE}",
    "copy": f"SELECT r.start / 1e9 AS t_s, r.duration / 1e9 AS duration_s, n.text AS name, s.kind AS kind, r.bytes AS bytes, {_WORK}, "
            f"s.source AS source, s.target AS target, {_TIMES} FROM trace_copy r {_SITE}",
    "launch": "SELECT r.start / 1e9 AS t_s, r.duration / 1e9 AS duration_s, n.text AS name, p.pid AS pid, s.tid AS tid, "
              f"r.correlation AS correlation, coalesce(r.flags, 0) AS flags FROM trace_launch r {_SITE}",
}
_LISTED.update(_TRACED)
_HIDDEN = {"t", "span", "n", "part"}  # left out of tables; t_s and span_s have t and span in seconds


class Recording:
    """A recording, finished or growing. Each call reads the file again.

    path    the file
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_temporary = False
        """True if the file is removed with this object: that of a run shorter than a second,
        without output=."""

    def __repr__(self) -> str:
        return f"hiwater.open({self.path!r})"

    def _repr_html_(self) -> Optional[str]:
        """The summary as a short table, for a notebook."""
        try:
            return self.summary._repr_html_()
        except Error:
            return None

    @property
    def summary(self) -> Summary:
        """The summary, of the run so far if it is still measured. Raises Error if the recording
        cannot be read."""
        from ._summary import Summary

        return Summary.from_json(output_of("show", "--json", self._file()), output_of("show", self._file()))

    @property
    def is_complete(self) -> bool:
        """True if the end of the run was recorded."""
        return bool(self.query("SELECT count(*) FROM meta WHERE key = 'ended_ns'")[1][0][0])

    def _is_growing(self) -> bool:
        """True if its recorder is running and has not ended it. Raises Error."""
        from ._process import Process

        if self.is_complete:
            return False
        pid, start = _writer(self._file()) or (0, 0)
        boots = [value for value, in self.query("SELECT value FROM meta WHERE key = 'boot_id'")[1]]
        return pid > 0 and boots == [_boot()] and Process(pid).identity == (pid, start)

    def query(self, sql: str, *values: Any) -> Rows:
        """The column names and the rows of a SELECT (docs/recording.md has the tables). Raises
        Error."""
        import sqlite3

        try:
            with _reader_lock, _connection(self._file()) as connection:
                cursor = connection.execute(sql, values)
                return [column[0] for column in cursor.description or []], cursor.fetchall()
        except sqlite3.Error as e:
            raise self._unreadable(e) from e

    def _unreadable(self, e: Exception) -> Error:
        if "no such table: trace_" in str(e):
            return Error(f"{self.path} has no trace: hiwater run --trace -- COMMAND makes one, hiwater import adds one")
        return Error(f"{self.path} cannot be read: {e}")

    def columns(self, entity: str = "job", *, rate: str = "windows") -> Dict[str, List[Any]]:
        """The windows (1 s each unless they were merged) of host, job, process, gpu or gpu_process,
        or all values of series, event, phase, or of a traced run range, kernel, copy, launch: a list per column. t_s and span_s are seconds; the
        others have the names and base units of docs/metrics.md (NAME the mean, NAME_min and
        NAME_max the extremes of a window); None is unknown.

        rate="full": every sample instead of windows, with one column NAME per metric; None where
        this sample did not read it. Samples are kept for the last five minutes, and around a
        trigger. Raises Error."""
        names, rows = self.query(_select(entity, rate))
        return {name: [row[place] for row in rows] for name, place in _places(entity, names).items()}

    def arrays(self, entity: str = "job", *, rate: str = "windows") -> Arrays:
        """As `columns`, without a Python object per value: memoryviews of 8-byte numbers, which
        numpy uses without a copy (`numpy.asarray(run.arrays()["ram"])`), and lists of strings. A
        column is of integers ("q") if all its values are known, else of floats ("d") with NaN for
        unknown. Raises Error."""
        from ._native import columns

        sql, uri = _select(entity, rate), _uri(self._file())
        with _reader_lock:
            try:
                made = columns(uri, sql)
            except OSError as e:
                try:
                    made = columns(uri + IMMUTABLE, sql)
                except OSError:
                    raise self._unreadable(e) from e
        return {name: made[place][1] for name, place in _places(entity, [name for name, _ in made]).items()}

    def to_pandas(self, entity: str = "job", *, rate: str = "windows") -> Any:
        """As `columns`, as a pandas.DataFrame with t_s as its index where the table has one, and
        with a column `time`: the wall clock in UTC (of a phase, at its begin). Needs pandas. Raises
        Error."""
        from ._tables import pandas_for, wall_clock

        pandas = pandas_for("to_pandas", "columns() returns the same as lists")
        frame = pandas.DataFrame(self._for_pandas(entity, rate))
        frame.insert(1 if "t_s" in frame.columns else 0, "time", wall_clock(self, pandas, frame["t_s" if "t_s" in frame.columns else "begin_s"]))
        return frame.set_index("t_s") if "t_s" in frame.columns else frame

    def joined(self, entity: str = "job") -> Any:
        """What the program logged, with the use of the job (or of "host" or "gpu") at the same
        times: a pandas.DataFrame with a row for each instant at which values were logged (and for
        each GPU), t_s as its index, the wall clock `time`, `step`, a column for each series, and
        the columns of `to_pandas(entity, rate="full")`; of the job also `cores`, the CPUs in use in the
        stretch between two reads around that instant. Each other figure is the last one read at or
        before that instant; where samples are no longer kept at full rate, the mean of the window
        around it. Without logged values, or without GPUs, it has no
        rows. Needs pandas. Raises Error."""
        from ._tables import joined

        return joined(self, entity)

    def ranges(self) -> Any:
        """The ranges and marks of a traced run (NVTX, ITT, an import), a row each, as `to_pandas("range")`: t_s (index), time,
        duration_s (NaN: a mark), name, domain, pid, tid, depth, flags (docs/tracing.md). Rows may have been left out to
        stay within a limit; `hiwater trace` has the sums of all. Needs pandas. Raises Error, also for a run without a trace."""
        return self.to_pandas("range")

    def kernels(self) -> Any:
        """The kernels of a traced run, a row each, as `to_pandas("kernel")`: t_s (index), time, duration_s, name (as the program has
        it), pid, device, stream, grid, block, registers, shared memory (bytes a block), correlation, queued_s and submitted_s
        (seconds since the start of the run, NaN: unknown), flags. As `ranges` otherwise."""
        return self.to_pandas("kernel")

    def to_parquet(self, path: Union[str, os.PathLike[str]], entity: str = "job") -> str:
        """Writes the table into a Parquet file, atomically, and returns its path. Integers stay
        integers; unknown values, and NaN of a series, are null. The metadata of the schema has the
        summary as JSON (hiwater.summary). The memory needed does not grow with the run. Needs
        pyarrow. Raises Error."""
        import sqlite3

        from ._parquet import ROWS, write

        sql, target, summary = _select(entity, "windows"), os.path.abspath(path), output_of("show", "--json", self._file())
        try:
            with _reader_lock, _connection(self._file()) as connection:
                connection.execute(f"CREATE TEMP VIEW request AS {sql}")
                declared = [row[2] for row in connection.execute("PRAGMA table_info(request)")]
                cursor = connection.execute(sql)
                names = [column[0] for column in cursor.description]
                write(target, [(name, declared[place], place) for name, place in _places(entity, names).items()],
                      iter(lambda: cursor.fetchmany(ROWS), []), summary)
        except sqlite3.Error as e:
            raise Error(f"{self.path} cannot be read: {e}") from e
        return target

    def _for_pandas(self, entity: str, rate: str) -> Dict[str, Any]:
        """As numpy arrays; as lists if the package's C extension was not built."""
        from importlib import import_module

        _select(entity, rate)
        try:
            import_module("._native", __package__)
        except Error:
            return self.columns(entity, rate=rate)
        as_array: Any = import_module("numpy").asarray
        return {name: as_array(v) if isinstance(v, memoryview) else v for name, v in self.arrays(entity, rate=rate).items()}

    def plot(self, *series: str) -> Any:
        """A matplotlib figure: RAM, CPUs and GPUs over time, below them the named series (without
        names, all that the program logged), with phases and marks. As the last line of a cell it is
        shown, without %matplotlib; elsewhere it is neither shown nor saved. Needs matplotlib.
        Raises Error."""
        from ._plot import plot

        return plot(self, series)

    def report(self, path: Union[str, os.PathLike[str], None] = None, *, redact: bool = False) -> str:
        """Writes one self-contained HTML page with charts, findings, figures and the data,
        atomically, and returns its path: path, or a file next to the recording. redact: omit user,
        host, commands, paths and names of processes. Raises Error."""
        page = os.path.abspath(path) if path is not None else os.path.splitext(self._file())[0] + ".html"
        output_of("report", *(["--redact"] if redact else []), "-o", page, "--", self._file())
        return page

    def _file(self) -> str:
        if not os.path.exists(self.path):
            raise Error(f"{self.path} does not exist: the history keeps 200 runs and 1 GiB at most; -o FILE keeps a recording outside it")
        return os.path.abspath(self.path)


# One reader at a time: the package's C extension may contain a second SQLite, and closing a file in
# one copy drops the POSIX locks of the other.
_reader_lock = threading.Lock()


def _renew_lock() -> None:
    """In a forked child the lock may be owned by a thread that does not exist there."""
    global _reader_lock
    _reader_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def written_by(recorder: Tuple[int, int], output: Optional[str]) -> Optional[str]:
    """The recording that this process (pid, start time in clock ticks) writes or wrote: output,
    with a rank for %r and the like in its name, else one of the history. None if there is none."""
    return next((path for path in (_ranks_of(output) if output else _unfinished()) if _writer(path) == recorder), None)


def _ranks_of(output: str) -> List[str]:
    import glob
    import re

    pattern = re.sub("%(.)", lambda found: "%" if found[1] == "%" else "*", glob.escape(output))
    return glob.glob(pattern + "**/*.hiw" if output.endswith("/") else pattern, recursive=True)


def _unfinished() -> List[str]:
    import json

    try:
        return [str(run["recording"]) for run in reversed(json.loads(output_of("runs", "--json"))) if not run["complete"]]
    except (Error, ValueError):
        return []


def _writer(path: str) -> Optional[Tuple[int, int]]:
    """Pid and start time of the recorder; None if unknown."""
    try:
        known: Dict[str, Any] = dict(Recording(path).query("SELECT key, value FROM meta WHERE key IN ('recorder_pid', 'recorder_start')")[1])
        return int(known["recorder_pid"]), int(known["recorder_start"])
    except (Error, KeyError, ValueError):
        return None


def _boot() -> Optional[str]:
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return f.read().strip()
    except OSError:
        return None


class Spare:
    """A temporary recording in a private folder, which the recorder writes while the program
    continues. It is removed with the `Recording` that `recording` returns, or with this object, at
    the latest when this process ends."""

    FILE = "run.hiw"
    REMOVE_LIMIT_S = 1.0  # limit of the wait for a recording that is only waited for to be removed

    def __init__(self, channel: Channel) -> None:
        """Takes over the channel. Raises Lost, Late or OSError if no recording can be requested."""
        folder = os.path.join(os.path.abspath(os.environ.get("TMPDIR") or "/tmp"), f"hiwater-short-{os.urandom(8).hex()}")
        self._channel = channel
        self._recording = Recording(os.path.join(folder, self.FILE))
        self._recording.is_temporary = True
        os.mkdir(folder, 0o700)
        try:
            self._request = channel.ask_for_later(f"spare {self._recording.path}")
        except BaseException:
            os.rmdir(folder)
            raise
        util: Any = sys.modules.get("multiprocessing.util")
        if util:  # processes of multiprocessing end by os._exit, without atexit
            util.Finalize(self._recording, _remove_spare, (folder, os.getpid(), channel, self._request), exitpriority=0)
        else:
            weakref.finalize(self._recording, _remove_spare, folder, os.getpid(), channel, self._request)

    def recording(self, limit_s: float) -> Optional[Recording]:
        """Waits for the recording, at most limit_s seconds; None if it could not be written."""
        _await(self._channel, self._request, limit_s)
        return self._recording if os.path.exists(self._recording.path) else None


def _await(channel: Channel, request: int, limit_s: float) -> None:
    if not channel.is_open:
        return
    try:
        channel.answer(request, limit_s)
    except Error:
        pass
    channel.close()


def _remove_spare(folder: str, pid: int, channel: Channel, request: int) -> None:
    """Removes the folder. Does nothing in a forked child: the folder belongs to the parent."""
    if os.getpid() != pid:
        return
    _await(channel, request, Spare.REMOVE_LIMIT_S)
    try:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
    except OSError:
        pass  # already removed


def _select(entity: str, rate: str) -> str:
    one_of("entity", entity, [*_SAMPLED, *_LISTED])
    one_of("rate", rate, RATES)
    return _SAMPLED[entity].replace("@", RATES[rate]) if entity in _SAMPLED else _LISTED[entity]


def _places(entity: str, names: Sequence[str]) -> Dict[str, int]:
    """Name and index of the columns of a table: the first of each name."""
    places: Dict[str, int] = {}
    for place, name in enumerate(names):
        if name not in _HIDDEN or entity not in _SAMPLED:
            places.setdefault(_now(name), place)
    return places


IMMUTABLE = "&immutable=1"  # read the file without its journal, which cannot be opened in a read-only folder


def _uri(path: str) -> str:
    return pathlib.Path(path).as_uri() + "?mode=ro"


class _connection:
    """A read-only SQLite connection, as a context manager."""

    def __init__(self, path: str) -> None:
        self._uri = _uri(path)

    def __enter__(self) -> sqlite3.Connection:
        import sqlite3

        self._connection = sqlite3.connect(self._uri, uri=True, timeout=10)
        self._connection.text_factory = lambda raw: raw.decode(errors="replace")
        try:
            self._connection.execute("SELECT count(*) FROM meta").fetchall()
        except sqlite3.OperationalError:
            self._connection.close()
            self._connection = sqlite3.connect(self._uri + IMMUTABLE, uri=True)
            self._connection.text_factory = lambda raw: raw.decode(errors="replace")
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def open_recording(run: Union[str, int, os.PathLike[str]] = "last") -> Recording:
    """Opens a recording: a path, a number of the history, the name of a run ("name:3" for a name
    that is a number), "last", "slurm:JOB", or a folder with the recordings of a job's ranks, which are merged. The
    recording may be growing, or cut off by a kill. Raises Error if there is no such run, or it cannot be read."""
    import operator

    from ._summary import Summary

    name = os.fspath(run) if isinstance(run, os.PathLike) else run
    if not isinstance(name, str):
        try:
            name = str(operator.index(name))
        except TypeError:
            raise ArgumentTypeError(f"cannot open {run!r}: give a path, a number or a name of the history, or 'last'") from None
    path = Summary.from_json(output_of("show", "--json", "--", name)).run.recording
    if not path:
        raise Error(f"the run {name} has no recording file")
    path = os.path.abspath(path)
    return Recording(path) if _is_database(path) else _merged(path)


def _is_database(path: str) -> bool:
    try:
        with open(path, "rb") as f:
            return f.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def _merged(path: str) -> Recording:
    """A job of several ranks (a folder of their recordings), merged into a temporary recording that is removed with the object."""
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="hiwater-")
    try:
        file = os.path.join(folder, "job.hiw")
        output_of("merge", "-o", file, "--", path)
        recording = Recording(file)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(recording, shutil.rmtree, folder, ignore_errors=True)
    return recording
