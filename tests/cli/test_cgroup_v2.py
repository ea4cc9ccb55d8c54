# SPDX-License-Identifier: MIT
"""Jobs in cgroup v2, in a guest (tools/guest-cgroup2): guest_cgroup_v2.py runs them there, once for all
tests here."""
import json
import subprocess
import sys

import pytest
from cli_helpers import HERE, HIWATER, ROOT

pytestmark = [pytest.mark.full, pytest.mark.release, pytest.mark.timeout(1000)]

MIB = 1 << 20
MB = 1000 * 1000
LIMIT = 64 * MIB
NO_GUEST = 3  # exit status of guest-cgroup2


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guest")
    hog, workload = folder / "hog", folder / "workload"
    for folder in (hog.parent, hog.parent.parent, hog.parent.parent.parent):  # another user in the guest needs access
        folder.chmod(folder.stat().st_mode | 0o011)
    subprocess.run(["cc", "-O1", "-o", hog, HERE / "hog.c"], check=True)
    subprocess.run(["cc", "-O1", "-o", workload, ROOT / "tests" / "truth" / "workload.c"], check=True)
    done = subprocess.run([ROOT / "tools" / "guest-cgroup2", "--timeout", "900", "--", sys.executable,
                           HERE / "guest_cgroup_v2.py", HIWATER, hog, workload], capture_output=True, text=True, check=False)
    if done.returncode == NO_GUEST:
        pytest.skip(f"no guest: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def finding(result):
    return next((f for f in result["summary"]["findings"] if f["code"] == "out-of-memory"), None)


def test_what_the_kernel_charged(guest):
    result = guest["charged"]
    assert result["status"] == 3
    cgroup = result["summary"]["ram"]["cgroup"]
    assert 30 * MIB <= cgroup["peak_bytes"] <= result["mark"] <= 45 * MIB
    assert cgroup["limit_bytes"] == result["summary"]["ram"]["limit_bytes"] == LIMIT
    assert cgroup["oom_kills"] == 0
    assert finding(result) is None


def test_the_mark_of_an_earlier_job_is_not_this_ones(guest):
    result = guest["earlier_mark"]
    assert result["mark"] >= 50 * MIB
    cgroup = result["summary"]["ram"]["cgroup"]
    assert cgroup["peak_bytes"] < 45 * MIB
    assert cgroup["method"] in ("exact", "sampled")


def test_main_runs_out_of_memory(guest):
    result = guest["out_of_memory"]
    assert "\noom_kill 1\n" in result["events"]
    assert result["status"] == -9
    assert result["summary"]["exit"] == {"code": 137, "signal": 9, "oom_killed": True, "raised": None}
    cgroup = result["summary"]["ram"]["cgroup"]
    assert cgroup["oom_kills"] == 1
    assert 0.9 * LIMIT <= cgroup["peak_bytes"] <= LIMIT
    assert finding(result)["evidence"]["limit_bytes"] == LIMIT
    assert "(hog) for lack of memory" in finding(result)["message"]
    assert "out of memory, the kernel ended it" in " ".join(result["stderr"].split())
    assert result["shown"]["run"]["complete"]
    for key in ("exit", "ram", "findings", "incident"):
        assert result["shown"][key] == result["summary"][key]
    incident = result["summary"]["incident"]
    assert incident["event"].startswith("out of memory: the kernel killed hog[")
    assert incident["processes"][0]["killed"]
    assert 0.5 * LIMIT <= incident["processes"][0]["bytes"] <= incident["used_bytes"] <= 1.05 * LIMIT


def test_a_child_runs_out_of_memory(guest):
    result = guest["child_out_of_memory"]
    assert result["status"] == 4
    assert result["summary"]["exit"] == {"code": 4, "signal": None, "oom_killed": True, "raised": None}
    assert result["summary"]["ram"]["cgroup"]["oom_kills"] == 1
    child = max(result["summary"]["processes"]["list"], key=lambda p: p["peak_bytes"] or 0)
    assert finding(result)["evidence"]["victim_pid"] == child["pid"]
    assert [p["pid"] for p in result["summary"]["incident"]["processes"] if p["killed"]] == [child["pid"]]


def test_what_hiwater_recorded_until_it_was_killed_too_is_there(guest):
    result = guest["all_of_the_group"]
    assert result["status"] == -9
    assert result["summary"] is None
    assert not result["shown"]["run"]["complete"]
    assert result["shown"]["exit"]["code"] is None
    assert result["shown"]["time"]["wall_s"] >= 0.9


def test_a_kill_by_somebody_is_not_lack_of_memory(guest):
    result = guest["killed"]
    assert result["status"] == -9
    assert not result["summary"]["exit"]["oom_killed"]
    assert result["summary"]["ram"]["cgroup"]["oom_kills"] == 0
    assert finding(result) is None


def test_others_in_the_group(guest):
    result = guest["shared"]
    assert result["status"] == -9
    assert result["summary"]["ram"]["cgroup"] is None
    assert result["summary"]["ram"]["limit_bytes"] == LIMIT
    assert result["summary"]["exit"]["oom_killed"]
    assert "(hog) for lack of memory" in finding(result)["message"]


@pytest.mark.parametrize("who", ["made", "made_by_user"])
def test_a_group_is_made(guest, who):
    """hiwater's own use is not in it."""
    result = guest[who]
    assert result["status"] == 3, result["stderr"]
    cgroup = result["summary"]["ram"]["cgroup"]
    assert 30 * MIB <= cgroup["peak_bytes"] <= 40 * MIB
    assert cgroup["limit_bytes"] == LIMIT  # of the parent group
    assert cgroup["oom_kills"] == 0
    assert result["below"] == ["leaf"]


def test_a_job_in_a_group_that_was_made_runs_out_of_memory(guest):
    result = guest["made_out_of_memory"]
    assert result["status"] == -9
    assert result["summary"]["exit"]["oom_killed"]
    assert result["summary"]["ram"]["cgroup"]["oom_kills"] == 1
    assert result["below"] == ["leaf"]


@pytest.mark.parametrize("case, says", [("made_beside_a_limit", "would escape"),
                                        ("made_without_delegation", "does not delegate the memory controller")])
def test_a_group_that_cannot_be_made(guest, case, says):
    result = guest[case]
    assert result["status"] == 125
    assert result["summary"] is None
    assert result["stderr"].startswith("hiwater: --cgroup=new: ") and result["stderr"].count("\n") == 1
    assert says in result["stderr"]
    assert result["below"] == ["leaf"]


def test_no_group_is_read(guest):
    result = guest["none"]
    assert result["status"] == 3
    assert result["summary"]["ram"]["cgroup"] is None
    assert result["summary"]["ram"]["limit_bytes"] is None
    assert result["cgroup_cpu_ns"] is None


def test_cpu_time_of_the_group(guest):
    """cpu.stat includes hiwater's own time, and all of the children's."""
    result = guest["busy"]
    time = result["summary"]["time"]
    used = time["user_s"] + time["system_s"]
    assert 0.95 <= used <= 3
    # The guest's clock ticks are 10 ms; the last sample of the group may be from before the last children ended.
    assert 0.5 * used <= result["cgroup_cpu_ns"] / 1e9 <= 1.5 * used + result["summary"]["sampling"]["cpu_s"]


def test_forks_that_share_memory(guest):
    result = guest["forks"]
    assert result["status"] == 0
    combined = result["summary"]["ram"]["combined"]
    assert 300 * MB <= combined["peak_bytes"] <= 330 * MB
    assert combined["low_bytes"] <= 330 * MB and combined["high_bytes"] >= 300 * MB
    assert 300 * MB <= result["summary"]["ram"]["cgroup"]["peak_bytes"] <= 350 * MB
    assert result["summary"]["processes"]["seen"] == 9


def test_a_daemon(guest):
    result = guest["daemon"]
    assert result["status"] == 0
    assert 200 * MB <= result["summary"]["ram"]["descendants"]["peak_bytes"] <= 206 * MB
    assert 200 * MB <= result["summary"]["ram"]["cgroup"]["peak_bytes"] <= 230 * MB


def test_a_job_that_its_quota_holds_back(guest):
    result = guest["held_back"]
    if "nr_periods" not in result["stat"]:
        pytest.skip("no CPU quota in the guest: its kernel has none")
    found = next(f for f in result["summary"]["findings"] if f["code"] == "cpu-throttled")
    assert found["evidence"]["quota_cores"] == 0.2
    assert found["evidence"]["throttled_ratio"] > 0.5
