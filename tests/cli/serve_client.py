# SPDX-License-Identifier: MIT
"""What the tests of hiwater serve share: a server, and requests to it."""
import http.client
import json
import pathlib
import re
import socket

import jsonschema
import pytest
from cli_helpers import DEADLINE, HIWATER, ROOT, wait_for

PROGRAM = pathlib.Path(HIWATER).with_name("hiwater-serve")
SCHEMA = json.loads((ROOT / "docs" / "serve.schema.json").read_text())
NEEDS = pytest.mark.skipif(not PROGRAM.exists(), reason="built without libmicrohttpd")


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=DEADLINE)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """Asks the server at a unix socket's path, or at ADDRESS:PORT."""

    def __init__(self, where, connection=None):
        self.where = where
        self.connection = connection or (lambda: UnixConnection(where) if str(where).startswith("/")
                                         else http.client.HTTPConnection(where, timeout=DEADLINE))

    def ask(self, path, method="GET", **headers):
        """Status, headers, body."""
        connection = self.connection()
        try:
            connection.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def json(self, path, **headers):
        status, _, body = self.ask(path, **headers)
        assert status == 200, body
        answer = json.loads(body)
        jsonschema.validate(answer, SCHEMA)
        return answer

    def text(self, path="/metrics", **headers):
        status, _, body = self.ask(path, **headers)
        assert status == 200, body
        return body.decode()

    def is_ready(self):
        try:
            return self.ask("/-/ready")[0] == 200
        except OSError:
            return False


class Server:
    """hiwater serve at a unix socket, and at TCP addresses if there are any (--listen)."""

    def __init__(self, tool, *options, socket_name="serve.sock"):
        self.tool = tool
        self.errors = tool.folder / f"{socket_name}.err"
        self.path = tool.folder / socket_name
        self.process = tool.start("serve", "--listen", f"unix:{self.path}", *options,
                                  stderr=self.errors.open("wb"))
        self.client = Client(self.path)
        wait_for(lambda: self.client.is_ready() or self.process.poll() is not None, "the server is ready")
        assert self.process.poll() is None, self.errors.read_text()

    def tcp(self):
        return [Client(a) for a in re.findall(r"serving on http://(\S+)", self.errors.read_text())]


def samples(text):
    """{(name, frozenset of labels): value} of an exposition."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#") or not line:
            continue
        name, labels, value = re.fullmatch(r'([a-z0-9_:]+)(?:\{(.*)\})? (\S+)(?: [0-9.]+)?', line).groups()
        key = name, frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
        found[key] = float(value)
    return found
