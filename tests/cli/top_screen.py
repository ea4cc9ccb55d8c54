# SPDX-License-Identifier: MIT
"""A terminal of its own (tmux) for tests of hiwater top and run --live: keys, mouse, the text of the screen, and the
restoration of the terminal."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest
import top_recording
from cli_helpers import DEADLINE, HERE, HIWATER, wait_for

GOLDEN = HERE.parent / "golden"
VIEW = pathlib.Path(HIWATER).with_name("hiwater-top")

needed = [pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed"),
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
    """Compares a text with the golden screen."""
    path = GOLDEN / f"{name}.txt"
    text = "".join(line.rstrip() + "\n" for line in text.splitlines())
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def expect_screen(screen, name):
    """Waits until the screen equals the golden one."""
    if os.environ.get("GOLDEN") != "write":
        path = GOLDEN / f"{name}.txt"
        kept = path.read_text().rstrip()
        end = time.monotonic() + DEADLINE
        while "\n".join(l.rstrip() for l in screen.text().splitlines()).rstrip() != kept and time.monotonic() < end:
            time.sleep(0.02)
    else:
        last = None
        while last != screen.text():  # it no longer changes
            last = screen.text()
            time.sleep(0.5)
    compare(name, screen.text())


def first_row(s):
    """The row below the column titles."""
    lines = s.text().splitlines()
    at = next(i for i, line in enumerate(lines) if "COMMAND" in line)
    return lines[at + 1]


def mouse(s, button, x, y, pressed=True):
    """A mouse event as modern terminals send it (SGR), or as old ones do (X10: a release is button 3); positions count from 1."""
    if s.env["TERM"] == "xterm":
        text = f"\x1b[<{button};{x};{y}{'M' if pressed else 'm'}"
    else:
        text = "\x1b[M" + chr(32 + (button if pressed else 3)) + chr(32 + x) + chr(32 + y)
    s.keys("-H", *(f"{byte:x}" for byte in text.encode()))  # as bytes: ; is special to tmux


def click(s, x, y):
    mouse(s, 0, x, y)
    mouse(s, 0, x, y, pressed=False)


def place_of(s, text):
    lines = s.text().splitlines()
    y = next(i for i, line in enumerate(lines) if text in line)
    return lines[y].index(text) + 1, y + 1


def modes(s):
    s.line("clear; stty -g")
    return s.wait(r"^([0-9a-f:]{40,})$")[1]


def expect_given_back(s, before):
    wait_for(lambda: s.value("alternate_on") == "0", "the first screen is back")
    assert s.value("cursor_flag") == "1"
    assert s.value("mouse_any_flag") == "0"
    assert modes(s) == before


SLEEPER = "import time\nx = bytearray(64 << 20)\nprint('ready', flush=True)\ntime.sleep(600)"


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", SLEEPER, "hiwater-sleeper"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.stdout.close()
    process.wait()
