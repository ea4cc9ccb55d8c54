# SPDX-License-Identifier: MIT
"""hiwater report in a real browser: Chromium without a window, from a file, with nothing else in reach."""
import json
import re
import shutil
import sqlite3
import sys

import long_recordings
import pytest
from cli_helpers import HIWATER, ROOT, Tool, wait_for
from stress_jobs import BUILD

pytestmark = [pytest.mark.full, pytest.mark.frameworks]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = '</script><script>document.title="taken"</script><img src=x onerror=document.title="taken">'
JOB = """
import os, socket, subprocess, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("\\0" + os.environ["HIWATER_SOCKET"][1:])
child = subprocess.Popen(["sleep", "3"])
for epoch in range(3):
    s.send(f"phase+ epoch\\nepoch={epoch}".encode())
    for step in range(10):
        s.send(f"log loss={3 - epoch - step / 10} lr=0.1 torch/gpu0/allocated_bytes={step << 30} step={10 * epoch + step}".encode())
        time.sleep(0.05)
    data = bytearray(150 << 20)
    time.sleep(0.2)
    del data
    s.send(b"phase- epoch")
s.send(("mark " + sys.argv[1]).encode())
time.sleep(0.3)
"""


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.fail("there is no Chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    tool = Tool(tmp_path_factory.mktemp("shown"))
    (tool.folder / "job.py").write_text(JOB)
    done = tool.run("run", "--summary", "none", "-n", "shown", "-i", "20ms", "--alert", "ram > 100MiB", "-o", "run.hiw", "--",
                    sys.executable, "job.py", EVIL)
    assert done.returncode == 0, done.stderr
    done = tool.run("report", "run.hiw")
    if "built without uPlot" in done.stderr:
        pytest.skip("built without uPlot, which cannot be had here")
    assert done.returncode == 0, done.stderr
    yield tool.folder / "run.html"
    tool.end_all()


class Opened:
    """A page, what it said and what it asked for."""

    def __init__(self, browser, path, init="", fragment="", **options):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "accept_downloads": True, **options})
        self.context.add_init_script(init)
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.devtools = self.context.new_cdp_session(self.page)
        self.devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.page.on("console", lambda message: "readback operations" in message.text or self.said.append(message.text))  # of colors()
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri() + fragment)
        if options.get("java_script_enabled", True):
            self.until("document.documentElement.dataset.ready")
            self.page.wait_for_selector(".uplot canvas")

    def js(self, expression):
        return self.page.evaluate(expression)

    def until(self, expression):
        """Waits until it is true. wait_for_function would evaluate it in the page, whose policy forbids that."""
        wait_for(lambda: self.js(expression), expression)

    def settle(self):
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done))))")

    def press(self, key):
        self.page.keyboard.press(key)
        self.settle()

    def when(self):
        return self.page.inner_text("#when")

    def chip(self, chart, label):
        """What a chart's legend says of a line."""
        return self.js(f"""[...document.querySelectorAll('figure.chart')].find(f => f.getAttribute('aria-label') === {json.dumps(chart)})
            .querySelectorAll('.chip').values().find(c => c.textContent.startsWith({json.dumps(label)}))?.querySelector('b').textContent""")

    def colors(self, chart=0):
        """How many colours a chart's canvas has: none but its back where nothing is drawn."""
        return self.js(f"""(() => {{
            const c = document.querySelectorAll('.uplot canvas')[{chart}];
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            return new Set(Array.from({{length: d.length / 4}}, (_, i) => d[4*i] << 16 | d[4*i+1] << 8 | d[4*i+2])).size; }})()""")

    def processor_s(self):
        """What the page's main thread has taken of a processor so far."""
        return next(m["value"] for m in self.devtools.send("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration")

    def close(self):
        self.context.close()
        assert self.said == [], "nothing went wrong"
        assert len(self.asked) == 1, "nothing but the page was asked for"


@pytest.fixture
def opened(browser, page_file):
    made = Opened(browser, page_file)
    yield made
    made.close()


def test_charts_are_drawn_and_hostile_text_stays_text(opened):
    titles = opened.js("[...document.querySelectorAll('figure.chart')].map(f => f.getAttribute('aria-label'))")
    for title in ("Phases and events", "RAM of the job", "CPUs used by the job", "loss", "lr", "Storage", "Lifetimes and peaks"):
        assert title in titles
    assert opened.page.title() == "shown - hiwater"
    assert opened.page.inner_text("tr[data-from] th") == "epoch 0", "not epoch epoch=0"
    assert opened.colors(0) > 5 and opened.colors(1) > 5
    above = opened.js("[...document.querySelectorAll('figure.chart[aria-label=\"RAM of the job\"] .above')].map(e => e.textContent)")
    assert len(above) == 1 and above[0].startswith("total of this machine ") and above[0].endswith(", above the chart"), "a limit far above the lines is written next to the chart, not drawn"
    assert not opened.page.is_visible("#pictures") and not opened.page.is_visible("#problem")
    assert opened.js("document.documentElement.scrollWidth <= innerWidth")
    assert opened.js("document.querySelectorAll('img').length") == 0


def test_what_the_machine_did_is_drawn_in_a_short_run_too(opened):
    """Its rates are read once a second, each at one instant: they stand from one reading to the next."""
    drawn, read = opened.js("""(() => { const { panel } = [...document.querySelectorAll('figure.chart')].find(f => f.getAttribute('aria-label') === 'CPUs used by the job');
        const table = panel.page.data.runs[0].table('host');
        return [panel.lines.find(l => l.label === 'system-wide')?.line.x, table.t.filter((_, i) => table.column('cpu_user').mean[i] !== null)]; })()""")
    assert len(read) >= 2 and drawn and drawn[0] == read[0] and drawn[-1] >= read[-1]


def test_zooming_keeps_the_peak(browser, tmp_path):
    """One window of 57,600 is a burst. It is seen from afar, and where one zooms to it."""
    path = tmp_path / "long.hiw"
    long_recordings.make(HIWATER, path, hours=16, processes=1, burst_at=12345)
    assert Tool(tmp_path).run("report", path).returncode == 0
    opened = Opened(browser, tmp_path / "long.html")
    assert opened.chip("RAM of the job", "job") == "max 30\u00a0GiB"
    chart = opened.page.locator("figure.chart", has_text="RAM of the job").locator(".u-over").first
    box = chart.bounding_box()
    at = box["x"] + box["width"] * 12345 / (16 * 3600)
    assert opened.js("""(() => {
        const { plot } = [...document.querySelectorAll('figure.chart')].find(f => f.getAttribute('aria-label') === 'RAM of the job').panel;
        const x = Math.round(plot.valToPos(12345, 'x', true)), top = Math.round(plot.valToPos(25 * 2 ** 30, 'y', true));
        const drawn = [...plot.ctx.getImageData(x - 3, top, 24, 1).data].filter((_, i) => i % 4 === 3).map(alpha => alpha > 60);
        return drawn.slice(0, 7).includes(true) && !drawn.slice(8).includes(true); })()"""), "the burst is drawn where it was, and nowhere near"
    for _ in range(2):
        opened.page.mouse.move(at - 30, box["y"] + 40)
        opened.page.mouse.down()
        opened.page.mouse.move(at + 30, box["y"] + 60, steps=4)
        opened.page.mouse.up()
        opened.settle()
        opened.page.mouse.move(2, 2)
        opened.settle()
        assert opened.chip("RAM of the job", "job") == "max 30\u00a0GiB"
        at = box["x"] + box["width"] / 2
    assert " of 16\xa0h" in opened.when()
    opened.press("0")
    assert opened.when() == "all of 16\xa0h"
    opened.close()


def test_words_of_events_do_not_lie_over_each_other(browser, tmp_path):
    """What has no room right of its mark may stand left of it, where the words of the mark before do not."""
    path = tmp_path / "run.hiw"
    long_recordings.make(HIWATER, path, hours=0.1, processes=1, burst_at=-1)
    with sqlite3.connect(path) as db:
        for second, words in ((100, "the data are loaded"), (190, "a long description of something else"), (195, "next")):
            db.execute("INSERT INTO event(t, kind, entity, id, phase, value, text) VALUES (?, 'mark', 'job', 0, 0, 0, ?)", (second * 10**9, words))
    db.close()
    assert Tool(tmp_path).run("report", path).returncode == 0
    opened = Opened(browser, tmp_path / "run.html", init="""
        const put = CanvasRenderingContext2D.prototype.fillText;
        window.written = [];
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
            written.push([text, x, y, this.measureText(text).width, this.textAlign, this.canvas.closest('figure')?.getAttribute('aria-label')]);
            put.call(this, text, x, y);
        };""")
    words = [(x, x + width, text) for text, x, y, width, align, chart in opened.js("written") if chart == "Phases and events" and align == "left"]
    assert words[0][2] == "the data are loaded" and words[-1][2] == "next"
    places = sorted(words)
    assert all(end <= begin for (_, end, _), (begin, _, _) in zip(places, places[1:])), places
    opened.close()


def test_one_crosshair_over_all_charts(opened):
    box = opened.page.locator(".chart .u-over").nth(1).bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    opened.settle()
    assert opened.when().startswith("at ")
    lines = opened.js("""[...document.querySelectorAll('.u-cursor-x')].filter(c => c.closest('figure').panel.near)
        .map(c => new DOMMatrix(getComputedStyle(c).transform).m41)""")
    assert len(lines) >= 3 and max(lines) - min(lines) < 1.5, "at one place in all"
    assert re.match(r"[\d.]+\u00a0MiB", opened.chip("RAM of the job", "job"))


def test_lines_are_hidden_and_shown_by_the_legend(browser, tmp_path):
    """A burst of 30 GiB over 3: without its line, the scale is that of the others, and a limit that lay too far above is told anew."""
    path = tmp_path / "run.hiw"
    long_recordings.make(HIWATER, path, hours=0.05, processes=2, burst_at=70)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE job_sample SET ram_private_min = 1 << 30, ram_private = 1 << 30, ram_private_max = 1 << 30")
        db.execute(f"UPDATE meta SET value = {40 << 30} WHERE key = 'capacity_bytes'")
    db.close()
    assert Tool(tmp_path).run("report", path).returncode == 0
    opened = Opened(browser, tmp_path / "run.html")
    figure = opened.page.locator('figure.chart[aria-label="RAM of the job"]')
    job, private = (figure.get_by_role("button", name=re.compile(f"^{label}")) for label in ("job", "private"))
    top = lambda: figure.evaluate("f => f.panel.plot.scales.y.max") / 2**30
    state = lambda: (job.get_attribute("aria-pressed"), private.get_attribute("aria-pressed"), figure.evaluate("f => f.panel.plot.series.length"))
    whole, all_lines = top(), state()
    assert whole > 30 and all_lines[:2] == ("true", "true") and figure.locator(".above").count() == 0
    job.click()
    assert state()[:2] == ("false", "true") and state()[2] < all_lines[2] and top() < 2
    assert not job.locator("b").is_visible() and "line-through" in job.locator("span").evaluate("e => getComputedStyle(e).textDecoration")
    assert private.locator("b").inner_text() == "max 1\u00a0GiB"
    assert "40\u00a0GiB" in figure.locator(".above").inner_text()
    opened.press("ArrowRight")
    opened.settle()
    assert "private" in opened.page.text_content("#spoken") and "job" not in opened.page.text_content("#spoken").split("RAM by")[0].replace("RAM of the job", "")
    opened.press("Escape")
    opened.press("Tab")
    assert private.evaluate("e => e === document.activeElement"), "the next stop of the keyboard is the next line"
    scrolled, lines = opened.js("scrollY"), state()[2]
    opened.press(" ")
    assert state()[1] == "false" and state()[2] < lines and opened.js("scrollY") == scrolled
    opened.press("Enter")
    assert state()[1:] == ("true", lines)
    chips = figure.locator("button.chip")
    for i in range(1, chips.count()):
        chips.nth(i).click()
    assert state()[2] == 1, "none is left"
    for i in range(chips.count()):
        chips.nth(i).click()
    assert state() == all_lines and top() == whole
    areas = opened.page.locator('figure.chart[aria-label="RAM by process"]')
    full = areas.evaluate("f => f.panel.plot.scales.y.max")
    areas.get_by_role("button").first.click()
    assert areas.evaluate("f => f.panel.plot.scales.y.max") < full, "what lay upon it came down"
    opened.close()


def test_times_that_were_logged_have_their_unit(browser, tmp_path):
    path = tmp_path / "run.hiw"
    long_recordings.make(HIWATER, path, hours=0.05, processes=1, burst_at=70)
    long_recordings.add_series(path, ["data_wait", "loss", "step_time/rank0", "loss/rank0"], 100, 180)
    assert Tool(tmp_path).run("report", path).returncode == 0
    opened = Opened(browser, tmp_path / "run.html")
    assert re.fullmatch(r"max 1\.\d+\u00a0s", opened.chip("data_wait", "data_wait"))
    charts = opened.page.locator('figure.chart[aria-label="rank0"]')
    assert charts.count() == 2, "what is no time has a chart of its own"
    assert re.fullmatch(r"[\d.]+ to 2[\d.]*", opened.chip("loss", "loss"))
    opened.close()


def test_keys(opened):
    assert opened.when().startswith("all of ")
    opened.press("+")
    half = opened.when()
    assert " of " in half and not half.startswith("all")
    opened.press("Shift+ArrowRight")
    assert opened.when() != half
    opened.press("-")
    opened.press("0")
    assert opened.when().startswith("all of ")
    opened.press("ArrowRight")
    opened.settle()
    assert opened.when().startswith("at ") and "RAM of the job" in opened.page.text_content("#spoken")
    opened.press("Escape")
    assert opened.when().startswith("all of ")
    opened.press("?")
    assert opened.page.is_visible("#keys") and opened.js("document.querySelectorAll('#keys dt').length") >= 7
    opened.press("Escape")
    assert not opened.page.is_visible("#keys")
    opened.press("n")
    if opened.js("document.querySelectorAll('.card[data-from]').length"):
        assert opened.js("document.querySelectorAll('.card.chosen').length") == 1


def test_phases_and_processes_show_their_time(opened):
    opened.page.locator("table.phases tbody tr").nth(1).click()
    opened.settle()
    assert " of " in opened.when()
    opened.press("0")
    opened.page.locator(".gantt .u-over").scroll_into_view_if_needed()
    opened.settle()
    opened.page.locator(".gantt .u-over").hover(position={"x": 60, "y": 10})
    assert " for " in opened.page.locator(".gantt .values").inner_text()


def test_an_address_names_a_stretch(browser, page_file):
    opened = Opened(browser, page_file, fragment="#t=0.5-1")
    low, high = opened.js("(() => { const view = document.querySelector('figure.chart').panel.page.view; return [view.min, view.max]; })()")
    assert low == pytest.approx(0.46, abs=0.001) and high == pytest.approx(1.04, abs=0.001) and opened.said == []
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dark_and_light(browser, page_file, scheme):
    opened = Opened(browser, page_file, color_scheme=scheme)
    back = "getComputedStyle(document.body).backgroundColor"
    first = opened.js(back)
    assert (sum(map(int, re.findall(r"\d+", first))) > 380) == (scheme == "light")
    opened.press("t")
    assert opened.js(back) != first and opened.colors(1) > 5
    opened.press("t")
    assert opened.js(back) == first
    opened.close()


@pytest.mark.parametrize("width", [320, 360, 800, 1920])
def test_every_width(browser, page_file, width):
    opened = Opened(browser, page_file, viewport={"width": width, "height": 800})
    assert opened.js("document.documentElement.scrollWidth <= innerWidth"), "nothing lies beside the page"
    assert opened.js("[...document.querySelectorAll('.uplot')].every(u => u.getBoundingClientRect().right <= innerWidth)")
    opened.close()


def test_a_window_that_changes(opened):
    opened.page.set_viewport_size({"width": 700, "height": 900})
    opened.until("[...document.querySelectorAll('.uplot')].every(u => u.getBoundingClientRect().right <= innerWidth)")


def test_without_javascript(browser, page_file):
    opened = Opened(browser, page_file, java_script_enabled=False)
    assert opened.page.is_visible("#pictures svg >> nth=0") and not opened.page.is_visible("#bar")
    assert opened.page.is_visible("text=How this was measured") and not opened.page.is_visible("#downloads")
    opened.close()


def test_a_browser_that_cannot_unpack_says_so(browser, page_file):
    context = browser.new_context()
    context.add_init_script("delete window.DecompressionStream")
    page = context.new_page()
    page.goto(page_file.as_uri())
    page.wait_for_selector("#problem:visible")
    assert "too old" in page.inner_text("#problem") and page.is_visible("#pictures")
    context.close()


def test_downloads(opened):
    with opened.page.expect_download() as waiting:
        opened.page.click("#downloads >> text=job, CSV")
    rows = open(waiting.value.path(), encoding="utf-8").read().splitlines()
    header = rows[0].split(",")
    assert header[:2] == ["elapsed_s", "span_s"] and "read_bytes_per_second" in header and len(rows) > 20
    ram = [c for c in header if re.fullmatch("ram(_min|_mean|_max)?_bytes", c)]
    assert ram in (["ram_bytes"], ["ram_min_bytes", "ram_mean_bytes", "ram_max_bytes"]), "three where a row is of several looks"
    assert all(len(row.split(",")) == len(header) for row in rows)
    with opened.page.expect_download() as waiting:
        opened.page.click("#downloads >> text=Everything, JSON")
    found = json.loads(open(waiting.value.path(), encoding="utf-8").read())
    assert found["summary"]["run"]["name"] == "shown" and {t["entity"] for t in found["tables"]} >= {"job", "host", "processes", "series"}


def test_on_paper(opened):
    opened.press("t")
    opened.page.emulate_media(media="print")
    opened.js("dispatchEvent(new Event('beforeprint'))")
    assert not opened.page.is_visible("#bar")
    opened.settle()
    drawn = opened.js("""[...document.querySelectorAll('figure.chart canvas')].map(c => [c.width / devicePixelRatio, c.height / devicePixelRatio, c.clientWidth / c.clientHeight])""")
    assert all(width == 690 and shape == pytest.approx(width / height, rel=0.02) for width, height, shape in drawn), "as wide as paper, not squeezed"
    assert opened.js("[...document.querySelectorAll('figure.chart')].every(f => f.panel.plot)"), "all charts are drawn"
    opened.page.set_viewport_size({"width": 690, "height": 900})
    assert opened.js("document.documentElement.scrollWidth <= innerWidth"), "no table is cut off at the edge of the paper"
    opened.js("dispatchEvent(new Event('afterprint'))")
    opened.page.emulate_media(media="screen")
    assert len(opened.page.pdf()) > 20000


def axis_of(opened, chart):
    """Where the axis of a chart begins and ends, and the first and last places that have a value."""
    return opened.js(f"""(() => {{
        const {{ plot, lines }} = [...document.querySelectorAll('figure.chart')].find(f => f.getAttribute('aria-label') === {json.dumps(chart)}).panel;
        const x = lines[0].line.x;
        return [plot.scales.x.min, plot.scales.x.max, x[0], x[x.length - 1]]; }})()""")


def test_what_was_logged_over_time_steps_and_epochs(opened):
    choose = lambda name: (opened.page.click(f".switch >> text={name}"), opened.until(DRAWN))
    count = opened.js("document.querySelectorAll('figure.chart').length")
    over_time = axis_of(opened, "loss")
    choose("step")
    assert axis_of(opened, "loss") == [0, 29, 0, 29], "steps as they were given"
    assert opened.page.locator(".switch button[aria-pressed=true]").inner_text() == "step"
    box = opened.page.locator("figure.chart[aria-label=loss] .u-over").bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] * 20 / 29 + 1, box["y"] + 50)  # left of step 20 lies time without any
    opened.settle()
    begin = next(p["begin_s"] for p in json.loads(opened.js("JSON.stringify(document.querySelector('figure.chart').panel.page.data.runs[0].summary.phases)"))[2:])
    at = opened.js("document.querySelector('figure.chart').panel.page.view.cursor")
    assert begin - 0.01 <= at <= begin + 0.08, "the crosshair of all charts is where step 20 was: the third epoch's first"
    assert opened.chip("loss", "loss") == "1" and re.match(r"at \d", opened.when())
    opened.page.mouse.down()
    opened.page.mouse.move(box["x"] + box["width"], box["y"] + 60, steps=4)
    opened.page.mouse.up()
    opened.settle()
    assert axis_of(opened, "loss")[:2] == pytest.approx([20, 29], abs=0.2), "what was dragged over"
    assert axis_of(opened, "RAM of the job")[0] == pytest.approx(at, abs=0.1), "the time axis goes with it"
    opened.press("0")
    choose("epoch")
    low, high, first, last = axis_of(opened, "loss")
    assert [low, high] == [0, 3] and 0 <= first < 0.2 and 2 < last < 3
    choose("time")
    assert axis_of(opened, "loss") == over_time and opened.js("document.querySelectorAll('figure.chart').length") == count


