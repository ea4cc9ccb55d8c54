# SPDX-License-Identifier: MIT
"""A recording of schema 1 (tests/golden/schema-1.hiw: a job with a phase, a mark, an alert, a trigger, on a GPU that another
process used too) opens as ever: its figures are those that the hiwater of that time reported of it (schema-1.json)."""
import csv
import io
import json
import shutil
import sqlite3

import pytest
from cli_helpers import ROOT
from stress_jobs import meta, shown

GOLDEN = ROOT / "tests" / "golden"
# As in schema 1: as they are now.
KEYS = {
    "cores_most": "cores_max", "foreign_bytes": "other_bytes", "foreign_peak_bytes": "other_peak_bytes", "held_bytes": "used_bytes",
    "late_ticks": "late_samples", "of": "memory", "story": "incident", "ticks": "samples", "try": "remedy", "what": "event",
}
COLUMNS = {
    "cgroup_held_periods": "cgroup_throttled_periods", "foreign_mem": "other_mem", "gpu_mem_rest": "gpu_mem_descendants",
    "ram_rest": "ram_descendants", "ram_rest_high": "ram_descendants_high", "ram_rest_low": "ram_descendants_low",
}
CODES = {"foreign-load": "cpu-contention"}


@pytest.fixture
def old(tool):
    path = tool.folder / "schema-1.hiw"
    shutil.copy(GOLDEN / "schema-1.hiw", path)
    return path


def renamed(value):
    if isinstance(value, dict):
        return {KEYS.get(key, key): renamed(v) for key, v in value.items()}
    return [renamed(v) for v in value] if isinstance(value, list) else value


def figures(summary):
    """All but what is worded for people, and but keys of GPUs that schema 1 did not have: they are unknown."""
    for device in summary["gpu"]["devices"]:
        for entry, key in (device["memory"], "job_high_bytes"), (device["power_w"], "averaged_s"), *((p, "high_bytes") for p in device["processes"]):
            assert entry.pop(key, None) is None
        assert not device["memory"].pop("numa", False)
    summary = {key: value for key, value in summary.items() if key not in ("schema", "run", "notes", "findings")}
    incident = summary[KEYS.get("story", "story")]
    return dict(summary, incident={key: value for key, value in incident.items() if not isinstance(value, str)})


NEW_CODES = {"rlimit", "failed", "fabric-rate", "memory-exceeded"}
NEW_NOTES = {"ram.shmem", "ram.unreclaimable_peak_bytes", "ram.rlimits"}


def known_then(now, then):
    """Without the keys that were added since."""
    if isinstance(now, dict) and isinstance(then, dict):
        return {key: known_then(value, then[key]) for key, value in now.items() if key in then}
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        return [known_then(*pair) for pair in zip(now, then)]
    return now


def test_the_summary_is_the_same(tool, old):
    then = json.loads((GOLDEN / "schema-1.json").read_text())
    now = shown(tool, "--why", "./schema-1.hiw")
    assert now.pop("request")["memory"]["need"] >= now["ram"]["combined"]["peak_bytes"]  # a key that is new
    assert known_then(figures(now), figures(renamed(then))) == figures(renamed(then))
    now["findings"] = [f for f in now["findings"] if f["code"] not in NEW_CODES]
    now["notes"] = [n for n in now["notes"] if n["about"] not in NEW_NOTES]
    assert {f["code"] for f in now["findings"]} == {CODES.get(f["code"], f["code"]) for f in then["findings"]}
    assert {f["code"]: f["fired"] for f in now["findings"]} == {CODES.get(f["code"], f["code"]): f["fired"] for f in then["findings"]}
    assert [n["about"] for n in now["notes"] if not n["about"].startswith("request")] == [n["about"] for n in then["notes"]]


@pytest.mark.parametrize("entity", ["host", "job", "process", "gpu", "gpu_process"])
@pytest.mark.parametrize("recent", [[], ["--recent"]], ids=["windows", "recent"])
def test_rows_have_all_values(tool, old, entity, recent):
    """A column that was renamed is found under its name of then."""
    done = tool.run("export", "--to", "csv", "--entity", entity, *recent, "./schema-1.hiw")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    with sqlite3.connect(f"file:{old}?mode=ro", uri=True) as db:
        db.row_factory = sqlite3.Row
        table = f"{entity}_recent" if recent else f"{entity}_sample"
        stored = [dict(r) for r in db.execute(f"SELECT * FROM {table} ORDER BY t")]
    assert stored
    for column in stored[0]:
        if column in ("t", "id", "span", "n", "part") or column.endswith(("_min", "_max")):
            continue
        had = sum(r[column] is not None for r in stored)
        found = [r for r in rows if any(k.startswith(COLUMNS.get(column, column)) and v for k, v in r.items())]
        assert had == 0 or found, column


