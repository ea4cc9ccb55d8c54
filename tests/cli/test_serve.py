# SPDX-License-Identifier: MIT
"""hiwater serve and run --listen. The judges: curl, promtool, a Prometheus, prometheus_client's strict parser, the fake driver, and what
an export of the same run holds."""
import gzip
import http.client
import json
import os
import shutil
import ssl
import signal
import socket
import subprocess
import sys
import urllib.parse

import pytest
from cli_helpers import DEADLINE, HIWATER, ROOT, as_nobody, wait_for
from gpu_jobs import CARD, add
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from serve_client import NEEDS, Client, Server, samples
from stress_jobs import BUILD

pytestmark = NEEDS
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
JOB = [sys.executable, "-c", "import sys; x = bytearray(80 << 20); print('up', flush=True); sys.stdin.readline()"]


def start_job(tool, *options, job=JOB, **env):
    run = tool.start("run", *options, "--", *job, stdin=subprocess.PIPE, env=dict(tool.env, **env))
    return run


def end_job(run):
    run.stdin.close()
    run.stdin = None
    assert run.wait(DEADLINE) == 0


def runs_of(client, name, **headers):
    return [j for j in client.json("/v1/jobs", **headers)["jobs"] if j["name"] == name]


# ---- /metrics ----

def test_both_formats_say_the_same_and_a_strict_parser_reads_them(gpu):
    run = start_job(gpu, "-n", "scraped", job=["sh", "-c", "read x; true"])
    server = Server(gpu)
    wait_for(lambda: "hiwater_gpu_sm_active_ratio" in server.client.text(), "GPUs were read")
    wait_for(lambda: runs_of(server.client, "scraped"), "the run is known")
    _, headers, body = server.client.ask("/metrics", Accept=OPENMETRICS)
    assert headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = {f.name: f for f in text_string_to_metric_families(body.decode())}
    assert families["hiwater_node_memory_used_bytes"].unit == "bytes" and body.endswith(b"# EOF\n")
    assert families["hiwater_run_cpu_seconds"].type == "counter" and families["hiwater_gpu"].type == "info"
    _, headers, old = server.client.ask("/metrics", Accept="text/plain")
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8" and b"# UNIT" not in old
    assert samples(old.decode()).keys() == samples(body.decode()).keys()
    for (name, labels) in samples(old.decode()):
        keys = {k for k, _ in labels}
        assert not name.startswith("hiwater_run_") or name == "hiwater_run_info" or keys <= {"run", "kind", "mode", "direction", "layer"}
        assert not keys & {"job", "instance", "pid"}
    end_job(run)


def test_gzip_is_for_those_that_ask(tool):
    server = Server(tool)
    _, headers, body = server.client.ask("/metrics", Accept_Encoding="gzip;q=0.5, br")
    assert headers["Content-Encoding"] == "gzip" and b"hiwater_node_memory_used_bytes" in gzip.decompress(body)
    for refused in "identity", "gzip;q=0", "br":
        _, headers, body = server.client.ask("/metrics", Accept_Encoding=refused)
        assert "Content-Encoding" not in headers and b"hiwater_node_memory_used_bytes" in body