def test_clocks_held_back_and_alerts_on_charts_of_gpus(browser, tmp_path):
    """Heat holds the fake GPU back for a while: its charts are shaded then, with an edge at their top, and alerts are lines in them."""
    tool = Tool(tmp_path)
    (tmp_path / "gpu.conf").write_text(f"""[driver]
level = 550
[gpu 0]
include = {ROOT}/tests/fake/scenarios/cards/h100.conf
temperature = steps 0:40 1.5:80
event_reasons = steps 0:0 1:0x20 2.5:0
field 75 = ramp 0 1.5G 1..2.5
""")
    tool.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"), HIWATER_FAKE_NVML=str(tmp_path / "gpu.conf"))
    assert tool.run("run", "--summary", "none", "--alert", "gpu.temp > 70", "-o", "run.hiw", "--", "sleep", "4.5").returncode == 0
    assert tool.run("report", "run.hiw").returncode == 0
    opened = Opened(browser, tmp_path / "run.html", viewport={"width": 1000, "height": 2500})
    opened.until(DRAWN)
    held, alert = opened.js("""(() => { const p = document.querySelector('figure.chart[aria-label="GPU 0 power"]').panel;
        return [p.spec.held, p.page.moments.filter(m => m.alert).map(m => m.t)]; })()""")
    assert len(held) == 1 and held[0]["label"] == "heat" and 1 <= held[0]["to"] - held[0]["from"] <= 2.5 and len(alert) == 1

    def hue(title, time, down=2):
        return opened.js(f"""(() => {{ const {{ plot }} = document.querySelector('figure.chart[aria-label="{title}"]').panel;
            return [...plot.ctx.getImageData(Math.round(plot.valToPos({time}, 'x', true)), plot.bbox.top + {down}, 1, 1).data].slice(0, 3); }})()""")

    middle = (held[0]["from"] + held[0]["to"]) / 2
    inside = middle if abs(middle - alert[0]) > 0.1 else middle + 0.2  # not below the line of the alert
    outside, edge = held[0]["to"] + 0.5, [0xb4, 0x53, 0x09]
    for title in ("GPU 0 activity", "GPU 0 power", "GPU 0 temperature", "GPU 0 clock"):
        hues = [hue(title, inside + step) for step in (0, 0.03, 0.06)]  # one may be on a line of the grid
        assert pytest.approx(edge, abs=40) in hues and hue(title, outside) != pytest.approx(edge, abs=40), (title, hues)
        assert "clocks throttled by heat" in opened.js(f"document.querySelector('figure.chart[aria-label=\"{title}\"]').textContent")
    found = [hue("GPU 0 memory", alert[0] + k * 0.005, down) for k in (-1, 0, 1) for down in (20, 40)]
    assert any(red > green + 30 and red > blue + 30 for red, green, blue in found), "a line in the colour of alerts"
    opened.page.set_viewport_size({"width": 760, "height": 900})
    opened.settle()
    assert opened.js("(() => { const { scrollWidth, clientWidth } = document.querySelector('.gpus').parentElement; return scrollWidth <= clientWidth; })()")
    opened.close()
    shutil.copy(tmp_path / "run.hiw", tmp_path / "copy.hiw")
    assert tool.run("report", "run.hiw", "copy.hiw", "-o", "two.html").returncode == 0
    opened = Opened(browser, tmp_path / "two.html")
    chips = opened.js("[...document.querySelectorAll('figure.chart[aria-label=\"GPU 0 memory\"] .chip:not(.above)')].map(c => c.textContent)")
    assert len(chips) == 2 and all(": job " in chip for chip in chips), "over each other, a run has one line: what the job held"
    opened.close()


