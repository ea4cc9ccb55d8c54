# SPDX-License-Identifier: MIT
"""hiwater.compat.gpu_tracker, sub-tracking: pairing of marks to calls, and the use during calls."""
import csv
import json
import pathlib
import pickle
import sqlite3

import pytest
from gpu_tracker_helpers import golden
from test_gpu_tracker import DATA, STATIC, run

import hiwater.compat.gpu_tracker as gput
from hiwater.compat.gpu_tracker import _comparison
from hiwater.compat.gpu_tracker.sub_tracker import CodeBlockResults, SubTrackingResults

HEADER = ["process_id", "code_block_name", "position", "timestamp"]
BLOCKS = """
def block(name=None, **more): return gput.SubTracker(name, sub_tracking_file="s.csv", **more)
"""


def write_blocks(path, rows):
    if path.suffix == ".csv":
        with open(path, "w", newline="") as f:
            csv.writer(f).writerows([HEADER, *rows])
        return path
    with sqlite3.connect(path) as c:
        c.execute("CREATE TABLE data (process_id INTEGER, code_block_name VARCHAR, position INTEGER, timestamp FLOAT)")
        c.executemany("INSERT INTO data VALUES (?, ?, ?, ?)", rows)
    return path


def write_tracking(path, times):
    """Rows in which every figure is the number of the row."""
    static = dict.fromkeys(STATIC, 2) | {"ram_unit": "gigabytes", "gpu_ram_unit": "gigabytes", "time_unit": "hours"}
    rows = [[*[float(i)] * (len(DATA) - 1), at] for i, at in enumerate(times)]
    if path.suffix == ".csv":
        with open(path, "w", newline="") as f:
            csv.writer(f).writerows([static, static.values(), DATA, *rows])
        return path
    with sqlite3.connect(path) as c:
        for table, columns, content in (("static_data", STATIC, [list(static.values())]), ("data", DATA, rows)):
            c.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            c.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", content)
    return path


TEXT_BLOCKS = [(1, "a", 0, 1.5), (1, "a", 1, 3.5), (1, "b", 0, 3.5), (1, "b", 1, 4.5)]


# ---- writing ---------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["csv", "sqlite"])
def test_recursion_and_threads_are_told_apart(program, kind):
    """gpu-tracker paired starts and stops by time."""
    run(program, f"""
        @gput.sub_track("f", sub_tracking_file="s.{kind}")
        def f(n):
            time.sleep(0.1)
            if n: f(n - 1)
        f(1)
        begun = threading.Event()
        def g(first):
            if not first: begun.wait(); time.sleep(0.2)
            with gput.SubTracker("g", sub_tracking_file="s.{kind}"):
                begun.set(); time.sleep(0.4 if first else 0.6)
        threads = [threading.Thread(target=g, args=[first]) for first in (True, False)]
        for t in threads: t.start()
        for t in threads: t.join()
        analyzer = gput.SubTrackingAnalyzer(None, "s.{kind}")
        assert analyzer.load_code_block_names() == ["f", "g"]
        inner, outer = sorted(b - a for a, b in analyzer.load_timestamp_pairs("f"))
        assert inner >= 0.1 and outer >= 0.2 and outer > inner
        short, long = sorted(b - a for a, b in analyzer.load_timestamp_pairs("g"))
        assert 0.4 <= short and 0.6 <= long  # the first ended while the second went on
        assert "pandas" not in sys.modules
    """)


