# SPDX-License-Identifier: MIT
"""grafana/*.json and rules/*.yml. The judges: the vocabulary (metric.def), promql-parser, promtool, and a Prometheus that has a recorded
job. Grafana itself is not at hand: what it needs of a dashboard is checked here one by one."""
import itertools
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import promql_parser
import pytest
from cli_helpers import DEADLINE, HIWATER, ROOT
from trace_data import rows_of

DASHBOARDS = ("job", "node", "fleet")
RULES = ROOT / "rules" / "hiwater.rules.yml"
PANELS = {"row", "stat", "timeseries", "table", "text"}  # all part of Grafana itself
MACROS = {"__rate_interval": "1m", "__interval": "1s", "__range": "1h"}
# of hiwater serve, or made by kind of entity
OTHERS = {"hiwater_run_info", "hiwater_gpu_info", "hiwater_source_up", "hiwater_series"}
UNITS = {"BYTES": "_bytes", "NS": "_seconds", "COUNT": "", "PPM": "_ratio", "UJ": "_joules", "UW": "_watts", "MCEL": "_celsius",
         "HZ": "_hertz"}


def load(name):
    return json.loads((ROOT / "grafana" / f"{name}.json").read_text())


def panels(dashboard):
    return [p for panel in dashboard["panels"] for p in (panel, *panel.get("panels", []))]


def queries(dashboard):
    return [(panel, target) for panel in panels(dashboard) for target in panel.get("targets", [])]


def variables(dashboard):
    return {v["name"]: v for v in dashboard["templating"]["list"]}


def substituted(expr, values):
    text = re.sub(r"\$(\w+)", lambda m: MACROS.get(m[1]) or values[m[1]], expr)
    assert "$" not in text, text
    return text


def families():
    """The series that metric.def declares."""
    known = set(OTHERS)
    for line in (ROOT / "src" / "model" / "metric.def").read_text().splitlines():
        if not line.startswith("X("):
            continue
        fields = [f.strip() for f in line[2:].split(",")]
        unit, kind, om = UNITS[fields[3]], fields[4], re.search(r'"(hiwater_\w+)"', line)[1]
        unit = unit if om.endswith(unit) else ""
        known.add(om + ("_total" if kind == "COUNTER" else ""))
        if kind == "GAUGE":
            known.add(om.removesuffix(unit) + "_max" + unit)
    return known


def names_in(expr):
    return set(re.findall(r"\bhiwater_\w+", expr))


# ---- the files ----

