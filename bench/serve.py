#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures hiwater serve with eight GPUs and fifty live runs, scraped each second, against prometheus-node-exporter scraped alike; how
much 10,000 scrapes add to its memory; how long /v1/room takes against /-/healthy. Prints JSON.

    bench/serve.py BUILD [SECONDS]      BUILD has hiwater, hiwater-serve and tests/fake/drivers"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS, SCRAPES, REQUESTS = 50, 10000, 2000
TICK = os.sysconf("SC_CLK_TCK")


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)

    def get(self, target):
        self.request("GET", target)
        answer = self.getresponse()
        return answer.status, answer.read()


def family(pid):
    """A process and its descendants."""
    found = [pid]
    for one in found:
        for path in pathlib.Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, path.read_text().split())
    return found


def cpu_s(pid):
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            total += sum(map(int, pathlib.Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return total / TICK


def pss(pid):
    total = 0
    for one in family(pid):
        with contextlib.suppress(OSError):
            total += int(next(l for l in pathlib.Path(f"/proc/{one}/smaps_rollup").read_text().splitlines() if l.startswith("Pss:")).split()[1])
    return total << 10


def wait_for(ready):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if ready():
                return
        time.sleep(0.05)
    raise RuntimeError("not ready after 60 s")


def scraped(pid, scrape, seconds):
    """CPU as a share of a core and memory, while it is scraped each second."""
    scrape()
    before, began = cpu_s(pid), time.monotonic()
    for n in range(seconds):
        scrape()
        time.sleep(max(0, began + n + 1 - time.monotonic()))
    return {"cpu": (cpu_s(pid) - before) / (time.monotonic() - began), "bytes": pss(pid)}


def p99(client, target):
    times = []
    for _ in range(REQUESTS):
        began = time.perf_counter()
        assert client.get(target)[0] in (200, 503)
        times.append(time.perf_counter() - began)
    return statistics.quantiles(times, n=100)[98]


def node_exporter(seconds):
    program = shutil.which("prometheus-node-exporter")
    if not program:
        return None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen([program, f"--web.listen-address={address}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def scrape():
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                return len(answer.read())
        wait_for(scrape)
        return scraped(process.pid, scrape, seconds)
    finally:
        process.terminate()
        process.wait()


def main():
    build, seconds = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 20
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "HIWATER_DIR": f"{folder}/history", "LD_LIBRARY_PATH": str(build / "tests/fake/drivers/580"),
               "HIWATER_FAKE_NVML": str(ROOT / "tests/fake/scenarios/eight.conf"), "HIWATER_FAKE_PID": "1"}
        runs = [subprocess.Popen([build / "hiwater", "run", "--gpu", "none", "-i", "1s", "--summary", "none", "--", "sleep", "100000"], env=env,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(RUNS)]
        path = f"{folder}/serve.sock"
        serve = subprocess.Popen([build / "hiwater", "serve", "--listen", f"unix:{path}", "--history", f"{folder}/history"], env=env,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: len(json.loads(Unix(path).get("/v1/jobs")[1])["jobs"]) == RUNS)
            client = Unix(path)
            time.sleep(5)  # the drivers' costs are known
            ours = scraped(serve.pid, lambda: client.get("/metrics"), seconds)
            client.get("/metrics")
            first = pss(serve.pid)
            for _ in range(SCRAPES):
                size = len(client.get("/metrics")[1])
            grown = pss(serve.pid) / first - 1
            rooms = [(p99(client, "/v1/room?gpu_memory=8GiB&sm=0.3"), p99(client, "/-/healthy")) for _ in range(3)]
        finally:
            for process in (serve, *runs):
                process.send_signal(signal.SIGTERM)
            for process in (serve, *runs):
                process.wait()
    print(json.dumps({"runs": RUNS, "scrapes": SCRAPES, "ours": ours, "exporter": node_exporter(seconds), "grown": grown, "metrics_bytes": size,
                      "room_s": [r for r, _ in rooms], "healthy_s": [h for _, h in rooms]}))


if __name__ == "__main__":
    main()
