# SPDX-License-Identifier: MIT
"""hiwater collect: finds recordings below folders, and adds the jobs that have ended to a fleet."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from ._command import needed_command
from ._errors import Error
from ._fleet_job import Job, group_of
from ._fleet_read import Unreadable, opened
from ._fleet_rows import rows_of
from ._fleet_store import Store, day_of, locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Tuple

    from ._fleet_job import Group
    from ._fleet_read import Part

DEPTH_MOST = 16  # folders below one that was given
SUFFIX, RANKS_SUFFIX = ".hiw", ".ranks"
MERGE_MOST_S = 600


class Counts:
    """What became of the jobs of a collection, and of the files that are none."""

    def __init__(self) -> None:
        self.collected = self.already = self.running = self.unreadable = 0

    def text(self) -> str:
        parts = [f"{self.collected} collected", f"{self.already} already there", f"{self.running} still running"]
        return ", ".join(parts + ([f"{self.unreadable} unreadable"] if self.unreadable else []))


def collect(folders: List[str], fleet: str, *, redact: bool, settle_s: float, report: Callable[[str], None]) -> Counts:
    """Adds the finished jobs below the folders (or single recordings) to the fleet. report(text) gets a line about each file
    that is left out, with the reason. Raises Error if the fleet cannot be written."""
    counts = Counts()
    try:
        os.makedirs(fleet, exist_ok=True)
    except OSError as e:
        raise Error(f"cannot create {fleet}: {e.strerror}") from e
    with locked(fleet, lambda: report(f"waiting for another hiwater collect into {fleet}")):
        store = Store(fleet, redact)
        try:
            for names in _folders_of_recordings(folders, report, counts):
                _collect_folder(names, store, settle_s, report, counts)
            store.commit()
        except BaseException:
            store.discard()
            raise
    return counts


# ---- files -----------------------------------------------------------------------------------------------------------

def _folders_of_recordings(words: List[str], report: Callable[[str], None], counts: Counts) -> Iterator[List[str]]:
    """The paths that may be recordings or lists of ranks, a list per folder; each folder once."""
    seen = set()
    for word in words:
        if not os.path.isdir(word):
            yield [word]
            continue
        for folder, names in _walk(word, 0, report, counts):
            real = os.path.realpath(folder)
            if real not in seen:
                seen.add(real)
                yield [os.path.join(folder, name) for name in names]


def _walk(folder: str, depth: int, report: Callable[[str], None], counts: Counts) -> Iterator[Tuple[str, List[str]]]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as e:
        counts.unreadable += 1
        report(f"{folder}: {e.strerror}")
        return
    names = [e.name for e in found if e.name.endswith((SUFFIX, RANKS_SUFFIX))]
    if names:
        yield folder, names
    for entry in found:
        if entry.is_dir(follow_symlinks=False) and not entry.name.endswith((SUFFIX, RANKS_SUFFIX)) and depth < DEPTH_MOST:
            yield from _walk(entry.path, depth + 1, report, counts)


# ---- jobs ------------------------------------------------------------------------------------------------------------

def _collect_folder(paths: List[str], store: Store, settle_s: float, report: Callable[[str], None], counts: Counts) -> None:
    """The jobs whose recordings are in one folder: that of a step, or the history."""
    groups: Dict[Group, Dict[Any, Part]] = {}
    unreadable, running = 0, 0
    for path in [p for p in paths if not p.endswith(RANKS_SUFFIX)]:
        try:
            with opened(path, settle_s) as part:
                group = group_of(part) if part else None
                if part is None:
                    running += 1
                    report(f"{path}: still running, not collected")
                elif group is None:
                    _collect_job(part, None, 0, store, report, counts)
                else:  # a copy of a recording counts once
                    groups.setdefault(group, {}).setdefault((part.text("id"), part.integer("started_wall_ns")), part)
        except Unreadable as e:
            counts.unreadable += 1
            unreadable += 1
            report(f"{path}: {e}")
    if not groups:
        counts.running += running
        return
    if running:
        counts.running += len(groups)
        report(f"{os.path.dirname(paths[0]) or '.'}: {running} of its recordings still run, so its jobs of several ranks are not collected")
        return
    lists = [path for path in paths if path.endswith(RANKS_SUFFIX)] if len(groups) == 1 else []
    for group, members in groups.items():
        _collect_parts([*sorted(part.path for part in members.values()), *lists], group, unreadable, store, report, counts)


def _collect_parts(paths: List[str], group: Group, unreadable: int, store: Store, report: Callable[[str], None], counts: Counts) -> None:
    """A job of several ranks: the command merges it, as it does to show it."""
    with tempfile.TemporaryDirectory(prefix="hiwater-collect-") as folder:
        merged = os.path.join(folder, "job.hiw")
        try:
            done = subprocess.run([needed_command(), "merge", "-o", merged, "--", *map(os.path.abspath, paths)], stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=MERGE_MOST_S, check=False)
            if done.returncode:
                raise Unreadable(done.stderr.decode(errors="replace").strip().removeprefix("hiwater: "))
            with opened(merged, 0) as job:
                if job is not None:
                    _collect_job(job, group, unreadable, store, report, counts)
        except (Unreadable, OSError, subprocess.TimeoutExpired) as e:
            counts.unreadable += 1
            report(f"{os.path.dirname(paths[0]) or '.'}: cannot merge its recordings: {e}")


def _collect_job(recording: Part, group: Any, unreadable: int, store: Store, report: Callable[[str], None], counts: Counts) -> None:
    """One job that cannot be understood is a line, not the end."""
    try:
        job = Job(recording, group, unreadable)
        run, day = job.run or "", day_of(job.start_ns)
        if store.has(run, day):
            counts.already += 1
            return
        rows = rows_of(job)
    except (Unreadable, ValueError, TypeError, KeyError, OverflowError, ArithmeticError) as e:
        counts.unreadable += 1
        report(f"{recording.path}: {e}")
        return
    store.add(day, run, rows)
    counts.collected += 1


# ---- the command -----------------------------------------------------------------------------------------------------

def _report(text: str) -> None:
    """One line: names of files may have any characters."""
    shown = "".join(c if c.isprintable() else "?" for c in text)
    sys.stderr.write(f"hiwater: {shown}\n".encode("utf-8", "replace").decode("utf-8", "replace"))


def main(arguments: List[str]) -> int:
    """The exit status: 0; 1 if the fleet cannot be written; 2 for an invalid command line; 3 if a file is unreadable."""
    import argparse

    parser = argparse.ArgumentParser(prog="hiwater collect", description="Adds finished jobs to Parquet files (docs/fleet.md).")
    parser.add_argument("folders", nargs="+", metavar="DIR", help="a folder with recordings, below it too, or a recording")
    parser.add_argument("--to", required=True, metavar="FLEET", help="the folder of the Parquet files")
    parser.add_argument("--redact", action="store_true", help="leave out users, names, commands and paths")
    parser.add_argument("--settle", type=float, default=600.0, metavar="SECONDS",
                        help="a recording without an end that changed in the last SECONDS still runs (600)")
    options = parser.parse_args(arguments)
    try:
        counts = collect(options.folders, options.to, redact=options.redact, settle_s=options.settle, report=_report)
    except ImportError as e:
        _report(f"collect needs pyarrow: pip install pyarrow ({e})")
        return 1
    except Error as e:
        _report(str(e))
        return 1
    except KeyboardInterrupt:
        return 130
    print(f"{counts.text()} in {options.to}")
    return 3 if counts.unreadable else 0
