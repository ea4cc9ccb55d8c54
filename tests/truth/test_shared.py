# SPDX-License-Identifier: MIT
"""Memory that several processes share, or that one maps twice, counts once: in the estimate, in
both bounds and against a limit.

Each test compares with the mappings of workload.c. The jobs wait until hiwater has sampled them,
also on a busy machine."""
import os
import shutil
import tempfile

import pytest
import truth_jobs
from conftest import ROOT_BY_SCOREBOARD
from truth_jobs import MIB, WAYS, Job

pytestmark = pytest.mark.timeout(300)
LIMIT_TIMES = 4
LIMIT_ENDED = 124  # the exit status if --limit ended the job


@pytest.fixture(scope="module")
def bench():
    """A separate folder: pytest restricts the rights of its own folder at each start."""
    with tempfile.TemporaryDirectory(prefix="hiwater-shared-") as folder:
        yield truth_jobs.Bench(folder, os.environ.get("HIWATER", truth_jobs.HERE.parents[1] / "build" / "hiwater"))


@pytest.fixture(params=["root", "user"])
def rights(request):
    if request.param == "user" and os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed: cannot become another user")
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("not root: no exit records here")
    return request.param


scored_as_root = pytest.mark.parametrize("rights", ROOT_BY_SCOREBOARD, indirect=True)


@pytest.fixture(params=["quiet", pytest.param("busy", marks=pytest.mark.full)])
def load(request):
    """Busy loops would disturb other tests that run at the same time."""
    with truth_jobs.load(2 if request.param == "busy" else 0):
        yield request.param


def shared(way, mib, n):
    return Job(f"{way} {mib}x{n}", ["{workload}", "share", way, str(mib), str(n)], mib * MIB, n + 1)


def twice(mib, n):
    return Job(f"twice {mib}x{n + 1}", ["{workload}", "twice", "memfd", str(mib), str(n)], mib * MIB, n + 1)


def attached(job):
    job.attach = True
    return job


def check_counts_once(summary):
    combined, truth = summary["ram"]["combined"], summary["truth"]
    assert combined["peak_bytes"] <= 1.1 * truth["bytes"], combined
    assert combined["high_bytes"] is None or truth["least"] <= combined["high_bytes"] <= truth_jobs.memory_total(), combined
    assert combined["low_bytes"] is None or combined["low_bytes"] <= truth["most"], combined
    known = [combined[key] for key in ("low_bytes", "peak_bytes", "high_bytes") if combined[key] is not None]
    assert known == sorted(known), combined
    assert combined["method"] != "exact" or truth["least"] <= combined["peak_bytes"] <= truth["most"], combined
    # At rest the pages exist for over a second, in which a pass can count them.
    assert combined["peak_bytes"] >= 0.9 * truth["bytes"], combined


def check_limit(bench, job, rights, *options):
    """The job stays far below a limit of four times its use."""
    limit = f"ram = {LIMIT_TIMES * job.bytes // MIB}MiB"
    summary = bench.measure(job, rights, options=[*options, "--limit", limit])
    assert summary["status"] != LIMIT_ENDED and summary["exit"]["code"] != LIMIT_ENDED, summary["ram"]["combined"]
    assert summary["status"] == 0
    check_counts_once(summary)


@pytest.mark.parametrize("way", WAYS)
@scored_as_root
def test_a_mapping_in_nine_processes_counts_once(bench, rights, load, way):
    check_limit(bench, shared(way, 512, 8), rights)


@pytest.mark.parametrize("way", WAYS)
@scored_as_root
def test_a_mapping_in_nine_processes_counts_once_with_pss(bench, rights, way):
    check_limit(bench, shared(way, 512, 8), rights, "--pss")


@pytest.mark.parametrize("mib, n, options", [(1200, 2, []), pytest.param(1800, 4, ["--pss"], marks=pytest.mark.full), (1800, 4, [])],
                         ids=["1200x2", "1800x4-pss", "1800x4"])
@scored_as_root
def test_a_large_mapping_counts_once(bench, rights, mib, n, options):
    """PSS of processes over 1.5 GiB is read only with --pss."""
    check_limit(bench, shared("anon", mib, n), rights, *options)


@pytest.mark.parametrize("pss", [[], ["--pss"]], ids=["", "pss"])
@pytest.mark.parametrize("way", WAYS)
@scored_as_root
def test_a_mapping_that_was_there_before_hiwater_counts_once(bench, rights, way, pss):
    check_counts_once(bench.measure(attached(shared(way, 512, 8)), rights, options=pss))


@scored_as_root
def test_attached_to_large_mappings(bench, rights):
    check_counts_once(bench.measure(attached(shared("anon", 1800, 4)), rights, options=["--pss"]))


@pytest.mark.parametrize("children", [0, 4])
def test_pages_that_one_process_maps_twice_count_once(bench, rights, load, children):
    """Its resident size and the kernel's high-water mark are twice its memory."""
    check_limit(bench, twice(400, children), rights)


@pytest.mark.parametrize("children", [0, 4])
def test_attached_to_a_process_that_maps_pages_twice(bench, rights, children):
    check_counts_once(bench.measure(attached(twice(400, children)), rights))


@scored_as_root
def test_nothing_is_larger_than_the_machine(bench, rights):
    """The sum of the resident sizes exceeds the memory of the machine; the shared memory is at most
    an eighth of it."""
    total = truth_jobs.memory_total()
    mib = min(2048, total // MIB // 8)
    summary = bench.measure(shared("anon", mib, total // (mib * MIB) + 2), rights)
    high = summary["ram"]["combined"]["high_bytes"]
    assert high is None or high <= total, summary["ram"]["combined"]
    assert summary["ram"]["combined"]["peak_bytes"] <= total
