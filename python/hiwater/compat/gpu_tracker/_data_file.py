# SPDX-License-Identifier: MIT
"""Tracking files and sub-tracking files: CSV, or SQLite with the tables `data` and `static_data`.
Reading them as tables needs pandas, writing does not."""
from __future__ import annotations

import abc
import contextlib
import csv
import os

from ._pandas import pandas

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

BUSY_S = 30.0  # another process may write into the same SQLite file

_written: Set[str] = set()  # files that this program has begun, and may append to


class DataFile(abc.ABC):
    """A file of rows that all have the same columns."""

    extension = ""

    @staticmethod
    def create(path: Optional[str], overwrite: bool = False) -> Optional[DataFile]:
        """The object for a path, by its extension; None for None. Raises ValueError for another
        extension."""
        if path is None:
            return None
        for kind in (CsvFile, SqliteFile):
            if path.endswith(kind.extension):
                return kind(path, overwrite)
        raise ValueError(f'Invalid file name: "{path}". Valid file extensions are ".csv" and ".sqlite".')

    @staticmethod
    def continued(path: Optional[str]) -> Optional[DataFile]:
        """A file that another process has begun."""
        file = DataFile.create(path)
        if file:
            file._is_begun = os.path.exists(file.path)
        return file

    def __init__(self, path: str, overwrite: bool) -> None:
        self.path = path
        self._overwrite = overwrite
        self._is_begun = False

    # ---- writing

    def write_static_data(self, row: Dict[str, Any]) -> None:
        """Begins a tracking file with its static data. Raises FileExistsError if it exists and may
        not be overwritten."""
        self._make_way()
        self._append_static(row)
        self._is_begun = True

    def begin(self, columns: Dict[str, type]) -> None:
        """Makes the file with its columns, unless this program has begun it already. Raises
        FileExistsError, as above, and FileNotFoundError if it was removed since."""
        if self.path not in _written:
            if not self._is_begun:
                self._make_way()
            self._append_table(columns)
            _written.add(self.path)
        if not os.path.isfile(self.path):
            raise FileNotFoundError(f"The file {self.path} was removed in the middle of writing data to it.")

    def write_data(self, rows: Sequence[Dict[str, Any]]) -> None:
        """Appends rows. Raises the errors of `begin`."""
        if rows:
            self.begin({name: type(value) for name, value in rows[0].items()})
            self._append(rows)

    def _make_way(self) -> None:
        if os.path.isfile(self.path):
            if not self._overwrite:
                raise FileExistsError(f"File {self.path} already exists. Set overwrite to True to overwrite the existing file.")
            os.remove(self.path)

    def combine(self, paths: List[str]) -> None:
        """Writes this file from all rows of others. Raises ValueError if it exists, or another has
        a different format."""
        if os.path.exists(self.path):
            raise ValueError(f"Cannot create sub-tracking file {self.path}. File already exists.")
        for path in paths:
            if not path.endswith(self.extension):
                raise ValueError(f"File {path} does not end with the same extension as {self.path}. "
                                 f'Must end in "{self.extension}".')
        self._combine(paths)

    @abc.abstractmethod
    def _append_static(self, row: Dict[str, Any]) -> None: ...

    @abc.abstractmethod
    def _append_table(self, columns: Dict[str, type]) -> None: ...

    @abc.abstractmethod
    def _append(self, rows: Sequence[Dict[str, Any]]) -> None: ...

    @abc.abstractmethod
    def _combine(self, paths: List[str]) -> None: ...

    # ---- reading

    def static_data(self) -> Any:
        """A pandas Series."""
        return self._static_table().squeeze()

    @abc.abstractmethod
    def _static_table(self) -> Any: ...

    @abc.abstractmethod
    def table(self) -> Any:
        """All rows of data, a pandas DataFrame."""

    @abc.abstractmethod
    def blocks(self) -> List[Tuple[int, str, int, float]]:
        """The rows of a sub-tracking file, in order: process, code block, position (0 start, 1
        stop), timestamp."""


