#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""collocate.py SOCKET GPU_MEMORY SM COMMAND...: starts COMMAND twice, each on a GPU that has room for it by hiwater serve (docs/serve.md).
room reserves nothing: what was promised is kept in a book here, and asked for together with the next job."""
import collections
import http.client
import json
import os
import socket
import subprocess
import sys


def room(path, gpu_memory, sm):
    """The GPUs by UUID, with fits and the reason."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request("GET", f"/v1/room?gpu_memory={gpu_memory}&sm={sm}")
    answer = json.load(connection.getresponse())
    return {g["uuid"]: g for g in answer["gpus"]}


path, gpu_memory, sm, command = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
book, jobs = collections.Counter(), []
for _ in range(2):
    fitting = [u for u in room(path, gpu_memory, sm) if room(path, gpu_memory * (book[u] + 1), sm * (book[u] + 1))[u]["fits"]]
    if not fitting:
        sys.exit("no room: " + "; ".join(f"{u}: {g['reason']}" for u, g in room(path, gpu_memory, sm).items()))
    book[fitting[0]] += 1
    jobs.append(subprocess.Popen(command, env=dict(os.environ, CUDA_VISIBLE_DEVICES=fitting[0])))
    print(f"job {len(jobs)} on {fitting[0]}", flush=True)
sys.exit(max(job.wait() for job in jobs))
