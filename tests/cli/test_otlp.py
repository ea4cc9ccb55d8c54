# SPDX-License-Identifier: MIT
"""hiwater export --to otlp and hiwater run --otlp. The judges: opentelemetry-proto, the recording (SQL), and a receiver that is
slow, full, or dead."""
import gzip
import os
import pathlib
import re
import socket
import sys
import time

import pytest
from cli_helpers import DEADLINE, HIWATER, Tool, wait_for
from gpu_jobs import asked, finish, start
from otlp_receiver import Receiver, metrics, parsed, points, resource, value
from trace_data import rows_of

if not (pathlib.Path(HIWATER).parent / "hiwater-otlp").exists():
    pytest.skip("built without libcurl", allow_module_level=True)

SECRET = "s3cr3t-of-the-header"
JOB = """
import os, socket, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("\\0" + os.environ["HIWATER_SOCKET"][1:])
data = bytearray(100 << 20)
for loss in ("4", "nan", "0.5"):
    s.send(f"log loss={loss}".encode())
    time.sleep(0.6)
"""


def receiving(*answers):
    receiver = Receiver(*answers)
    yield receiver
    receiver.close()


@pytest.fixture
def receiver():
    yield from receiving()


@pytest.fixture
def answering(request):
    yield from receiving(*request.param)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("otlp"))
    done = tool.run("run", "--summary", "none", "-n", "study", "-o", "run.hiw", "--", sys.executable, "-c", JOB)
    assert done.returncode == 0, done.stderr
    yield tool, tool.folder / "run.hiw"
    tool.end_all()


def sent(tool, path, receiver, *args, status=0, env=None):
    done = tool.run("export", path, "--to", "otlp", "--endpoint", receiver.url, *args, env=env)
    assert done.returncode == status, done.stderr
    return done


# ---- the body ----

def test_a_body_is_what_the_recording_has(made, tmp_path):
    tool, path = made
    file = tmp_path / "run.json"
    assert tool.run("export", path, "--to", "otlp", "-o", file).returncode == 0
    message = parsed(file.read_text())
    found = metrics(message)
    facts = dict(rows_of(path, "select key, value from meta"))
    started = facts["started_wall_ns"]
    stored = rows_of(path, "select t + span, ram, ram_max, cpu_user from job_sample order by t")
    ram = points(found["process.memory.usage"])
    assert [(p.time_unix_nano, value(p)) for _, p in ram] == [(started + t, ram) for t, ram, *_ in stored]
    assert found["process.memory.usage"].unit == "By" and not found["process.memory.usage"].sum.is_monotonic
    most = [value(p) for a, p in points(found["hiwater.run.memory_max"]) if a["kind"] == "combined"]
    assert most == [high for *_, high, _ in stored] and max(most) > 100 << 20
    cpu = found["process.cpu.time"]
    assert cpu.sum.is_monotonic and cpu.sum.aggregation_temporality == 2 and cpu.unit == "s"
    user = [p for a, p in points(cpu) if a["cpu.mode"] == "user"]
    assert [value(p) for p in user] == [pytest.approx(c / 1e9) for *_, c in stored if c is not None]
    assert {p.start_time_unix_nano for p in user} == {started}
    loss = [str(value(p)) for a, p in points(found["hiwater.series"])]
    assert loss == ["4.0", "nan", "0.5"]
    of = resource(message)
    assert of["service.name"] == "hiwater" and of["hiwater.run.id"] == of["service.instance.id"] == facts["id"]
    assert of["hiwater.run.name"] == "study" and of["process.pid"] == facts["main_pid"] and of["process.command_line"]


def test_counters_of_the_machine_begin_with_the_run(made, tmp_path):
    tool, path = made
    file = tmp_path / "run.json"
    assert tool.run("export", path, "--to", "otlp", "-o", file).returncode == 0
    modes = {}
    for attributes, point in points(metrics(parsed(file.read_text()))["system.cpu.time"]):
        modes.setdefault(attributes["cpu.mode"], []).append(value(point))
    assert set(modes) >= {"user", "system", "idle"}
    for values in modes.values():
        assert values[0] == 0 and values == sorted(values) and values[-1] < 100, "not since boot"


