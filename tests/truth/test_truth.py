# SPDX-License-Identifier: MIT
"""Truth by construction: the use of workload.c is known, and hiwater must report it."""
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest
from conftest import MB, better_be, scored_as_root, tight, unprivileged

CGROUPS = ["--cgroup=none", "--cgroup=auto"]


def check_order(figure):
    """low <= peak <= high wherever they are known."""
    known = [figure[key] for key in ("low_bytes", "peak_bytes", "high_bytes") if figure[key] is not None]
    assert known == sorted(known), figure


def check_all(summary):
    for name in ("main", "descendants", "combined"):
        check_order(summary["ram"][name])
    combined = summary["ram"]["combined"]["peak_bytes"]
    for process in summary["processes"]["list"]:
        assert process["peak_bytes"] is None or process["peak_bytes"] <= combined, process


def between(value, low_mb, high_mb):
    assert low_mb * MB <= value <= high_mb * MB, f"{value / MB:.1f} MB is not in {low_mb}..{high_mb}"


def holds(figure, low_mb, high_mb, is_tight=True):
    """The figure is right, and so are its bounds. An estimate may be a tenth above in some tries."""
    peak = figure["peak_bytes"]
    between(peak, low_mb, high_mb if figure["method"] == "exact" else 1.1 * high_mb)
    better_be(peak <= high_mb * MB, f"estimate {peak / MB:.1f} MB, at most {high_mb} wanted: {figure}")
    assert figure["low_bytes"] <= high_mb * MB
    assert figure["high_bytes"] >= low_mb * MB
    if is_tight and figure["gap_s"] < 0.2:  # memory that went unseen may have existed all at once
        tight(figure, 1.15 * high_mb * MB)


def rewritten_at_least(figure, low_mb):
    """A pass in the middle of a copy counts a part of it: if the copy takes longer than a sample,
    the figure is low by that part."""
    return low_mb if figure["gap_s"] < 0.13 else 0.8 * low_mb


@pytest.mark.parametrize("cgroup", CGROUPS)
def test_a_burst_between_two_looks_is_not_lost(run, workload, cgroup):
    summary = run(workload, "burst", options=[cgroup])
    check_all(summary)
    holds(summary["ram"]["main"], 500, 510)
    holds(summary["ram"]["combined"], 500, 510)
    assert summary["ram"]["main"]["method"] == "exact"


@pytest.mark.parametrize("cgroup", CGROUPS)
@pytest.mark.parametrize("pieces", [1, 30])
@scored_as_root
def test_eight_forks_share_300_mb(run, workload, pieces, cgroup):
    summary = run(workload, "forks", pieces, options=[cgroup])
    check_all(summary)
    holds(summary["ram"]["combined"], 300, 330)
    holds(summary["ram"]["main"], 300, 310)
    assert summary["processes"]["seen"] == 9
    if summary["sampling"]["longest_gap_s"] < 0.5:  # all of them exist for 0.7 s
        assert summary["processes"]["peak_alive"] == 9


def test_a_main_that_was_over_before_its_second_look(run, workload):
    """Main filled its memory before its exec: only the rusage of wait4() shows it."""
    summary = run(workload, "forks", 8, options=["-i", "30s"])
    check_all(summary)
    main = summary["ram"]["main"]
    between(main["peak_bytes"], 300, 310)
    assert main["high_bytes"] >= 300 * MB


@pytest.fixture
def setuid(tmp_path, workload):
    """The workload with root's rights, whoever starts it: only root may read its memory."""
    if os.geteuid() != 0 or os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip("no program can be given root's rights here")
    program = tmp_path / "setuid"
    shutil.copy(workload, program)
    program.chmod(0o4755)
    return program


@pytest.mark.parametrize("job, low, high", [("forks", 300, 330), ("forks-huge", 395, 420), ("forks-rewrite", 295, 320)])
def test_forks_into_whose_memory_nobody_may_look(run, setuid, job, low, high):
    """Neither the shared pages nor the fork are visible: only the names of the processes show
    it."""
    summary = run(setuid, job, 1)
    check_all(summary)
    combined = summary["ram"]["combined"]
    holds(combined, rewritten_at_least(combined, low) if job == "forks-rewrite" else low, high, is_tight=job == "forks" and run.rights == "root")
    if job == "forks":
        tight(combined, 2 * high * MB, or_none=True)
    assert run.rights == "root" or combined["source"] == "fork families by name"


