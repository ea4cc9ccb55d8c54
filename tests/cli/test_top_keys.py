# SPDX-License-Identifier: MIT
"""hiwater top: keys and the mouse, on a replay of a fixed recording."""
import re

import pytest
import top_screen
from cli_helpers import HERE, wait_for
from top_screen import click, expect_given_back, expect_screen, first_row, modes, mouse, place_of, top

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
    s.wait("rss >> 5")  # the error is shown, the line stays
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
    s.wait("no process matches 'nobody'")


def test_a_replay_runs_and_steps(screen, recording):
    s = screen()
    s.line(top(recording, "--at", "30s"))
    s.wait("0:00:30 of 0:02:00  paused")
    s.keys(".")
    s.wait("0:00:31 of")
    s.keys(",", ",")
    s.wait("0:00:29 of")
    s.wait("epoch 0")
    s.keys("Right", "Right", "Right")
    s.wait("0:00:59 of")
    s.wait("epoch 1")
    s.keys("8")
    s.wait("ended|0:01:[1-5]. of.*x8")
    s.keys("Space")
    s.wait("paused")


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
    s.wait("0:00:[12]. of 0:02:00  paused")


def test_no_mouse(screen, recording):
    s = screen()
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    assert s.value("mouse_any_flag") == "1"
    s.keys("q")
    s.wait_not("loader 1")  # else the next wait may find the view that is about to close
    s.line(top(recording, "--at", "90s", "--no-mouse"))
    s.wait("loader 1")
    assert s.value("mouse_any_flag") == "0"


def keys_in_table():
    return re.findall(r'^KEY\(\w+, "([^"]+)", "([^"]+)"', (HERE.parents[1] / "src/top/keys.def").read_text(), re.M)


def test_one_table_names_every_key(tool, screen, recording):
    """Help page and manual page list the same keys, all of them; so do narrow screens, where the page scrolls."""
    table = keys_in_table()
    named = " ".join(shown for shown, _ in table).split()
    for key in "w + - F2 Tab p q ? h F1 j k PgUp PgDn g G s F6 < > I / F4 t F5 space [ ] x Enter e m u c F9 , . 1 2 4 8".split():
        assert key in named
    man = " ".join(tool.run("_generate", "man-top").stdout.split())
    s = screen(40, 24)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.keys("?")
    s.wait("keys.*more")
    for _ in range(40):
        s.keys("Down")
    s.wait("up: more")
    s.wait("Keys but q leave")
    end = s.text()
    for _ in range(40):
        s.keys("Up")
    s.wait("down: more")
    for shown, sentence in table:
        roff = shown.replace("-", "\\-")
        assert f"\\fB{roff}\\fR {sentence[0].upper()}{sentence[1:]}" in man or f"\\fB{roff}\\fR {sentence}" in man, shown
        line = rf"(?m)^ {re.escape(shown)} +{re.escape(sentence)}"
        if not re.search(line, end):
            s.wait(line)
    s.keys("x")
    s.wait("loader 1")


def test_tab_goes_from_panel_to_panel(screen, recording):
    s = screen(80, 30)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.keys("Tab")
    s.wait("─ > since the start")
    assert re.search(r"^ RAM .*│", s.text(), re.M) and not re.search(r"^ loss .*│", s.text(), re.M)
    s.keys("End")  # charts that did not fit
    s.wait(r"^ accuracy +│")
    s.keys("Home")
    s.wait("^ RAM .*│")
    s.keys("Enter")  # all the room
    s.wait_not("COMMAND")
    expect_screen(s, "top-charts")
    s.keys("x")
    s.wait("COMMAND")
    s.keys("Tab")
    s.wait("─ > events 4")
    s.keys("Up")
    s.wait("> events 4, newer below")
    s.keys("Enter")
    s.wait(r"^ ! 0:00:12 alert data-starved")
    s.wait_not("COMMAND")
    s.keys("BTab")
    s.wait("─ > since the start")
    s.keys("Escape")
    s.wait_not("─ > ")
    s.keys("Tab", "Tab", "Tab", "Down", "Enter")
    s.wait("process 4100 python")


@pytest.mark.parametrize("keys, shown", [(["?"], "keys"), (["F2"], "top: setup"), (["s"], "sort by"), (["Enter"], "process 4100"),
                                         (["Tab", "Enter"], "charts|─")])
def test_q_leaves_from_every_page(screen, recording, keys, shown):
    s = screen(80, 30)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.keys(*keys)
    s.wait(shown)
    s.keys("q")
    wait_for(lambda: s.value("alternate_on") == "0", "the view has ended")


def test_pasted_text_is_not_taken_for_keys(screen, recording):
    s = screen(80, 30)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.tmux("set-buffer", "quit; q?s")
    s.tmux("paste-buffer", "-p")
    s.wait("pasted text is ignored")
    assert s.value("alternate_on") == "1" and "loader 1" in s.text()
    s.keys("/")
    s.wait("filter")
    s.tmux("set-buffer", "command ~ q\n")
    s.tmux("paste-buffer", "-p")
    s.wait("command ~ q")
    assert s.value("alternate_on") == "1"
    s.keys("Enter")  # the line end of the text was no answer
    s.wait("^ filter: command ~ q")
    s.keys("q")
    wait_for(lambda: s.value("alternate_on") == "0", "the view has ended")
    s.tmux("set-buffer", "echo 4''2")
    s.tmux("paste-buffer", "-p")
    s.keys("Enter")
    s.wait("^42")  # the mode is off again: the shell gets the text alone