def test_integers_are_strings_and_names_are_well_formed(made, tmp_path):
    tool, path = made
    file = tmp_path / "run.json"
    assert tool.run("export", path, "--to", "otlp", "-o", file).returncode == 0
    text = file.read_text()
    assert text.count("\n") == 1 and not re.search(r'"(asInt|timeUnixNano|startTimeUnixNano|intValue)":\d', text)
    for name, metric in metrics(parsed(text)).items():
        assert re.fullmatch(r"(process|system|hw|hiwater)(\.[a-z][a-z0-9_]*)+", name), name
        assert metric.unit in ("By", "s", "1", "J", "W", "Cel", "Hz", "", "{count}", "{thread}", "{fault}", "{context_switch}",
                               "{error}"), name
        assert metric.description
        assert metric.HasField("sum") or metric.HasField("gauge")


def test_gzip_makes_it_about_as_small_as_protobuf(made, tmp_path):
    tool, path = made
    file = tmp_path / "run.json"
    assert tool.run("export", path, "--to", "otlp", "-o", file).returncode == 0
    text = file.read_bytes()
    assert len(gzip.compress(text)) <= 2 * len(gzip.compress(parsed(text).SerializeToString()))


def test_redact(made, tmp_path):
    tool, path = made
    file = tmp_path / "run.json"
    assert tool.run("export", path, "--to", "otlp", "--redact", "-o", file).returncode == 0
    assert not {"host.name", "process.owner", "process.command_line"} & set(resource(parsed(file.read_text())))


def test_gpus(gpu, tmp_path):
    hiwater = start(gpu, "-o", "run.hiw")
    wait_for(lambda: asked(gpu, "select count(distinct id) from gpu_sample where mem is not null and energy is not null") == 2,
             "values of both GPUs are recorded")
    finish(gpu, hiwater)
    file = tmp_path / "run.json"
    assert gpu.run("export", "run.hiw", "--to", "otlp", "-o", file).returncode == 0
    found = metrics(parsed(file.read_text()))
    used = points(found["hw.gpu.memory.usage"])
    uuids = {uuid for uuid, in rows_of(gpu.folder / "run.hiw", "select uuid from gpu")}
    assert {a["hw.id"] for a, _ in used} == uuids and all(a["hw.type"] == "gpu" and a["hw.vendor"] == "nvidia" for a, _ in used)
    assert {a["uuid"] for a, _ in points(found["hiwater.gpu.memory"])} == uuids, "own names have the labels of OpenMetrics"
    assert {"hw.gpu.utilization", "hw.power", "hw.energy", "hw.temperature"} <= set(found)
    assert all(value(p) == 0 or p.time_unix_nano > p.start_time_unix_nano for _, p in points(found["hw.energy"]))


def test_gpus_of_a_run_that_is_sent_while_it_runs(gpu, receiver):
    gpu.env["OTEL_METRIC_EXPORT_INTERVAL"] = "300"
    hiwater = start(gpu, "-o", "run.hiw", f"--otlp={receiver.url}")
    wait_for(lambda: any("hw.gpu.memory.usage" in metrics(r.message) for r in receiver.requests), "a value of a GPU")
    finish(gpu, hiwater)
    uuids = {uuid for uuid, in rows_of(gpu.folder / "run.hiw", "select uuid from gpu")}
    seen = [a["hw.id"] for r in receiver.requests for a, _ in points(metrics(r.message).get("hw.gpu.memory.usage"))]
    assert set(seen) == uuids, "up to the last window"


# ---- a finished run is sent ----

