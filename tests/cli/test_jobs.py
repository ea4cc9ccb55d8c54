# SPDX-License-Identifier: MIT
"""A job of several ranks on several nodes is one run: show, export, report and merge of its recordings, against truths that the
ranks are built to have. No part of a scheduler runs here; ranks_helpers.py has the environment that Slurm gives."""
import csv
import itertools
import json
import os
import re
import shutil

import jsonschema
import pytest
from cli_helpers import DEADLINE, ROOT, Tool
from ranks_helpers import (DAMAGE, MB, OVERHEAD, SECOND, Rank, Step, clock_ahead, compile_rank_job, copied, cut_off, edit, facts, newest_folder, parts_of,
                           record_step, set_facts, slurm)

SUMMARY = json.loads((ROOT / "docs" / "summary.schema.json").read_text())
JOB = json.loads((ROOT / "docs" / "job.schema.json").read_text())
RANKS = [Rank("n1", 200), Rank("n1", 60), Rank("n2", 150), Rank("n2", 90)]  # nothing is shared
SHARED_MB = 200
SHARING = [Rank("n1", 20, SHARED_MB), Rank("n1", 20, SHARED_MB), Rank("n1", 20, SHARED_MB), Rank("n2", 50)]


@pytest.fixture(scope="module")
def rank_job(tmp_path_factory):
    return compile_rank_job(tmp_path_factory.mktemp("rank-job"))


@pytest.fixture(scope="module")
def d(tmp_path_factory, rank_job):
    """DIR/JOB.STEP of RANKS. A test that edits it takes a copy."""
    tool = Tool(tmp_path_factory.mktemp("ranks"))
    yield record_step(tool, rank_job, RANKS, hold_s=3.5)  # windows of a second that all ranks have in common
    tool.end_all()


@pytest.fixture(scope="module")
def sharing(tmp_path_factory, rank_job):
    tool = Tool(tmp_path_factory.mktemp("sharing"))
    yield record_step(tool, rank_job, SHARING)
    tool.end_all()


@pytest.fixture
def copy(tool, d):
    return copied(d, tool.folder / "d" / "4711.0")


def show(tool, run, *options, expect=0):
    done = tool.run("show", run, "--json", *options, timeout=DEADLINE)
    assert done.returncode == expect, done.stderr
    return json.loads(done.stdout)


def faults(summary):
    """What the schemas do not allow, a line each."""
    found = [(at, e) for at, schema, value in (("", SUMMARY, summary), ("job", JOB, summary["job"]))
             for e in jsonschema.Draft202012Validator(schema).iter_errors(value)]
    return [f"{at}/{'/'.join(map(str, e.absolute_path))}: {e.message}" for at, e in found]


def figures(summary):
    """Without what differs by where it was read from: the names of files, the id of the merged recording."""
    kept = {key: value for key, value in summary.items() if key not in ("run", "hiwater")}
    for rank in kept["job"]["ranks"]:
        rank.pop("file", None)
    kept["job"]["ranks"].sort(key=lambda r: (r["rank"] is None, r["rank"]))
    return kept


def by_rank(path):
    return {facts(part)["rank"]: part for part in parts_of(path) if facts(part).get("rank") is not None and facts(part).get("part") != "node"}


def within(node, truth, share=0.02, ranks=1):
    """The bounds contain the truth, and the estimate is as near as promised. What a process has beyond its workload counts too."""
    slack = ranks * OVERHEAD
    assert node["ram_low_bytes"] <= truth + slack, node
    assert node["ram_high_bytes"] is None or node["ram_high_bytes"] >= truth, node
    assert abs(node["ram_peak_bytes"] - truth) <= share * truth + slack, (node, truth)


# ---- known memory ----------------------------------------------------------------------------------------------------

def test_memory_of_ranks_nodes_and_the_job(tool, d):
    summary = show(tool, d)
    job = summary["job"]
    assert (job["id"], job["step"], job["world_size"], job["complete"]) == ("4711", "0", 4, True)
    assert job["missing"] == job["cut_off"] == job["unreadable"] == [] and job["missing_nodes"] == 0
    nodes = {node["node"]: node for node in job["nodes"]}
    assert sorted(nodes) == ["n1", "n2"]
    within(nodes["n1"], 260 * MB, ranks=2)
    within(nodes["n2"], 240 * MB, ranks=2)
    for rank in job["ranks"]:
        expected = RANKS[rank["rank"]]
        assert rank["node"] == expected.node
        within(rank, expected.private * MB)
    combined = summary["ram"]["combined"]
    within({f"ram_{key}_bytes": combined[f"{key}_bytes"] for key in ("low", "peak", "high")}, 500 * MB, ranks=4)