def test_columns_and_names(program):
    run(program, BLOCKS + """
with block("a") as s: pass
assert (s.code_block_name, s.sub_tracking_file, s.process_id) == ("a", "s.csv", os.getpid())
with gput.SubTracker(sub_tracking_file="s.csv") as s: pass
line = sys._getframe().f_lineno - 1
assert s.code_block_name == f"{os.path.relpath(__file__)}:{line}", s.code_block_name
with gput.SubTracker(code_block_attribute="here", sub_tracking_file="s.csv") as s: pass
assert s.code_block_name == f"{os.path.relpath(__file__)}:here"
@gput.sub_track(sub_tracking_file="s.csv")
def f(a, b=2):
    "Adds."
    return a + b
assert f(1, b=3) == 4 and f.__name__ == "f" and f.__doc__ == "Adds."
with gput.SubTracker("mine"): pass
assert gput.SubTrackingAnalyzer(None, f"{os.getpid()}.csv").load_code_block_names() == ["mine"]
tell(file=os.path.abspath(__file__))
""")
    with open(program.folder / "s.csv", newline="") as f:
        rows = list(csv.reader(f))
    assert rows[0] == HEADER and rows[-1][1] == f"{program.told()[0]['file']}:f"
    assert [r[2] for r in rows[1:]] == ["0", "1"] * 4 and all(float(r[3]) > 1e9 for r in rows[1:])


def test_what_a_file_of_blocks_says_no_to(program):
    run(program, BLOCKS + """
def refused(kind, words, **more):
    try:
        with gput.SubTracker("a", **more): pass
    except kind as e: assert str(e) == words, e
    else: raise AssertionError(words)
pathlib.Path("s.csv").write_text("old")
refused(FileExistsError, "File s.csv already exists. Set overwrite to True to overwrite the existing file.", sub_tracking_file="s.csv")
with block("a", overwrite=True): pass
with block("b"): pass  # the program's own
os.remove("s.csv")
refused(FileNotFoundError, "The file s.csv was removed in the middle of writing data to it.", sub_tracking_file="s.csv")
refused(ValueError, 'Invalid file name: "s". Valid file extensions are ".csv" and ".sqlite".', sub_tracking_file="s")
""")


# ---- reading ---------------------------------------------------------------------------------------------------------------

# Files of other programs, gpu-tracker included: chronological.
CHRONOLOGICAL = [
    ([(1, "a", 0, 1.0), (1, "a", 1, 2.0), (1, "a", 0, 3.0), (1, "a", 1, 4.5)], [(1.0, 2.0), (3.0, 4.5)]),
    ([(1, "a", 0, 1.0), (1, "a", 0, 2.0), (1, "a", 1, 3.0), (1, "a", 1, 4.0)], [(1.0, 4.0), (2.0, 3.0)]),
    ([(2, "a", 0, 1.0), (1, "a", 0, 1.5), (2, "a", 1, 2.0), (1, "a", 1, 2.5)], [(1.5, 2.5), (1.0, 2.0)]),
    ([(1, "a", 0, 1.0), (1, "a", 1, 2.0), (1, "a", 0, 3.0)], [(1.0, 2.0)]),  # cut off
    ([(1, "a", 1, 2.0), (1, "a", 0, 1.0)], [(1.0, 2.0)]),  # unordered
    ([(1, "a", 0, 1.0), (1, "b", 1, 2.0)], []),
]


@pytest.mark.parametrize("kind", ["csv", "sqlite"])
@pytest.mark.parametrize(("rows", "expected"), CHRONOLOGICAL)
def test_pairs(tmp_path, kind, rows, expected):
    file = write_blocks(tmp_path / f"s.{kind}", rows)
    assert gput.SubTrackingAnalyzer(None, str(file)).load_timestamp_pairs("a") == expected


@pytest.mark.parametrize(("rows", "words"), [
    ([(1, "a", 1, 1.0), (1, "a", 0, 2.0), (1, "a", 1, 3.0)],
     "Sub-tracking file is invalid. Detected timestamp pair (1.0, 2.0) of process ID 1 with a start time greater than the stop time."),
    ([(1, "a", 0, 1.0), (1, "a", 1, 2.0), (1, "a", 1, 3.0), (2, "a", 1, 4.0)],
     "Sub-tracking file is invalid. Detected timestamp pair (3.0, 4.0) with differing process IDs: 1 and 2."),
    ([(1, "a", 1, 1.0)], "Sub-tracking file is invalid. Process ID 1 has a stop time without a start time."),
])
def test_stops_without_starts(tmp_path, rows, words):
    file = write_blocks(tmp_path / "s.csv", rows)
    with pytest.raises(ValueError) as error:
        gput.SubTrackingAnalyzer(None, str(file)).load_timestamp_pairs("a")
    assert str(error.value) == words


