# SPDX-License-Identifier: MIT
"""Each query that docs/recording.md prints, unchanged, on a recording with data for each."""
import json
import re
import sys

import pytest
from cli_helpers import ROOT, Tool
from stress_jobs import query, shown

JOB = """
import os, socket, time
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
    s.connect("\\0" + os.environ["HIWATER_SOCKET"][1:])
    s.send(b"phase+ load")
    data = bytearray(64 << 20)
    s.send(b"phase- load")
    for step in range(3):
        s.send(b"log loss=%g step=%d" % (1 / (step + 1), step))
        end = time.monotonic() + 0.8
        while time.monotonic() < end:
            pass
"""


def printed():
    """The blocks of the document that begin with SELECT, unchanged."""
    text = (ROOT / "docs" / "recording.md").read_text()
    blocks = [re.sub(r"^    ", "", block, flags=re.M) for block in re.findall(r"(?:^    .*\n)+", text, re.M)]
    return [block for block in blocks if block.startswith("SELECT")]


QUERIES = printed()


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("queries"))
    done = tool.run("run", "-o", "x.hiw", "--summary", "none", "--", sys.executable, "-c", JOB)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return tool.folder / "x.hiw", shown(tool, "x.hiw")


def rows_of(told, having):
    asked = [q for q in QUERIES if having in q]
    assert len(asked) == 1, having
    return query(told[0], asked[0])


@pytest.mark.parametrize("sql", QUERIES)
def test_it_says_something(told, sql):
    values = {"id": 1, "t": 10**18}
    rows = query(told[0], re.sub(r":(id|t)\b", lambda m: str(values[m[1]]), sql))
    assert rows and any(value is not None for row in rows for value in row), json.dumps(rows)


def test_what_they_say_is_the_summarys(told):
    ram = told[1]["ram"]
    assert len(QUERIES) >= 10
    assert rows_of(told, "AS at_s FROM summary")[0][0] == ram["combined"]["peak_bytes"] // 2**20
    assert max(row[2] for row in rows_of(told, "ram_max / 1048576 AS peak")) == ram["combined"]["peak_bytes"] // 2**20
    assert rows_of(told, "AS mean_mib")[0][0] * 2**20 == pytest.approx(ram["combined"]["mean_bytes"], rel=0.02)
    assert [row[1:] for row in rows_of(told, "FROM series_value v")] == [(0, 1.0), (1, 0.5), (2, pytest.approx(1 / 3, rel=1e-4))]
    assert [row[0] for row in rows_of(told, "FROM phase")] == ["load"]
    assert rows_of(told, "datetime(value")[0][0].replace(" ", "T") == told[1]["started"][:19]
    assert rows_of(told, "FROM process ORDER BY peak")[0][1].startswith("python")