def test_a_scraped_run_and_its_export_have_the_same_series(gpu):
    """Names and labels, of the run's own endpoint; of the node's, those of the run."""
    run = start_job(gpu, "-n", "twice", "-o", "run.hiw", "--listen", f"unix:{gpu.folder}/job.sock")
    server, own = Server(gpu), Client(gpu.folder / "job.sock")
    wait_for(own.is_ready, "the job's endpoint is ready")
    wait_for(lambda: "hiwater_gpu_sm_active_ratio" in own.text(), "it has GPUs")
    run_id = wait_for(lambda: runs_of(server.client, "twice"), "the run is known")[0]["id"]
    of_job, of_node = samples(own.text()), samples(server.client.text())
    end_job(run)
    assert not (gpu.folder / "job.sock").exists(), "the endpoint ends with the job"
    exported = samples(gpu.run("export", "run.hiw", "--to", "openmetrics").stdout)
    info = dict(next(labels for name, labels in exported if name == "hiwater_run_info"))
    live = dict(next(labels for name, labels in of_job if name == "hiwater_run_info"))
    assert live == dict(info, command="", user="", host="")
    has = {k for k in exported if k[0] != "hiwater_run_info"}
    described = {"hiwater_run_info", "hiwater_build_info"}
    assert {k for k in of_job if k[0] not in described} <= has
    ours = {k for k in of_node if ("run", run_id) in k[1] and k[0] not in described}
    assert len(ours) > 30 and ours <= has
    assert not [k for k in of_node if k[0].startswith("hiwater_node_") and k[1] & {("run", run_id)}], "once a node"
    assert not [k for k in of_node if k[0].startswith("hiwater_gpu_") and ("run", run_id) in k[1] and ("kind", "job") not in k[1]]
    memory = next(v for k, v in of_job.items() if k[0] == "hiwater_run_memory_bytes" and ("kind", "combined") in k[1])
    assert memory > 80 << 20


def test_a_run_that_has_ended_is_left_out(tool):
    run, server = start_job(tool, "-n", "ends"), Server(tool)
    found = wait_for(lambda: runs_of(server.client, "ends"), "the run is known")[0]
    assert found["ram_bytes"] > 80 << 20 and found["pid"]
    assert server.client.json(f"/v1/jobs/{found['id']}?window=1m")["job"]["window"]["ram_bytes"]["max"] > 80 << 20
    end_job(run)
    wait_for(lambda: not runs_of(server.client, "ends"), "it is gone")
    assert found["id"] not in server.client.text()
    assert server.client.ask(f"/v1/jobs/{found['id']}")[0] == 404


