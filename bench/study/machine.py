# SPDX-License-Identifier: MIT
"""The machine on which the study ran, as the page describes it."""
import datetime
import os
import pathlib
import platform
import subprocess


def field(path, name):
    for line in pathlib.Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.split(":", 1)[1].strip()
    return "unknown"


def describe(size, hiwater, workloads):
    version = subprocess.run([hiwater, "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0].strip()
    return {"size": size, "date": datetime.date.today().isoformat(), "cpu": field("/proc/cpuinfo", "model name"), "cpus": os.cpu_count(),
            "memory_bytes": int(field("/proc/meminfo", "MemTotal").split()[0]) * 1024, "kernel": platform.release(),
            "python": platform.python_version(), "hiwater": version, "gpu": "none",
            "workloads": {workload.name: workload.size for workload in workloads}}
