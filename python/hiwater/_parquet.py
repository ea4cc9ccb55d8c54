# SPDX-License-Identifier: MIT
"""Writes a table of a recording into a Parquet file with pyarrow, in groups of rows."""
from __future__ import annotations

import contextlib
import os
from importlib import import_module

from ._errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Dict, Iterable, Iterator, List, Sequence, Tuple

    Column = Tuple[str, str, int]  # name, SQLite's declared type ("" of a quotient), index in the rows

ROWS = 16384  # rows per group: some MB of memory


@contextlib.contextmanager
def _aside(path: str) -> Iterator[BinaryIO]:
    """A file that is renamed to path when the block ends without an exception. Until then it has no
    name if the file system supports that (open(2), O_TMPFILE), so that a SIGKILL leaves no file."""
    name = f"{path}.{os.urandom(4).hex()}"
    try:
        fd = os.open(os.path.dirname(path) or ".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
        nameless = True
    except OSError:
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)
        nameless = False
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            if nameless:
                _link(fd, name)
        os.replace(name, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _link(fd: int, name: str) -> None:
    folder = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(str(fd), os.path.abspath(name), src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def write(path: str, columns: Sequence[Column], groups: Iterable[List[Tuple[Any, ...]]], summary: str) -> None:
    """Writes the file, atomically. Its types do not depend on the values, so that files of several
    runs form one data set. summary: JSON, stored in the metadata under the key hiwater.summary.
    Raises Error."""
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as e:
        raise Error("to_parquet needs pyarrow: pip install pyarrow; columns() returns the same as lists") from e
    types: Dict[str, Any] = {"INTEGER": arrow.int64(), "TEXT": arrow.string()}
    schema = arrow.schema([(name, types.get(declared, arrow.float64())) for name, declared, _ in columns],
                          metadata={"hiwater.summary": summary})
    try:
        with _aside(path) as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            for rows in groups:
                writer.write_table(arrow.table([[row[place] for row in rows] for _, _, place in columns], schema=schema))
    except (OSError, arrow.ArrowException) as e:
        raise Error(f"cannot write {path}: {e}") from e