def test_bounds_of_nodes_add_up(tool, d):
    """All ranks used their memory at the same time: the job used at least the sum of the largest rank of each node."""
    summary = show(tool, d)
    high = sum(node["ram_high_bytes"] for node in summary["job"]["nodes"])
    assert summary["ram"]["combined"]["high_bytes"] <= high
    assert summary["ram"]["combined"]["low_bytes"] >= 0.98 * (200 + 150) * MB


def test_the_only_rank_of_a_node_has_its_figures(tool, copy):
    """Its kernel's mark is exact, though the recording of the node is sampled; so the job has an upper bound."""
    for path in parts_of(copy):
        if facts(path).get("rank") in (1, 3):
            path.unlink()
    for path in parts_of(copy):
        set_facts(path, ranks=2, local_ranks=1)
    set_facts(by_rank(copy)[2], rank=1)
    summary = show(tool, copy)
    assert summary["job"]["complete"] and [node["ram_method"] for node in summary["job"]["nodes"]] == ["exact", "exact"]
    combined = summary["ram"]["combined"]
    within({f"ram_{key}_bytes": combined[f"{key}_bytes"] for key in ("low", "peak", "high")}, 350 * MB, ranks=2)
    assert combined["high_bytes"] <= 360 * MB and combined["low_bytes"] >= 340 * MB


def test_the_mean_is_over_time(tool, copy, d):
    """Of one recording that of the recording; of several nodes the sum of theirs, each over the job's time. A gap is left out."""
    before, one = show(tool, d), by_rank(copy)[0]
    walls = {path: facts(path)["ended_ns"] / 1e9 for path in (copy / "n1.hiw", copy / "n2.hiw", one)}
    means = {path: show(tool, path)["ram"]["combined"]["mean_bytes"] for path in walls}
    expected = sum(means[path] * walls[path] for path in walls if path != one) / before["time"]["wall_s"]
    assert before["ram"]["combined"]["mean_bytes"] == pytest.approx(expected, rel=0.05)
    for path in parts_of(copy):
        if path != one:
            path.unlink()
    set_facts(one, ranks=1, local_ranks=1, nodes=1)
    assert show(tool, copy)["ram"]["combined"]["mean_bytes"] == pytest.approx(means[one], rel=0.02)
    edit(one, "DROP TABLE IF EXISTS part_row", "DELETE FROM job_sample WHERE t >= 2000000000 AND t < (SELECT max(t) FROM job_sample)")
    assert show(tool, copy)["ram"]["combined"]["mean_bytes"] > 0.85 * means[one]


def test_windows_and_figures_have_one_peak(tool, d):
    rows = list(csv.DictReader(tool.run("export", d, "--to", "csv").stdout.splitlines()))
    assert max(int(row["ram_max_bytes"]) for row in rows) == show(tool, d)["ram"]["combined"]["peak_bytes"]
    assert any(int(row["ram_mean_bytes"]) < int(row["ram_max_bytes"]) for row in rows)


def test_one_mapping_in_all_ranks_of_a_node_counts_once(tool, sharing):
    """The recording of the node has it; without one, the sum of the ranks is an upper bound and says so."""
    nodes = {node["node"]: node for node in show(tool, sharing)["job"]["nodes"]}
    truth = (3 * 20 + SHARED_MB) * MB
    assert nodes["n1"]["ram_low_bytes"] <= truth + 3 * OVERHEAD <= nodes["n1"]["ram_high_bytes"] + 3 * OVERHEAD
    assert nodes["n1"]["ram_measured_together"], "no recorder measured the union of the ranks of n1"
    within(nodes["n1"], truth, ranks=3)
    within(nodes["n2"], 50 * MB)


def test_cpu_time_is_the_sum_of_the_ranks(tool, d):
    summary = show(tool, d)
    ranks = summary["job"]["ranks"]
    for key in ("user_s", "system_s"):
        assert summary["time"][key] == pytest.approx(sum(rank[key] for rank in ranks), abs=1e-6)
    starts = [facts(path)["started_wall_ns"] for path in by_rank(d).values()]
    ends = [facts(path)["started_wall_ns"] + facts(path)["ended_ns"] for path in by_rank(d).values()]
    assert summary["job"]["stagger_s"] == pytest.approx((max(starts) - min(starts)) / 1e9, abs=1e-3)
    assert summary["time"]["wall_s"] == pytest.approx((max(ends) - min(starts)) / 1e9, abs=0.05)


