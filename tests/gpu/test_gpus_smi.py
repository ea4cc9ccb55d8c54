# SPDX-License-Identifier: MIT
"""hiwater gpus in nvidia-smi's place: its fields and spelling, which GPUs, how often."""
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest
from fake_gpu import Fake
from gpus_command import HIWATER, NO_GPU, as_json, run


def test_a_script_for_nvidia_smi(cards):
    """Headers, units and spelling as scripts parse them."""
    fake = cards("550")
    out = run(fake, "--query-gpu=index,gpu_name,memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw,clocks.sm,"
              "clocks_throttle_reasons.active,compute_mode,persistence_mode,pstate,fan.speed", "--format=csv").stdout.splitlines()
    assert out[0] == ("index, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%], temperature.gpu, power.draw [W], "
                      "clocks.current.sm [MHz], clocks_event_reasons.active, compute_mode, persistence_mode, pstate, fan.speed [%]")
    assert out[1] == ("0, NVIDIA H100 80GB HBM3, 81559 MiB, 4342 MiB, 92 %, 70, 70.00 W, 345 MHz, 0x0000000000000001, Default, "
                      "Enabled, P0, 33 %")
    assert run(fake, "--query-gpu", "memory.used", "--format=csv,noheader,nounits").stdout == "4342\n4\n"
    assert run(fake, "--query-gpu=memory.free,addressing_mode", "--format=csv,noheader", "-i", "1").stdout == "81016 MiB, [N/A]\n"
    apps = run(fake, "--query-compute-apps=pid,process_name,used_memory", "--format=csv").stdout.splitlines()
    assert apps[0] == "pid, process_name, used_gpu_memory [MiB]"
    assert re.fullmatch(rf"{os.getpid()}, \S+, 4321 MiB", apps[1]) and apps[2] == "4000001, [Not Found], 17 MiB"
    assert re.fullmatch(r"GPU 0: NVIDIA H100 80GB HBM3 \(UUID: GPU-80000000\S+\)", run(fake, "-L").stdout.splitlines()[0])
    assert re.match(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, ", run(fake, "--query-gpu=timestamp,uuid", "--format=csv,noheader").stdout)
    assert run(cards("450"), "--query-gpu=addressing_mode", "--format=csv,noheader", "-i", "0").stdout == "[Not Supported]\n"


@pytest.mark.parametrize("code, word", [(4, "[Insufficient Permissions]"), (999, "[Unknown Error]"), (3, "[N/A]"), (6, "[N/A]")])
def test_why_a_value_is_missing_has_nvidia_smi_s_words(cards, code, word):
    """For values, for facts requested by name, and for totals; the other card has its own."""
    calls = ("MemoryInfo*", "PowerUsage", "VbiosVersion", "PowerManagementDefaultLimit", "CurrentClocks*Reasons", "UtilizationRates", "Samples")
    fake = cards(more="".join(f"[call nvmlDeviceGet{call}]\ngpu = 1\nerror = {code}\n" for call in calls))
    fields = "memory.total,memory.used,memory.free,memory.reserved,power.draw,vbios_version,power.default_limit,clocks_event_reasons.gpu_idle,utilization.gpu"
    out = run(fake, f"--query-gpu={fields},temperature.gpu", "--format=csv,noheader").stdout.splitlines()
    assert "[" not in out[0]
    assert out[1].split(", ") == [word] * len(fields.split(",")) + ["70"]


def test_an_instance_is_listed_and_selected_as_in_nvidia_smi(tmp_path):
    """Only by its own name, and by its number in the table."""
    fake = Fake(tmp_path, "mig")
    rows = [row for row in run(fake, "-L").stdout.splitlines() if row.startswith(" ")]
    assert rows and all(re.fullmatch(r"  MIG \d\S*gb +Device  \d: \(UUID: MIG-\S+\)", row) for row in rows), rows
    uuid = re.search(r"UUID: (\S+)\)", rows[-1]).group(1)
    number = next(d for d in json.loads(run(fake, "--json").stdout)["devices"] if d["uuid"] == uuid)["number"]
    for name in (number, number.replace(".", ":")):
        assert run(fake, "-L", "-i", name).stdout == rows[-1] + "\n"
    assert run(fake, "-i", "0.77", status=NO_GPU).stdout == ""


def test_memory_that_is_the_hosts_is_not_the_gpus(tmp_path):
    """For a GB10, nvidia-smi reports no memory at all."""
    row = run(Fake(tmp_path, "gb10"), "--query-gpu=memory.total,memory.used,memory.free", "--format=csv,noheader").stdout
    assert row == "[N/A], [N/A], [N/A]\n"


@pytest.mark.parametrize("kind", ["gpu", "compute-apps"])
def test_every_field_can_be_queried(cards, kind):
    fake = cards()
    names = re.findall(r'"([\w.]+)"', run(fake, f"--help-query-{kind}").stdout)
    assert len(names) > (80 if kind == "gpu" else 8) and len(names) == len(set(names))
    header, *rows = run(fake, f"--query-{kind}={','.join(names)}").stdout.splitlines()
    assert len(header.split(", ")) == len(names) and len(rows) == 2
    assert all(len(row.split(", ")) == len(names) for row in rows)


def test_a_program_name_is_one_field_of_one_row(cards):
    """Line breaks, escapes and commas in it add neither rows nor fields, and are not sent to the terminal."""
    forged = "evil\n1, 2, 3 MiB\x1b]0;t\x07, x"
    with subprocess.Popen([forged, "-c", "import sys; sys.stdin.read()"], executable=sys.executable, stdin=subprocess.PIPE) as evil:
        rows = run(cards(), "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader", pid=evil.pid).stdout
        table = run(cards(), "--csv=processes", pid=evil.pid).stdout
        evil.stdin.close()
    assert not re.search("[\x00-\x09\x0b-\x1f]", table) and len(table.splitlines()) == 3
    assert next(csv.DictReader(table.splitlines()))["command"].startswith("evil?1, 2, 3 MiB?]0;t?, x ")
    assert rows == f"{evil.pid}, evil 1; 2; 3 MiB?]0;t?; x, 4321 MiB\n4000001, [Not Found], 17 MiB\n"


@pytest.mark.parametrize("table,column", [("--csv", "uuid"), ("--csv=processes", "gpu_uuid")])
def test_a_text_of_a_driver_is_one_field_of_a_table(cards, table, column):
    rows = list(csv.DictReader(run(cards(more='[gpu 0]\nuuid = GPU-a,"b\n'), table).stdout.splitlines()))
    assert rows[0][column] == 'GPU-a,"b' and None not in rows[0], rows


def test_a_field_that_is_none(cards):
    done = run(cards(), "--query-gpu=index,utilisation.gpu", status=2)
    assert 'Field "utilisation.gpu" is not a valid field to query.' in done.stderr and '"utilization.gpu"?' in done.stderr
    assert "noheader" in run(cards(), "--query-gpu=index", "--format=csv,nohead", status=2).stderr
    assert "csv" in run(cards(), "--query-gpu=index", "--format=noheader", status=2).stderr


@pytest.mark.parametrize("ids,numbers", [("1", [1]), ("1,0", [0, 1]), ("GPU-80000000-0000-4000-8000-000000000001", [1]),
                                         ("00000000:10:00.0", [0]), ("0000:11:00.0", [1]), ("11:00.0", [1])])
def test_which(cards, ids, numbers):
    assert [d["index"] for d in as_json(cards(), "-i", ids)["devices"]] == numbers


def test_each_five_seconds_unless_a_number_follows(cards):
    for options in (["-l"], ["-l", "-i", "0"], ["--loop"]):
        with subprocess.Popen([HIWATER, "gpus", "--query-gpu=index", "--format=csv,noheader", *options],
                              env={**os.environ, **cards().environment(time=15, pid=os.getpid())}, stdout=subprocess.PIPE, text=True) as looking:
            assert looking.stdout.readline() == "0\n"
            assert looking.poll() is None
            looking.terminate()
    assert "'x' is not a valid interval" in run(cards(), "-l", "x", status=2).stderr
    assert "-lms needs a number" in run(cards(), "-lms", status=2).stderr


@pytest.mark.parametrize("words, option, unit, wrong", [
    ("-lms=abc", "-lms", "milliseconds", "abc"), ("-lmsabc", "-lms", "milliseconds", "abc"), ("-lms abc", "-lms", "milliseconds", "abc"),
    ("-lms=0.5", "-lms", "milliseconds", "0.5"), ("--loop-ms abc", "--loop-ms", "milliseconds", "abc"), ("-labc", "-l (--loop)", "seconds", "abc"),
    ("-l abc", "-l (--loop)", "seconds", "abc"), ("--loop abc", "-l (--loop)", "seconds", "abc"), ("--loop=-1", "-l (--loop)", "seconds", "-1"),
    ("-l nan", "-l (--loop)", "seconds", "nan"), ("-l 1e9", "-l (--loop)", "seconds", "1e9")])
def test_an_interval_that_is_none_names_its_option(cards, words, option, unit, wrong):
    """As it was written, and its replacement."""
    told = run(cards(), *words.split(), status=2).stderr
    assert told.startswith(f"hiwater: {option}: '{wrong}' is not a valid interval; give a number of {unit}, ") and "such as -" in told, told


def test_of_two_intervals_the_last_one_counts(cards):
    assert "'x' is not a valid interval" in run(cards(), "--loop-ms=20", "-lx", status=2).stderr
    assert run(cards(), "-lms", "--loop-ms=x", status=2).stderr.startswith("hiwater: --loop-ms: ")


def test_a_long_command_is_whole_in_csv(cards):
    """Quoted, its characters are not cut, wherever they stand."""
    words = [sys.executable, "-c", "import sys; sys.stdin.read()", *("a" * i + ',"' + "\u00e4" * 600 for i in range(2))]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as long:
        out = run(cards(), "--csv=processes", pid=long.pid).stdout
        long.stdin.close()
    assert "\ufffd" not in out and next(csv.DictReader(io.StringIO(out)))["command"].count("\u00e4") == 1200


def test_which_is_none(cards):
    assert "no GPU 7 found" in run(cards(), "-i", "7", status=NO_GPU).stderr
    assert "--id is empty" in run(cards(), "-i", ", ", status=NO_GPU).stderr


def test_again_and_again(cards):
    """Each sample is read anew, and processes start and end."""
    fake = cards(more="[process 1]\npid = 4000002\nmemory = 1Gi\nfrom = 100\n")
    clock = pathlib.Path(fake.scenario).parent / "time"
    clock.write_text("15")
    env = {**os.environ, **fake.environment(time=f"file:{clock}", pid=os.getpid())}
    for options in (["-lms", "20"], ["--loop-ms=20"], ["-l", "0.02"], ["-l0.02"], ["--loop", "0.02"], ["--loop=0.02"]):
        clock.write_text("15")
        with subprocess.Popen([HIWATER, "gpus", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits", "-i", "1", *options],
                              env=env, stdout=subprocess.PIPE, text=True) as looking:
            assert looking.stdout.readline() == "1, 4\n"
            clock.write_text("110")
            deadline = time.monotonic() + 30
            while looking.stdout.readline() != "1, 1028\n":
                assert time.monotonic() < deadline
            looking.terminate()


@pytest.mark.parametrize("options,header", [(["--query-gpu=index", "--format=csv"], "index\n"), (["--csv"], "gpu,cuda_index,"),
                                            (["--query-compute-apps=pid", "--format=csv"], "pid\n")])
def test_a_table_that_goes_on_has_one_header(cards, options, header):
    env = {**os.environ, **cards().environment(time=15, pid=os.getpid())}
    with subprocess.Popen([HIWATER, "gpus", *options, "-lms", "20"], env=env, stdout=subprocess.PIPE, text=True) as looking:
        lines = [looking.stdout.readline() for _ in range(9)]
        looking.terminate()
    assert [line.startswith(header) for line in lines] == [True] + 8 * [False], lines