@pytest.mark.parametrize("kind", ["csv", "sqlite"])
def test_results(tmp_path, kind):
    """Use during blocks, computed by hand; as JSON, and as text in gpu-tracker's form."""
    tracking = write_tracking(tmp_path / f"t.{kind}", [1.0, 2.0, 3.0, 4.0])
    blocks = write_blocks(tmp_path / f"s.{kind}", [(1, "a", 0, 1.5), (1, "a", 1, 3.5), (1, "a", 0, 3.6), (1, "a", 1, 3.8),
                                                   (1, "b", 0, 4.0)])
    analyzer = gput.SubTrackingAnalyzer(str(tracking), str(blocks))
    assert list(analyzer.load_timepoints([(0, 1.0), (3.5, 9)]).main_ram) == [0.0, 3.0]
    assert analyzer.read_static_data()["ram_unit"] == "gigabytes"
    results = analyzer.sub_tracking_results()
    made = results.to_json()
    assert list(made) == ["overall", "static_data", "code_block_results"] and list(made["overall"]) == DATA[:-1]
    assert made["overall"]["main_ram"] == {"min": 0.0, "max": 3.0, "mean": 1.5, "std": pytest.approx(1.25 ** 0.5)}
    a, b = made["code_block_results"]
    assert list(a) == ["name", "num_timepoints", "num_calls", "num_non_empty_calls", "compute_time", "resource_usage"]
    assert (a["name"], a["num_timepoints"], a["num_calls"], a["num_non_empty_calls"]) == ("a", 2, 2, 1)
    assert a["compute_time"] == {k: pytest.approx(v) for k, v in
                                 {"min": 0.2, "max": 2.0, "mean": 1.1, "std": 0.9, "total": 2.2}.items()}
    assert a["resource_usage"]["system_ram"] == {"min": 1.0, "max": 2.0, "mean": 1.5, "std": 0.5}
    assert (b["num_timepoints"], b["num_calls"]) == (0, 0)
    for_text = gput.SubTrackingAnalyzer(str(tracking), str(write_blocks(tmp_path / f"text.{kind}", TEXT_BLOCKS)))
    assert str(for_text.sub_tracking_results()) == golden("gpu_tracker-5-analysis.txt")
    assert pickle.loads(pickle.dumps(results)).to_json()["overall"] == made["overall"]
    assert b"hiwater.compat.gpu_tracker.sub_tracker" in pickle.dumps(results)


@pytest.mark.parametrize("kind", ["csv", "sqlite"])
def test_files_are_combined(tmp_path, kind):
    rows = [[(n, f"b{n}", 0, 1.0), (n, f"b{n}", 1, 2.0 + n)] for n in (1, 2)]
    paths = [str(write_blocks(tmp_path / f"{n}.{kind}", r)) for n, r in enumerate(rows)]
    made = str(tmp_path / f"all.{kind}")
    analyzer = gput.SubTrackingAnalyzer(None, made)
    with pytest.raises(ValueError) as error:
        analyzer.combine_sub_tracking_files([*paths, "a.txt"])
    assert str(error.value) == f'File a.txt does not end with the same extension as {made}. Must end in ".{kind}".'
    analyzer.combine_sub_tracking_files(paths)
    assert analyzer.load_code_block_names() == ["b1", "b2"] and analyzer.load_timestamp_pairs("b2") == [(1.0, 4.0)]
    with pytest.raises(ValueError) as error:
        analyzer.combine_sub_tracking_files(paths)
    assert str(error.value) == f"Cannot create sub-tracking file {made}. File already exists."


# ---- comparison --------------------------------------------------------------------------------------------------------------

