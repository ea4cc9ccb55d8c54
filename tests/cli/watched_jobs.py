# SPDX-License-Identifier: MIT
"""Shared by the tests of alerts, limits and checks: a job under hiwater that the test controls (puppet.py)."""
import select
import sqlite3
import subprocess
import sys
import threading

from cli_helpers import DEADLINE, HERE, wait_for


class Watched:
    """hiwater with options, and the puppet as its job; collects stderr as it is written."""

    def __init__(self, tool, *options, command="run", env=None, before=()):
        self.path = tool.folder / "run.hiw"
        self.process = tool.start(command, "--summary", "none", "-i", "20ms", "-o", self.path, *options, "--", *before,
                                  sys.executable, str(HERE / "puppet.py"), stdin=subprocess.PIPE, text=True,
                                  env=dict(tool.env, **(env or {})))
        self.text = ""
        self.reader = threading.Thread(target=self.gather, daemon=True)
        self.reader.start()
        assert self.answer() == "ready"

    def gather(self):
        for line in self.process.stderr:
            self.text += line

    def answer(self):
        ready, _, _ = select.select([self.process.stdout], [], [], DEADLINE)
        assert ready, f"the job does not answer; hiwater said {self.text!r}"
        return self.process.stdout.readline().strip()

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def say(self, line):
        """Sends the puppet a command; returns its answer."""
        self.send(line)
        return self.answer()

    def lines(self, begin):
        return [l.removeprefix(f"hiwater: {begin}: ") for l in self.text.splitlines() if l.startswith(f"hiwater: {begin}: ")]

    def wait_lines(self, begin, n=1):
        return wait_for(lambda: len(self.lines(begin)) >= n and self.lines(begin), f"{n} x {begin}; there is {self.text!r}")

    def finish(self, status=0):
        """Ends the puppet; returns hiwater's exit status."""
        if self.process.poll() is None:
            self.send(f"exit {status}")
        return self.wait()

    def wait(self):
        code = self.process.wait(DEADLINE)
        self.reader.join(DEADLINE)
        return code

    def query(self, sql):
        """Rows of the recording on disk; [] before its tables exist."""
        db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        try:
            return db.execute(sql).fetchall()
        except sqlite3.OperationalError:
            if self.process.poll() is not None:
                raise
            return []
        finally:
            db.close()

    def events(self, *kinds):
        """(kind, text) in order of time."""
        return [row for row in self.query("select kind, text from event order by t") if not kinds or row[0] in kinds]