def test_children_that_write_what_they_share_copy_nothing(run, workload):
    """Counting faults alone, each of the eight may have copied its parent's 100 MB: no bound can
    exclude that, the estimate does."""
    summary = run(workload, "forks-write-shared")
    check_all(summary)
    combined = summary["ram"]["combined"]
    assert 200 * MB <= combined["peak_bytes"] <= 400 * MB, combined
    assert combined["high_bytes"] >= 200 * MB


@pytest.mark.parametrize("job, low, high", [("forks", 300, 330), ("forks-huge", 395, 420), ("forks-rewrite", 295, 320)])
def test_what_others_take_is_not_the_jobs(run, workload, job, low, high):
    """The kernel counts huge pages for the whole machine; here another program allocates them all
    the time."""
    other = subprocess.Popen([workload, "neighbour"])
    try:
        summary = run(workload, job, 1)
    finally:
        other.kill()
        other.wait()
    check_all(summary)
    combined = summary["ram"]["combined"]
    holds(combined, rewritten_at_least(combined, low) if job == "forks-rewrite" else low, high, is_tight=False)


def test_a_pass_is_not_spoilt_by_who_forks_elsewhere(run, workload):
    """The job waits for the pass: on a busy machine passes during its own forks are invalid, and
    the next must wait for its budget."""
    other = subprocess.Popen(["sh", "-c", "while :; do /bin/true; done"])
    try:
        job = run.start(workload, "forks-wait", 8)
        give_up = time.monotonic() + 60
        while run.facts("pss_passes").get("pss_passes", 0) == 0 and time.monotonic() < give_up:
            time.sleep(0.1)
        job.stdin.close()
        summary = run.finish(job)
    finally:
        other.kill()
        other.wait()
    check_all(summary)
    holds(summary["ram"]["combined"], 150, 158, is_tight=False)
    counts = run.facts("pss_passes", "pss_invalid")
    assert counts.get("pss_passes", 0) >= 1, counts


