# SPDX-License-Identifier: MIT
"""hiwater top in a real terminal (tmux): what is on the screen, keys, mouse, and that the terminal is given back.

tests/golden/top-*.txt are screens of one fixed recording (top_recording.py). GOLDEN=write pytest ... writes them anew."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import top_recording
from cli_helpers import DEADLINE, HERE, HIWATER, ended, wait_for

GOLDEN = HERE.parent / "golden"
VIEW = pathlib.Path(HIWATER).with_name("hiwater-top")

pytestmark = [pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed"),
              pytest.mark.skipif(not VIEW.exists(), reason="built without ncursesw")]


class Screen:
    """A terminal of its own, with a shell in it."""

    def __init__(self, tool, columns=80, rows=24, **env):
        self.socket = str(tool.folder / "tmux")
        self.env = {**tool.env, "TERM": "xterm", "PS1": "$ ", "TMPDIR": str(tool.folder), **env}
        self.shell = "exec env -u TMUX -u TMUX_PANE TERM=%s bash --norc --noprofile -i" % self.env["TERM"]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-c", str(tool.folder), "-x", str(columns), "-y", str(rows), self.shell)
        self.tmux("set-option", "-g", "status", "off")

    def tmux(self, *args):
        return subprocess.run(["tmux", "-S", self.socket, *args], env=self.env, check=True, text=True, errors="replace",
                              capture_output=True, timeout=DEADLINE).stdout

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def line(self, text):
        self.type(text)
        self.keys("Enter")

    def text(self):
        return self.tmux("capture-pane", "-p")

    def value(self, name):
        return self.tmux("display-message", "-p", "#{%s}" % name).strip()

    def wait(self, pattern):
        try:
            return wait_for(lambda: re.search(pattern, self.text(), re.M), pattern)
        except AssertionError:
            raise AssertionError(f"never on the screen: {pattern}\n{self.text()}") from None

    def wait_not(self, pattern):
        wait_for(lambda: not re.search(pattern, self.text(), re.M), f"no {pattern}")

    def end(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def screen(tool):
    made = []

    def make(*args, **options):
        made.append(Screen(tool, *args, **options))
        return made[-1]
    yield make
    for one in made:
        one.end()


def make_recording(tool, name="run.hiw", **options):
    path = tool.folder / name
    assert tool.run("run", "-o", path, "--summary", "none", "--", "sleep", "1.2").returncode == 0
    top_recording.make(path, **options)
    return path


@pytest.fixture
def recording(tool):
    return make_recording(tool)


def top(*args):
    return " ".join([HIWATER, "top", *map(str, args)])


def view_of(pane_shell):
    """The pid of hiwater-top below a shell."""
    out = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(pane_shell)], capture_output=True, text=True, check=False).stdout
    return next((int(l.split()[0]) for l in out.splitlines() if "hiwater-top" in l), None)


def compare(name, text):
    """With the screen that is kept."""
    path = GOLDEN / f"{name}.txt"
    text = "".join(line.rstrip() + "\n" for line in text.splitlines())
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def expect_screen(screen, name):
    """The screen becomes the kept one."""
    if os.environ.get("GOLDEN") != "write":
        path = GOLDEN / f"{name}.txt"
        kept = path.read_text().rstrip()
        end = time.monotonic() + DEADLINE
        while "\n".join(l.rstrip() for l in screen.text().splitlines()).rstrip() != kept and time.monotonic() < end:
            time.sleep(0.02)
    else:
        last = None
        while last != screen.text():  # it stands still
            last = screen.text()
            time.sleep(0.5)
    compare(name, screen.text())


# ---- what is on the screen -------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("columns", "rows"), [(40, 24), (80, 24), (120, 40), (160, 45)])
def test_widths(screen, recording, columns, rows):
    s = screen(columns, rows)
    s.line(top(recording, "--at", "90s"))
    expect_screen(s, f"top-{columns}")


def test_ascii(screen, recording):
    s = screen(80, 24, LANG="C")
    s.line(top(recording, "--at", "90s"))
    expect_screen(s, "top-80-ascii")


def test_too_small_is_one_line(screen, recording):
    s = screen(30, 6)
    s.line(top(recording, "--at", "90s") + "; echo status=$?")
    s.wait(r"^RAM 11\.2G peak 18\.2G CPU 4\.50")
    click(s, 3, 1)  # where there is no chart
    s.keys("q")
    s.wait("^status=0")


def test_tree_and_details(screen, recording):
    s = screen(100, 40)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.keys("t", "Down", "Down", "Enter")
    expect_screen(s, "top-tree")


def test_help(screen, recording):
    s = screen()
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.keys("?")
    expect_screen(s, "top-help")
    s.keys("q")  # leaves the page alone
    s.wait("loader 1")


def test_plain(tool, recording):
    done = tool.run("top", recording, "--plain", "--at", "90s", "-n", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    compare("top-plain", done.stdout)


def test_a_pipe_gets_lines_of_all_of_the_run(tool, recording):
    done = tool.run("top", recording, "-i", "30s", "--rows", "0")
    assert re.findall(r"^time (\S+)", done.stdout, re.M) == ["0:00:30", "0:01:00", "0:01:30", "0:02:00"]
    assert "phase epoch 0" in done.stdout and "alert 0:01:11 warn: ram > 16GiB" in done.stdout
    assert "PID" not in done.stdout
    assert "peak 18.2G" in done.stdout.split("time ")[3]  # a burst of a second, before it


# ---- keys ------------------------------------------------------------------------------------------------------------

def first_row(s):
    """The row below the heads."""
    lines = s.text().splitlines()
    at = next(i for i, line in enumerate(lines) if "COMMAND" in line)
    return lines[at + 1]


def test_sorting(screen, recording):
    s = screen(120, 40)
    s.line(top(recording, "--at", "90s"))
    s.wait("tail -f log$")
    s.keys("s")
    s.wait("sort by .*p PID")
    s.keys("p")
    s.wait("▲PID")
    wait_for(lambda: "4100" in first_row(s), "the smallest pid first")
    s.keys("I")
    wait_for(lambda: "4104" in first_row(s), "the largest pid first")
    s.keys(">")
    s.wait("USER")
    s.keys("s", "n")
    wait_for(lambda: "loader 0" in first_row(s) or "tail" in first_row(s), "by command")


def test_filter_and_find(screen, recording):
    s = screen(80, 30)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.keys("/")
    s.line("rss > 100MiB and command ~ loader")
    s.wait("^ filter: rss > 100MiB")
    s.wait_not("train.py --ep.*\n.*loader")
    assert "loader 0" in s.text() and "tail" not in s.text()
    s.keys("/")
    s.wait(r"filter \(.*rss > 100MiB and command ~ loader_")
    s.keys(*["BSpace"] * 40)
    s.line("rss >> 5")
    s.wait("rss >> 5")  # what is wrong is said, the line stays
    assert re.search(r"value|number|expected|missing|not", s.text())
    s.keys("Escape")
    s.wait("^ filter: rss > 100MiB")
    s.keys("Escape")
    s.wait("tail|sh -c")
    s.keys("f")
    s.line("loader 0")
    s.keys("Enter")
    s.wait("process 4101 python")
    s.keys("f")
    s.line("nobody")
    s.wait("no process has 'nobody'")


def test_a_replay_runs_and_steps(screen, recording):
    s = screen()
    s.line(top(recording, "--at", "30s"))
    s.wait("0:00:30 of 0:02:00  standing")
    s.keys(".")
    s.wait("0:00:31 of")
    s.keys(",", ",")
    s.wait("0:00:29 of")
    s.wait("epoch 0")
    s.keys("Right", "Right", "Right")
    s.wait("0:00:59 of")
    s.wait("epoch 1")
    s.keys("8")
    s.wait("at its end|0:01:[1-5]. of.*x8")
    s.keys("Space")
    s.wait("standing")


def test_zoom_and_units(screen, recording):
    s = screen()
    s.line(top(recording, "--at", "110s"))
    s.wait("since the start .1.83 min")
    s.keys("[", "[")
    s.wait("last 1 min, zoom")
    s.keys("]", "]")
    s.wait("since the start")
    s.keys("u")
    s.wait("68.7G")  # 64 GiB
    s.keys("e", "v")
    s.wait_not("zoom|events")


def mouse(s, button, x, y, pressed=True):
    """As terminals say it now (SGR), or as they always did (X10: a release has button 3); places count from 1."""
    if s.env["TERM"] == "xterm":
        text = f"\x1b[<{button};{x};{y}{'M' if pressed else 'm'}"
    else:
        text = "\x1b[M" + chr(32 + (button if pressed else 3)) + chr(32 + x) + chr(32 + y)
    s.keys("-H", *(f"{byte:x}" for byte in text.encode()))  # as bytes: to tmux a ; has a meaning


def click(s, x, y):
    mouse(s, 0, x, y)
    mouse(s, 0, x, y, pressed=False)


def place_of(s, text):
    lines = s.text().splitlines()
    y = next(i for i, line in enumerate(lines) if text in line)
    return lines[y].index(text) + 1, y + 1


@pytest.mark.parametrize("terminal", ["xterm", "screen"])
def test_the_mouse(screen, recording, terminal):
    s = screen(80, 30, TERM=terminal)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    head = place_of(s, "PID")
    click(s, *head)
    s.wait("▲PID")
    click(s, *head)
    s.wait("▼PID")
    click(s, *place_of(s, "loader 0"))
    s.keys("Enter")
    s.wait("process 4101")
    s.keys("Enter")
    s.wait_not("process 4101")
    x, y = place_of(s, "100%│")
    mouse(s, 0, x + 20, y)  # a span is drawn
    mouse(s, 0, x + 40, y, pressed=False)
    s.wait(r"0:00:\d\d to 0:0\d:\d\d, \[ \] back")
    s.keys("]")
    s.wait("since the start")
    mouse(s, 64, x + 20, y)  # the wheel zooms
    s.wait("last 3 min|since the start")
    click(s, x + 20, y)  # a click goes there
    s.wait("0:00:[12]. of 0:02:00  standing")


def test_no_mouse(screen, recording):
    s = screen()
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    assert s.value("mouse_any_flag") == "1"
    s.keys("q")
    s.line(top(recording, "--at", "90s", "--no-mouse"))
    s.wait("loader 1")
    assert s.value("mouse_any_flag") == "0"


def test_resizing(screen, recording):
    s = screen(120, 40)
    s.line(top(recording, "--at", "90s"))
    expect_screen(s, "top-120")
    s.tmux("resize-window", "-x", "40", "-y", "24")
    expect_screen(s, "top-40")
    s.tmux("resize-window", "-x", "20", "-y", "3")
    s.wait("^RAM 11")
    s.tmux("resize-window", "-x", "120", "-y", "40")
    expect_screen(s, "top-120")


# ---- the terminal is given back --------------------------------------------------------------------------------------

def modes(s):
    s.line("clear; stty -g")
    return s.wait(r"^([0-9a-f:]{40,})$")[1]


def expect_given_back(s, before):
    wait_for(lambda: s.value("alternate_on") == "0", "the first screen is back")
    assert s.value("cursor_flag") == "1"
    assert s.value("mouse_any_flag") == "0"
    assert modes(s) == before


@pytest.mark.parametrize("how", ["q", "C-c", "TERM", "HUP", "QUIT", "SEGV", "ABRT", "BUS"])
def test_however_it_ends(screen, recording, how):
    s = screen()
    before = modes(s)
    s.line("ulimit -c 0; " + top(recording, "--at", "90s"))
    s.wait("loader 1")
    assert s.value("alternate_on") == "1"
    if how in ("q", "C-c"):
        s.keys(how)
    else:
        os.kill(view_of(int(s.value("pane_pid"))), getattr(signal, f"SIG{how}"))
    expect_given_back(s, before)
    s.line("clear; echo status=$?")
    s.wait("status=")


def test_a_signal_ends_it_as_it_ends_others(screen, recording):
    s = screen()
    s.line(top(recording, "--at", "90s") + "; echo status=$?")
    s.wait("loader 1")
    os.kill(view_of(int(s.value("pane_pid"))), signal.SIGTERM)
    s.wait("^status=143")
    s.line(top(recording, "--at", "90s") + "; echo status=$?")
    s.wait("loader 1")
    s.keys("q")
    s.wait("^status=0")


def test_it_stops_and_goes_on(screen, recording):
    s = screen()
    before = modes(s)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.keys("C-z")
    s.wait("Stopped")
    expect_given_back(s, before)
    s.line("fg")
    s.wait("loader 1")
    assert s.value("alternate_on") == "1"
    s.keys("t", "q")
    expect_given_back(s, before)


def test_the_terminal_goes_away(screen, recording):
    s = screen()
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    pid = view_of(int(s.value("pane_pid")))
    s.end()
    wait_for(lambda: ended(pid), "the view has ended")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_names_do_no_harm(tool, screen, locale):
    recording = make_recording(tool, hostile=True)
    s = screen(120, 40, LANG=locale)
    raw = tool.folder / "raw"
    s.tmux("pipe-pane", "-o", f"cat >> {raw}")
    s.line(top(recording, "--at", "90s"))
    s.wait("ev.?.0;owned")
    s.keys("q")
    s.wait_not("GPU0")
    out = raw.read_bytes()
    assert b"\x1b]0;" not in out and b"\x07" not in out.replace(b"\x1b]", b"")
    assert "\u202e".encode() not in out and "\u009b".encode() not in out
    lines = tool.run("top", recording, "--plain", "--at", "90s", "-n", "1", env={"LANG": locale}).stdout
    assert "owned" in lines
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", lines)


def test_no_color(screen, recording):
    s = screen(80, 24, NO_COLOR="1")
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", s.tmux("capture-pane", "-p", "-e"))
    s.keys("c")
    wait_for(lambda: re.search(r"\x1b\[[0-9;]*3[0-7]m", s.tmux("capture-pane", "-p", "-e")), "colours")


# ---- what is live ----------------------------------------------------------------------------------------------------

SLEEPER = "import time\nx = bytearray(64 << 20)\nprint('ready', flush=True)\ntime.sleep(600)"


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", SLEEPER, "hiwater-sleeper"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.stdout.close()
    process.wait()


def test_the_machine(screen, sleeper):
    s = screen(100, 30)
    s.line(top("--filter", f"'pid == {sleeper.pid}'", "--gpu", "none"))
    s.wait(rf"^ +{sleeper.pid} .*python")
    s.wait(r"CPU +[\d.]+ cores")
    s.keys("C")
    s.wait(r"^   0 \[")


def test_a_process_and_a_signal_to_it(screen, sleeper):
    s = screen(100, 30)
    s.line(top(sleeper.pid, "--gpu", "none"))
    s.wait(rf"pid {sleeper.pid}")
    s.wait(rf"^ +{sleeper.pid} ")
    s.keys("F9")
    s.wait("pick a process first")
    s.keys("Down", "F9")
    s.wait("5 TERM")
    s.keys("5")
    s.wait(rf"TERM to {sleeper.pid} .*y or n")
    s.keys("n")
    s.wait_not("y or n")
    assert sleeper.poll() is None
    s.keys("m")
    s.line("look here")
    s.wait("mark look here")
    s.keys("F9", "5", "y")
    assert sleeper.wait(DEADLINE) == -signal.SIGTERM
    s.wait("ended")
    s.keys("q")


def test_a_signal_goes_to_whom_the_question_names(screen, sleeper):
    """A click on another row changes nothing about it."""
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            s = screen(100, 30)
            s.line(top("--filter", f"'pid == {sleeper.pid} or pid == {other.pid}'", "--gpu", "none"))
            s.wait(rf"^ +{other.pid} .*sleep 600")
            click(s, *place_of(s, f"{sleeper.pid} "))
            s.keys("F9", "5")
            s.wait(rf"TERM to {sleeper.pid} .*y or n")
            click(s, *place_of(s, f"{other.pid} "))
            s.keys("y")
            assert sleeper.wait(DEADLINE) == -signal.SIGTERM
            assert other.poll() is None
        finally:
            other.kill()


def test_no_signals_where_they_are_switched_off(screen, sleeper):
    s = screen()
    s.line(top(sleeper.pid, "--gpu", "none", "--readonly"))
    s.wait(rf"^ +{sleeper.pid} ")
    s.keys("Down", "F9")
    s.wait("switched off")


def test_a_recording_that_grows(tool, screen):
    path = tool.folder / "grows.hiw"
    run = tool.start("run", "-o", path, "--summary", "none", "--gpu", "none", "--", sys.executable, "-c", SLEEPER)
    wait_for(path.exists, "the recording")
    s = screen(100, 30)
    s.line(top(path))
    s.wait("every 1 s")
    first = s.wait(r"(0:00:\d\d)  every")[1]
    wait_for(lambda: (re.search(r"(0:00:\d\d)  every", s.text()) or [0, first])[1] > first, "it goes on")
    s.wait("python")
    run.terminate()
    run.wait(DEADLINE)
    s.wait("ended")


def test_a_process_that_is_recorded_is_not_read_twice(tool, screen):
    run = tool.start("run", "--summary", "none", "--gpu", "none", "-n", "mine", "--", "sleep", "60")
    pid = wait_for(lambda: subprocess.run(["ps", "-o", "pid=", "--ppid", str(run.pid)], capture_output=True, text=True,
                                          check=False).stdout.split(), "the job")[0]
    wait_for(lambda: list(tool.history.glob("*.hiw")), "the recording")
    s = screen(100, 30)
    s.line(top(pid))
    s.wait(r"hiwater mine .*every 1 s")  # the run's name is in the recording alone
    run.terminate()
    run.wait(DEADLINE)


def test_a_recording_whose_recorder_was_killed(tool, screen):
    path = tool.folder / "cut.hiw"
    run = tool.start("run", "-o", path, "--summary", "none", "--gpu", "none", "--", sys.executable, "-c", SLEEPER)
    wait_for(path.exists, "the recording")
    wait_for(lambda: "RAM" in tool.run("show", path).stdout, "something in it")
    run.kill()
    run.wait(DEADLINE)
    s = screen(100, 30)
    s.line(top(path, "--at", "1s"))
    s.wait("0:00:0. of 0:00:")
    s.wait("python")
    os.kill(int(re.search(r"^ +(\d+) ", first_row(s))[1]), signal.SIGKILL)


def test_gpus_of_a_driver(tool, screen, sleeper):
    """Of a fake driver, live: memory of the device and of the process, SM activity, power."""
    scenario = tool.folder / "gpu.conf"
    scenario.write_text(f"""[driver]