@pytest.mark.full
def test_promtool_finds_nothing_wrong(gpu):
    if not shutil.which("promtool"):
        pytest.skip("no promtool")
    run, server = start_job(gpu, "-n", "checked"), Server(gpu)
    wait_for(lambda: runs_of(server.client, "checked") and "hiwater_gpu_sm" in server.client.text(), "all is known")
    done = subprocess.run(["promtool", "check", "metrics"], input=server.client.text(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    end_job(run)


@pytest.mark.full
def test_a_prometheus_scrapes_it_and_joins(tool):
    """With the token in a file, as docs/serve.md has it."""
    if not shutil.which("prometheus"):
        pytest.skip("no prometheus")
    token = tool.folder / "token"
    token.write_text("0123456789abcdef0123456789abcdef\n")
    token.chmod(0o600)
    run = start_job(tool, "-n", "joined")
    server = Server(tool, "--listen", "127.0.0.1:0", "--token-file", token)
    wait_for(lambda: runs_of(server.client, "joined"), "the run is known")
    target = server.tcp()[0].where
    query = 'hiwater_run_memory_bytes{kind="combined"} * on(run) group_left(name) hiwater_run_info{name="joined"}'
    ask = f"curl -sf $PROM/api/v1/query --data-urlencode 'query={query}'"
    done = subprocess.run([ROOT / "tools" / "prom-loopback", "--token-file", token, target, "--", "sh", "-c", ask],
                          capture_output=True, text=True, timeout=4 * DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)["data"]["result"]
    assert [r["metric"]["name"] for r in result] == ["joined"] and float(result[0]["value"][1]) > 80 << 20
    end_job(run)


# ---- JSON ----

def test_now_and_health(tool):
    server = Server(tool, "--window", "30s")
    now = wait_for(lambda: (n := server.client.json("/v1/now?window=20s"))["host"]["cpus_used"] is not None and n, "CPUs are known")
    assert 0 < now["host"]["ram_used_bytes"] < now["host"]["ram_total_bytes"]
    window = now["host"]["window"]["ram_used_bytes"]
    assert window["min"] <= window["mean"] <= window["max"] and window["min"] <= window["p95"] <= window["max"]
    health = server.client.json("/-/healthy")
    assert health["sources"]["host"]["up"] and health["sources"]["host"]["age_s"] < 5
    assert server.client.ask("/v1/now?window=31s")[0] == 400
    assert server.client.ask("/v1/now?window=never")[0] == 400
    later = wait_for(lambda: (n := server.client.json("/v1/now"))["generation"] > now["generation"] and n, "it goes on")
    assert later["at"] >= now["at"]


# ---- room ----

def fake(tool, *gpus):
    """A driver with these H100s; each is lines of a scenario."""
    tool.scenario = tool.folder / "gpu.conf"
    tool.scenario.write_text("[driver]\nlevel = 550\n" + "".join(f"[gpu {i}]\ninclude = {CARD}\n{g}\n" for i, g in enumerate(gpus)))
    tool.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"), HIWATER_FAKE_NVML=str(tool.scenario))


def room(server, **wish):
    return server.client.json("/v1/room?" + urllib.parse.urlencode(wish))["gpus"]


ONE_SM, BUSY, FULL_MEMORY, NO_GPM = ("util = 100\ngpm 2 = 0.757\ngpm 3 = 1\ngpm 10 = 2", "util = 100\ngpm 2 = 95\ngpm 3 = 40\ngpm 10 = 30",
                                     "memory_used = 75Gi\ngpm 2 = 5", "util = 0\n" + "".join(f"gpm {m} = absent\n" for m in (2, 3, 10)))
BANDWIDTH, OCCUPIED, SUSPECT = ("util = 50\ngpm 2 = 40\ngpm 10 = 97", "util = 50\ngpm 2 = 40\ngpm 3 = 95",
                                "util = 100\ngpm 2 = 0\ngpm 3 = 0\ngpm 10 = 0\npower = 420000")


def test_room_is_judged_by_what_is_used_not_by_utilisation(tool):
    fake(tool, ONE_SM, BUSY, FULL_MEMORY, NO_GPM, BANDWIDTH, OCCUPIED, SUSPECT)
    server = Server(tool)
    wait_for(lambda: [g for g in room(server) if g["sm_active"]] and len(room(server)) == 7, "the GPUs were read")
    wait_for(lambda: room(server)[6]["fits"] is None, "the suspect's utilisation was read")
    answer = room(server, gpu_memory="8GiB", sm=0.3)
    assert [g["fits"] for g in answer] == [True, False, False, None, False, False, None], [g["reason"] for g in answer]
    assert "0.950" in answer[1]["reason"] and "memory" in answer[2]["reason"] and "utilisation alone" in answer[3]["reason"]
    assert "bandwidth" in answer[4]["reason"] and "warps" in answer[5]["reason"]
    assert "suspect" in answer[6]["reason"] and "420 W" in answer[6]["reason"]
    assert room(server, gpu_memory="2GiB")[2]["fits"], "it is small enough"
    assert [g["fits"] for g in room(server, ram="900TiB")] == [False] * 7
    assert all("CPUs" in g["reason"] for g in room(server, cpus=100000) if g["fits"] is False and "CPUs" in g["reason"])
    now = server.client.json("/v1/now")
    assert now["at"] - answer[0]["at"] < 30


@pytest.mark.parametrize("query", ["gpu_memroy=8GiB", "gpu_memory=much", "sm=-1", "sm=nan", "sm=", "cpus=-1", "window=1d", "ram"])
def test_a_question_that_is_not_understood_is_no_answer(tool, query):
    server = Server(tool, "--gpu", "none", "--jobs", "none")
    status, _, body = server.client.ask("/v1/room?" + query)
    assert status == 400 and json.loads(body)["error"]


def test_a_hung_driver_hangs_nothing(gpu):
    """The driver never answers again: the server does, and says that it does not know."""
    add(gpu, "[call nvmlDeviceGetMemoryInfo*]\nfrom = 2\nhang = 1\n")
    calls = gpu.folder / "calls"
    gpu.env["HIWATER_FAKE_LOG"] = str(calls)
    server = Server(gpu, "--jobs", "none")
    wait_for(lambda: [g for g in room(server) if g["fits"] is not None], "GPUs were read")
    wait_for(lambda: 'hiwater_source_up{source="nvml"} 0' in server.client.text(), "the driver is missed")
    before = calls.read_text()
    text = server.client.text()
    assert "hiwater_gpu_memory_bytes" not in text and "hiwater_node_memory_used_bytes" in text
    answer = room(server, gpu_memory="1GiB")
    assert [g["fits"] for g in answer] == [None, None] and "does not answer" in answer[0]["reason"]
    assert server.client.json("/-/healthy")["sources"]["nvml"]["up"] is False
    assert calls.read_text().count("nvmlInit") <= before.count("nvmlInit") + 1, "no request calls a driver"


def test_groups(tool):
    fake(tool, ONE_SM, BUSY)
    uuids = [f"GPU-80000000-0000-4000-8000-00000000000{i}" for i in (0, 1)]
    server = Server(tool, "--group", f"train={uuids[1]}", "--group", f"both-of-none={'x'}")
    wait_for(lambda: room(server), "the GPUs were read")
    assert [g["group"] for g in server.client.json("/v1/gpus")["gpus"]] == [None, "train"]
    groups = wait_for(lambda: (g := server.client.json("/v1/gpus")["groups"])["train"]["power_w"] and g, "power was read")
    assert groups["train"]["power_w"] == 70 and groups["train"]["memory_total_bytes"] == 81559 << 20
    assert groups["both-of-none"]["power_w"] is None
    info = [dict(labels) for name, labels in samples(server.client.text()) if name == "hiwater_gpu_info"]
    assert {i["uuid"]: i.get("group") for i in info} == {uuids[0]: None, uuids[1]: "train"}


# ---- requests that are refused ----

def test_what_is_refused(tool):
    server = Server(tool, "--listen", "127.0.0.1:0", "--jobs", "none", "--host-name", "node7.example")
    client, = server.tcp()
    port = client.where.rpartition(":")[2]
    for method in "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT":
        status, headers, _ = client.ask("/v1/now", method)
        assert status in (405, 400) and "Access-Control-Allow-Origin" not in headers, method
    assert client.ask("/v1/now", "HEAD")[0] == 200 and client.ask("/v1/now", "HEAD")[2] == b""
    for host, status in {"evil.example": 421, "127.0.0.1:1": 421, f"127.0.0.1:{port}": 200, "localhost": 200, "node7.example": 200,
                         "127.0.0.2": 421, "": 421}.items():
        assert client.ask("/v1/now", Host=host)[0] == status, host
    for first, second, status in ("localhost", "evil.example", 421), ("evil.example", "localhost", 421), ("localhost", "localhost", 200):
        with socket.create_connection(("127.0.0.1", int(port)), DEADLINE) as raw:
            raw.sendall(f"GET /v1/now HTTP/1.1\r\nHost: {first}\r\nHost: {second}\r\nConnection: close\r\n\r\n".encode())
            assert raw.makefile("rb").readline().split()[1] == str(status).encode(), (first, second)
    assert client.ask("/v1/now", Origin="http://evil.example")[1]["Access-Control-Allow-Origin"] is None
    assert client.ask("/v1/now", Authorization="Bearer guess")[0] == 401
    assert client.ask("/" + "a" * 5000)[0] == 414
    assert client.ask("/v1/../../etc/passwd")[0] == 404 and client.ask("/v1/now", "GET", Content_Length="5")[0] == 413
    try:
        assert client.ask("/metrics", X="a" * 1000000)[0] == 431
    except OSError:
        pass  # it was closed while we wrote
    assert client.is_ready()


def test_five_hundred_connections_are_too_many_and_do_no_harm(tool):
    server = Server(tool, "--listen", "127.0.0.1:0", "--jobs", "none")
    client, = server.tcp()
    host, port = client.where.split(":")
    kept = [socket.create_connection((host, int(port)), DEADLINE) for _ in range(500)]
    for s in kept:
        s.setblocking(False)
    wait_for(lambda: sum(is_closed(s) for s in kept) >= 500 - 128, "those that are too many are closed")
    for s in kept:
        s.close()
    wait_for(client.is_ready, "it answers again")
    assert server.process.poll() is None


def is_closed(s):
    try:
        return s.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


# ---- who may see what ----

def write_token(tool, mode=0o600, text="correct-horse-battery\n"):
    token = tool.folder / "token"
    token.write_text(text)
    token.chmod(mode)
    return token


def test_a_token_shows_all_and_none_shows_totals(tool):
    run = start_job(tool, "-n", "secret-name")
    server = Server(tool, "--listen", "127.0.0.1:0", "--token-file", write_token(tool))
    client, = server.tcp()
    right = {"Authorization": "Bearer correct-horse-battery"}
    found = wait_for(lambda: runs_of(client, "secret-name", **right), "the run is known")[0]
    assert client.json("/v1/jobs")["jobs"] == [] and client.json("/v1/now")["jobs"] == 0
    assert client.ask(f"/v1/jobs/{found['id']}")[0] == 404 and "hiwater_run_" not in client.text()
    assert "hiwater_node_memory_used_bytes" in client.text() and found["id"] in client.text(**right)
    for wrong in "Bearer correct-horse-batterz", "Bearer ", "Basic Y29ycmVjdA==", "Bearer correct-horse-battery2", "Bearer correct-horse-batter":
        assert client.ask("/metrics", Authorization=wrong)[0] == 401
    end_job(run)


@pytest.mark.parametrize("options, says", [
    (["--listen", "0.0.0.0:0"], "--token-file"),
    (["--listen", ":0"], "other machines"),
    (["--listen", "127.0.0.1"], "ADDRESS:PORT"),
    (["--listen", "example.com:80"], "not an address"),
    (["--listen", "127.0.0.1:0", "--token-file", "open"], "chmod 600"),
    (["--listen", "127.0.0.1:0", "--token-file", "short"], "no token"),
    (["--listen", "127.0.0.1:0", "--tls-cert", "x"], "together"),
    (["--listen", "127.0.0.1:0", "--admins", "no-such-user-here"], "no user"),
    (["--listen", "0.0.0.0:0", "--token-file", "good"], "--tls-cert"),
    (["--listen", "127.0.0.1:0", "--group", "x"], "NAME=UUID"),
    (["--listen", "127.0.0.1:0", "--textfile", "nowhere"], "folder"),
])
def test_what_it_does_not_start_with(tool, options, says):
    for name, mode, text in ("open", 0o644, "correct-horse"), ("short", 0o600, "x"), ("good", 0o600, "correct-horse"):
        (tool.folder / name).write_text(text)
        (tool.folder / name).chmod(mode)
    done = tool.run("serve", "--gpu", "none", *options)
    assert done.returncode in (1, 2) and says in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_tls(tool):
    if not shutil.which("openssl"):
        pytest.skip("no openssl")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], cwd=tool.folder, capture_output=True, check=True)
    server = Server(tool, "--listen", "127.0.0.1:0", "--jobs", "none", "--token-file", write_token(tool), "--tls-cert", "cert.pem",
                    "--tls-key", "key.pem")
    where = server.errors.read_text().rpartition("https://")[2].strip()
    trust = ssl.create_default_context(cafile=tool.folder / "cert.pem")
    client = Client(where, lambda: http.client.HTTPSConnection(where, context=trust, timeout=DEADLINE))
    assert client.json("/v1/now", Authorization="Bearer correct-horse-battery")["host"]["cpus"] > 0
    plain = Client(where)
    with pytest.raises((OSError, http.client.HTTPException)):
        plain.ask("/v1/now")
    assert server.client.is_ready()