def test_gpus_that_the_job_did_not_use_are_one_line(browser, tmp_path):
    """Charts of the one of eight that it used; a click shows the others, all of them in each chart."""
    tool = Tool(tmp_path)
    (tmp_path / "gpu.conf").write_text(f"""[driver]
level = 550
[gpu 0-7]
include = {ROOT}/tests/fake/scenarios/cards/h100.conf
[process 5]
pid = @{tmp_path}/pid
memory = 1Gi
""")
    tool.env.update(LD_LIBRARY_PATH=str(BUILD / "tests" / "fake" / "drivers" / "550"), HIWATER_FAKE_NVML=str(tmp_path / "gpu.conf"))
    assert tool.run("run", "--summary", "none", "-o", "run.hiw", "--", "sh", "-c", "echo $$ > pid; sleep 3").returncode == 0
    shutil.copy(tmp_path / "run.hiw", tmp_path / "copy.hiw")
    for args in (["run.hiw"], ["run.hiw", "copy.hiw"]):
        assert tool.run("report", *args, "-o", "page.html").returncode == 0
        opened = Opened(browser, tmp_path / "page.html", viewport={"width": 1000, "height": 4000})
        opened.until(DRAWN)
        titles = "[...document.querySelectorAll('figure.chart')].map(c => c.ariaLabel).filter(t => t.includes('GPU') || t.includes('device'))"
        assert {title[:5] for title in opened.js(titles)} == {"GPU 5"}
        folded = opened.js("[...document.querySelectorAll('details.folded > summary')].map(s => s.textContent)")
        if len(args) == 1:
            assert folded == ["The job used no memory on GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 6, GPU 7"]
            opened.page.click("details.folded > summary")
            opened.until("document.querySelector('figure.chart[aria-label=\"Power, each device\"]')")
        opened.close()


