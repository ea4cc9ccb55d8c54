# SPDX-License-Identifier: MIT
"""A receiver of OTLP on loopback that answers as a test wants: the judge of a body is the package opentelemetry-proto."""
import gzip
import http.server
import json
import threading

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


class Request:
    def __init__(self, path, headers, body):
        self.path, self.headers, self.raw = path, headers, body
        self.text = gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body

    @property
    def message(self):
        return parsed(self.text)


def parsed(text):
    """The request, as Protocol Buffers understand it: an unknown key or a wrong type is an error."""
    return json_format.Parse(text, ExportMetricsServiceRequest())


def metrics(message):
    """{name: metric}; a name must come once in a request."""
    found = {}
    for resource in message.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                assert metric.name not in found, f"{metric.name} comes twice"
                found[metric.name] = metric
    return found


def points(metric):
    """[(attributes, point)]; none of a metric that is not there"""
    if metric is None:
        return []
    data = metric.sum if metric.HasField("sum") else metric.gauge
    return [({a.key: a.value.string_value for a in p.attributes}, p) for p in data.data_points]


def value(point):
    return point.as_int if point.HasField("as_int") else point.as_double


def resource(message):
    return {a.key: a.value.string_value or a.value.int_value for a in message.resource_metrics[0].resource.attributes}


class Receiver:
    """Answers each request with the next entry of `answers`, then with 200: (status, headers, body), or "hang"."""

    def __init__(self, *answers):
        self.answers, self.requests, self.released = list(answers), [], threading.Event()
        self.lock = threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver.lock:
                    receiver.requests.append(Request(self.path, self.headers, body))
                    answer = receiver.answers.pop(0) if receiver.answers else (200, {}, {})
                if answer == "hang":
                    receiver.released.wait()
                    return
                status, headers, content = answer
                content = json.dumps(content).encode()
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