def test_another_user_sees_totals_alone(tool):
    """As nobody, at root's socket and TCP: nothing of root's run in any byte; its own run in full."""
    nobody = as_nobody(tool.folder)
    run = start_job(tool, "-n", "hush-hush", job=[sys.executable, "-c", "import sys; 'covert'; sys.stdin.readline()"])
    (tool.folder / "theirs").mkdir(mode=0o777)
    (tool.folder / "theirs").chmod(0o777)
    theirs = subprocess.Popen([*nobody, HIWATER, "run", "-n", "their-own", "--", "sh", "-c", "read x; true"], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=dict(tool.env, HIWATER_DIR=str(tool.folder / "theirs"), LOGNAME="nobody"))
    tool.started.append(theirs)
    server = Server(tool, "--listen", "127.0.0.1:0")
    mine = wait_for(lambda: runs_of(server.client, "hush-hush"), "root's run is known")[0]
    wait_for(lambda: runs_of(server.client, "their-own"), "root sees the other's run")
    assert server.path.stat().st_mode & 0o777 == 0o666
    paths = ["/metrics", "/v1/now?window=1m", "/v1/gpus", "/v1/jobs", f"/v1/jobs/{mine['id']}", "/v1/jobs/hush-hush", "/v1/room", "/-/healthy", "/x"]
    seen = ""
    for path in paths:
        for where in (["--unix-socket", str(server.path), f"http://localhost{path}"], [f"http://{server.tcp()[0].where}{path}"]):
            done = subprocess.run([*nobody, "curl", "-s", "-i", "-g", *where], capture_output=True, text=True, check=True, timeout=DEADLINE)
            seen += done.stdout
    for secret in "hush-hush", "covert", mine["id"], f'"pid":{mine["pid"]}', '"uid":0', '"user":"0"', "root":
        assert secret not in seen, secret
    assert '"name":"their-own"' in seen and "hiwater_node_memory_used_bytes" in seen and "ram_used_by_others_bytes" in seen
    end_job(run)
    theirs.stdin.close()
    theirs.stdin = None
    theirs.wait(DEADLINE)