def test_setup(screen, recording):
    """All settings on one page; changes stay after it is left."""
    s = screen(100, 30)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.keys("F2")
    expect_screen(s, "top-setup")
    s.keys("Right")
    s.wait(r"^ > sorted by \(s\) +PEAK")
    s.keys("Down", "Down", "Space")
    s.wait(r"^ > tree \(t\) +yes")
    for _ in range(30):
        s.keys("Down")
    s.wait("^ > column THR")
    s.keys("k", "k", "Enter")
    s.wait(r"^ > column READ/s +hidden")
    click(s, *place_of(s, "units (u)"))
    s.wait(r"units \(u\) +GB")
    click(s, *place_of(s, "mouse  "))
    s.wait(r"mouse +no")
    wait_for(lambda: s.value("mouse_any_flag") == "0", "the mouse is the terminal's")
    s.keys("Escape")
    s.wait("└─ tail|▼PEAK")
    assert "READ/s" not in s.text() and "68.7G" in s.text() and "▼PEAK" in s.text()
    s.keys("F2", "x")  # leaves the page
    s.wait("loader 1")


def test_the_interval_changes(screen, sleeper):
    s = screen(100, 30)
    s.line(top(sleeper.pid, "--gpu", "none", "-i", "60s"))
    s.wait("every 1 min")
    s.keys("+")
    s.wait("is the longest interval")
    s.keys("-", "-", "-", "-", "-")
    s.wait("every 1 s")
    first = s.wait(r"(0:00:\d\d)  every")[1]
    wait_for(lambda: (re.search(r"(0:00:\d\d)  every", s.text()) or [0, first])[1] > first, "the time advances each second")
    s.keys("-", "-", "-")
    s.wait("every 100 ms")
    s.keys("-")
    s.wait("is the shortest interval|every 100 ms")
    s.keys("+")
    s.wait("every 200 ms")


def test_the_interval_of_a_recording(screen, recording):
    s = screen()
    s.line(top(recording, "--at", "30s"))
    s.wait("0:00:30 of")
    s.keys("-")
    s.wait("is the shortest interval of the recording")
    s.keys("+", "+")
    s.wait("step: 5 s")
    s.keys(".")
    s.wait("0:00:35 of")


def test_lines_and_back(screen, recording):
    """p: plain lines on the restored terminal, from the same time; p and Enter: back to the screen; q and Enter: quit."""
    s = screen(100, 30)
    before = modes(s)
    s.line(top(recording, "--at", "90s") + "; echo status=$?")
    s.wait("loader 1")
    s.keys("p")
    s.wait("^time 0:01:30")
    assert s.value("alternate_on") == "0" and s.value("mouse_any_flag") == "0"
    s.line("p")
    s.wait("^ hiwater .*0:01:30 of 0:02:00")
    assert s.value("alternate_on") == "1"
    s.keys("8", "p")  # it runs: lines to the end
    s.wait("^time 0:02:00")
    s.wait("^status=0")
    expect_given_back(s, before)
    s.line("clear; " + top(recording, "--at", "90s") + "; echo status=$?")
    s.wait("loader 1")
    s.keys("p")
    s.wait("^time 0:01:30")
    s.line("q")
    s.wait("^status=0")
    expect_given_back(s, before)


def test_a_report_now(tool, screen, recording):
    """Written in the background, while the view continues; its name is also printed after quitting."""
    s = screen(100, 30)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.keys("w")
    s.wait("^ written: run.html|report failed: ")
    page = tool.folder / "run.html"
    if "report failed" in s.text():  # built without uPlot
        s.wait("uPlot|report")
        return
    assert b"train.py" in page.read_bytes()
    page.unlink()
    s.keys("w", "q")
    s.wait("^hiwater: written: run.html")
    assert page.stat().st_size > 10000


def test_no_report_of_what_is_not_recorded(screen, sleeper):
    s = screen(100, 30)
    s.line(top(sleeper.pid, "--gpu", "none"))
    s.wait(rf"^ +{sleeper.pid} ")
    s.keys("w")
    s.wait("no recording here")


def test_messages_are_not_cut(screen, sleeper):
    """Texts that do not fit on the last line use several: messages, errors of an answer, the answer."""
    s = screen(40, 24)
    s.line(top(sleeper.pid))
    s.wait(r"^ \? help")
    s.keys("w")
    s.wait(r"^ no recording here: start one with\s*\n hiwater run or hiwater attach$")
    s.keys("/")
    s.type("rss >> 1GiB and command ~ loader and cpu > 5")
    s.keys("Enter")
    s.wait(r"as\s*\n 24GiB, 90% or 0.5\s*\n filter \(rss > 1GiB and name ~ \^py\):\s*\n rss >> 1GiB and command ~ loader and\s*\n cpu > 5_$")


def test_a_menu_on_a_narrow_screen(screen, recording):
    """All choices are shown, on as many lines as needed; sorting by a hidden column is reported."""
    s = screen(40, 24)
    s.line(top(recording, "--at", "90s"))
    s.wait("loader 1")
    s.keys("s")
    for title in ("p PID", "u USER", "c CPU%", "g GPU MEM", "w WRITE/s", "n COMMAND"):
        s.wait(re.escape(title))
    s.keys("k")
    s.wait("^ sorted by PEAK")