def test_runs_over_each_other_by_step(browser, page_file, tmp_path):
    run = page_file.with_name("run.hiw")
    assert Tool(tmp_path).run("show", "--copy", "copy.hiw", run).returncode == 0
    assert Tool(tmp_path).run("report", run, "copy.hiw", "-o", "two.html").returncode == 0
    opened = Opened(browser, tmp_path / "two.html")
    opened.page.click(".switch >> text=step")
    opened.until(DRAWN)
    assert axis_of(opened, "loss") == [0, 29, 0, 29]
    opened.close()


def test_runs_are_aligned_at_a_mark_of_both(browser, tmp_path):
    tool = Tool(tmp_path)
    (tmp_path / "job.py").write_text("""
import os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.connect("\\0" + os.environ["HIWATER_SOCKET"][1:])
time.sleep(float(sys.argv[1]))
s.send(b"mark loaded <i>")
time.sleep(0.5)
""")
    for name, wait in (("one", "0.2"), ("two", "1.5")):
        assert tool.run("run", "--summary", "none", "--gpu", "none", "-o", f"{name}.hiw", "--", sys.executable, "job.py", wait).returncode == 0
    assert tool.run("report", "one.hiw", "two.hiw", "-o", "two.html").returncode == 0
    opened = Opened(browser, tmp_path / "two.html")
    first = "document.querySelector('figure.chart[aria-label=\"RAM of the job\"]').panel"
    begins = f"{first}.lines.map(l => l.line.x[0])"
    marks = opened.js(f"{first}.page.data.runs.map(run => run.events.find(e => e.kind === 'mark').t_ns / 1e9)")
    at_start, end = opened.js(begins), opened.js(f"{first}.page.view.end")
    opened.page.click(".switch >> text=loaded <i>")
    opened.until(DRAWN)
    by = marks[1] - marks[0]
    assert by > 0.5 and opened.js(begins) == pytest.approx([at_start[0] + by, at_start[1]]), "the first run is moved to where the second one's mark is"
    assert opened.js(f"{first}.page.moments.map(m => m.t)") == pytest.approx(marks[1:]), "a line shows where that is"
    assert opened.js(f"{first}.view.max") == opened.js(f"{first}.page.view.end") >= end
    opened.page.click(".switch >> text=start")
    opened.until(DRAWN)
    assert opened.js(begins) == at_start and opened.js(f"{first}.page.view.end") == end
    opened.close()