def test_the_text_names_nodes_and_ranks(tool, d):
    text = tool.run("show", d).stdout
    assert "4711.0" in text and "2 nodes" in text and "4 ranks" in text and "4 of 4 ranks" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("n1", "n2"))] == ["n1", "n2"]


def test_what_to_request_is_for_a_node_and_a_task(tool, d, sharing):
    """n1 needs most: 260 MB and 20 %. In the other job, too, with shared memory once."""
    for folder, tasks in (d, "--nodes=2 --ntasks-per-node=2"), (sharing, "--nodes=2 --ntasks-per-node=2"):
        line = show(tool, folder)["request"]["line"]
        found = re.fullmatch(f"#SBATCH {tasks} --mem=(320|384)M --cpus-per-task=1 --time=0:05:00", line)
        assert found, line
    text = " ".join(tool.run("show", d).stdout.split())
    assert "peak of a node" in text and "of all ranks" in text


# ---- every way to read it says the same ------------------------------------------------------------------------------

def test_folder_and_merged_recording_agree(tool, d):
    assert tool.run("merge", d, "-o", "J.hiw").returncode == 0
    assert figures(show(tool, "J.hiw")) == figures(show(tool, d))
    assert (tool.folder / "J.hiw").stat().st_size < sum(path.stat().st_size for path in parts_of(d))


@pytest.mark.parametrize("to", ["csv", "json", "openmetrics"])
def test_exports_agree(tool, d, to):
    tool.run("merge", d, "-o", "J.hiw")
    both = [tool.run("export", run, "--to", to) for run in (d, "J.hiw")]
    assert [done.returncode for done in both] == [0, 0], both[0].stderr
    assert both[0].stdout == both[1].stdout and len(both[0].stdout.splitlines()) > 2


def test_reports_agree(tool, d):
    tool.run("merge", d, "-o", "J.hiw")
    for run, page in ((d, "d.html"), ("J.hiw", "j.html")):
        done = tool.run("report", run, "-o", page)
        if "uPlot" in done.stderr:
            pytest.skip("built without uPlot, which cannot be had here")
        assert done.returncode == 0, done.stderr
    pages = [(tool.folder / page).read_text() for page in ("d.html", "j.html")]
    assert all("n1" in page and "n2" in page for page in pages)
    peak = f"{show(tool, d)['ram']['combined']['peak_bytes'] / 2**20:.0f} MiB"
    assert all(peak in page for page in pages), peak


def test_check_and_compare_take_a_folder(tool, d, sharing):
    assert tool.run("check", d, "ram.peak > 450MB", "ram.peak < 550MB").returncode == 0
    assert tool.run("check", d, "ram.peak < 450MB").returncode == 1
    done = tool.run("compare", d, sharing)
    assert done.returncode == 0, done.stderr


def test_a_recording_that_exists_is_not_overwritten(tool, d):
    assert tool.run("merge", d, "-o", "J.hiw").returncode == 0
    before = (tool.folder / "J.hiw").read_bytes()
    done = tool.run("merge", d, "-o", "J.hiw")
    assert (tool.folder / "J.hiw").read_bytes() == before and done.returncode == 1 and "J.hiw" in done.stderr


# ---- the order of files, copies, merges of merges --------------------------------------------------------------------

def test_the_order_of_files_does_not_matter(tool, d):
    expected = figures(show(tool, d))
    for order in itertools.islice(itertools.permutations(parts_of(d)), 0, 24, 5):
        (tool.folder / "J.hiw").unlink(missing_ok=True)
        assert tool.run("merge", *order, "-o", "J.hiw").returncode == 0
        assert figures(show(tool, "J.hiw")) == expected


def test_names_do_not_matter(tool, copy, d):
    for number, path in enumerate(reversed(parts_of(copy))):
        path.rename(path.with_name(f"z{number}.hiw"))
    assert figures(show(tool, copy)) == figures(show(tool, d))


def test_copies_count_once(tool, copy, d):
    for path in parts_of(copy):
        shutil.copy(path, path.with_name(f"copy-of-{path.name}"))
    assert figures(show(tool, copy)) == figures(show(tool, d))
    assert tool.run("merge", d, d, *parts_of(d), "-o", "J.hiw").returncode == 0
    assert figures(show(tool, "J.hiw")) == figures(show(tool, d))


