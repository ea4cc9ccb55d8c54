# SPDX-License-Identifier: MIT
"""The history, and show with any files that it may contain."""
import json
import os
import random
import re
import shutil

import pytest
from cli_helpers import wait_for
from stress_jobs import STATUS, figures, finish, opened, shown, valid


# ---- the history ----

def listed(tool, **options):
    done = tool.run("runs", "--json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def fill(tool, source, numbers):
    tool.history.mkdir(mode=0o700, exist_ok=True)
    for number in numbers:
        shutil.copy(source, tool.history / f"{number}.hiw")


def test_the_history_keeps_200(tool, recorded, stress):
    fill(tool, recorded.path, range(1, 206))
    pids = stress.start(["-n", "living"], "beat", "beat")  # started before the last one, still running
    living = wait_for(lambda: [r for r in listed(tool) if r["running"]], "a running one")[0]
    assert living["number"] == 206
    assert tool.run("run", "--summary", "none", "--", "sleep", "1.1").returncode == 0
    after = listed(tool)
    assert len(after) == 200
    numbers = [r["number"] for r in after]
    assert numbers == list(range(8, 208)), "the oldest went"
    assert [r["number"] for r in after if r["running"]] == [206]
    refused = tool.run("runs", "--rm", "206")
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert (tool.history / "206.hiw").exists()
    finish(pids)
    assert tool.run("runs", "--rm", "206", "living-not", "207").returncode == 1
    assert tool.run("show", "living").returncode == 0 and tool.run("show", "207").returncode == 0
    assert tool.run("runs", "--rm", "206", "207").returncode == 0
    assert tool.run("show", "living").returncode == 1 and tool.run("show", "207").returncode == 1


def test_a_running_one_is_never_removed(tool, recorded, stress):
    process = stress.start(["-n", "living"], "beat", "beat")
    wait_for(lambda: [r for r in listed(tool) if r["running"]], "a running one")
    fill(tool, recorded.path, range(2, 206))
    assert tool.run("run", "--summary", "none", "--", "sleep", "1.1").returncode == 0
    after = listed(tool)
    assert len(after) == 200
    assert after[0]["number"] == 1 and after[0]["running"], "the oldest of all, but it runs"
    assert [r["number"] for r in after[1:]] == list(range(8, 207))
    finish(process)
    assert process.returncode == STATUS


def test_the_history_keeps_a_gibibyte(tool, recorded):
    fill(tool, recorded.path, range(1, 9))
    for number in range(1, 9):  # sparse: none of these bytes is on the disk
        os.truncate(tool.history / f"{number}.hiw", 200 << 20)
    assert tool.run("run", "--summary", "none", "--", "sleep", "1.1").returncode == 0
    sizes = {int(p.stem): p.stat().st_size for p in tool.history.glob("*.hiw")}
    assert sum(sizes.values()) <= 1 << 30
    assert sorted(sizes) == [4, 5, 6, 7, 8, 9], "the oldest went, and no more than had to"


def test_names_numbers_and_last(tool, recorded):
    for number, status, name in ((1, 5, "alpha"), (2, 6, "beta"), (3, 7, "alpha"), (4, 8, "gamma")):
        fill(tool, recorded.path, [number])
        with opened(tool.history / f"{number}.hiw", "rw") as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('name', ?), ('exit_status', ?)", (name, status << 8))
            db.commit()
    assert tool.run("run", "-n", "alpha", "--summary", "none", "--", "sh", "-c", "sleep 1.05; exit 9").returncode == 9
    assert [(r["number"], r["name"]) for r in listed(tool)] == [(1, "alpha"), (2, "beta"), (3, "alpha"), (4, "gamma"), (5, "alpha")]
    for run, status in (("alpha", 9), ("beta", 6), ("last", 9), ("3", 7), (tool.history / "4.hiw", 8), ("5", 9)):
        assert shown(tool, run)["exit"]["code"] == status, run
    assert shown(tool)["exit"]["code"] == 9
    removed = tool.run("runs", "--rm", "alpha", "beta")
    assert removed.returncode == 0 and removed.stderr == ""
    assert removed.stdout.splitlines()[0] == "removed run 5 (alpha): sh -c sleep 1.05; exit 9; 2 more runs have that name"
    assert re.fullmatch(r"removed run 2 \(beta\): .+; 0 more runs have that name", removed.stdout.splitlines()[1])
    assert [r["number"] for r in listed(tool)] == [1, 3, 4]
    assert shown(tool, "last")["exit"]["code"] == 8 and shown(tool, "alpha")["exit"]["code"] == 7
    assert sorted(p.name for p in tool.history.glob("[25].hiw*")) == []
    assert tool.run("show", "beta").returncode == 1


def test_all_runs_are_removed_or_none(tool, recorded):
    fill(tool, recorded.path, [1, 2, 3])
    with opened(tool.history / "2.hiw", "rw") as db:
        db.execute("INSERT OR REPLACE INTO meta VALUES ('command', '')")
        db.commit()
    done = tool.run("runs", "--rm", "2", "99", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no run 99 in " in done.stderr and done.stderr.endswith("hiwater: no run was removed\n")
    assert tool.run("runs", "--rm", "2", recorded.path).returncode == 1
    assert [r["number"] for r in listed(tool)] == [1, 2, 3]
    done = tool.run("runs", "--rm", "last", "2", "3")  # run 3 is the last one
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["removed run 3", "removed run 2"]
    assert done.stdout.splitlines()[1] == "removed run 2"
    assert [r["number"] for r in listed(tool)] == [1]


def test_secrets_are_nowhere_in_the_recording(tool):
    secrets = [f"hunter{n}X9q" for n in range(10)]
    child = f"sleep 1.2; : --api-key={secrets[5]}"
    env = {"MY_TOKEN": secrets[6], "AWS_SECRET_ACCESS_KEY": secrets[7]}
    done = tool.run("run", "--json", "run.json", "-n", f"a token={secrets[8]}", "-m", f"b password={secrets[9]}", "--", "sh", "-c", 'sh -c "$CHILD"', "x", f"--token={secrets[0]}", "--password", secrets[1],
                    f"API_KEY={secrets[2]}", f"https://me:{secrets[3]}@example.org/?access_token={secrets[4]}",
                    env=dict(env, CHILD=child))
    assert done.returncode == 0
    files = [*tool.history.iterdir(), tool.folder / "run.json"]
    assert len(files) == 2
    everything = b"".join(p.read_bytes() for p in files) + "".join(
        [done.stderr, tool.run("show").stdout, tool.run("show", "--json").stdout, tool.run("runs").stdout,
         tool.run("runs", "--json").stdout, tool.run("show", "--plain").stdout]).encode()
    assert b"sleep 1.2" in everything and b"--token" in everything and b"a token=***" in everything
    assert tool.run("show", f"a token={secrets[8]}").returncode == 1 and tool.run("show", "a token=***").returncode == 0
    for secret in secrets:
        assert secret.encode() not in everything, f"secret {secrets.index(secret)}"


def test_foreign_and_broken_files_in_the_history(tool, recorded):
    fill(tool, recorded.path, [3, 7])
    whole = recorded.path.read_bytes()
    folder = tool.history
    (folder / "notes.txt").write_text("mine")
    (folder / "4.hiw").write_bytes(whole[:5000])
    (folder / "5.hiw").write_bytes(b"")
    (folder / "6.hiw").write_bytes(os.urandom(20000))
    (folder / "8.hiw").mkdir()
    (folder / "9.hiw").symlink_to("/nowhere")
    (folder / "a.hiw").write_bytes(whole)
    (folder / "99999999999999999999999999.hiw").write_bytes(whole)
    (folder / "-1.hiw").write_bytes(whole)
    (folder / "10.hiw-wal").write_bytes(b"rubbish")
    os.mkfifo(folder / "11.hiw")
    with opened(folder / "12.hiw", "rwc") as db:
        db.execute("CREATE TABLE mine(x)")
        db.commit()
    before = sorted(p.name for p in folder.iterdir())
    numbers = [r["number"] for r in listed(tool)]
    assert {3, 7} <= set(numbers) and not {8, 11} & set(numbers)
    table = tool.run("runs")
    assert table.returncode == 0
    assert shown(tool, "3")["exit"]["code"] == 0
    assert tool.run("run", "--summary", "none", "-n", "new", "--", "sleep", "1.05").returncode == 0
    after = sorted(p.name for p in folder.iterdir())
    assert set(before) <= set(after), "nothing of anybody else's was touched"
    assert shown(tool)["run"]["name"] == "new"
    assert (folder / "notes.txt").read_text() == "mine" and (folder / "4.hiw").read_bytes() == whole[:5000]
    for number in (4, 5, 6, 8, 9, 11, 12):
        done = tool.run("show", str(number))
        assert done.returncode in (1, 2) and done.stderr.count("\n") == 1, (number, done.stderr)


# ---- show with any file ----

def refused(done):
    """A readable error, and no crash."""
    assert done.returncode in (1, 2), (done.returncode, done.stderr)
    assert done.stdout == ""
    assert re.fullmatch(r"hiwater: [^\n]{10,300}\n", done.stderr), done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("length", [0, 1, 15, 16, 50, 99, 100, 101, 511, 1000, 4095, 4096, 4097, 8192, 0.3, 0.5, 0.9])
def test_show_of_a_truncated_recording(tool, recorded, length):
    whole = recorded.path.read_bytes()
    cut = int(len(whole) * length) if isinstance(length, float) else length
    (tool.folder / "cut.hiw").write_bytes(whole[:cut])
    refused(tool.run("show", "--json", "cut.hiw"))


def test_show_of_what_is_no_recording(tool):
    folder = tool.folder
    (folder / "random.hiw").write_bytes(bytes((i * i * 7 + i // 3) & 255 for i in range(50000)))
    (folder / "header.hiw").write_bytes(b"SQLite format 3\0" + bytes((i * 31 + 5) & 255 for i in range(8176)))
    (folder / "zeros.hiw").write_bytes(bytes(8192))
    (folder / "text.hiw").write_text("hello\n" * 100)
    (folder / "folder.hiw").mkdir()
    (folder / "loop.hiw").symlink_to("loop.hiw")
    os.mkfifo(folder / "fifo.hiw")
    with opened(folder / "other.hiw", "rwc") as db:
        db.execute("CREATE TABLE meta(key, value)")
        db.execute("INSERT INTO meta VALUES ('schema', 1)")
        db.commit()
    for name in ("random", "header", "zeros", "text", "folder", "loop", "fifo", "other", "missing"):
        for path in (f"{name}.hiw", f"./{name}.hiw"):
            done = tool.run("show", path)
            refused(done)
            assert name in done.stderr
    for path in ("/dev/null", "/dev/zero", "/", "", "no/such/folder/x.hiw", "x" * 5000, "x" * 300 + ".hiw"):
        done = tool.run("show", path)
        assert done.returncode in (1, 2) and done.stderr.count("\n") == 1, path[:20]


def test_show_of_a_recording_of_the_future(tool, recorded):
    shutil.copy(recorded.path, tool.folder / "x.hiw")
    with opened(tool.folder / "x.hiw", "rw") as db:
        db.execute("UPDATE meta SET value = 99 WHERE key = 'schema'")
        db.execute("PRAGMA user_version = 99")
        db.commit()
    done = tool.run("show", "x.hiw")
    refused(done)
    assert "99" in done.stderr


HOSTILE = {
    "views": "DROP TABLE meta; CREATE VIEW meta AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
             "SELECT 'key' || x AS key, x AS value FROM c",
    "texts": "UPDATE meta SET value = 'x' || hex(randomblob(20))",
    "blobs": "UPDATE summary SET min = randomblob(9), max = randomblob(9), sum = 'NaN', span = x'00'",
    "largest": "UPDATE summary SET min = 9223372036854775807, max = 9223372036854775807, max_at = 9223372036854775807, "
               "last = -9223372036854775808, sum = 9e999, span = 0, n = -1, hold = 9223372036854775807, last_at = 9223372036854775807; "
               "UPDATE meta SET value = 9223372036854775807 WHERE typeof(value) = 'integer' AND key <> 'schema'",
    "smallest": "UPDATE summary SET min = -9223372036854775808, max = -9223372036854775808, max_at = -1, sum = -9e999, span = -1; "
                "UPDATE meta SET value = -9223372036854775808 WHERE typeof(value) = 'integer' AND key <> 'schema'",
    "circles": "UPDATE process SET parent = id",
    "no-main": "UPDATE process SET is_main = 0, pid = -1, id = id + 4294967290",
    "two-mains": "UPDATE process SET is_main = 1, born = -5, ended = -9",
    "huge-text": "UPDATE process SET name = replace(hex(zeroblob(3000000)), '00', x'1b5d303b'), command = zeroblob(5000000)",
    "no-tables": "DROP TABLE process; DROP TABLE event; DROP TABLE summary",
    "escapes": "UPDATE meta SET value = char(27) || ']0;owned' || char(7) || char(155) || '31m' || char(10) || 'x' "
               "WHERE typeof(value) = 'text'; UPDATE process SET name = char(27) || '[2J' || char(10)",
    "events": "INSERT INTO event SELECT -1, 'mark' || char(0), 'nobody', -7, -7, 'x', zeroblob(100), zeroblob(100) FROM metric",
    "series": "INSERT INTO series (id, name, n, first, last, min, max, step, sum, minima) VALUES (1, NULL, 1, 'a', NULL, 9e999, -9e999, 9223372036854775807, 9e999, x'00ff'); "
              "INSERT INTO series (id, name, n, first, last, min, max, step, sum, minima) VALUES (-1, char(27) || 'x', -1, x'ff', 'b', 1, 1, -1, 'c', '1 2 nan;-')",
    "phases": "INSERT INTO phase (number, parent, name, began, ended, ram_before, ram_peak, ram_after, peak_exact, "
              "facts, gpu_before, gpu_peak, gpu_after, gpu_busy, gpu_sm_active, cpu_energy, gpu_energy) "
              "VALUES (1, 1, char(27) || '[31m', 9223372036854775807, -1, -1, 'x', NULL, 7, "
              "'{\"a\": [' || char(27) || '\"}, \"b\": 1', 'x', -1, 9e999, 'y', 9223372036854775807, -1, x'ff')",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_show_of_a_hostile_recording(tool, recorded, what):
    """Any contents of the tables give a valid and harmless result, or an error, quickly."""
    shutil.copy(recorded.path, tool.folder / "x.hiw")
    with opened(tool.folder / "x.hiw", "rw") as db:
        db.executescript(HOSTILE[what])
    done = tool.run("show", "--json", "x.hiw")
    if done.returncode == 0:
        valid(done.stdout)
    else:
        refused(done)
    for options in ([], ["--plain"], ["--summary", "line"]):
        done = tool.run("show", *options, "x.hiw")
        assert done.returncode in (0, 1, 2), done.stderr
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]", done.stdout + done.stderr)
    fill(tool, tool.folder / "x.hiw", [1])
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]", tool.run("runs").stdout)
    json.loads(tool.run("runs", "--json").stdout)


def test_show_of_damaged_pages(tool, recorded):
    """Changed bytes give figures or an error, never a crash."""
    whole = recorded.path.read_bytes()
    crashed, answers = [], set()
    for seed in range(40):
        dice = random.Random(seed)
        bytes_now = bytearray(whole)
        for _ in range(1 << seed % 8):
            bytes_now[dice.randrange(100, len(whole))] = dice.randrange(256)
        (tool.folder / "x.hiw").write_bytes(bytes_now)
        done = tool.run("show", "--json", "x.hiw")
        answers.add(done.returncode)
        if done.returncode == 0:
            json.loads(done.stdout)
        elif done.returncode not in (1, 2) or done.stderr.count("\n") != 1:
            crashed.append((seed, done.returncode, done.stderr[-500:]))
    assert not crashed
    assert len(answers) > 1, "some do matter"


def test_a_foreign_journal_beside_it(tool, recorded):
    shutil.copy(recorded.path, tool.folder / "x.hiw")
    (tool.folder / "x.hiw-wal").write_bytes(os.urandom(40000))
    (tool.folder / "x.hiw-shm").write_bytes(os.urandom(32768))
    done = tool.run("show", "--json", "x.hiw")
    assert done.returncode in (0, 1, 2)
    if done.returncode == 0:
        assert figures(valid(done.stdout)) == figures(recorded.at_end)
    else:
        refused(done)