def test_the_request(made, receiver):
    tool, path = made
    tool_env = {"OTEL_EXPORTER_OTLP_HEADERS": f"x-key={SECRET}, x-other=a%20b"}
    done = sent(tool, path, receiver, env=tool_env)
    request, = receiver.requests
    assert request.path == "/v1/metrics" and request.headers["Content-Type"] == "application/json"
    assert request.headers["Content-Encoding"] == "gzip" and request.headers["x-key"] == SECRET and request.headers["x-other"] == "a b"
    assert metrics(request.message) and done.stdout == done.stderr == ""


@pytest.mark.parametrize("env, path", [
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": "{}"}, "/v1/metrics"),
    ({"OTEL_EXPORTER_OTLP_ENDPOINT": "{}/base/"}, "/base/v1/metrics"),
    ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "{}/as/is", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, "/as/is"),
    ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "{}"}, "/"),
])
def test_endpoints_of_the_environment(made, receiver, env, path):
    tool, recording = made
    env = {name: text.format(receiver.url) for name, text in env.items()}
    done = tool.run("export", recording, "--to", "otlp", env=env)
    assert done.returncode == 0, done.stderr
    assert [r.path for r in receiver.requests] == [path]


def test_an_option_may_name_the_path(made, receiver):
    tool, path = made
    done = tool.run("export", path, "--to", "otlp", "--endpoint", f"{receiver.url}/api/v1/otlp/v1/metrics",
                    env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    assert done.returncode == 0 and [r.path for r in receiver.requests] == ["/api/v1/otlp/v1/metrics"]


def test_other_variables(made, receiver):
    tool, path = made
    sent(tool, path, receiver, env={
        "OTEL_EXPORTER_OTLP_COMPRESSION": "none", "OTEL_SERVICE_NAME": "lab", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=ignored,deployment=a%2Cb,host.name=given"})
    request, = receiver.requests
    of = resource(request.message)
    assert "Content-Encoding" not in request.headers
    assert of["service.name"] == "lab" and of["deployment"] == "a,b" and of["host.name"] == "given"
    done = sent(tool, path, receiver, env={"OTEL_SDK_DISABLED": "true"})
    assert len(receiver.requests) == 1 and "OTEL_SDK_DISABLED" in done.stderr


@pytest.mark.parametrize("args, env, words", [
    (["--endpoint", "http://example.org"], {}, ("not encrypted", "--otlp-insecure")),
    (["--endpoint", "http://127.0.0.1.example.org"], {}, ("--otlp-insecure",)),
    (["--endpoint", "ftp://localhost"], {}, ("http://",)),
    (["--endpoint", "http://user:pass@localhost"], {}, ("OTEL_EXPORTER_OTLP_HEADERS",)),
    ([], {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ("http/json", "grpc")),
    ([], {"OTEL_EXPORTER_OTLP_HEADERS": SECRET}, ("OTEL_EXPORTER_OTLP_HEADERS",)),
    ([], {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, ("OTEL_EXPORTER_OTLP_TIMEOUT",)),
])
def test_what_is_wrong_is_said(made, args, env, words):
    tool, path = made
    done = tool.run("export", path, "--to", "otlp", *args, env=env)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert all(word in done.stderr for word in words) and SECRET not in done.stderr and "user:pass" not in done.stderr


@pytest.mark.parametrize("answering", [[(429, {"Retry-After": "1"}, {}), (503, {}, {})]], indirect=True)
def test_it_is_repeated_until_it_is_accepted(made, answering):
    tool, path = made
    began = time.monotonic()
    sent(tool, path, answering)
    assert len(answering.requests) == 3 and len({r.raw for r in answering.requests}) == 1
    assert time.monotonic() - began >= 1, "Retry-After"


@pytest.mark.parametrize("answering", [[(400, {}, {})]], indirect=True)
def test_what_is_refused_is_not_repeated(made, answering):
    tool, path = made
    done = sent(tool, path, answering, status=1)
    assert len(answering.requests) == 1 and "400" in done.stderr


@pytest.mark.parametrize("answering", [[(200, {}, {"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too \u0007old"}})]],
                         indirect=True)
def test_a_partial_success_is_not_repeated(made, answering):
    tool, path = made
    done = sent(tool, path, answering, status=1)
    assert len(answering.requests) == 1
    assert re.search(r"rejected 3 of \d+ values: too .*old", done.stderr) and "\a" not in done.stderr


@pytest.mark.parametrize("answering", [[(302, {"Location": "http://127.0.0.1:1/"}, {})]], indirect=True)
def test_redirects_are_not_followed(made, answering):
    tool, path = made
    assert "302" in sent(tool, path, answering, status=1, env={"OTEL_EXPORTER_OTLP_HEADERS": f"a={SECRET}"}).stderr


def test_no_proxy_for_loopback(made, receiver):
    tool, path = made
    sent(tool, path, receiver, env={"http_proxy": "http://127.0.0.1:1", "all_proxy": "http://127.0.0.1:1"})
    assert len(receiver.requests) == 1


# ---- while the job runs ----

def run(tool, receiver, *args, env=None, job="sleep 1.5"):
    return tool.run("run", "--summary", "none", "-o", "run.hiw", f"--otlp={receiver.url}", *args, "--", "sh", "-c", job,
                    env={"OTEL_METRIC_EXPORT_INTERVAL": "300", **(env or {})})


def test_a_run_is_sent_while_it_runs(tool, receiver):
    process = tool.start("run", "--summary", "none", "-o", "run.hiw", f"--otlp={receiver.url}", "--", "cat",
                         stdin=-1, env={**tool.env, "OTEL_METRIC_EXPORT_INTERVAL": "300"})
    wait_for(lambda: len(receiver.requests) > 1, "requests come while the job runs")
    assert process.poll() is None
    process.stdin.close()
    process.stdin = None
    assert process.wait(DEADLINE) == 0 and process.stderr.read() == b""
    stored = rows_of(tool.folder / "run.hiw", "select t + span, cpu_user from job_sample order by t")
    started = rows_of(tool.folder / "run.hiw", "select value from meta where key = 'started_wall_ns'")[0][0]
    times = [p.time_unix_nano for r in receiver.requests for _, p in points(metrics(r.message).get("process.memory.usage"))]
    assert times == sorted(set(times)) and times[-1] == started + stored[-1][0], "up to the last window, each once"
    ids = {resource(r.message)["service.instance.id"] for r in receiver.requests}
    assert len(ids) == 1


@pytest.mark.parametrize("answering", [["hang"] * 9], indirect=True)
def test_a_receiver_that_hangs_delays_nothing(tool, answering):
    process = tool.start("run", "--summary", "none", "-o", "run.hiw", f"--otlp={answering.url}", "--", sys.executable, "-c",
                         "import sys, time; sys.stdin.readline(); print(time.monotonic(), flush=True)",
                         stdin=-1, env={**tool.env, "OTEL_METRIC_EXPORT_INTERVAL": "100"}, text=True)
    wait_for(lambda: answering.requests, "a request waits for its answer")
    process.stdin.write("\n")
    process.stdin.flush()
    ended = float(process.stdout.readline())
    assert process.wait(DEADLINE) == 0
    assert time.monotonic() - ended < 3, "one second, and no more"
    text = process.stderr.read()
    assert re.search(r"warning: --otlp: \d+ of \d+ values were not sent to http://127.0.0.1:\d+/v1/metrics: the receiver does not answer", text)
    gaps = rows_of(tool.folder / "run.hiw", "select value from meta where key = 'late_samples'")
    assert gaps


def test_no_receiver_is_a_warning(tool):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        process = tool.start("run", "--summary", "none", "-o", "run.hiw", f"--otlp=http://127.0.0.1:{taken.getsockname()[1]}", "--",
                             "sh", "-c", "read line; exit 7", stdin=-1, text=True,
                             env={**tool.env, "OTEL_METRIC_EXPORT_INTERVAL": "200"})
        assert "hiwater continues to try" in process.stderr.readline(), "at once"
        process.stdin.close()
        process.stdin = None
        assert process.wait(DEADLINE) == 7 and "values were not sent" in process.stderr.read()


def test_secrets_stay_secret(tool, receiver):
    env = {**tool.env, "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={SECRET}", "OTEL_METRIC_EXPORT_INTERVAL": "100"}
    process = tool.start("run", "-o", "run.hiw", f"--otlp={receiver.url}", "--", "cat", stdin=-1, env=env)
    wait_for(lambda: receiver.requests, "a request")
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                assert SECRET.encode() not in (entry / "cmdline").read_bytes()
            except OSError:
                pass
    process.stdin.close()
    process.stdin = None
    assert process.wait(DEADLINE) == 0
    assert SECRET.encode() not in process.stderr.read() + process.stdout.read()
    for file in tool.folder.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()
    assert all(r.headers["x-key"] == SECRET for r in receiver.requests)


def test_the_sender_is_not_part_of_the_job(tool, receiver):
    assert run(tool, receiver).returncode == 0
    names = {name for name, in rows_of(tool.folder / "run.hiw", "select name from process")}
    assert not any("otlp" in name for name in names)


def test_wait_does_not_wait_for_the_sender(tool, receiver):
    began = time.monotonic()
    assert run(tool, receiver, "--wait", job="sleep 1.5 & exit 3").returncode == 3
    assert time.monotonic() - began > 1.4 and receiver.requests


def test_runs_that_are_repeated_are_each_sent(tool, receiver):
    done = tool.run("run", "--summary", "none", "--repeat", "2", f"--otlp={receiver.url}", "--", "sleep", "1.2")
    assert done.returncode == 0, done.stderr
    assert len({resource(r.message)["hiwater.run.id"] for r in receiver.requests}) == 2


def test_a_run_without_a_recording_is_said(tool, receiver):
    done = tool.run("run", "--summary", "none", f"--otlp={receiver.url}", "--", "true")
    assert done.returncode == 0 and ("too short" in done.stderr) == (not receiver.requests)


def test_no_process_is_left(tool, receiver):
    process = tool.start("run", "--summary", "none", "-o", "run.hiw", f"--otlp={receiver.url}", "--", "sleep", "600",
                         env={**tool.env, "OTEL_METRIC_EXPORT_INTERVAL": "100"})
    wait_for(lambda: receiver.requests, "a request")
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()  # the recorder alone
    names = {pid: pathlib.Path(f"/proc/{pid}/comm") for pid in children}
    sender = [pid for pid, file in names.items() if file.exists() and file.read_text().startswith("hiwater-otlp")]
    job = [int(pid) for pid, file in names.items() if file.exists() and file.read_text().strip() == "sleep"]
    try:
        for pid in sender:
            wait_for(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in pathlib.Path(f"/proc/{pid}/stat").read_text().split(")")[1],
                     "the sender ends with the recorder")
    finally:
        for pid in job:
            os.kill(pid, 9)


@pytest.mark.parametrize("option, env, status, words", [
    ("--otlp=http://example.org", {}, 125, "--otlp-insecure"),
    ("--otlp", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, 0, "nothing is sent"),
    ("--otlp", {"OTEL_SDK_DISABLED": "TRUE"}, 0, "OTEL_SDK_DISABLED"),
])
def test_settings_of_run(tool, option, env, status, words):
    done = tool.run("run", "--summary", "none", option, "--", "true", env=env)
    assert done.returncode == status and words in done.stderr


def test_an_address_without_an_equals_sign(tool):
    done = tool.run("run", "--otlp", "http://localhost:4318", "--", "true")
    assert done.returncode == 125 and "--otlp=URL" in done.stderr
