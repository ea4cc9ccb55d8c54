# SPDX-License-Identifier: MIT
"""Notebooks: executed by nbclient, and in JupyterLab in a real browser. With
HIWATER_PICTURES=FOLDER the screenshots are kept."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request
import xml.etree.ElementTree as ElementTree

import pytest
from track_helpers import COMMAND, MIB, ROOT, recorders_of, wait_for

pytestmark = [pytest.mark.full, pytest.mark.frameworks, pytest.mark.timeout(300)]

TRAIN = """for i in range(30):
    for _ in range(20): sum(range(20000))
    time.sleep(0.05)
    hiwater.current().log(loss=1 / (i + 1), accuracy=i / 30, step=i)"""


def made(*cells):
    import nbformat

    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nb.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nb


@pytest.fixture
def environment(program, monkeypatch):
    for key, value in {**program.env, "MPLBACKEND": "agg", "IPYTHONDIR": str(program.folder / "ipython"),
                       "JUPYTER_PREFER_ENV_PATH": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(program.folder)
    return program


def executed(*cells, **options):
    """The notebook after all its cells ran, also with errors."""
    from nbclient import NotebookClient

    nb = made("%load_ext hiwater\nimport hiwater, os, time", *cells)
    NotebookClient(nb, timeout=120, allow_errors=True, **options).execute()
    return [cell.outputs for cell in nb.cells[1:]]


def texts(outputs):
    """For each output, its text, or the name of its error."""
    return [o.get("text") or o.get("ename") or o["data"].get("text/plain", "") for o in outputs]


def errors(outputs):
    return [(o["ename"], "\n".join(o["traceback"])) for o in outputs if o["output_type"] == "error"]


def test_a_session(environment):
    """A line below each cell, about this cell alone: in the second, 300 MiB are used between two
    samples."""
    first, on, burst, quiet, status, off, last = executed(
        "1 + 1", "%hiwater on -n mine -i 10s", "b = bytearray(300 << 20); b[::4096] = b'x' * len(b[::4096]); del b\n'mine'", "x = 5",
        "%hiwater status", "%hiwater off", "%hiwater last")
    assert texts(first) == ["2"] and texts(on) == []
    assert texts(burst)[0] == "'mine'"
    found = re.match(r"\[4\]   [\d.]+ m?s   RAM ([\d.]+) -> ([\d.]+) MiB, peak ([\d.]+) MiB exact", texts(burst)[1])
    assert found and 290 <= float(found[3]) - float(found[1]) <= 320, texts(burst)
    found = re.match(r"\[5\]   [\d.]+ m?s   RAM ([\d.]+) -> ([\d.]+) MiB, peak ([\d.]+) MiB exact", texts(quiet)[0])
    assert found and float(found[3]) - float(found[1]) < 5, texts(quiet)
    assert len(quiet) == 1 and "mine" in texts(status)[0]
    assert "RAM peak" in texts(off)[0]
    assert "[4]" in texts(last)[0] and "Findings" in texts(last)[0]


def test_a_live_chart_is_left_static(environment):
    """SVG and text, no script, one output; the last expression and printed text of the cell are
    unchanged."""
    [cell] = executed(f"%%hiwater -n fit --live -o fit.hiw\nprint('mine')\n{TRAIN}\ni")
    charts = [o for o in cell if "text/html" in o.get("data", {})]
    assert len(charts) == 1 and sorted(o["output_type"] for o in cell) == ["display_data", "execute_result", "stream"]
    assert [t for t in texts(cell) if t in ("29", "mine\n")] == ["mine\n", "29"]
    data = charts[0]["data"]
    assert re.match(r"fit   [\d.]+ m?s   RAM peak [\d.]+ MiB exact\nCPU [\d.]+ cores", data["text/plain"])
    assert data["text/plain"].split("\n")[0] in data["text/html"]
    svg = ElementTree.fromstring(data["image/svg+xml"])
    said = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
    for title in ("CPU", "RAM", "loss", "accuracy"):
        assert title in said, said
    assert "<script" not in data["text/html"] and "http" not in re.sub(r'xmlns="[^"]*"', "", data["text/html"])
    assert len(json.dumps(data)) < 60000
    [shown] = [environment.shown("fit.hiw")]
    assert shown["run"]["complete"] and shown["series"]["loss"]["n"] == 30


def test_it_is_drawn_while_the_cell_works(environment):
    """The chart is updated repeatedly, also while the cell keeps Python busy; how often (twice a
    second at most) depends on the machine."""
    from nbclient import NotebookClient

    frames = []

    class Watching(NotebookClient):
        def process_message(self, msg, cell, cell_index):
            if msg["msg_type"] == "update_display_data":
                frames.append((time.monotonic(), msg["content"]["data"]["text/plain"]))
            return super().process_message(msg, cell, cell_index)

    nb = made("%load_ext hiwater\nimport hiwater, time",
              "%%hiwater --live\nend = time.monotonic() + 12\nwhile time.monotonic() < end: sum(range(1000))")
    Watching(nb, timeout=60).execute()
    assert len(frames) >= 8, len(frames)
    gaps = [b - a for (a, _), (b, _) in zip(frames, frames[1:])]
    assert sorted(gaps)[len(gaps) // 2] < 2, gaps
    assert len({text for _, text in frames}) >= 6


def test_errors_are_the_cells_own(environment):
    """The cell's error is unchanged, with its own line numbers; the run has ended; the next cell
    works."""
    failed, syntax, after, oom, usage, listed = executed(
        "%%hiwater --live -o a.hiw\nx = 1\nraise KeyError('mine')", "%%hiwater\nthis is no python", "print(hiwater._run._running)",
        "%%hiwater -o b.hiw\ntime.sleep(1.2)\nraise MemoryError('too much')", "%%hiwater --lively\nx = 2",
        "print(x, hiwater._run._running)")
    [(name, trace)] = errors(failed)
    assert name == "KeyError" and "line 3" in re.sub("\x1b\\[[0-9;]*m", "", trace) and "hiwater" not in re.sub("run_line_magic.*", "", trace)
    assert [o for o in failed if "text/html" in o.get("data", {})]
    assert errors(syntax)[0][0] == "SyntaxError" and texts(after) == ["[]\n"]
    assert errors(oom)[0][0] == "MemoryError" and environment.shown("b.hiw")["incident"]["event"].startswith("out of memory")
    assert [environment.shown(f)["exit"]["raised"] for f in ("a.hiw", "b.hiw")] == ["KeyError", "MemoryError"]
    assert errors(usage) == [] and "unknown option" in "".join(texts(usage)) or errors(usage)[0][0] == "UsageError"
    assert texts(listed) == ["1 []\n"]


def test_nested_and_other_magics(environment):
    timed, awaited, inner, several = executed(
        "%%hiwater -n timed\n%%timeit -n1 -r1\ntime.sleep(0.2)", "%%hiwater\nimport asyncio\nawait asyncio.sleep(0.2)\n7",
        "%%hiwater -n outer\nwith hiwater.track('inner') as run:\n    block = bytearray(50 << 20); block[::4096] = b'x' * len(block[::4096])\n    run.live()\nprint(run.summary.run.complete)",
        "%hiwater on\nwith hiwater.track() as a, hiwater.track() as b:\n    a.live(); b.live(); time.sleep(1.5)\n%hiwater off")
    assert "per loop" in texts(timed)[0] and texts(timed)[1].startswith("timed   ")
    assert "7" in texts(awaited) and any(re.match(r"hiwater   [\d.]+ m?s", t) for t in texts(awaited))
    assert "True\n" in texts(inner) and any(t.startswith("outer") for t in texts(inner)) and any(t.startswith("inner") for t in texts(inner))
    assert len([o for o in several if "text/html" in o.get("data", {})]) == 2 and errors(several) == []


def test_a_cell_that_a_program_runs(environment):
    ran, failed = executed("get_ipython().run_cell_magic('hiwater', '-n called', 'import time; time.sleep(0.2)\\nprint(6 * 7)')",
                           "get_ipython().run_cell_magic('hiwater', '-n bad', '1 / 0')\nprint('not here')")
    assert any("42" in t for t in texts(ran)) and any(re.match(r"called   [\d.]+ m?s", t) for t in texts(ran)) and errors(ran) == []
    assert {name for name, _ in errors(failed)} == {"ZeroDivisionError"} and not any("not here" in t for t in texts(failed))


def test_without_the_command_the_cell_runs(environment):
    [cell, on] = executed("%env HIWATER_COMMAND=/nowhere/hiwater\n", "%%hiwater --live\n5")
    assert "5" in texts(on) and errors(on) == [] and "/nowhere/hiwater" in "".join(texts(on))


def test_a_cell_that_runs_again(environment):
    """Its recording is replaced. A recording of another run is kept, and the cell still runs, as
    documented."""
    cell = "%%hiwater -n fit --live -o fit.hiw\nfor x in hiwater.wrap_loader([1, 2]):\n    with hiwater.phase('p'): hiwater.log(loss=x)\ntime.sleep({})\n'ran'"
    pathlib.Path("mine.hiw").write_text("mine")
    first, again, other, on, twice, mine = executed(
        cell.format(0.2), cell.format(1.4), cell.replace("-n fit", "-n other").format(0), "%hiwater on -o on.hiw\n%hiwater off\n%hiwater on -o on.hiw\n%hiwater off",
        "%%hiwater -n fit -o fit.hiw\nwhile not os.path.exists('fit.hiw'): time.sleep(0.01)\nhiwater.track('fit', output='fit.hiw').start()", cell.replace("fit.hiw", "mine.hiw").format(0))
    for outputs in (first, again, other, mine):
        assert errors(outputs) == [] and "'ran'" in texts(outputs)
    for outputs in (other, mine):
        assert "already exists" in "".join(texts(outputs))
    assert "already exists" not in "".join(texts(again) + texts(on)) and errors(on) == []
    assert errors(twice) == [] and "already exists" in "".join(texts(twice))
    assert pathlib.Path("mine.hiw").read_text() == "mine" and environment.shown("on.hiw")["run"]["complete"]
    assert environment.shown("fit.hiw")["run"]["name"] == "fit" and not list(pathlib.Path().glob("*~"))


def test_what_no_cell_recorded_stays(environment):
    """A run of the shell without a name, and one of the program, are not recordings of an unnamed
    cell. A kernel that starts later knows that, too."""
    environment.hiwater("run", "--summary", "none", "-o", "shell.hiw", "--", "true")
    cells = ["%%hiwater -o shell.hiw\n'ran'", "with hiwater.track(output='own.hiw'): pass", "%%hiwater -o own.hiw\n'ran'", "%%hiwater -o cell.hiw\n'ran'"]
    before = pathlib.Path("shell.hiw").read_bytes()
    shell, _, own, cell = executed(*cells)
    for outputs in (shell, own):
        assert "already exists" in "".join(texts(outputs)) and "'ran'" in texts(outputs)
    assert pathlib.Path("shell.hiw").read_bytes() == before and environment.shown("own.hiw")["run"]["complete"]
    made, [again] = environment.shown("cell.hiw")["run"], executed(cells[-1])
    assert "already exists" not in "".join(texts(cell) + texts(again))
    assert environment.shown("cell.hiw")["run"] != made


@pytest.mark.parametrize("lost", ["kernel", "recorder"])
@pytest.mark.parametrize("cell", ["%hiwater on -o b.hiw", "%%hiwater -o b.hiw"])
def test_a_kernel_that_starts_again(environment, cell, lost):
    """The recording was never finished by a cell, or its recorder was killed."""
    until = """