level = 550
[gpu 0-1]
include = {HERE.parent}/fake/scenarios/cards/h100.conf
memory_used = processes 100Mi
[process 0]
pid = {sleeper.pid}
memory = 3Gi
""")
    drivers = pathlib.Path(HIWATER).parent / "tests" / "fake" / "drivers" / "550"
    s = screen(120, 40, LD_LIBRARY_PATH=str(drivers), HIWATER_FAKE_NVML=str(scenario))
    s.line(top(sleeper.pid))
    s.wait(r"^ GPU0 +3\.\d+G \[.* of 80\.0G|^ GPU0 +3\.\d+G \[.*of \d\d\.\dG")
    s.wait(r"^  SM .*%.* W .* C .*H100|^  busy .* W ")
    s.wait("1 GPU that the job holds no memory of")
    s.wait(rf"^ +{sleeper.pid} .* 3\.00G")
    s.keys("q")
    lines = tool.run("top", sleeper.pid, "-n", "3", env={"LD_LIBRARY_PATH": str(drivers), "HIWATER_FAKE_NVML": str(scenario)}).stdout
    assert re.search(r"^GPU0 memory 3\.\d+G of ", lines, re.M), lines


# ---- run --live ------------------------------------------------------------------------------------------------------

def live(*args, options=()):
    return " ".join([HIWATER, "run", "--live", "--summary", "line", "--gpu", "none", *options, "--", *args])


TALKER = "'for i in 1 2 3 4; do echo out $i; echo err $i >&2; sleep 1; done; exit 3'"


def test_live(tool, screen):
    """The view while the job runs; then what it printed, the summary, its status, and the terminal as it was."""
    s = screen(100, 30)
    before = modes(s)
    s.line("clear; " + live("sh", "-c", TALKER) + "; echo status=$?")
    s.wait(r"^ hiwater .*every 1 s")
    s.wait(r"^ +\d+ .* sleep 1$")
    assert s.value("alternate_on") == "1" and "out 1" not in s.text()
    s.wait("^status=3")
    assert re.findall(r"^(?:out|err) \d$", s.text(), re.M) == [f"{what} {i}" for i in range(1, 5) for what in ("out", "err")]
    assert re.search(r"^hiwater .*exit=3", s.text(), re.M)
    expect_given_back(s, before)
    assert not list(tool.folder.glob("hiwater-live-*"))


@pytest.mark.parametrize("kernel", ["", f"{sys.executable} {HERE / 'no_pidfd.py'} "], ids=["new", "old"])
def test_live_is_left_and_the_job_goes_on(tool, screen, kernel):
    go = tool.folder / "go"
    s = screen(100, 30)
    s.line("clear; " + kernel + live("sh", "-c", f"'echo out 1; echo err 1 >&2; while [ ! -e {go} ]; do sleep 0.1; done; "
                                     "echo out 2; echo err 2 >&2; exit 3'") + "; echo status=$?")
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("q")
    s.wait("^out 1\nerr 1")
    assert "status=" not in s.text()
    go.touch()
    s.wait("^err 2\n(.*\n)+status=3")
    assert len(re.findall("^out 1", s.text(), re.M)) == 1


def test_live_keys_are_the_jobs(screen):
    """Ctrl-C ends the job, Ctrl-Z stops it and the view."""
    s = screen(100, 30)
    before = modes(s)
    s.line("clear; " + live("sleep", "600"))
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("C-z")
    s.wait("Stopped")
    expect_given_back(s, before)
    s.line("fg")
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("C-c")
    wait_for(lambda: s.value("alternate_on") == "0", "the view is over")
    s.line("echo status=$?")
    s.wait("^status=130")
    expect_given_back(s, before)


def job_state(file):
    """Of the process that wrote its pid into the file: S, T (stopped) and so on."""
    return wait_for(lambda: file.exists() and file.read_text().strip(), "the job's pid") and \
        pathlib.Path(f"/proc/{file.read_text().strip()}/stat").read_text().rpartition(")")[2].split()[0]


def ticking(folder):
    """A job that says in the file ticks how far it is."""
    return "sh", "-c", f"'echo $$ > {folder}/pid; i=0; while :; do i=$((i+1)); echo $i > {folder}/ticks; sleep 0.1; done'"


def expect_running(folder, more=25):
    """The job gets on, for longer than the view takes to draw again."""
    ticks = folder / "ticks"
    number = lambda: int(ticks.read_text() or 0) if ticks.exists() else 0
    first = number()
    wait_for(lambda: number() >= first + more, "the job goes on")
    assert job_state(folder / "pid") != "T"


def test_live_in_the_background(tool, screen):
    """No view, and the job goes on; in the foreground there is one."""
    s = screen(100, 30)
    s.line("clear; " + live(*ticking(tool.folder)) + " &")
    expect_running(tool.folder)
    s.line("echo here; jobs")
    s.wait(r"^here\n.*Running")
    assert s.value("alternate_on") == "0"
    s.line("fg")
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("C-c")
    wait_for(lambda: s.value("alternate_on") == "0", "the view is over")


def test_live_goes_on_in_the_background(tool, screen):
    """Ctrl-Z, bg: the job runs and the shell has its terminal and keys; fg: the view is there again."""
    s = screen(100, 30)
    before = modes(s)
    s.line("clear; " + live(*ticking(tool.folder)))
    s.wait(r"^ hiwater .*every 1 s")
    s.keys("C-z")
    s.wait("Stopped")
    s.line("clear; bg")
    expect_running(tool.folder)
    s.line("echo here; jobs")
    s.wait(r"^here\n.*Running")
    expect_given_back(s, before)
    s.line("fg")
    s.wait(r"^ hiwater .*every 1 s")
    assert s.value("alternate_on") == "1"
    s.keys("C-c")
    wait_for(lambda: s.value("alternate_on") == "0", "the view is over")
    s.line("echo status=$?")
    s.wait("^status=130")
    expect_given_back(s, before)


def test_live_outlives_nobody(tool, screen):
    """hiwater is killed: the job goes on, its output too, and the terminal is given back."""
    s = screen(100, 30)
    before = modes(s)
    s.line("clear; " + live("sh", "-c", f"'echo $$ > {tool.folder}/pid; exec sleep 600'"))
    s.wait(r"^ hiwater .*every 1 s")
    job = int((tool.folder / "pid").read_text())
    hiwater = int(subprocess.run(["ps", "-o", "ppid=", "-p", str(job)], capture_output=True, text=True, check=True).stdout)
    spool = os.readlink(f"/proc/{job}/fd/1")
    os.kill(hiwater, signal.SIGKILL)
    expect_given_back(s, before)
    assert not ended(job) and pathlib.Path(spool).exists()
    os.kill(job, signal.SIGKILL)
    os.unlink(spool)


def test_live_leaves_other_streams_alone(tool, screen):
    s = screen(100, 30)
    s.line(f"clear; echo in | {live('sh', '-c', TALKER.replace('echo out', 'cat; echo out'))} > out.txt 2> err.txt; echo status=$?")
    s.wait(r"^ hiwater .*every 1 s")
    s.wait("^status=3")
    folder = pathlib.Path(s.value("pane_current_path"))
    assert (folder / "out.txt").read_text() == "in\nout 1\nout 2\nout 3\nout 4\n"
    assert (folder / "err.txt").read_text().startswith("err 1\nerr 2\nerr 3\nerr 4\n")
    (folder / "out.txt").unlink()
    (folder / "err.txt").unlink()


def test_live_without_a_terminal(tool):
    done = tool.run("run", "--live", "--summary", "none", "--", "echo", "there", start_new_session=True)
    assert (done.returncode, done.stdout) == (0, "there\n") and "no terminal" in done.stderr
    done = tool.run("run", "--live", "--no-record", "--", "echo", "there")
    assert (done.returncode, done.stdout) == (125, "") and "--no-record" in done.stderr


# ---- what cannot be done ---------------------------------------------------------------------------------------------

def test_what_is_not_there(tool):
    for args, status, word in [(("nothing.hiw",), 1, "nothing.hiw"), (("--filter", "rss >"), 2, "rss >"), (("a", "b"), 2, "one"),
                               (("-i", "1ms"), 2, "10ms"), (("--sort", "size"), 2, "size")]:
        done = tool.run("top", *args)
        assert done.returncode == status and word in done.stderr and done.stdout == "", args


def test_without_the_view(tool):
    """Where it was built without ncursesw, the command says so."""
    alone = tool.folder / "alone" / "hiwater"
    alone.parent.mkdir()
    shutil.copy(HIWATER, alone)
    done = subprocess.run([str(alone), "top"], env=tool.env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "ncursesw" in done.stderr and "libncurses-dev" in done.stderr
    text = subprocess.run([str(alone), "doctor"], env=tool.env, capture_output=True, text=True, check=False).stdout
    assert "hiwater top" in text and "libncurses-dev" in text
    assert "hiwater top" not in tool.run("doctor").stdout


def test_a_terminal_that_is_not_known(screen, recording):
    s = screen()
    s.line("TERM=no-such-terminal " + top(recording, "--at", "90s") + "; echo status=$?")
    s.wait("not known here")
    s.wait("^status=1")
    s.line("clear; TERM=dumb " + top(recording, "--at", "90s", "--rows", "0", "-n", "1"))
    s.wait("^time 0:01:30")