def test_an_admin_sees_all(tool):
    nobody = as_nobody(tool.folder)
    run = start_job(tool, "-n", "watched")
    server = Server(tool, "--admins", "nobody")
    wait_for(lambda: runs_of(server.client, "watched"), "the run is known")
    done = subprocess.run([*nobody, "curl", "-s", "--unix-socket", server.path, "http://localhost/v1/jobs"], capture_output=True, text=True,
                          check=True, timeout=DEADLINE)
    assert "watched" in done.stdout
    end_job(run)


# ---- files ----

def test_textfile_and_sd_file(tool):
    (tool.folder / "text").mkdir()
    server = Server(tool, "--textfile", "text", "--sd-file", "targets.json", "--listen", "127.0.0.1:0", "--jobs", "none")
    file = tool.folder / "text" / "hiwater.prom"
    wait_for(file.exists, "the file is written")
    assert "hiwater_node_memory_used_bytes" in file.read_text() and file.stat().st_mode & 0o777 == 0o644
    targets, = json.loads((tool.folder / "targets.json").read_text())
    assert targets["targets"] == [server.tcp()[0].where]
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(DEADLINE) == 0
    assert not file.exists() and not (tool.folder / "targets.json").exists() and not server.path.exists()


def test_a_socket_that_was_left_is_replaced_and_one_in_use_is_not(tool):
    first = Server(tool, "--jobs", "none", "--gpu", "none")
    done = tool.run("serve", "--listen", f"unix:{first.path}")
    assert done.returncode == 1 and "another server" in done.stderr
    first.process.kill()
    first.process.wait(DEADLINE)
    assert first.path.exists()
    assert Server(tool, "--jobs", "none", "--gpu", "none").client.is_ready()