def session(tmp_path, name, *blocks, scale=1.0):
    """The pickle of a session with scaled figures."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"min": [1.0 * scale], "max": [3.0 * scale], "mean": [2.0 * scale], "std": [0.5]}, index=["main_ram"])
    times = pd.Series({"min": scale, "max": scale, "mean": scale, "std": 0.0, "total": scale})
    path = tmp_path / f"{name}.pkl"
    path.write_bytes(pickle.dumps(SubTrackingResults(frame, pd.Series({"ram_unit": "bytes"}), [
        CodeBlockResults(block, 1, 1, 1, times, frame) for block in blocks])))
    return str(path)


def test_sessions_are_compared(tmp_path, caplog):
    paths = {"B": session(tmp_path, "B", "x.py:9", "x.py:10", "f", scale=2), "A": session(tmp_path, "A", "x.py:7", "x.py:11", "f")}
    comparison = gput.TrackingComparison(paths)
    assert sorted(comparison.results_map) == ["A", "B"]
    assert [r.message for r in caplog.records] == [
        f'Code block name "x.py:{a}" of tracking session "A" matched with code block name "x.py:{b}" of tracking session "B" but '
        "they differ by line number. If these code blocks were not meant to match, their comparison will not be valid and their "
        "names must be disambiguated." for a, b in ((7, 9), (11, 10))]
    made = comparison.compare("max").to_json()
    assert made["overall_resource_usage"] == {"main_ram": {"A": 3.0, "B": 6.0}}
    assert list(made["overall_resource_usage"]["main_ram"]) == ["A", "B"]  # smallest first
    assert made["code_block_compute_time"] == {name: {"A": 1.0, "B": 2.0} for name in
                                               ("x.py:7 -> x.py:9", "x.py:10 -> x.py:11", "f")}
    assert set(made["code_block_resource_usage"]["main_ram"]) == set(made["code_block_compute_time"])
    assert str(comparison.compare()) == golden("gpu_tracker-5-comparison.txt")


def test_what_comparing_says_no_to(tmp_path):
    pd = pytest.importorskip("pandas")
    assert pd
    a, b, c = session(tmp_path, "A", "f"), session(tmp_path, "B", "f", "g"), session(tmp_path, "C", "h")
    for paths, words in (
        ({"A": a, "B": b}, "All sub-tracking results must have the same number of code blocks. The first has 1 code blocks but "
                           'tracking session "B" has 2 code blocks.'),
        ({"A": a, "C": c}, 'Code block name "f" of tracking session "A" does not match code block name "h" of tracking session "C"'),
        ({}, "There is nothing to compare: the mapping of tracking session names to files is empty."),
    ):
        with pytest.raises(ValueError) as error:
            gput.TrackingComparison(paths)
        assert str(error.value) == words
    with pytest.raises(ValueError) as error:
        gput.TrackingComparison({"A": a}).compare("median")
    assert str(error.value) == "Invalid summary statistic 'median'. Valid values are min max mean std."


def test_sessions_without_blocks(tmp_path):
    made = gput.TrackingComparison({"A": session(tmp_path, "A")}).compare().to_json()
    assert made == {"overall_resource_usage": {"main_ram": {"A": 2.0}}, "code_block_resource_usage": {},
                    "code_block_compute_time": {}}


def test_pickles_of_gpu_tracker_are_read(tmp_path):
    """Its classes load as ours."""
    content = pathlib.Path(session(tmp_path, "A", "f")).read_bytes()
    ours, theirs = b"hiwater.compat.gpu_tracker.sub_tracker", b"gpu_tracker.sub_tracker"
    short = content.replace(b"\x8c" + bytes([len(ours)]) + ours, b"\x8c" + bytes([len(theirs)]) + theirs)
    assert short != content
    path = tmp_path / "theirs.pkl"
    path.write_bytes(b"\x80\x04" + short[11:])  # without its frame, whose length would differ
    with open(path, "rb") as file:
        assert isinstance(_comparison._Unpickler(file).load(), SubTrackingResults)
    assert json.dumps(gput.TrackingComparison({"A": str(path)}).compare().to_json())