def test_merging_merges_is_merging_all(tool, d):
    parts = parts_of(d)
    for name, inputs in (("A.hiw", parts[:2]), ("B.hiw", parts[2:]), ("AB.hiw", ["A.hiw", "B.hiw"]), ("BA.hiw", ["B.hiw", "A.hiw", "A.hiw", parts[0]]),
                         ("AGAIN.hiw", ["AB.hiw", d])):
        done = tool.run("merge", *inputs, "-o", name)
        assert done.returncode == 0, done.stderr
    for name in ("AB.hiw", "BA.hiw", "AGAIN.hiw"):
        assert figures(show(tool, name)) == figures(show(tool, d)), name


def test_reasons_are_those_of_a_job(tool, d, copy):
    """What a sum over ranks does not have is not for want of samples, and the job has ended."""
    def notes(run):
        return {note["about"]: note["why"] for note in show(tool, run)["notes"]}

    found = notes(d)
    assert not [why for why in found.values() if "still running" in why or "first sample" in why or "ended before" in why], found
    assert all("recordings of its ranks" in found[about] for about in ("processes", "sampling", "ram.main", "swap"))
    by_rank(copy)[2].unlink()
    assert "hiwater did not start" not in notes(copy)["exit"]


def test_json_is_as_the_schemas_say(tool, d, copy):
    assert faults(show(tool, d)) == []
    restart(copy)
    assert faults(show(tool, copy)) == []
    parts = by_rank(copy)
    parts[2].unlink()
    DAMAGE["random bytes"](parts[3])
    cut_off(parts[1], SECOND // 2)
    assert faults(show(tool, copy)) == []


def other_job(copy, to):
    """The same ranks as step 0 of job 4712."""
    shutil.copytree(copy, to)
    for number, path in enumerate(parts_of(to)):
        set_facts(path, scheduler_job="4712.0", id=f"{number + 1:032x}")
    return to


def test_two_jobs_are_not_merged(tool, copy):
    """Whether named by a folder or by a file: nothing is written. A folder with both has the newest, and says so."""
    other = other_job(copy, tool.folder / "e" / "4712.0")
    for inputs in ([copy, other], [other, copy], [copy, parts_of(other)[0]], [parts_of(copy)[0], other]):
        done = tool.run("merge", *inputs, "-o", "J.hiw")
        assert done.returncode == 1 and not (tool.folder / "J.hiw").exists()
        assert all(word in done.stderr for word in ("4711.0", "4712.0", str(inputs[1].parent.parent), "one job at a time")), done.stderr
    for path in parts_of(other):
        shutil.copy(path, copy / f"other-{path.name}")
        edit(copy / f"other-{path.name}", ("UPDATE meta SET value = value + ? WHERE key = 'started_wall_ns'", (SECOND,)))
    job = show(tool, copy)["job"]
    assert (job["id"], job["other_jobs"]) == ("4712", "4711.0")


def test_bad_files_of_another_job_are_its_own(tool, copy):
    other = other_job(copy, tool.folder / "e" / "4712.0")
    (other / "bad.hiw").write_bytes(b"nothing")
    assert tool.run("merge", other, "-o", copy / "other.hiw").returncode == 0
    edit(copy / "other.hiw", "UPDATE part SET started_wall_ns = started_wall_ns - 1000000000")
    job = show(tool, copy)["job"]
    assert (job["id"], job["complete"], job["unreadable"], job["other_jobs"]) == ("4711", True, [], "4712.0")
    assert [entry["file"] for entry in show(tool, copy / "other.hiw")["job"]["unreadable"]] == ["bad.hiw"]


def test_a_renamed_folder_is_found_in_the_one_above(tool, copy, d):
    copy.rename(copy.with_name("first"))
    assert figures(show(tool, copy.parent)) == figures(show(tool, d))


# ---- what is missing or bad is said ----------------------------------------------------------------------------------

def test_a_missing_rank(tool, copy):
    by_rank(copy)[2].unlink()
    job = show(tool, copy)["job"]
    assert job["missing"] == [{"rank": 2}] and not job["complete"] and len(job["ranks"]) == 3
    assert "rank 2" in tool.run("show", copy).stdout
    rows = dict(line.strip("| ").split(" | ", 1) for line in tool.run("show", "--md", copy).stdout.splitlines() if " | " in line[2:])
    assert rows["Incomplete"].startswith("3 of 4 ranks") and rows["Missing"] == "rank 2: no recording"
    assert "2 ranks" in rows["n1"] and "1 rank;" in rows["n2"], rows
    show(tool, copy, "--strict", expect=3)
    assert tool.run("show", copy, "--strict").returncode == 3


def test_what_a_missing_rank_makes_unknown(tool, copy):
    """Neither how the job ended nor a limit that it kept; what failed, failed."""
    parts = by_rank(copy)
    parts[2].unlink()
    DAMAGE["random bytes"](parts[3])
    assert show(tool, copy)["exit"]["code"] is None
    sacct = tool.run("export", copy, "--to", "sacct").stdout.splitlines()
    state = dict(zip(sacct[0].split("|"), sacct[1].split("|")))
    assert (state["State"], state["ExitCode"], state["MaxRSS"], state["NTasks"]) == ("", "", "", "4")
    done = tool.run("check", copy, "ram.peak < 20GiB")
    assert done.returncode == 3 and done.stdout.startswith("? ") and "2 of 4 ranks have no recording" in done.stdout
    assert "something of the job is missing" in done.stderr
    assert tool.run("check", copy, "ram.peak < 1MB").returncode == 1
    set_facts(parts[1], exit_status=3 << 8)
    assert show(tool, copy)["exit"]["code"] == 3, "of the rank that failed"


def test_a_batch_script_alone(tool, rank_job):
    """Its steps were not measured: no share of what was requested for them, no request, and no rule about a share."""
    env = {"SLURM_JOB_ID": "27", "SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
           "SLURMD_NODENAME": "n1", "SLURM_MEM_PER_NODE": "300", "SLURM_CPUS_PER_TASK": "1"}
    srun = tool.folder / "srun"
    srun.symlink_to(shutil.which("sleep"))
    done = tool.run("run", "--summary", "none", "-o", "d/", "--", "sh", "-c", f"{srun} 1.5; true", env=env)
    assert done.returncode == 0, done.stderr
    assert tool.run("merge", "d", "-o", "J.hiw").returncode == 0
    for run in ("d", "slurm:27", "J.hiw"):
        summary, text = show(tool, run), tool.run("show", run).stdout
        assert "batch script only" in text and "requested" not in text and "300 MiB" not in text and "of 1 ranks" not in text, text
        assert summary["request"]["line"] is None
        assert tool.run("export", run, "--to", "sacct").stdout.splitlines()[1].startswith("27.batch|")
        assert tool.run("check", run, "ram.peak < 80% of limit").returncode == 3
        assert tool.run("check", run, "ram.peak < 1GiB").returncode == 0


def test_strict_of_a_complete_job(tool, d):
    show(tool, d, "--strict")


def test_a_rank_that_was_cut_off(tool, copy):
    path = by_rank(copy)[1]
    known = facts(path)
    cut_off(path, SECOND // 2)
    job = show(tool, copy)["job"]
    assert [entry["rank"] for entry in job["cut_off"]] == [1] and not job["complete"] and job["missing"] == []
    first = min(facts(p)["started_wall_ns"] for p in by_rank(copy).values())
    at = (known["started_wall_ns"] - first + known["ended_ns"] - SECOND // 2) / 1e9
    assert job["cut_off"][0]["at_s"] == pytest.approx(at, abs=0.05)
    text = tool.run("show", copy).stdout
    assert "rank 1" in text and "cut off" in text
    show(tool, copy, "--strict", expect=3)


def test_a_recorder_that_is_killed(tool, rank_job):
    """The other ranks' recordings say it: rank 1 has no end, and nothing waits for it."""
    step = Step(tool, rank_job, RANKS[:3], output="k/")
    try:
        ready = step.wait_ready()
        step.wait_recorded(tool.folder / "k", ready + 1_200_000_000, 3)
        step.processes[1].kill()
        step.processes[1].wait(DEADLINE)
        step.stop.touch()
        for number in (0, 2):
            step.processes[number].communicate(timeout=2 * DEADLINE)
        summary = show(tool, newest_folder(tool.folder / "k"))
        job = summary["job"]
        assert [entry["rank"] for entry in job["cut_off"]] == [1] and not job["complete"]
        assert summary["processes"]["seen"] == 3
        ranks = {rank["rank"]: rank for rank in job["ranks"]}
        assert ranks[1]["ram_peak_bytes"] >= RANKS[1].private * MB
    finally:
        step.stop.touch()
        step.clean()


@pytest.mark.parametrize("what", DAMAGE)
def test_one_bad_file_is_named_and_the_rest_is_right(tool, copy, d, what):
    bad = by_rank(copy)[3]
    DAMAGE[what](bad)
    summary = show(tool, copy)
    job = summary["job"]
    assert not job["complete"] and [rank["rank"] for rank in job["ranks"]] == [0, 1, 2] and job["missing"] == [{"rank": 3}]
    assert [os.path.basename(entry["file"]) for entry in job["unreadable"]] == [bad.name] and job["unreadable"][0]["why"]
    nodes = {node["node"]: node for node in job["nodes"]}
    whole = {node["node"]: node for node in show(tool, d)["job"]["nodes"]}
    assert nodes["n1"]["ram_peak_bytes"] == whole["n1"]["ram_peak_bytes"] and nodes["n1"]["cpu_s"] == whole["n1"]["cpu_s"]
    assert bad.name in tool.run("show", copy, timeout=DEADLINE).stdout
    show(tool, copy, "--strict", expect=3)
    assert tool.run("merge", copy, "-o", "J.hiw", timeout=DEADLINE).returncode == 0
    assert figures(show(tool, "J.hiw")) == figures(summary)


@pytest.mark.parametrize("fact, value", [("rank", -5), ("rank", 9 * 10**18), ("nodes", 100_000_000), ("ranks", 1 << 40)])
def test_a_file_with_impossible_numbers_is_named(tool, copy, fact, value):
    set_facts(by_rank(copy)[3], **{fact: value})
    job = show(tool, copy)["job"]
    assert [(entry["file"], fact in entry["why"]) for entry in job["unreadable"]] == [("n2-r3.hiw", True)]
    assert job["missing"] == [{"rank": 3}] and job["missing_nodes"] == 0 and job["world_size"] == 4


def test_all_of_them_at_once(tool, copy, d):
    """Every kind of damage next to four good recordings."""
    source = parts_of(d)[0]
    for number, (_, damage) in enumerate(DAMAGE.items()):
        bad = copy / f"bad{number}.hiw"
        shutil.copy(source, bad)
        damage(bad)
    summary = show(tool, copy)
    assert len(summary["job"]["unreadable"]) == len(DAMAGE) and len(summary["job"]["ranks"]) == 4 and summary["job"]["missing"] == []
    expected = show(tool, d)
    assert summary["ram"] == expected["ram"] and summary["time"] == expected["time"]


def test_a_trigger_does_not_run(tool, copy):
    target = by_rank(copy)[0]
    before = facts(target)
    DAMAGE["a trigger"](target)
    content = target.read_bytes()
    tool.run("show", copy)
    tool.run("merge", copy, "-o", "J.hiw")
    assert target.read_bytes() == content and facts(target) == before


def test_only_bad_files(tool, copy):
    for path in parts_of(copy):
        path.write_bytes(b"nothing")
    done = tool.run("show", copy, timeout=DEADLINE)
    assert done.returncode == 1 and done.stderr and not done.stdout
    assert tool.run("show", tool.folder / "d").returncode == 1
    done = tool.run("merge", copy, "-o", "J.hiw")
    assert done.returncode == 1 and not (tool.folder / "J.hiw").exists()


def test_an_empty_folder(tool):
    (tool.folder / "empty").mkdir()
    done = tool.run("show", "empty")
    assert done.returncode == 1 and "empty" in done.stderr


# ---- peaks of different times ----------------------------------------------------------------------------------------

def test_peaks_of_different_times_are_not_added(tool, copy):
    """n1 uses 200 + 60 MB at first, n2 its 150 + 90 MB once n1 has ended."""
    for path in parts_of(copy, "n2"):
        later = 60 * SECOND
        edit(path, ("UPDATE meta SET value = value + ? WHERE key IN ('started_wall_ns', 'started_boot_ns')", (later,)))
    summary = show(tool, copy)
    peak = summary["ram"]["combined"]
    assert peak["peak_bytes"] <= 270 * MB and peak["high_bytes"] < 400 * MB, peak
    assert summary["time"]["wall_s"] > 60


# ---- clocks ----------------------------------------------------------------------------------------------------------

def add_marks(folder, n=3):
    """Marks that all ranks set at the same instants, before their clocks are moved."""
    paths = [path for path in parts_of(folder)]
    last_start = max(facts(path)["started_wall_ns"] for path in paths)
    first_end = min(facts(path)["started_wall_ns"] + facts(path)["ended_ns"] for path in paths)
    for number in range(n):
        at = last_start + (first_end - last_start) * (number + 1) // (n + 1)
        for path in paths:
            edit(path, ("INSERT INTO event(t, kind, entity, id, phase, text) VALUES(?, 'mark', 'job', 0, 0, ?)",
                        (at - facts(path)["started_wall_ns"], f"epoch {number + 1}")))


@pytest.mark.parametrize("ahead_s", [0.02, 2.0, -2.0])
def test_a_clock_ahead_is_stated_and_changes_no_peak(tool, copy, ahead_s):
    add_marks(copy)
    before = show(tool, copy)
    clock_ahead(copy, "n2", ahead_s)
    after = show(tool, copy)
    clocks = {node["node"]: node["clock_ahead_s"] for node in after["job"]["nodes"]}
    assert clocks["n2"] - clocks["n1"] == pytest.approx(ahead_s, abs=0.005) and after["job"]["clocks_compared"]
    for key in ("peak_bytes", "low_bytes", "high_bytes"):
        assert after["ram"]["combined"][key] == pytest.approx(before["ram"]["combined"][key], rel=0.001)
    assert [node["ram_peak_bytes"] for node in after["job"]["nodes"]] == [node["ram_peak_bytes"] for node in before["job"]["nodes"]]
    assert after["job"]["stagger_s"] == pytest.approx(before["job"]["stagger_s"], abs=0.005)
    assert after["time"]["wall_s"] == pytest.approx(before["time"]["wall_s"], abs=0.01)
    if abs(ahead_s) > 1:
        text = tool.run("show", copy).stdout
        assert any("clock" in line and "2 s" in line and ("n1" in line or "n2" in line) for line in text.splitlines()), text


def test_a_clock_ahead_is_corrected_by_the_starts_of_ranks(tool, copy):
    """One boot of one machine, and no marks: what brings the starts together is right."""
    before = show(tool, copy)
    clock_ahead(copy, "n2", 2.0)
    after = show(tool, copy)
    clocks = {node["node"]: node["clock_ahead_s"] for node in after["job"]["nodes"]}
    assert clocks["n2"] - clocks["n1"] == pytest.approx(2, abs=0.01) and after["job"]["clocks_compared"]
    for key in ("peak_bytes", "low_bytes", "high_bytes", "mean_bytes"):
        assert after["ram"]["combined"][key] == pytest.approx(before["ram"]["combined"][key], rel=0.001)
    assert after["time"]["wall_s"] == pytest.approx(before["time"]["wall_s"], abs=0.01)


def test_without_common_marks_the_clocks_are_not_compared(tool, copy):
    assert show(tool, copy)["job"]["clocks_compared"]  # both "nodes" are one boot of one machine
    for path in parts_of(copy, "n2"):
        set_facts(path, boot_id="00000000-0000-4000-8000-000000000000")
    job = show(tool, copy)["job"]
    assert not job["clocks_compared"] and all(node["clock_ahead_s"] is None for node in job["nodes"])
    assert "clock" in tool.run("show", copy).stdout


def test_a_clock_that_is_set_during_the_job(tool, copy):
    """The wall clock of n1 stepped by 2 s in the middle: the recorder compared the clocks."""
    for path in parts_of(copy, "n1"):
        assert abs(facts(path)["clock_ahead_ns"]) < SECOND
        set_facts(path, clock_ahead_ns=2 * SECOND, clock_behind_ns=0)
    job = show(tool, copy)["job"]
    steps = {node["node"]: node["clock_step_s"] for node in job["nodes"]}
    assert steps["n1"] == pytest.approx(2, abs=0.01) and (steps["n2"] or 0) < 0.1
    within({node["node"]: node for node in job["nodes"]}["n1"], 260 * MB, ranks=2)


# ---- the same command again ------------------------------------------------------------------------------------------

def run_rank(tool, *options, **about):
    ranks = [Rank("n1")]
    return tool.run("run", "--summary", "none", "--gpu", "none", *options, "--", "true", env=slurm(ranks, 0, 9, **about))


def test_the_same_command_again_starts_the_job(tool):
    for about in ({}, {}, {"step": 1}, {"restart": 1}, {"restart": 1}, {"array_task": 2}):
        done = run_rank(tool, "-o", "r%r.hiw", **about)
        assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in tool.folder.glob("*.hiw"))
    assert names == ["r0-2.hiw", "r0-3.hiw", "r0-4.hiw", "r0-5.hiw", "r0-6.hiw", "r0.hiw"]


def test_folders_of_steps_restarts_and_array_tasks(tool):
    for about in ({}, {"step": 1}, {"restart": 1}, {"array_task": 2}):
        done = run_rank(tool, "-o", "d/", **about)
        assert done.returncode == 0 and not done.stderr, done.stderr
    names = sorted(str(path.relative_to(tool.folder / "d")) for path in (tool.folder / "d").rglob("*.hiw"))
    assert names == ["9.0/n1-r0-1.hiw", "9.0/n1-r0.hiw", "9.1/n1-r0.hiw", "9_2.0/n1-r0.hiw"]


def restart(copy):
    """The same ranks once more, an hour later."""
    for number, path in enumerate(parts_of(copy)):
        again = path.with_name(f"{path.stem}-1.hiw")
        shutil.copy(path, again)
        set_facts(again, restart=1, id=f"{number + 1:032x}")
        edit(again, ("UPDATE meta SET value = value + ? WHERE key IN ('started_wall_ns', 'started_boot_ns')", (3600 * SECOND,)))


def test_a_requeue_replaces_what_came_before(tool, copy):
    """The figures are those of the last start."""
    restart(copy)
    summary = show(tool, copy)
    assert summary["job"]["complete"] and {rank["restart"] for rank in summary["job"]["ranks"] if rank.get("counts", True)} >= {1}
    assert summary["time"]["wall_s"] < 600
    within({f"ram_{key}_bytes": summary["ram"]["combined"][f"{key}_bytes"] for key in ("low", "peak", "high")}, 500 * MB, ranks=4)


def precious(tool):
    assert tool.run("run", "-n", "precious", "--summary", "none", "--gpu", "none", "--", "sleep", "1.2").returncode == 0


def test_a_step_without_output_is_one_run_of_the_history(tool, rank_job):
    precious(tool)
    step = Step(tool, rank_job, RANKS, output=None)
    try:
        ready = step.wait_ready()
        step.wait_recorded(tool.history, ready + 1_200_000_000, 4)
        step.finish()
    finally:
        step.clean()
    runs = json.loads(tool.run("runs", "--json").stdout)
    assert len(runs) == 2 and runs[0]["name"] == "precious", [run.get("name") for run in runs]
    for run in ("last", "slurm:4711", "slurm:4711.0"):
        job = show(tool, run)["job"]
        assert (job["id"], job["world_size"], job["complete"]) == ("4711", 4, True)


def test_slurm_job_finds_recordings_with_output(tool, rank_job):
    record_step(tool, rank_job, RANKS[:2])
    for run in ("slurm:4711", "slurm:4711.0"):
        assert show(tool, run)["job"]["world_size"] == 2


@pytest.mark.full
@pytest.mark.timeout(600)
def test_three_hundred_nodes_leave_the_history_alone(tool):
    """One step on 300 nodes: every job starts, and the run called precious is still there."""
    precious(tool)
    nodes = 300
    ranks = [Rank(f"m{number}") for number in range(nodes)]
    running, statuses = [], []
    for number in range(nodes):
        running.append(tool.start("run", "--summary", "none", "--gpu", "none", "--", "sleep", "1.2", env={**tool.env, **slurm(ranks, number, 77)}))
        if len(running) == 30:
            statuses += [process.wait(4 * DEADLINE) for process in running]
            running = []
    assert set(statuses + [process.wait(4 * DEADLINE) for process in running]) == {0}
    runs = json.loads(tool.run("runs", "--json").stdout)
    assert [run["name"] for run in runs if run["name"]] == ["precious"] and len(runs) == 2
    assert show(tool, "slurm:77")["job"]["world_size"] == nodes


# ---- while it runs ---------------------------------------------------------------------------------------------------

def test_show_while_ranks_still_run(tool, rank_job):
    step = Step(tool, rank_job, RANKS[:2], output="live/")
    try:
        ready = step.wait_ready()
        step.wait_recorded(tool.folder / "live", ready + 1_200_000_000, 2)
        summary = show(tool, newest_folder(tool.folder / "live"))
        assert summary["job"]["running"] and not summary["job"]["cut_off"] and summary["job"]["missing"] == []
        within(summary["job"]["nodes"][0], 260 * MB, ranks=2)
        step.finish()
        summary = show(tool, newest_folder(tool.folder / "live"))
        assert summary["job"]["complete"] and not summary["job"]["running"]
    finally:
        step.stop.touch()
        step.clean()


def test_reading_takes_no_lock_and_leaves_no_file(tool, copy):
    before = sorted(path.name for path in copy.iterdir())
    stamps = {path.name: path.stat().st_mtime_ns for path in copy.iterdir()}
    tool.run("show", copy)
    tool.run("merge", copy, "-o", "J.hiw")
    assert sorted(path.name for path in copy.iterdir()) == before and {path.name: path.stat().st_mtime_ns for path in copy.iterdir()} == stamps
