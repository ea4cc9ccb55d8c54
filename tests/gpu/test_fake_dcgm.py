# SPDX-License-Identifier: MIT
"""The fake libdcgm: connections, watches, and the latest value of a field."""
import json
import sys

import pytest
from fake_gpu import DRIVERS, Fake

CODE = """
import ctypes as c, json, struct
lib = c.CDLL(library)
def connect(address, unix=0, version=0x02000010):
    handle = c.c_void_p()
    params = c.create_string_buffer(struct.pack("IIII", version, 0, 1000, unix))
    return lib.dcgmConnect_v2(address.encode(), params, c.byref(handle)), handle
def watch(handle, fields, every_us, name="mine", group=0x7fffffff):
    made = c.c_void_p()
    code = lib.dcgmFieldGroupCreate(handle, len(fields), (c.c_ushort * len(fields))(*fields), name.encode(), c.byref(made))
    return code or lib.dcgmWatchFields(handle, c.c_void_p(group), made, c.c_longlong(every_us), c.c_double(60), 0)
def latest(handle, gpu, fields):
    rows = c.create_string_buffer(4120 * len(fields))
    code = lib.dcgmGetLatestValuesForFields(handle, gpu, (c.c_ushort * len(fields))(*fields), len(fields), rows)
    found = []
    for i in range(len(fields)):
        version, field, kind, status, stamp = struct.unpack_from("IHHixxxxq", rows, 4120 * i)
        assert version == 0x01001018 and field == fields[i]
        form = {"i": "q", "d": "d", "s": "40s"}[chr(kind)]
        value = struct.unpack_from(form, rows, 4120 * i + 24)[0]
        found.append((status, value.split(b"\\0")[0].decode() if isinstance(value, bytes) else value))
    return code or found
def at(t):
    open(clock, "w").write(str(t))
"""
LIBRARY = DRIVERS / "dcgm" / "libdcgm.so.4"
BLANK, DOUBLE_BLANK = 0x7ffffffffffffff0, 140737488355328.0


@pytest.fixture
def ask(tmp_path):
    """Runs code on the fake with a scenario; time is what the code says."""
    clock = tmp_path / "time"
    clock.write_text("0")

    def run(scenario, code):
        text = f"clock, library = {str(clock)!r}, {str(LIBRARY)!r}\n{CODE}\nlib.dcgmInit()\n{code}\nprint(json.dumps(answer))"
        return json.loads(Fake(tmp_path, scenario).run(sys.executable, "-c", text, time=f"file:{clock}"))

    return run


def test_connections(ask):
    assert ask("dcgm", """
answer = [connect("127.0.0.1")[0], connect("127.0.0.1:5555")[0], connect("127.0.0.1:5556")[0],
          connect("/tmp/nv-hostengine", 1)[0], connect("127.0.0.1", version=0x03000010)[0]]
code, handle = connect("127.0.0.1")
answer.append(lib.dcgmDisconnect(handle))
answer.append(lib.dcgmUpdateAllFields(handle, 1))
lib.dcgmShutdown()
answer.append(connect("127.0.0.1")[0])""") == [0, 0, -21, -21, -12, 0, -21, -10]
    assert ask("driver-580", "answer = connect('127.0.0.1')[0]") == -21
    assert ask("[driver]\nengine = /run/engine\n", "answer = [connect('/run/engine', 1)[0], connect('/run/engine')[0]]") == [0, -21]


def test_a_field_has_to_be_watched_and_then_is_the_mean_of_an_interval(ask):
    not_watched, not_yet, first, second = ask("[driver]\nengine = 127.0.0.1:5555\n"
                                              "[gpu 0]\nutil = rate 10\ndcgm 1002 = ramp 0 1 0..10\n", """
code, handle = connect("127.0.0.1")
answer = [latest(handle, 0, [1002])]
assert watch(handle, [1002, 203], 1000000) == 0
answer.append(latest(handle, 0, [1002, 203]))
at(1)
answer.append(latest(handle, 0, [1002, 203]))
at(4.7)
answer.append(latest(handle, 0, [1002, 203]))""")
    assert not_watched == [[-16, DOUBLE_BLANK]]
    assert not_yet == [[-14, DOUBLE_BLANK], [-14, BLANK]]
    assert first == [[0, pytest.approx(0.05)], [0, 10]]
    assert second == [[0, pytest.approx(0.35)], [0, 40]]


def test_the_first_values_are_available_at_once(ask):
    """Current values; a mean needs an interval."""
    assert ask("dcgm", """
code, handle = connect("127.0.0.1")
watch(handle, [50, 52, 54, 203, 252, 155, 1002], 1000000)
lib.dcgmUpdateAllFields(handle, 1)
answer = latest(handle, 1, [50, 52, 54, 203, 252, 155, 1002])""") == [
        [0, "NVIDIA A100-SXM4-40GB"], [0, 1], [0, "GPU-a0000000-0000-4000-8000-000000000001"], [0, 60], [0, 4], [0, 52.0],
        [0, DOUBLE_BLANK]]


def test_blanks(ask):
    """For fields that a card lacks, and while a profiler uses the counters."""
    assert ask("dcgm-geforce", """
code, handle = connect("127.0.0.1")
watch(handle, [1002, 203, 140], 1000000)
at(2)
answer = latest(handle, 1, [1002, 203, 140])""") == [[0, DOUBLE_BLANK + 2], [0, 0], [0, BLANK + 2]]
    assert ask("dcgm", """
code, handle = connect("127.0.0.1")
watch(handle, [1002, 1009], 1000000)
answer = []
for t in (10, 25, 31.5):
    at(t)
    answer.append(latest(handle, 1, [1002])[0][1])
lib.dcgmProfPause(handle)
answer.append(latest(handle, 1, [1009])[0][1])""") == [pytest.approx(0.4), DOUBLE_BLANK, pytest.approx(0.4), BLANK]


def test_groups_and_entities(ask):
    """Values by group and callback, and of several entities in one call."""
    called, pairs, duplicate = ask("dcgm", """
code, handle = connect("127.0.0.1")
group, fields = c.c_void_p(), c.c_void_p()
lib.dcgmGroupCreate(handle, 1, b"g", c.byref(group))
lib.dcgmGroupAddDevice(handle, group, 1)
lib.dcgmFieldGroupCreate(handle, 2, (c.c_ushort * 2)(203, 52), b"f", c.byref(fields))
lib.dcgmWatchFields(handle, group, fields, c.c_longlong(1000000), c.c_double(1), 0)
at(1)
seen = []
@c.CFUNCTYPE(c.c_int, c.c_uint, c.c_void_p, c.c_int, c.c_void_p)
def tell(gpu, values, n, user):
    seen.append((gpu, [struct.unpack_from("q", c.string_at(values + 4120 * i, 40), 24)[0] for i in range(n)]))
    return 0
lib.dcgmGetLatestValues(handle, group, fields, tell, None)
rows = c.create_string_buffer(4128 * 2)
lib.dcgmEntitiesGetLatestValues(handle, (c.c_uint * 4)(1, 0, 1, 1), 2, (c.c_ushort * 1)(203), 1, 0, rows)
pairs = [struct.unpack_from("IIIHHi", rows, 4128 * i) + struct.unpack_from("q", rows, 4128 * i + 32) for i in (0, 1)]
answer = [seen, pairs, watch(handle, [50], 1, "f")]""")
    assert called == [[1, [60, 1]]]
    assert pairs == [[0x02001020, 1, 0, 203, ord("i"), -16, BLANK], [0x02001020, 1, 1, 203, ord("i"), 0, 60]]
    assert duplicate == -26