def test_what_is_read_rarely_is_drawn_as_steps(browser, tmp_path):
    """Memory that was read each minute stands until the next reading; processor time is what it was since the last one."""
    path = tmp_path / "run.hiw"
    long_recordings.make(HIWATER, path, hours=0.1, processes=1, burst_at=-1)
    with sqlite3.connect(path) as db:
        second = "(t / 1000000000)"
        db.execute("UPDATE job_sample SET cpu_system = 0, ram_private = NULL, ram_shared = NULL")
        for column in ("ram", "ram_min", "ram_max"):
            db.execute(f"UPDATE job_sample SET {column} = CASE WHEN {second} % 60 = 0 THEN {second} / 60 * (1 << 30) END")
        db.execute(f"UPDATE job_sample SET cpu_user = CASE WHEN {second} % 60 = 59 THEN max(0, {second} - 119) * 1000000000 END")
    db.close()
    assert Tool(tmp_path).run("report", path).returncode == 0
    opened = Opened(browser, tmp_path / "run.html", viewport={"width": 800, "height": 3000})

    def drawn(chart, time, value):
        """Is there a line at this place, or is there none?"""
        return opened.js(f"""(() => {{
            const {{ plot }} = [...document.querySelectorAll('figure.chart')].find(f => f.getAttribute('aria-label') === {json.dumps(chart)}).panel;
            const x = Math.round(plot.valToPos({time}, 'x', true)), y = Math.round(plot.valToPos({value}, 'y', true));
            const [r, g, b] = [0, 114, 178], d = plot.ctx.getImageData(x, y - 3, 1, 7).data;
            return Array.from({{length: 7}}, (_, i) => Math.abs(d[4*i] - r) + Math.abs(d[4*i+1] - g) + Math.abs(d[4*i+2] - b) < 90 && d[4*i+3] > 100).includes(true); }})()""")

    opened.until(DRAWN)
    for minute in (1, 2, 3):
        for share in (0.1, 0.5, 0.9):
            assert drawn("RAM of the job", 60 * (minute + share), minute * 2**30), (minute, share)
    assert not drawn("RAM of the job", 90, 1.5 * 2**30), "no slope"
    assert drawn("CPUs used by the job", 100, 0) and drawn("CPUs used by the job", 125, 1) and drawn("CPUs used by the job", 175, 1) and not drawn("CPUs used by the job", 150, 0.5)
    opened.js("document.querySelector('figure.chart').panel.page.view.point(115)")
    opened.settle()
    assert opened.chip("RAM of the job", "job") == "1\u00a0GiB" and opened.chip("CPUs used by the job", "job") == "0\u00a0cores"
    opened.js("document.querySelector('figure.chart').panel.page.view.point(125)")
    opened.settle()
    assert opened.chip("RAM of the job", "job") == "2\u00a0GiB" and opened.chip("CPUs used by the job", "job") == "1\u00a0core"
    opened.close()