def test_eight_forks_share_numpy_arrays(run):
    pytest.importorskip("numpy", reason="numpy is not installed")
    if run.rights == "user" and subprocess.run(unprivileged(["sh", "-c", f"{sys.executable} -c 'import numpy'"]),
                                               check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("this Python is not for another user to run")
    code = """
import os, time, numpy
arrays = [numpy.ones(10_000_000 // 8) for _ in range(30)]
pids = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        time.sleep(0.8); os._exit(0)
    pids.append(pid)
for pid in pids: os.waitpid(pid, 0)
"""
    alone = run(sys.executable, "-c", "import numpy")["ram"]["combined"]["peak_bytes"] / MB
    summary = run(sys.executable, "-c", code)
    check_all(summary)
    holds(summary["ram"]["combined"], 300, 300 + alone + 30, is_tight=False)


def test_children_that_fill_huge_pages_are_caught(run, workload):
    summary = run(workload, "forks-huge")
    check_all(summary)
    assert summary["ram"]["combined"]["high_bytes"] >= 400 * MB
    holds(summary["ram"]["combined"], 395, 420, is_tight=False)


@pytest.mark.parametrize("children", [1, 8])
def test_a_parent_that_rewrites_everything_after_the_fork_is_caught(run, workload, children):
    summary = run(workload, "forks-rewrite", children)
    check_all(summary)
    combined = summary["ram"]["combined"]
    assert combined["high_bytes"] >= 300 * MB
    holds(combined, rewritten_at_least(combined, 295), 320)
    between(summary["ram"]["descendants"]["peak_bytes"], 149, 165)  # memory that the parent wrote is not shared


@pytest.mark.parametrize("job", ["copy-and-end", "copy-and-all-end", "copy-and-give-back", "copy-and-exec", "copy-by-main"])
@pytest.mark.parametrize("options", [[], ["-i", "1s"], ["-i", "10ms"]])
@scored_as_root
def test_a_child_that_copies_what_it_shares_and_lets_it_go(run, workload, job, options):
    """No sample may have seen the copy, and no high-water mark shows it: its faults do, if a sample
    found the process."""
    if options == ["-i", "1s"] and job in ("copy-and-exec", "copy-by-main"):
        options = ["-i", "50ms"]
    summary = run(workload, job, options=[*options, "--cgroup=none"])
    check_all(summary)
    combined = summary["ram"]["combined"]
    # Without exit records, a child that no sample found is unknown: it may have used the copy's 150
    # MB, and have mapped a file as large as main at the same time.
    most = 465 if run.rights == "root" and options != ["-i", "10ms"] else 620
    assert combined["high_bytes"] is None or combined["high_bytes"] >= 297 * MB, combined
    tight(combined, most * MB, or_none=True)  # memory that went unseen may have existed all at once
    between(combined["peak_bytes"], 150, 320)


@scored_as_root
def test_memory_that_is_taken_again_and_again_beside_forks(run, workload):
    """1,000 MB in faults of the parent, which never used more than 200 MB."""
    summary = run(workload, "forks-churn", 8)
    check_all(summary)
    combined = summary["ram"]["combined"]
    assert combined["high_bytes"] >= 200 * MB
    if combined["gap_s"] < 0.2:  # memory allocated and released unseen may have existed all at once
        # Of the memory that its faults brought since the fork, it may have kept as much as it has
        # in addition to the shared pages.
        tight(combined, 505 * MB)
    between(summary["ram"]["descendants"]["peak_bytes"], 149, 210)


@pytest.mark.parametrize("cgroup", CGROUPS)
def test_a_daemonised_grandchild_stays_in_the_job(run, workload, cgroup):
    summary = run(workload, "daemon", options=[cgroup])
    check_all(summary)
    # A user has no exit record of the child in between: each of its faults may have mapped a folio
    # of a file.
    for name, high_mb in (("descendants", 206), ("combined", 210)):
        holds(summary["ram"][name], 200, high_mb, is_tight=run.rights == "root")
        tight(summary["ram"][name], 2 * high_mb * MB)
    between(summary["ram"]["main"]["peak_bytes"], 0, 6)


def test_one_shared_mapping_counts_once(run, workload):
    summary = run(workload, "shared-mapping")
    check_all(summary)
    # A user has no exit records: memory of a child's last faults may have existed together with all
    # that was seen of the others.
    holds(summary["ram"]["combined"], 200, 212, is_tight=run.rights == "root")
    tight(summary["ram"]["combined"], 3 * 212 * MB)


def test_different_files_count_each(run, workload):
    summary = run(workload, "files-apart")
    check_all(summary)
    holds(summary["ram"]["combined"], 240, 252)


def test_a_file_mapped_by_one_process_is_private(run, workload):
    summary = run(workload, "file-alone")
    check_all(summary)
    holds(summary["ram"]["main"], 200, 206)
    assert summary["ram"]["main"]["private_bytes"] >= 195 * MB
    assert summary["ram"]["main"]["shared_bytes"] <= 10 * MB


@pytest.fixture
def reserved_huge_pages():
    """32 MiB more than the machine has already reserved."""
    pool = pathlib.Path("/proc/sys/vm/nr_hugepages")
    size = [line.split()[1] for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if line.startswith("Hugepagesize:")]
    if not size or not os.access(pool, os.W_OK):
        pytest.skip("no huge pages can be reserved here")
    before, more = int(pool.read_text()), (32 << 20) // (int(size[0]) << 10)
    pool.write_text(str(before + more))
    had = int(pool.read_text()) - before
    try:
        if had < more:
            pytest.skip("the machine has no 32 MiB in one piece for huge pages")
        yield
    finally:
        pool.write_text(str(int(pool.read_text()) - had))


def test_reserved_huge_pages_are_told_apart(run, workload, reserved_huge_pages):
    """The kernel keeps no high-water mark of them, so the job waits for a sample."""
    job = run.start(workload, "hugetlb")
    give_up = time.monotonic() + 60
    while not (shown := run.show()) or not shown["ram"]["hugetlb"]["peak_bytes"]:
        assert time.monotonic() < give_up
        time.sleep(0.1)
    job.stdin.close()
    summary = run.finish(job)
    assert summary["ram"]["hugetlb"] == {"peak_bytes": 32 << 20, "method": "sampled"}
    between(summary["ram"]["combined"]["peak_bytes"], 0, 6)
    assert run.show()["ram"]["hugetlb"] == summary["ram"]["hugetlb"]


@pytest.mark.parametrize("cgroup", CGROUPS)
@scored_as_root
def test_processor_time_of_300_short_children_is_counted(run, workload, cgroup):
    summary = run(workload, "short-children", 300, 10, options=[cgroup])
    used = summary["time"]["user_s"] + summary["time"]["system_s"]
    assert 2.95 <= used <= 4.5, used


def test_children_of_a_parent_that_ignores_sigchld(run, workload):
    summary = run(workload, "ignored-children")
    used = summary["time"]["user_s"] + summary["time"]["system_s"]
    if used < 0.95:  # then it is a lower bound, and must be reported as one
        assert any(note["about"].startswith("time") for note in summary["notes"]), summary["notes"]


def test_the_helper_that_reads_gpus_is_none_of_the_jobs(run):
    """Without a GPU it ends at once; on a busy machine before the recorder continues."""
    busy = ("trap '' CHLD; for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "
            "(i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done) & done; sleep 0.5")
    for _ in range(8):
        summary = run("/bin/sh", "-c", busy)
        assert not [p for p in summary["processes"]["list"] if p["name"].startswith("hiwater")]


def test_a_shell_with_a_large_child_is_small_itself(run, workload):
    summary = run("/bin/sh", "-c", f"{workload} hold 300 600; true")
    check_all(summary)
    between(summary["ram"]["main"]["peak_bytes"], 0, 6)
    holds(summary["ram"]["descendants"], 300, 310)
    holds(summary["ram"]["combined"], 300, 315)


def test_a_child_that_no_look_saw_counts(run, workload):
    summary = run("/bin/sh", "-c", f"{workload} hold 400 5; true", options=["-i", "10s"])
    check_all(summary)
    between(summary["ram"]["combined"]["peak_bytes"], 400, 412)
    high = summary["ram"]["descendants"]["high_bytes"]  # without exit records their number is unknown
    assert high is None or high >= 400 * MB


@pytest.mark.parametrize("waits", [[], ["wait"]], ids=["never", "late"])
@pytest.mark.parametrize("options, n, size", [([], 4, 15), ([], 20, 2), (["-i", "1s"], 4, 100)])
@scored_as_root
def test_children_that_ended_before_a_look_are_within_the_bounds(run, workload, options, n, size, waits):
    """All use theirs at one instant. A sample finds a part of them, or none."""
    summary = run(workload, "all-at-once", n, size, *waits, options=options)
    check_all(summary)
    for name in ("descendants", "combined"):
        figure = summary["ram"][name]
        assert figure["high_bytes"] is None or figure["high_bytes"] >= n * size * MB, figure
        assert figure["method"] != "exact" and figure["peak_bytes"] != 0, figure


@pytest.mark.parametrize("options", [[], ["-i", "1s"]], ids=["often", "seldom"])
@scored_as_root
def test_few_faults_of_children_that_no_look_saw_bring_huge_pages(run, workload, options):
    summary = run(workload, "huge-at-once", options=options)
    check_all(summary)
    for name in ("descendants", "combined"):
        high = summary["ram"][name]["high_bytes"]
        assert high is None or high >= 400 * MB, summary["ram"][name]


@pytest.mark.parametrize("how", ["end", "exec", "give-back", "file", "huge"])
@pytest.mark.parametrize("options", [[], ["-i", "1s"]], ids=["often", "seldom"])
@scored_as_root
def test_what_lets_go_as_another_comes_was_there_beside_it(run, workload, how, options):
    """They existed together between two samples, or one after the other: the bound must allow for
    both."""
    summary = run(workload, "gives-way", how, options=options)
    check_all(summary)
    combined = summary["ram"]["combined"]
    high = combined["high_bytes"]
    assert run.rights == "user" or high is not None
    # Memory of a program before the first or after the last sample is visible to a user by its
    # faults only.
    most = 345 if run.rights == "root" else 460
    assert high is None or high >= 300 * MB, combined
    tight(combined, most * MB, or_none=True)
    between(combined["peak_bytes"], 149, 320)


def test_what_main_did_after_the_last_look_is_its_own(run):
    """It has waited for a child, so its rusage includes that of the child."""
    summary = run("/bin/sh", "-c", "(exit 0); i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done", options=["-i", "10s"])
    cpu = sum(summary["time"][key] for key in ("user_s", "system_s"))
    assert max(p["cpu_s"] or 0 for p in summary["processes"]["list"]) >= 0.8 * cpu - 0.03, summary["processes"]


@pytest.mark.parametrize("how", ["end", "exec"])
@pytest.mark.parametrize("options", [[], ["-i", "30ms"], ["-i", "1s"]])
@scored_as_root
def test_a_burst_whose_mark_nobody_reads_is_within_the_bounds(run, workload, how, options):
    """Exit records have the mark of the last program only, and main's ru_maxrss is its own. Marks
    are exact only to a few pages."""
    summary = run(workload, "unread-mark", how, options=options)
    check_all(summary)
    for name, least in (("combined", 320), ("descendants", 120)):
        figure = summary["ram"][name]
        assert figure["high_bytes"] is None or figure["high_bytes"] >= 0.98 * least * MB, figure
        tight(figure, (least + 260) * MB, or_none=True)
    between(summary["ram"]["main"]["peak_bytes"], 200, 206)


@pytest.mark.parametrize("options", [[], ["-i", "1s"]], ids=["often", "seldom"])
@scored_as_root
def test_a_file_that_an_unseen_program_maps_by_few_faults_counts(run, workload, options):
    summary = run(workload, "file-by-exec", options=options)
    check_all(summary)
    for name, least in (("combined", 250), ("descendants", 150)):
        figure = summary["ram"][name]
        assert figure["high_bytes"] is None or figure["high_bytes"] >= least * MB, figure
    if run.rights == "root":
        combined = summary["ram"]["combined"]
        tight(combined, 290 * MB)
        between(combined["peak_bytes"], 245, 262)


def test_forks_that_come_and_go_bring_what_their_faults_brought(run, workload):
    """All run between two samples, the first ones: that they ran one after the other is unknown,
    but each used little."""
    summary = run(workload, "forks-in-turn", 30, options=["-i", "10s"])
    combined = summary["ram"]["combined"]
    between(combined["peak_bytes"], 100, 112)
    if run.rights == "root":
        tight(combined, 400 * MB)


def test_children_of_the_first_moment_are_counted(run):
    """They may end before hiwater's first sample; the kernel's exit records report them."""
    for _ in range(20):
        summary = run("/bin/sh", "-c", "(exit 1); (exit 1); (exit 1); (exit 1); exec sleep 0.05")
        seen = summary["processes"]["seen"]
        assert seen == 5 if run.rights == "root" else 1 <= seen <= 5
        assert seen == 5 or summary["processes"]["seen_at_least"]


def test_io_counts_once(run, tmp_path):
    """A child writes, its parent waits for it: the kernel adds the child's count to the parent's,
    hiwater must not."""
    code = f"dd if=/dev/zero of={tmp_path}/f bs=1M count=64 conv=fsync 2>/dev/null; sleep 0.3; sleep 1.2; true"
    summary = run("/bin/sh", "-c", code)
    between(summary["io"]["write_bytes"], 64, 90)


def test_io_of_a_short_job_is_known(run, tmp_path):
    summary = run("/bin/dd", "if=/dev/zero", f"of={tmp_path}/g", "bs=1M", "count=32", "conv=fsync", "status=none")
    between(summary["io"]["write_bytes"], 33, 40)


def test_a_program_that_ends_at_once_has_a_peak(run):
    summary = run("/bin/true")
    check_all(summary)
    main = summary["ram"]["main"]
    assert main["peak_bytes"] is not None and main["peak_bytes"] > 0
    assert main["high_bytes"] <= 8 * MB
