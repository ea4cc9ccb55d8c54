# SPDX-License-Identifier: MIT
"""What charts in notebooks are made of: a course that is read as it grows, its SVG, how cells are rewritten."""
import xml.etree.ElementTree as ElementTree

import pytest
from track_helpers import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def test_a_line_has_some_hundred_points_and_its_peaks(program):
    program.run("""
        from hiwater._course import POINTS_MOST, Line
        mean, peak = Line("mean"), Line("peak", is_peak=True)
        for i in range(100000):
            for line in (mean, peak): line.add(i / 10, 1000.0 if i == 77777 else i % 2)
        for line in (mean, peak):
            assert POINTS_MOST / 2 <= len(line.points) <= POINTS_MOST
            times = [t for t, _ in line.points]
            assert times == sorted(times) and times[-1] > 9900
        assert max(v for _, v in peak.points) == 1000 and max(v for _, v in mean.points) < 10
        assert all(0.49 < v < 0.51 for t, v in mean.points if not 7700 < t < 7850)
        gap = Line("gap")
        for v in (1.0, None, float("nan"), float("inf"), 2.0): gap.add(0, v)
        assert [v for _, v in gap.points] == [1.0, None, None, None, 2.0] and gap.last == 2.0
    """)


def test_a_growing_recording_is_read_once(program):
    """As it grows, and at once when it is over: the same lines to the end, the truth of the workload in them."""
    program.run("""
        from hiwater._course import Course
        asked = []
        with hiwater.track(output="a.hiw", interval=0.02) as run:
            live, n = Course(), 0
            query = hiwater.Recording.query
            hiwater.Recording.query = lambda self, sql, *values: (lambda r: (asked.append(len(r[1])), r)[1])(query(self, sql, *values))
            block = None
            for i in range(30):
                with run.phase(f"p{i // 10}"):
                    run.log(loss=i, step=i, **{"torch/gpu0/reserved_bytes": float(2 << 30), "data_wait": 1.0})
                    if i == 12: block = fill(200)
                    time.sleep(0.1)
                if run.path: live.read(run.recording)
            run.mark("here")
        live.read(run.recording)
        rows = sum(asked)
        whole = Course()
        whole.read(run.recording)
        for course in (live, whole):
            assert [p.title for p in course.panels] == ["CPU, cores", "RAM, GiB", "GPU memory, GiB", "loss"], course.panels
            assert [v for _, v in course.logged["loss"].lines["loss"].points] == list(range(30))
            ram = [v for _, v in course.ram.lines["ram"].points]
            assert max(ram) - min(ram) >= 200 / 1024 and len(ram) >= 100
            assert course.phases[-1][0] == "p2" and [t for _, t in course.marks] == ["here"]
            assert 2.5 <= course.end_s <= run.summary.wall_s + 0.1
        assert [t for t, _ in live.ram.lines["ram"].points] == sorted(t for t, _ in live.ram.lines["ram"].points)
        assert len(live.ram.lines["ram"].points) == len(whole.ram.lines["ram"].points)
        chosen = Course(["data_wait"]); chosen.read(run.recording)
        assert list(chosen.logged) == ["data_wait"]
    """)


DRAWN = """
from hiwater._course import Course, Panel
from hiwater._svg import html, svg
def course(n=50, panels=3):
    c = Course()
    for i in range(n):
        c.ram.line("ram", "job").add(i, 1 + i)
        c.cpu.line("cpu", "job").add(i, None if 10 < i < 20 else 2.0)
        for g in range(panels): c.memory.line(g, f"GPU {g}", colour=g).add(i, 5)
        c.logged.setdefault("a<b&", Panel("a<b&")).line("a<b&", "a<b&").add(i, -i)
    c.end_s, c.phases, c.marks = n, [("epoch <1>", 0.0, 20.0), ("epoch", 20.0, None)], [(7.0, "\\"mark\\"")]
    return c
"""