# ---- run --listen ----

def test_an_endpoint_of_one_job(tool):
    run = start_job(tool, "-n", "served", "--listen", f"unix:{tool.folder}/one.sock")
    client = Client(tool.folder / "one.sock")
    wait_for(client.is_ready, "the endpoint is ready")
    assert [j["name"] for j in client.json("/v1/jobs")["jobs"]] == ["served"]
    assert (tool.folder / "one.sock").stat().st_mode & 0o777 == 0o600
    assert client.ask("/v1/room")[0] == 404
    end_job(run)
    assert not (tool.folder / "one.sock").exists()
    assert json.loads(tool.run("show", "--json", "last").stdout)["processes"]["seen"] == 1, "the endpoint is no process of the job"


def test_a_job_does_not_wait_for_its_endpoint(tool):
    """It is stopped: it cannot end by itself."""
    run = start_job(tool, "--listen", f"unix:{tool.folder}/stuck.sock")
    wait_for(Client(tool.folder / "stuck.sock").is_ready, "the endpoint is ready")
    child = int(subprocess.run(["pgrep", "-P", str(run.pid), "-f", "hiwater-serve"], capture_output=True, text=True, check=True).stdout)
    os.kill(child, signal.SIGSTOP)
    end_job(run)


@pytest.mark.parametrize("options", [["--listen", "0.0.0.0:0"], ["--listen", "unix:/x", "--no-record"], ["--token-file", "x"]])
def test_a_listen_that_cannot_be(tool, options):
    assert tool.run("run", *options, "--", "true").returncode == 125


