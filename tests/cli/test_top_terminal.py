# SPDX-License-Identifier: MIT
"""hiwater top gives the terminal back, however it ends."""
import os
import pty
import signal
import subprocess

import pytest
import top_screen
from cli_helpers import DEADLINE, HIWATER, ended, wait_for
from top_screen import expect_given_back, modes, top, view_of

pytestmark = top_screen.needed


@pytest.mark.parametrize("how", ["q", "C-c", "TERM", "HUP", "QUIT", "SEGV", "ABRT", "BUS", "USR1", "ALRM", "XCPU"])
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


def test_it_ends_like_by_a_hangup_where_nobody_sends_one(tool, recording):
    """It is no controlling terminal, so only poll shows its end. The view then dies of SIGHUP, without exit handlers, which a second
    SIGCONT of the hang-up could interrupt."""
    ours, theirs = pty.openpty()
    view = subprocess.Popen([HIWATER, "top", str(recording), "--at", "90s"], env={**tool.env, "TERM": "xterm"}, stdin=theirs,
                            stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    seen = b""
    while b"loader" not in seen:
        seen += os.read(ours, 65536)
    os.close(ours)
    assert view.wait(DEADLINE) == -signal.SIGHUP
