# SPDX-License-Identifier: MIT
"""The Parquet files of a fleet: FLEET/TABLE/day=YYYY-MM-DD/NAME.parquet.

A collection writes one file of each table and day under a temporary name in the same folder and renames all of them at
its end. A run is written to a table unless a file of that table and day has it already, so that collecting again adds
nothing, and completes what a collection that was killed between two renames left. Collections take turns by a lock on
FLEET/.lock."""
from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
from importlib import import_module

from ._errors import Error
from ._fleet_tables import PERSONAL, TABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Set, Tuple

    from ._fleet_tables import Row

ROWS = 65536  # of a row group; some 10 MB while it is collected
RUNS_KEY = b"hiwater.runs"  # in the footer: the runs that a file has
COMPRESSION = "zstd"


@contextlib.contextmanager
def locked(fleet: str, on_wait: Any) -> Iterator[None]:
    """on_wait() is called if another collection has the lock. Raises Error where there are no locks."""
    path = os.path.join(fleet, ".lock")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    except OSError as e:
        raise Error(f"cannot lock {path}: {e.strerror}") from e
    try:
        try:
            _lock(fd, on_wait)
        except OSError as e:
            raise Error(f"cannot lock {path}: {e.strerror}; collect into a folder on a file system that has locks, and copy it") from e
        yield
    finally:
        os.close(fd)


def _lock(fd: int, on_wait: Any) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
        fcntl.flock(fd, fcntl.LOCK_EX)


def day_of(started_ns: int) -> str:
    """The day in UTC. Raises ValueError or OverflowError for a time that is none."""
    return (datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=started_ns // 10**9)).strftime("%Y-%m-%d")


class Store:
    """Writes rows while a collection lasts; commit() makes them visible. The caller has the lock."""

    def __init__(self, fleet: str, redact: bool) -> None:
        self._fleet, self._redact = fleet, redact
        self._arrow: Any = import_module("pyarrow")
        self._parquet: Any = import_module("pyarrow.parquet")
        types = {"string": self._arrow.string(), "int64": self._arrow.int64(), "double": self._arrow.float64(), "bool": self._arrow.bool_(),
                 "time": self._arrow.timestamp("us", tz="UTC"), "numbers": self._arrow.list_(self._arrow.int64())}
        self._schemas = {table: self._arrow.schema([(name, types[kind]) for name, kind in columns]) for table, columns in TABLES.items()}
        self._name = f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%dT%H%M%S}-{os.urandom(4).hex()}.parquet"
        self._known: Dict[Tuple[str, str], Set[str]] = {}
        self._files: Dict[Tuple[str, str], _File] = {}

    def has(self, run: str, day: str) -> bool:
        """True if the run was collected: its job is the last that is published."""
        return run in self._runs("job", day)

    def add(self, day: str, run: str, rows: Dict[str, List[Row]]) -> None:
        """Every table gets a file, also one without rows, so that queries find it. Raises Error."""
        for table, new in rows.items():
            if run not in self._runs(table, day):
                self._runs(table, day).add(run)
                self._file(table, day).add(run, new)

    def commit(self) -> None:
        """The jobs come last: what has a row there is complete in the other tables. Raises Error."""
        files = sorted(self._files.items(), key=lambda item: item[0][0] == "job")
        for _, file in files:
            file.finish()
        for _, file in files:
            file.publish()
        self._files.clear()

    def discard(self) -> None:
        for file in self._files.values():
            file.discard()

    def _runs(self, table: str, day: str) -> Set[str]:
        if (table, day) not in self._known:
            self._known[table, day] = self._read_runs(self._folder(table, day))
        return self._known[table, day]

    def _read_runs(self, folder: str) -> Set[str]:
        """The runs in the files of a folder, of whatever program: a file that another one has written has them in a column
        only. Raises Error."""
        runs: Set[str] = set()
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".parquet") and not name.startswith("."))
        except FileNotFoundError:
            return runs
        for name in names:
            path = os.path.join(folder, name)
            try:
                listed = (self._parquet.read_metadata(path).metadata or {}).get(RUNS_KEY)
                column = listed.decode().split() if listed else self._parquet.read_table(path, columns=["run"])["run"].unique().to_pylist()
            except (OSError, self._arrow.ArrowException) as e:
                raise Error(f"cannot read {path}, so it is not known which runs it has: {e}; move it away and collect again") from e
            runs.update(column)
        return runs

    def _folder(self, table: str, day: str) -> str:
        return os.path.join(self._fleet, table, f"day={day}")

    def _file(self, table: str, day: str) -> _File:
        if (table, day) not in self._files:
            hidden = PERSONAL if self._redact else ()
            self._files[table, day] = _File(self, self._folder(table, day), self._name, table, self._schemas[table], hidden)
        return self._files[table, day]


class _File:
    """A Parquet file in the making: rows wait here until they fill a group."""

    def __init__(self, store: Any, folder: str, name: str, table: str, schema: Any, hidden: Any) -> None:
        self._arrow, self._parquet = store._arrow, store._parquet
        self._path, self._hidden_path = os.path.join(folder, name), os.path.join(folder, f".{name}.part")
        self._schema, self._times, self._hidden = schema, [name for name, kind in TABLES[table] if kind == "time"], hidden
        self._rows: List[Row] = []
        self._runs: List[str] = []
        self._writer: Any = None
        self._folder = folder

    def add(self, run: str, rows: List[Row]) -> None:
        self._runs.append(run)
        self._rows += rows
        if len(self._rows) >= ROWS:
            self._flush()

    def _flush(self) -> None:
        columns = []
        for field in self._schema:
            name = field.name
            values = [None] * len(self._rows) if name in self._hidden else [row.get(name) for row in self._rows]
            if name in self._times:
                values = [None if v is None else v // 1000 for v in values]
            columns.append(_array(self._arrow, values, field.type))
        try:
            if self._writer is None:
                os.makedirs(self._folder, exist_ok=True)
                self._writer = self._parquet.ParquetWriter(self._hidden_path, self._schema, compression=COMPRESSION)
            self._writer.write_table(self._arrow.Table.from_arrays(columns, schema=self._schema))
        except (OSError, self._arrow.ArrowException) as e:
            raise Error(f"cannot write {self._hidden_path}: {e}") from e
        self._rows = []

    def finish(self) -> None:
        if self._rows or self._writer is None:
            self._flush()
        try:
            self._writer.add_key_value_metadata({RUNS_KEY: " ".join(self._runs).encode()})
            self._writer.close()
        except (OSError, self._arrow.ArrowException) as e:
            raise Error(f"cannot write {self._hidden_path}: {e}") from e

    def publish(self) -> None:
        try:
            os.rename(self._hidden_path, self._path)
        except OSError as e:
            raise Error(f"cannot rename {self._hidden_path}: {e.strerror}") from e

    def discard(self) -> None:
        with contextlib.suppress(Exception):
            if self._writer is not None:
                self._writer.close()
        with contextlib.suppress(OSError):
            os.unlink(self._hidden_path)


def _array(arrow: Any, values: List[Any], kind: Any) -> Any:
    """An array of one type. A recording may have any value anywhere: one that does not fit is unknown."""
    try:
        return arrow.array(values, kind, from_pandas=False)
    except (arrow.ArrowException, OverflowError, TypeError, ValueError):
        return arrow.array([_fits(arrow, value, kind) for value in values], kind)


def _fits(arrow: Any, value: Any, kind: Any) -> Any:
    try:
        arrow.array([value], kind)
        return value
    except (arrow.ArrowException, OverflowError, TypeError, ValueError):
        return None