DRAWN = """[...document.querySelectorAll('figure.chart')].every(f => {
    const c = f.querySelector('canvas');
    if (!c) return false;
    const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    return new Set(Array.from({length: d.length / 4}, (_, i) => d[4*i] << 16 | d[4*i+1] << 8 | d[4*i+2])).size > 1; })"""


def test_charts_that_nobody_scrolled_to_are_drawn(opened):
    """A picture of the whole page has all of them, and shows one stretch of time."""
    below = opened.js("[...document.querySelectorAll('figure.chart')].filter(f => f.getBoundingClientRect().top > innerHeight + 600).length")
    assert below >= 3
    opened.until(DRAWN)
    opened.press("+")
    opened.until("""[...document.querySelectorAll('figure.chart')].every(f => {
        const { plot, page } = f.panel;
        return page.view.max < page.view.end && plot.scales.x.min === page.view.min && plot.scales.x.max === page.view.max; })""")
    assert opened.js("scrollY") == 0


def test_a_print_waits_for_nothing(browser, page_file):
    """No idle time comes before it."""
    opened = Opened(browser, page_file, init="window.requestIdleCallback = () => 1;")
    assert not opened.js(DRAWN)
    opened.js("dispatchEvent(new Event('beforeprint'))")
    opened.settle()
    assert opened.js(DRAWN)
    opened.close()


