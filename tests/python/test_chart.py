# SPDX-License-Identifier: MIT
"""Charts in notebooks: the picture of a growing recording, and the rewriting of cells."""
import xml.etree.ElementTree as ElementTree

import pytest
from track_helpers import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def words(text):
    return [t.text for t in ElementTree.fromstring(text).iter(SVG + "text")]


def test_a_growing_recording_is_drawn(program):
    """While the run grows and at its end, the chart has the values logged, used and marked so
    far."""
    program.run("""
        from hiwater._live import html, picture
        drawn = []
        with hiwater.track("fit", output="a.hiw", interval=0.02) as run:
            block = None
            for i in range(30):
                with run.phase(f"p{i // 10}"):
                    run.log(loss=i, step=i, **{"a<b&": -i, "torch/gpu0/reserved_bytes": float(2 << 30), "data_wait": 1.0})
                    if i == 12: block = fill(200)
                    time.sleep(0.1)
                if run.path: drawn.append(picture(run.recording, ()))
            run.mark("<here>")
        chosen = picture(run.recording, ["data_wait", "not logged yet"])
        drawn.append(picture(run.recording, ()))
        page = html(drawn[-1][0], "text </pre><script>")
        assert "<script" not in page and "&lt;script&gt;" in page and page.count("<svg") == 1
        tell(drawn=drawn, chosen=chosen)
    """)
    [told] = program.told()
    assert len(told["drawn"]) >= 10 and len({svg for svg, _ in told["drawn"]}) >= 3
    root = ElementTree.fromstring(told["drawn"][-1][0])
    assert root.tag == SVG + "svg" and root.get("role") == "img" and root.get("aria-label") == "fit"
    said = words(told["drawn"][-1][0])
    assert [t for t in said if t in ("CPU", "RAM", "GPU", "loss", "a<b&", "data_wait")] == ["CPU", "RAM", "loss", "a<b&"], said
    assert {"p0", "p1", "p2"} <= set(said) and "<here>" in [t.text for t in root.iter(SVG + "title")]
    for text in root.iter(SVG + "text"):
        assert 0 <= float(text.get("x")) <= float(root.get("width")) and 0 <= float(text.get("y")) <= float(root.get("height"))
    line = told["drawn"][-1][1]
    assert line.startswith("RAM ") and "CPU " in line and line.endswith("loss 29.0   a<b& -29.0"), line
    assert "data_wait" in words(told["chosen"][0]) and "loss" not in words(told["chosen"][0])


def test_phases_have_their_numbers(program):
    """In the picture and in the trace, as in the summary."""
    program.run("""
        from hiwater._live import picture
        with hiwater.track("fit", output="a.hiw", interval=0.02) as run:
            for epoch in range(2):
                with run.phase("epoch", epoch=epoch, lr=0.1): time.sleep(0.5)
        tell(svg=picture(run.recording, ())[0])
    """)
    [told] = program.told()
    assert [t for t in words(told["svg"]) if t.startswith("epoch")] == ["epoch 0", "epoch 1"]
    assert "epoch 0" in [t.text for t in ElementTree.fromstring(told["svg"]).iter(SVG + "title")]
    trace = (program.folder / "trace")
    program.hiwater("export", "--to", "perfetto", "-o", trace, program.folder / "a.hiw")
    assert b"epoch 0" in trace.read_bytes() and b"epoch 1" in trace.read_bytes()


def test_what_cannot_be_drawn(program):
    program.run("""
        from hiwater._live import picture
        from hiwater._native import svg
        with hiwater.track(output="a.hiw"): time.sleep(0.3)
        for bad in (lambda: svg("/nowhere.hiw", ()), lambda: svg("a.hiw", ["never"])):
            try: bad()
            except ValueError as e: assert str(e), e
            else: raise AssertionError
        open("b.hiw", "w").write("no recording")
        try: picture(hiwater.Recording("b.hiw"), ())
        except hiwater.Error as e: assert "b.hiw" in str(e)
        else: raise AssertionError
    """)


def contrast(one, other):
    """The contrast ratio (WCAG 2) of two colours #rrggbb."""
    def light(colour):
        parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * r + 0.7152 * g + 0.0722 * b
    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_lines_can_be_seen_on_either_page(program):
    program.run("""
        from hiwater._live import DARK, LIGHT
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
    """Rewrites only the first line, so that errors keep their line numbers; before another cell
    magic it changes nothing."""
    program.run(f"""
        from hiwater._ipython import rewritten
        lines = {cell!r}.splitlines(keepends=True)
        assert "".join(rewritten(lines)) == {cell if expected is None else expected!r}, rewritten(lines)
    """)


@pytest.mark.parametrize("words, found", [
    ("-n fit --live", {"name": "fit", "live": True}), ("--name=a -i 10ms", {"name": "a", "interval": "10ms"}),
    ("-o x.hiw --report", {"output": "x.hiw", "report": True}), ("", {}),
    ("-n", "-n needs a value"), ("--lively", "unknown option '--lively'"), ("fit", "unknown option 'fit'"), ("--live=1", "unknown option"),
])
def test_options_of_magics(program, words, found):
    program.run(f"""
        from hiwater._ipython import parsed
        try: assert parsed({words!r}.split()) == {found!r}
        except hiwater.Error as e: assert {found!r} in str(e), e
    """)


def test_numbers_for_people(program):
    program.run("""
        from hiwater._live import amount, cores, duration, number
        assert [number(v) for v in (0, 5, 12.345, 123.4, 0.05, 0.09999, 1e-5, 123456, 4.984e-11)] == \
            ["0", "5.00", "12.3", "123", "0.0500", "0.100", "1e-05", "1.23e+05", "4.98e-11"]
        assert amount(9986000000, 13314000000) == "9.30 -> 12.4 GiB" and amount(53 << 20) == "53.0 MiB" and amount(None, 1 << 20) == "? -> 1.00 MiB"
        assert [duration(s) for s in (0, 0.0004, 0.03, 0.9999, 1.23, 2, 61, 3700)] == [
            "0 s", "400 us", "30 ms", "1 s", "1.23 s", "2 s", "1:01", "1:01:40"]
        assert [cores(c) for c in (0, 0.004, 0.0238, 1.904, 2, 31.52)] == ["0", "<0.01", "0.02", "1.90", "2", "31.5"]
    """)


def test_elsewhere_there_is_no_chart_but_a_warning(program):
    program.run("""
        with hiwater.track(live=True) as run: run.live()
        assert run.summary.run.complete and ["not a notebook" in w for w in run.warnings] == [True], run.warnings
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