@pytest.mark.parametrize("recent", [[], ["--recent"]], ids=["windows", "recent"])
def test_the_descendants_are_in_their_column(tool, old, recent):
    """Also where a gauge has three columns, and is named in the column part."""
    done = tool.run("export", "--to", "csv", *recent, "./schema-1.hiw")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    with sqlite3.connect(f"file:{old}?mode=ro", uri=True) as db:
        stored = db.execute("SELECT max(ram_rest) FROM job_recent" if recent else "SELECT max(ram_rest_max) FROM job_sample").fetchone()[0]
    assert max(int(r["ram_descendants_max_bytes"]) for r in rows if r["ram_descendants_max_bytes"]) >= stored > 40_000_000


def test_rules_name_it_as_then(tool, old):
    """A rule that somebody wrote for schema 1 still means the same."""
    for name in ("ram_rest", "ram_descendants"):
        done = tool.run("check", "./schema-1.hiw", f"{name}.peak < 40MB", f"{name}.peak > 50MB")
        assert done.returncode == 1 and done.stdout.count("FAIL") == 1, done.stdout


def test_every_way_to_read_it(tool, old):
    before = old.read_bytes()
    shutil.copy(old, tool.folder / "other.hiw")
    for args in (["show"], ["show", "--json"], ["report", "-o", "x.html"], ["export", "--to", "json"], ["export", "--to", "openmetrics"],
                 ["export", "--to", "perfetto"], ["check"], ["compare"], ["top", "--plain", "--count", "1"]):
        runs = ["./schema-1.hiw", *(["./other.hiw"] if args == ["compare"] else [])]
        rules = ["ram.peak < 1GiB"] if args == ["check"] else []
        done = tool.run(*args, *runs, *rules, stdout=-1, stderr=-1)
        assert done.returncode == 0, (args, done.stderr)
    assert old.read_bytes() == before


def test_where_nothing_can_be_written(tool, old):
    old.chmod(0o400)
    tool.folder.chmod(0o500)
    try:
        assert shown(tool, "./schema-1.hiw")["schema"]
    finally:
        tool.folder.chmod(0o700)


def test_a_copy_keeps_its_format(tool, old):
    done = tool.run("show", "--copy", "copy.hiw", "./schema-1.hiw")
    assert done.returncode == 0, done.stderr
    assert int(meta(tool.folder / "copy.hiw")["schema"]) == 1
    assert figures(shown(tool, "./copy.hiw")) == figures(shown(tool, "./schema-1.hiw"))


def test_a_higher_version_does_not_open(tool, old):
    with sqlite3.connect(old) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    done = tool.run("show", "./schema-1.hiw")
    assert done.returncode != 0
    assert "has format 99" in done.stderr


@pytest.mark.parametrize("damage", ["DROP TABLE", "DELETE FROM", "NULL"])
def test_what_is_missing_crashes_nothing(tool, old, damage):
    """Every table in turn is missing, empty, or has nothing but NULL in its columns."""
    with sqlite3.connect(old) as db:
        tables = {name: [row[1] for row in db.execute(f"PRAGMA table_info({name})") if not row[5]]
                  for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table, columns in tables.items():
        if damage == "NULL" and not columns:
            continue
        other = tool.folder / f"{table}.hiw"
        shutil.copy(old, other)
        with sqlite3.connect(other) as db:
            db.execute(f"UPDATE {table} SET " + ", ".join(f"{c} = NULL" for c in columns) if damage == "NULL" else f"{damage} {table}")
        for command in (["report", other, "-o", tool.folder / f"{table}.html"], ["show", other], ["export", other, "--to", "csv"]):
            done = tool.run(*command)
            assert done.returncode in (0, 1), (table, command, done.returncode, done.stderr)


def test_a_row_of_centuries_makes_no_endless_export(tool, old):
    with sqlite3.connect(old) as db:
        db.execute(f"UPDATE job_sample SET span = {2**63 - 1}")
    done = tool.run("export", old, "--to", "openmetrics", "-o", tool.folder / "x.txt")
    assert done.returncode in (0, 1, 2), done.stderr