def test_many_points_are_ready_in_time(browser, tmp_path):
    """14 series of 100,000 points: the budget is a second of one processor (0.5 to 0.7 s were seen), with room for slow ones."""
    path = tmp_path / "run.hiw"
    long_recordings.make(HIWATER, path, hours=0.5, processes=1, burst_at=70)
    long_recordings.add_series(path, [f"series{k}" for k in range(14)], 100_000, 1800)
    assert Tool(tmp_path).run("report", path).returncode == 0
    opened = Opened(browser, tmp_path / "run.html")
    assert 0 < opened.processor_s() < 3
    opened.close()


FOLLOWERS = """
import subprocess, time
lasting = [subprocess.Popen(["sleep", "600"]) for _ in range(4)]
for _ in range(2):
    subprocess.run(["sleep", "0.3"])
    time.sleep(1)
for child in lasting:
    child.kill()
"""


def test_areas_end_with_their_processes(browser, tmp_path):
    """Two that came after each other are drawn together as others: between them is nothing, and at the end of the chart no name."""
    tool = Tool(tmp_path)
    assert tool.run("run", "--summary", "none", "-i", "20ms", "-o", "run.hiw", "--", sys.executable, "-c", FOLLOWERS).returncode == 0
    assert tool.run("report", "run.hiw").returncode == 0
    opened = Opened(browser, tmp_path / "run.html")
    between = opened.js("""(() => { const { panel } = [...document.querySelectorAll('figure.chart')].find(f => f.getAttribute('aria-label') === 'RAM by process');
        const short = panel.page.data.runs[0].processes.filter(p => p.ended_ns - p.born_ns < 0.9e9 && p.name === 'sleep').sort((a, b) => a.born_ns - b.born_ns);
        const time = (short[0].ended_ns + short[1].born_ns) / 2e9;
        panel.view.point(time);
        return [short.length, time]; })()""")
    assert between[0] == 2, between
    opened.settle()
    assert opened.chip("RAM by process", "others") == "\u2013" and "MiB" in opened.chip("RAM by process", "python")
    opened.close()