def test_the_picture_is_well_formed(program):
    program.run(DRAWN + """
(FOLDER / "a.svg").write_text(svg(course(), "what <it> says", alone=True))
(FOLDER / "b.svg").write_text(svg(course(), "x"))
(FOLDER / "none.svg").write_text(svg(Course(), "x"))
(FOLDER / "one.svg").write_text(svg(course(1), "x"))
(FOLDER / "many.svg").write_text(svg(course(20, 16), "x"))
page = html(course(), "text </pre><script>")
assert "<script" not in page and "&lt;script&gt;" in page and page.count("<svg") == 1
""")
    for file in program.folder.glob("*.svg"):
        root = ElementTree.parse(file).getroot()
        assert root.tag == SVG + "svg" and root.get("role") == "img" and root.get("aria-label")
        width, height = float(root.get("width")), float(root.get("height"))
        for text in root.iter(SVG + "text"):
            assert 0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height, (file, text.text)
        assert "nan" not in file.read_text() and "None" not in file.read_text()
    lines = [e.get("d") for e in ElementTree.parse(program.folder / "b.svg").getroot().iter(SVG + "path") if e.get("stroke-linecap")]
    assert len(lines) == 6 and sum(d.count("M") for d in lines) == 7  # the gap lifts the pen
    assert "nothing is recorded yet" in (program.folder / "none.svg").read_text()


def contrast(one, other):
    """WCAG 2: of two colours #rrggbb."""
    def light(colour):
        parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * r + 0.7152 * g + 0.0722 * b
    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_lines_can_be_seen_on_either_page(program):
    program.run("""
        from hiwater._svg import DARK, LIGHT
        tell(light=LIGHT, dark=DARK)
    """)
    [palettes] = program.told()
    assert min(contrast(c, "#FFFFFF") for c in palettes["light"]) >= 3
    assert min(contrast(c, "#111111") for c in palettes["dark"]) >= 4.5


@pytest.mark.parametrize("cell, expected", [
    ("%%hiwater\nx = 1\n", "get_ipython().run_line_magic('hiwater', '_cell ')\nx = 1\n"),
    ("%%hiwater -n fit --live\nx\n", "get_ipython().run_line_magic('hiwater', '_cell -n fit --live')\nx\n"),
    ("%%hiwater -n 'a b'\nx\n", "get_ipython().run_line_magic('hiwater', \"_cell -n 'a b'\")\nx\n"),
    ("%%hiwater\n\n%%timeit\nx\n", None), ("%%hiwaters\nx\n", None), ("x = 1\n%%hiwater\n", None), ("", None),
])
def test_how_a_cell_is_rewritten(program, cell, expected):
    """Line for line, so that errors point to the right ones; in front of another cell magic it is left alone."""
    program.run(f"""
        from hiwater._ipython import rewritten
        lines = {cell!r}.splitlines(keepends=True)
        assert "".join(rewritten(lines)) == {cell if expected is None else expected!r}, rewritten(lines)
    """)


@pytest.mark.parametrize("words, found", [
    ("-n fit --live", {"name": "fit", "live": True}), ("--name=a -i 10ms", {"name": "a", "interval": "10ms"}),
    ("-o x.hiw --report", {"output": "x.hiw", "report": True}), ("", {}),
    ("-n", "-n needs a value"), ("--lively", "'--lively' is no option"), ("fit", "'fit' is no option"), ("--live=1", "is no option"),
])
def test_options_of_magics(program, words, found):
    program.run(f"""
        from hiwater._ipython import parsed
        try: assert parsed({words!r}.split()) == {found!r}
        except hiwater.Error as e: assert {found!r} in str(e), e
    """)


def test_numbers_for_people(program):
    program.run("""
        from hiwater._svg import amount, duration, moments, number
        assert [number(v) for v in (0, 5, 12.345, 123.4, 0.05, 0.09999, 1e-5, 123456, 4.984e-11)] == \
            ["0", "5.00", "12.3", "123", "0.0500", "0.100", "1e-05", "1.23e+05", "4.98e-11"]
        assert amount(9986000000, 13314000000) == "9.30 -> 12.4 GiB" and amount(53 << 20) == "53.0 MiB" and amount(None, 1 << 20) == "? -> 1.00 MiB"
        assert [duration(s) for s in (1.23, 61, 3700)] == ["1.2 s", "1:01", "1:01:40"]
        assert moments(1) == [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0] and moments(299)[-1] == 240 and len(moments(1e6)) <= 9
    """)


def test_elsewhere_there_is_no_chart_but_a_warning(program):
    program.run("""
        with hiwater.track(live=True) as run: run.live()
        assert run.summary.run.complete and ["no notebook" in w for w in run.warnings] == [True], run.warnings
        assert "IPython" not in sys.modules
        idle = hiwater.track()
        idle.live()
        assert "nothing is measured" in idle.warnings[0]
    """)


def test_no_name_of_the_files_is_missing_in_the_wheel():
    built = (ROOT / "meson.build").read_text()
    package = ROOT / "python" / "hiwater"
    for file in [*package.glob("*.py"), *(package / "callbacks").glob("*.py")]:
        assert f"'{file.name}'" in built, file