import sqlite3
def is_recorded():
    try:
        return sqlite3.connect("file:b.hiw?mode=ro", uri=True).execute("SELECT count(*) FROM meta").fetchone()[0] > 0
    except sqlite3.Error:
        return False
while not is_recorded():
    time.sleep(0.01)
"""
    end = {"kernel": "os.kill(os.getpid(), 9)", "recorder": "os.kill(hiwater.current()._channel._recorder.pid, 9); os.kill(os.getpid(), 9)"}[lost]
    from nbclient.exceptions import DeadKernelError

    with pytest.raises(DeadKernelError):
        executed(cell + until + end)
    before = environment.shown("b.hiw")["run"]["id"]
    [again] = executed(cell + "\n'ran'")
    assert "already exists" not in "".join(texts(again)) and errors(again) == []
    wait_for(pathlib.Path("b.hiw").exists, "the recording of a kernel that is gone")
    assert environment.shown("b.hiw")["run"]["id"] != before and not list(pathlib.Path().glob("*~*"))


def test_pages(environment):
    """For the run of a cell, the run of %hiwater on, the run that ended last."""
    cell, on, named, last = executed("%%hiwater --report -o a.hiw\ntime.sleep(1.2)", "%hiwater on -o b.hiw\ntime.sleep(1.2)",
                                     "%hiwater report mine.html", "%hiwater off\n%hiwater report")
    assert texts(cell)[-1] == f"report: {environment.folder}/a.html" and texts(named) == [f"report: {environment.folder}/mine.html"]
    assert texts(last)[-1] == f"report: {environment.folder}/b.html"
    for name in ("a", "b", "mine"):
        assert "<html" in (environment.folder / f"{name}.html").read_text()[:2000].lower()


def test_the_last_line_of_a_cell(environment):
    """Without %matplotlib: a picture of the plot, short tables of the run and its summary, also of a run that is running."""
    first, run, summary, plot, running = executed(
        "with hiwater.track('fit') as run:\n    for epoch in range(2):\n        with run.phase('epoch', epoch=epoch): time.sleep(0.6)\n    run.log(loss=1)",
        "run", "run.summary", "run.plot()", "other = hiwater.start('other')\ntime.sleep(0.3)\nother")
    for outputs in (run, summary, running):
        [shown] = outputs
        assert sorted(shown["data"]) == ["text/html", "text/plain"] and len(shown["data"]["text/plain"]) <= 700
        assert "<table" in shown["data"]["text/html"] and "RAM" in shown["data"]["text/html"]
    assert "epoch 1" in run[0]["data"]["text/plain"] and "so far" in running[0]["data"]["text/html"]
    [picture] = plot
    assert sorted(picture["data"]) == ["image/png", "text/plain"] and len(picture["data"]["image/png"]) > 10000
    assert len(picture["data"]["text/plain"]) <= 700


def test_pages_of_the_last_cell_and_of_the_notebook(environment):
    """With %hiwater on the last cell is a phase of its run, unless it has a run of its own."""
    one, two, several, _, on, phase, own, whole, off = executed(
        "%%hiwater -n cellone\ntime.sleep(1.1)", "%%hiwater -n celltwo\ntime.sleep(0.1)", "%hiwater report all\n%hiwater report last.html",
        "%hiwater on -n bookrun -o book.hiw", "time.sleep(0.3)", "%hiwater report", "%%hiwater -n ownrun -o own.hiw\ntime.sleep(0.1)",
        "%hiwater report\n%hiwater report all all.html", "%hiwater off\n%hiwater report all")
    folder = environment.folder
    assert texts(several) == [f"report: {folder}/hiwater-notebook.html", f"report: {folder}/last.html"]

    def runs_of(page):
        shown = re.sub("<(script|style).*?</\\1>", "", (folder / page).read_text(), flags=re.S)
        return {name for name in ("cellone", "celltwo", "ownrun", "bookrun") if name in shown}
    assert runs_of("hiwater-notebook.html") == {"cellone", "celltwo"} and runs_of("last.html") == {"celltwo"}
    [said] = texts(phase)
    found = re.fullmatch(rf"report: {folder}/book.html   \[(\d+)\]: file://{folder}/book.html#t=([\d.]+)-([\d.]+)", said)
    assert found and 0.25 < float(found[3]) - float(found[2]) < 20, said
    assert texts(whole) == [f"report: {folder}/own.html", f"report: {folder}/all.html"] and texts(off)[-1] == f"report: {folder}/book.html"
    assert runs_of("all.html") == {"bookrun"} and runs_of("own.html") == {"ownrun"}


def test_pages_of_cells_under_a_second(environment):
    """Their recording is a temporary file: the page is in the working folder, named after the cell,
    with any name."""
    cell, again, named = executed("%%hiwater --report\n1 + 1", "%hiwater report", "%%hiwater --report -n 'a/b c'\n1 + 1")
    for out, name in ((cell, "hiwater-cell"), (again, "hiwater-cell"), (named, "hiwater-a-b-c")):
        assert errors(out) == [] and texts(out)[-1] == f"report: {environment.folder}/{name}.html"
        assert "<html" in (environment.folder / f"{name}.html").read_text()[:2000].lower()


def test_what_is_wrong_is_said(environment):
    outs = executed("%hiwater of", "%hiwater off", "%hiwater last", "%hiwater on 5", "%hiwater report a b", "%hiwater report all", "%hiwater")
    said = ["".join(texts(o)) + "".join(t for _, t in errors(o)) for o in outs]
    for words, text in zip(("use on, off", "starts a run", "no run has ended", "unknown option '5'", "one file name", "no run to report", "nothing is measured"),
                           said):
        assert words in text, (words, text)


# ---- a separate kernel ---------------------------------------------------------------------------------------------------------

@pytest.fixture
def kernel(environment):
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", extra_arguments=["--IPKernelApp.parent_handle=0"])
    client.execute_interactive("%load_ext hiwater\nimport hiwater, os, time", timeout=60, output_hook=lambda m: None)
    yield manager, client
    client.stop_channels()
    if manager.is_alive():
        manager.shutdown_kernel(now=True)


def run_in(client, code, until):
    """Starts code, waits for a file that it makes; returns the id of the request."""
    request = client.execute(code)
    wait_for(until.exists, "the cell works")
    return request


def test_an_interrupted_cell_ends_its_run(kernel, environment):
    manager, client = kernel
    run_in(client, "%%hiwater --live -o a.hiw\nopen('at', 'w').close()\nwhile True: time.sleep(0.01)", environment.folder / "at")
    time.sleep(1.5)  # the duration of the run
    manager.interrupt_kernel()
    reply = client.get_shell_msg(timeout=30)
    assert reply["content"]["status"] == "error" and reply["content"]["ename"] == "KeyboardInterrupt"
    assert environment.shown("a.hiw")["run"]["complete"]
    got = []
    client.execute_interactive("print(hiwater._run._running, 1 + 1)", timeout=30, output_hook=lambda m: got.append(m["content"].get("text")))
    assert "[] 2\n" in got


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_kernel_that_goes_leaves_a_finished_recording(kernel, environment, how):
    manager, client = kernel
    run_in(client, "import pathlib\nblock = b'x' * (100 << 20)\n_ = hiwater.start(output='a.hiw')\n_.live()\ntime.sleep(1.5)\n"
           "pathlib.Path('at').write_text(str(os.getpid()))\ntime.sleep(1000)", environment.folder / "at")
    pid = int(wait_for((environment.folder / "at").read_text, "its pid is there"))
    if how == "kill":
        os.kill(pid, signal.SIGKILL)
    else:
        manager.restart_kernel(now=True)
    wait_for(lambda: not recorders_of(pid), "the recorder has ended")
    shown = environment.shown("a.hiw")
    assert shown["run"]["complete"] and shown["ram"]["main"]["peak_bytes"] >= 100 * MIB


# ---- in a browser ---------------------------------------------------------------------------------------------------------------

def chromium():
    import shutil

    return shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def lab(environment):
    """JupyterLab on the loopback interface; its address."""
    token = "hiwater-test"
    log = open(environment.folder / "lab.log", "w")
    server = subprocess.Popen([sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0", "--allow-root",
                               "--LabApp.expose_app_in_browser=True",
                               f"--ServerApp.root_dir={environment.folder}", f"--IdentityProvider.token={token}",
                               "--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"],
                              stdout=log, stderr=log, env={**os.environ, "JUPYTER_CONFIG_DIR": str(environment.folder / "config"),
                                                           "JUPYTER_DATA_DIR": str(environment.folder / "data"),
                                                           "JUPYTERLAB_SETTINGS_DIR": str(environment.folder / "settings"),
                                                           "JUPYTERLAB_WORKSPACES_DIR": str(environment.folder / "spaces"),
                                                           "JUPYTER_RUNTIME_DIR": str(environment.folder / "runtime")})

    def address():
        found = re.findall(r"http://127\.0\.0\.1:\d+/", (environment.folder / "lab.log").read_text())
        return found[-1] if found else None
    url = wait_for(address, "JupyterLab listens")

    def answers():
        try:
            return urllib.request.urlopen(f"{url}api?token={token}").status == 200
        except OSError:
            return False
    wait_for(answers, "JupyterLab answers")
    yield environment, url, token
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_in_jupyterlab(lab, theme):
    """The chart is updated while the cell trains, is saved in the file, and is readable on the page
    without changes."""
    import nbformat
    from playwright.sync_api import sync_playwright

    environment, url, token = lab
    program = chromium()
    assert program, "Chromium is not installed: tools/install-deps full"
    settings = environment.folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": f"JupyterLab {theme.title()}"}))
    slow = TRAIN.replace("range(30)", "range(100)")
    nb = made("%load_ext hiwater\nimport hiwater, time\n%hiwater on", f"%%hiwater -n fit --live\n{slow}")
    nbformat.write(nb, environment.folder / "n.ipynb")
    pictures = pathlib.Path(os.environ.get("HIWATER_PICTURES", environment.folder))
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(f"{url}lab/tree/n.ipynb?token={token}&reset")
        page.wait_for_selector(".jp-CodeCell", timeout=90000)
        page.wait_for_selector("text=Python 3 (ipykernel) | Idle", timeout=90000)
        page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
        chart = page.locator(".hiwater svg").first
        chart.wait_for(timeout=60000)
        seen = set()
        began = time.monotonic()
        while time.monotonic() - began < 5:
            seen.add(page.locator(".hiwater pre").first.inner_text())
            page.wait_for_timeout(100)
        page.screenshot(path=pictures / f"lab-{theme}-live.png")
        page.wait_for_selector(".hiwater pre:has-text('RAM peak')", timeout=90000)
        page.wait_for_timeout(300)
        page.screenshot(path=pictures / f"lab-{theme}.png")
        colours = page.evaluate("""() => {
            const shown = e => getComputedStyle(e);
            const chart = document.querySelector('.hiwater svg');
            let back = chart;
            while (back && shown(back).backgroundColor === 'rgba(0, 0, 0, 0)') back = back.parentElement;
            return {line: shown(chart.querySelector('path.line.c0')).stroke, text: shown(chart.querySelector('text')).fill,
                    back: shown(back).backgroundColor};
        }""")
        page.keyboard.press("Control+s")
        wait_for(lambda: "RAM peak" in (environment.folder / "n.ipynb").read_text(), "the notebook is saved")
        browser.close()
    assert len(seen) >= 6, seen
    light = {"light": lambda rgb: sum(rgb) > 600, "dark": lambda rgb: sum(rgb) < 250}[theme]
    rgb = {key: [int(n) for n in re.findall(r"\d+", value)[:3]] for key, value in colours.items()}
    assert light(rgb["back"]), rgb
    assert contrast(rgb["text"], rgb["back"]) >= 4.5 and contrast(rgb["line"], rgb["back"]) >= 3, (rgb, colours)
    assert rgb["line"] == ([0, 114, 178] if theme == "light" else [86, 180, 233])
    saved = json.loads((environment.folder / "n.ipynb").read_text())
    [data] = [o["data"] for o in saved["cells"][1]["outputs"] if "text/html" in o.get("data", {})]
    assert "<svg" in "".join(data["text/html"]) and "RAM peak" in "".join(data["text/plain"])


def contrast(one, other):
    def light(rgb):
        r, g, b = [c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
        return 0.2126 * r + 0.7152 * g + 0.0722 * b
    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_saved_notebooks_become_pages(environment):
    """nbconvert's HTML shows the chart without a kernel."""
    import nbformat
    from nbclient import NotebookClient

    nb = made("%load_ext hiwater\nimport hiwater, time", f"%%hiwater -n fit --live\n{TRAIN}")
    NotebookClient(nb, timeout=60).execute()
    nbformat.write(nb, "n.ipynb")
    subprocess.run([sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", "n.ipynb"], check=True, capture_output=True)
    assert '<div class="hiwater">' in pathlib.Path("n.html").read_text()


def test_in_a_terminal(environment):
    """IPython without a notebook: the line is printed, without a chart."""
    done = subprocess.run([sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", "-c",
                           "get_ipython().run_cell('%load_ext hiwater')\nget_ipython().run_cell('%%hiwater --live\\nprint(5)')"],
                          capture_output=True, text=True, timeout=120, env={**os.environ, "HIWATER_COMMAND": COMMAND,
                                                                              "PYTHONPATH": str(ROOT / "python")})
    assert "5\n" in done.stdout and "RAM peak" in done.stdout, done.stdout + done.stderr
    assert "this is not a notebook" in done.stderr