def test_the_example_puts_two_jobs_on_one_gpu(tool):
    """There is room for two on the first, and none on the second; the book keeps a third away."""
    fake(tool, ONE_SM, BUSY)
    server = Server(tool, "--jobs", "none")
    wait_for(lambda: [g for g in room(server) if g["fits"]], "the GPUs were read")

    def collocate(sm):
        return subprocess.run([sys.executable, ROOT / "examples" / "collocate.py", server.path, str(8 << 30), str(sm), "sh", "-c",
                               "echo $CUDA_VISIBLE_DEVICES"], capture_output=True, text=True, timeout=DEADLINE, check=False)
    done = collocate(0.4)
    assert done.returncode == 0 and done.stdout.count("job ") == 2, done.stderr
    assert "000000000001" not in done.stdout and done.stdout.count("000000000000") == 4
    done = collocate(0.6)
    assert done.returncode == 1 and done.stdout.count("job ") == 1 and "no room" in done.stderr


# ---- what lies in a history ----

def test_a_history_of_hostile_files_does_no_harm(tool):
    """Each looks as if it grew. The run among them is shown, and nothing hangs."""
    tool.history.mkdir()
    for number, content in (90, b"\0" * 4096), (91, b"SQLite format 3\0" + os.urandom(8192)), (92, b""):
        (tool.history / f"{number}.hiw").write_bytes(content)
    os.mkfifo(tool.history / "93.hiw")
    (tool.history / "94.hiw").symlink_to("/etc/shadow")
    (tool.history / "95.hiw").mkdir()
    (tool.history / "96.hiw").symlink_to("/dev/zero")
    for number in range(90, 97):
        (tool.history / f"{number}.hiw-wal").write_bytes(b"x" * 100)
    run = start_job(tool, "-n", "among-them")
    server = Server(tool)
    assert wait_for(lambda: runs_of(server.client, "among-them"), "the run is known")
    assert "root:" not in server.client.text() and server.process.poll() is None
    end_job(run)


@pytest.mark.parametrize("environ", [{}, {"XDG_RUNTIME_DIR": "run"}])
def test_the_default_of_a_user_is_a_socket_of_their_own(tool, environ):
    nobody = as_nobody(tool.folder)
    (tool.folder / "run").mkdir()
    (tool.folder / "run").chmod(0o777)
    env = dict(tool.env, HIWATER_DIR=str(tool.folder / "none"), **{k: str(tool.folder / v) for k, v in environ.items()})
    if not environ:
        env.pop("XDG_RUNTIME_DIR", None)
        done = subprocess.run([*nobody, HIWATER, "serve", "--gpu", "none"], env=env, capture_output=True, text=True, check=False,
                              timeout=DEADLINE)
        assert done.returncode == 1 and "XDG_RUNTIME_DIR" in done.stderr
        return
    tool.started.append(subprocess.Popen([*nobody, HIWATER, "serve", "--gpu", "none"], env=env, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE))
    path = tool.folder / "run" / "hiwater" / "serve.sock"
    wait_for(lambda: path.exists() and Client(path).is_ready(), "it is ready")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700 and path.stat().st_uid == 65534