class CsvFile(DataFile):
    extension = ".csv"

    def _append_static(self, row: Dict[str, Any]) -> None:
        self._append_table({name: type(value) for name, value in row.items()})
        self._append([row])

    def _append_table(self, columns: Dict[str, type]) -> None:
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(columns)

    def _append(self, rows: Sequence[Dict[str, Any]]) -> None:
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(row.values() for row in rows)

    def _combine(self, paths: List[str]) -> None:
        header: List[str] = []
        with open(self.path, "x", newline="", encoding="utf-8") as out:
            writer = csv.writer(out, lineterminator="\n")
            for path in paths:
                with open(path, newline="", encoding="utf-8") as file:
                    rows = csv.DictReader(file)
                    if not header:
                        header = list(rows.fieldnames or [])
                        writer.writerow(header)
                    writer.writerows([row.get(name) for name in header] for row in rows)

    def _static_table(self) -> Any:
        return pandas().read_csv(self.path, header=0, nrows=1)

    def table(self) -> Any:
        return pandas().read_csv(self.path, skiprows=2)

    def blocks(self) -> List[Tuple[int, str, int, float]]:
        with open(self.path, newline="", encoding="utf-8") as file:
            return [(int(r["process_id"]), r["code_block_name"], int(r["position"]), float(r["timestamp"]))
                    for r in csv.DictReader(file)]


def _connect(path: str) -> sqlite3.Connection:
    import sqlite3

    return sqlite3.connect(path, timeout=BUSY_S)


_TYPES = {int: "INTEGER", float: "FLOAT"}


class SqliteFile(DataFile):
    extension = ".sqlite"

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        connection = _connect(self.path)
        try:
            connection.execute("PRAGMA synchronous = OFF")  # rows lost in a crash of the machine are acceptable
            with connection:
                yield connection
        finally:
            connection.close()

    def _append_static(self, row: Dict[str, Any]) -> None:
        self._make("static_data", {name: type(value) for name, value in row.items()})
        self._insert("static_data", [row])

    def _append_table(self, columns: Dict[str, type]) -> None:
        self._make("data", columns)

    def _append(self, rows: Sequence[Dict[str, Any]]) -> None:
        self._insert("data", rows)

    def _make(self, table: str, columns: Dict[str, type]) -> None:
        declared = ", ".join(f"{name} {_TYPES.get(kind, 'VARCHAR')}" for name, kind in columns.items())
        with self._open() as c:
            c.execute(f"CREATE TABLE IF NOT EXISTS {table} ({declared})")

    def _insert(self, table: str, rows: Sequence[Dict[str, Any]]) -> None:
        places = ", ".join("?" * len(rows[0]))
        with self._open() as c:
            c.executemany(f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES ({places})", [list(r.values()) for r in rows])

    def _combine(self, paths: List[str]) -> None:
        with self._open() as c:
            for number, path in enumerate(paths):
                with contextlib.closing(_connect(path)) as other:
                    cursor = other.execute("SELECT * FROM data ORDER BY rowid")
                    names = [d[0] for d in cursor.description]
                    if number == 0:
                        (made,) = other.execute("SELECT sql FROM sqlite_master WHERE name = 'data'").fetchone()
                        c.execute(made)
                    c.executemany(f"INSERT INTO data ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", cursor)

    def _select(self, sql: str) -> Any:
        with self._open() as c:
            return pandas().read_sql_query(sql, c)

    def _static_table(self) -> Any:
        return self._select("SELECT * FROM static_data")

    def table(self) -> Any:
        return self._select("SELECT * FROM data")

    def blocks(self) -> List[Tuple[int, str, int, float]]:
        with self._open() as c:
            return c.execute("SELECT process_id, code_block_name, position, timestamp FROM data ORDER BY rowid").fetchall()