def test_a_run_of_a_moment(browser, tmp_path):
    """What was read once is a dot, and the page does not speak of looks that there were none of."""
    tool = Tool(tmp_path)
    assert tool.run("run", "--summary", "none", "-i", "10s", "-o", "run.hiw", "--", "true").returncode == 0
    assert tool.run("report", "run.hiw").returncode == 0
    opened = Opened(browser, tmp_path / "run.html")
    assert opened.chip("RAM of the machine", "in use").startswith("max "), "the reading at the end is in the chart"
    assert "ended before the first sample of memory was due" in opened.page.inner_text("main") and "0 times" not in opened.page.inner_text("main")
    opened.close()


def test_what_matters_is_drawn_over_the_rest(opened):
    over = opened.js("""(() => { const of = (title) => [...document.querySelectorAll('figure.chart')].find(f => f.getAttribute('aria-label') === title).panel;
        return [of('RAM of the job').drawn.at(-1).label, of('RAM of the job').lines[0].label, of('RAM by process').drawn.at(-1).number]; })()""")
    assert over == ["job", "job", 0]


def test_the_crosshair_stays_at_its_time(opened):
    """However keys move the stretch that is shown."""
    opened.press("ArrowRight")
    cursor = opened.js("document.querySelector('figure.chart').panel.view.cursor")
    for key in ("+", "+", "Shift+ArrowRight", "Shift+ArrowLeft", "-", "0"):
        opened.press(key)
        opened.settle()
        assert opened.js("document.querySelector('figure.chart').panel.view.cursor") == pytest.approx(cursor, abs=0.01), key