def test_they_are_what_the_tool_writes():
    done = subprocess.run([sys.executable, ROOT / "tools" / "make-dashboards", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", DASHBOARDS)
def test_what_grafana_needs(name):
    dashboard = load(name)
    assert dashboard["uid"] == f"hiwater-{name}" and dashboard["title"] and not dashboard.get("id")
    assert dashboard["schemaVersion"] >= 36
    every = panels(dashboard)
    ids = [p["id"] for p in every]
    assert len(ids) == len(set(ids)) and all(isinstance(i, int) and i > 0 for i in ids)
    for panel in every:
        assert panel["type"] in PANELS and panel["title"]
        assert not isinstance(panel.get("options"), (list, str)) and panel.get("options", {}) is not None
        where = panel["gridPos"]
        assert 0 <= where["x"] and where["x"] + where["w"] <= 24 and where["w"] > 0 and where["h"] > 0
        assert bool(panel.get("targets")) == (panel["type"] not in ("row", "text"))
        references = [t["refId"] for t in panel.get("targets", [])]
        assert len(references) == len(set(references))
        for thing in (panel, *panel.get("targets", [])):
            assert panel["type"] in ("row", "text") or thing["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for a, b in itertools.combinations([p["gridPos"] for p in every], 2):
        assert a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"] or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
    assert [p for p in every if p["type"] == "text" and "obtained" in p["title"]], "each page states how its figures are obtained"


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_variable_is_defined_and_used(name):
    dashboard = load(name)
    defined = variables(dashboard)
    assert defined["datasource"]["type"] == "datasource" and defined["datasource"]["query"] == "prometheus"
    texts = [t["expr"] for _, t in queries(dashboard)]
    texts += [v["query"]["query"] for v in defined.values() if v["type"] == "query"]
    used = {word for text in texts for word in re.findall(r"\$(\w+)", text)} - set(MACROS)
    assert used == set(defined) - {"datasource"}
    for variable in defined.values():
        if variable["type"] == "query":
            assert variable["datasource"]["uid"] == "${datasource}" and variable["allValue"] == ".*" and variable["includeAll"]
            metric, = names_in(variable["query"]["query"])
            assert metric in families()


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_query_is_promql_about_series_that_exist(name):
    dashboard, known = load(name), families()
    for panel, target in queries(dashboard):
        promql_parser.parse(substituted(target["expr"], dict.fromkeys(variables(dashboard), ".*")))
        assert names_in(target["expr"]) and names_in(target["expr"]) <= known, panel["title"]


def test_a_link_leads_to_a_dashboard_that_exists():
    linked = re.findall(r"/d/([\w-]+)", json.dumps(load("fleet")))
    assert linked and {load(name)["uid"] for name in DASHBOARDS} >= set(linked)


# ---- the rules ----

def test_rules_are_about_series_that_exist():
    text = re.sub(r"#.*", "", RULES.read_text())
    made = set(re.findall(r"\bhiwater:[\w:]+", text)) - set(re.findall(r"record: '?(hiwater:[\w:]+)", text))
    assert not made, "used but not recorded"
    assert {n for n in names_in(text) if n not in ("hiwater_gpus", "hiwater_runs", "hiwater_nodes", "hiwater_alerts",
                                                   "hiwater_dcgm")} <= families()


@pytest.mark.full
def test_promtool_accepts_the_rules_and_their_tests_pass():
    for command in (["check", "rules", RULES], ["test", "rules", RULES.with_name("hiwater.rules.test.yml")]):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


# ---- a Prometheus ----

JOB = """
import os, socket, subprocess, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("\\0" + os.environ["HIWATER_SOCKET"][1:])
child = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for name, pid in ("main", os.getpid()), ("child", child.pid):
    open(name + ".new", "w").write(str(pid))
    os.rename(name + ".new", name)
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    s.send(b"log loss=0.5")
    sum(range(100000))
    with open("written", "wb") as f:
        f.write(bytes(1 << 16))
        os.fsync(f.fileno())
    time.sleep(0.1)
child.kill()
child.wait()
"""


def asked(prom, path, **parameters):
    with urllib.request.urlopen(f"{prom}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=DEADLINE) as answer:
        reply = json.load(answer)
    assert reply["status"] == "success", reply
    return reply["data"]["result"]


def has_values(results):
    return any(not math.isnan(float(v)) for r in results for _, v in (r.get("values") or [r["value"]]))


# These run below prom-loopback, which sets PROM.

def unanswered(started, ended):
    """The queries without a value."""
    empty = []
    for name in DASHBOARDS:
        dashboard = load(name)
        for panel, target in queries(dashboard):
            expr = substituted(target["expr"], dict.fromkeys(variables(dashboard), ".*"))
            if target.get("instant"):
                results = asked(os.environ["PROM"], "query", query=expr, time=ended)
            else:
                results = asked(os.environ["PROM"], "query_range", query=expr, start=started, end=ended, step=1)
            if not has_values(results):
                empty.append(f"{name}: {panel['title']}: {expr}")
    return empty


def answer_all(started, ended):
    empty = unanswered(started, ended)
    print("\n".join(empty))
    return 1 if empty else 0


def answer_soon():
    """Of a job that runs; series of users are not served."""
    until = time.monotonic() + DEADLINE
    while True:
        empty = [e for e in unanswered(time.time() - 60, time.time()) if "hiwater_series" not in e]
        if not empty or time.monotonic() > until:
            print("\n".join(empty))
            return 1 if empty else 0
        time.sleep(0.5)


@pytest.mark.full
def test_a_prometheus_with_a_recorded_job_answers_each_query(gpu, tmp_path):
    done = gpu.run("run", "--summary", "none", "-n", "study", "-o", "run.hiw", "--", sys.executable, "-c", JOB, "6")
    assert done.returncode == 0, done.stderr
    started, = rows_of(gpu.folder / "run.hiw", "select value from meta where key = 'started_wall_ns'")[0]
    last, = rows_of(gpu.folder / "run.hiw", "select max(t + span) from job_sample")[0]
    begin, end = started // 10**9, (started + last) // 10**9
    text = gpu.run("export", "run.hiw", "--to", "openmetrics")
    assert text.returncode == 0
    # what only hiwater serve has
    served = "".join(f'hiwater_source_up{{source="host"}} 1 {t}\n' for t in range(begin, end + 1))
    file = tmp_path / "run.om"
    file.write_text(text.stdout.replace("# EOF\n", f"# TYPE hiwater_source_up gauge\n{served}# EOF\n"))
    done = subprocess.run([ROOT / "tools" / "prom-loopback", "--backfill", file, "--", sys.executable, __file__, str(begin), str(end)],
                          capture_output=True, text=True, timeout=4 * DEADLINE, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, f"empty:\n{done.stdout}{done.stderr}"


@pytest.mark.full
def test_a_prometheus_that_scrapes_a_server_answers_each_query(gpu, tmp_path):
    if not (pathlib.Path(HIWATER).parent / "hiwater-serve").exists():
        pytest.skip("built without hiwater-serve")
    token = tmp_path / "token"
    token.write_text("a-token-of-the-test")
    token.chmod(0o600)
    server = gpu.start("serve", "--listen", "127.0.0.1:0", "--token-file", token, "--jobs", "all", text=True)
    target = re.search(r"127\.0\.0\.1:\d+", server.stderr.readline())[0]
    gpu.start("run", "--summary", "none", "-n", "study", "--", sys.executable, "-c", JOB, "100")
    done = subprocess.run([ROOT / "tools" / "prom-loopback", "--token-file", token, target, "--", sys.executable, __file__],
                          capture_output=True, text=True, timeout=4 * DEADLINE, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        assert done.returncode == 0, f"empty:\n{done.stdout}{done.stderr}"
    finally:
        for name in ("main", "child"):
            os.kill(int((gpu.folder / name).read_text()), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(answer_all(int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 1 else answer_soon())
