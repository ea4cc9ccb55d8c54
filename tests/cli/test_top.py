# SPDX-License-Identifier: MIT
"""hiwater top in a real terminal: the screen at each width, and plain lines.

tests/golden/top-*.txt are screens of one fixed recording (top_recording.py). GOLDEN=write pytest ... rewrites them."""
import re
import shutil
import subprocess

import pytest
import top_screen
from cli_helpers import HIWATER, wait_for
from top_screen import click, compare, expect_screen, make_recording, top

pytestmark = top_screen.needed


# ---- the screen ------------------------------------------------------------------------------------------------------

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
    for columns, shown in ((20, r"^RAM 11\.2G CPU 4\.50$"), (10, r"^RAM 11\.2G$")):
        s.tmux("resize-window", "-x", str(columns), "-y", "5")
        s.wait(shown)  # no figure is cut
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
    s.keys("x")  # leaves the page
    s.wait("loader 1")


def test_plain(tool, recording):
    done = tool.run("top", recording, "--plain", "--at", "90s", "-n", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    compare("top-plain", done.stdout)


def test_lines_are_as_wide_as_the_terminal(screen, recording):
    """A name gives up its middle there, so that each process has one line."""
    s = screen(80, 40)
    s.line(top(recording, "--at", "90s", "--plain", "-n", "1"))
    s.wait(r"^ +4100 .*python3.*images$")
    rows = s.text().split("COMMAND\n")[1].splitlines()
    assert all(re.match(r" *41\d\d ", row) for row in rows[:5]), rows


def test_a_pipe_gets_lines_of_all_of_the_run(tool, recording):
    done = tool.run("top", recording, "-i", "30s", "--rows", "0")
    assert re.findall(r"^time (\S+)", done.stdout, re.M) == ["0:00:30", "0:01:00", "0:01:30", "0:02:00"]
    assert "phase epoch 0" in done.stdout and "alert 0:01:11 warn: ram > 16GiB" in done.stdout
    assert "PID" not in done.stdout
    assert "peak 18.2G" in done.stdout.split("time ")[3]  # a burst of a second, before it


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


# ---- errors ----------------------------------------------------------------------------------------------------------

def test_what_is_not_there(tool):
    for args, status, word in [(("nothing.hiw",), 1, "nothing.hiw"), (("--filter", "rss >"), 2, "rss >"), (("a", "b"), 2, "one"),
                               (("-i", "1ms"), 2, "10ms"), (("--sort", "size"), 2, "size")]:
        done = tool.run("top", *args)
        assert done.returncode == status and word in done.stderr and done.stdout == "", args


def test_without_the_view(tool):
    """If there is no hiwater-top next to the command, the message says where it was searched, and that it may have been built without ncursesw."""
    alone = tool.folder / "alone" / "hiwater"
    alone.parent.mkdir()
    shutil.copy(HIWATER, alone)
    done = subprocess.run([str(alone), "top"], env=tool.env, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "ncursesw" in done.stderr and "libncurses-dev" in done.stderr
    assert f"there is no hiwater-top in {alone.parent} or {alone.parent}/../libexec/hiwater" in done.stderr
    text = subprocess.run([str(alone), "doctor"], env=tool.env, capture_output=True, text=True, check=False).stdout
    text = " ".join(text.split())
    assert "hiwater top" in text and "libncurses-dev" in text and f"no hiwater-top in {alone.parent}" in text
    assert "hiwater top" not in tool.run("doctor").stdout


def test_a_terminal_that_is_not_known(screen, recording):
    s = screen()
    s.line("TERM=no-such-terminal " + top(recording, "--at", "90s") + "; echo status=$?")
    s.wait("unknown terminal type")
    s.wait("^status=1")
    s.line("clear; TERM=dumb " + top(recording, "--at", "90s", "--rows", "0", "-n", "1"))
    s.wait("^time 0:01:30")
