# SPDX-License-Identifier: MIT
"""hiwater top: keys and the mouse, on a replay of a fixed recording."""
import re

import pytest
import top_screen
from cli_helpers import wait_for
from top_screen import click, first_row, mouse, place_of, top

pytestmark = top_screen.needed


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
