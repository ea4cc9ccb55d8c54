# SPDX-License-Identifier: MIT
"""The command gpu-tracker of the paper, also as `python -m hiwater.compat.gpu_tracker_2`. The help
text is gpu-tracker's, word for word (Fig. 2 of the paper)."""
from __future__ import annotations

import json
import logging
import sys
from typing import Any, Dict, List, Optional

from ..._errors import Error
from .. import _job
from .._arguments import Command, Form, Option
from .tracker import Tracker

HELP = """
Tracks the computational resource usage (RAM, GPU RAM, and compute time) of a process corresponding to a given shell command.

Usage:
    gpu-tracker --execute=<command> [--output=<output>] [--format=<format>] [--st=<sleep-time>] [--ru=<ram-unit>] [--gru=<gpu-ram-unit>] [--tu=<time-unit>]

Options:
    -h --help               Show this help message.
    -e --execute=<command>  The command to run along with its arguments all within quotes e.g. "ls -l -a".
    -o --output=<output>    File path to store the computational-resource-usage measurements. If not set, prints measurements to the screen.
    -f --format=<format>    File format of the output. Either 'json' or 'text'. Defaults to 'text'.
    --st=<sleep-time>       The number of seconds to sleep in between usage-collection iterations.
    --ru=<ram-unit>         One of 'bytes', 'kilobytes', 'megabytes', 'gigabytes', or 'terabytes'.
    --gru=<gpu-ram-unit>    One of 'bytes', 'kilobytes', 'megabytes', 'gigabytes', or 'terabytes'.
    --tu=<time-unit>        One of 'seconds', 'minutes', 'hours', or 'days'.
"""

_TRACKER = {"--st": "sleep_time", "--ru": "ram_unit", "--gru": "gpu_ram_unit", "--tu": "time_unit"}
OPTIONS = (
    Option("--help", "-h", takes_value=False), Option("--execute", "-e"), Option("--output", "-o"), Option("--format", "-f"),
    *(Option(name) for name in _TRACKER),
)
COMMAND = Command(HELP, OPTIONS, (Form((), frozenset({"--execute"}), frozenset({"--output", "--format", *_TRACKER})),))


def main(argv: Optional[List[str]] = None) -> int:
    """Runs the command line argv, by default that of sys.argv. Returns the exit status: that of the
    job, or 1."""
    _, options = COMMAND.parse(sys.argv[1:] if argv is None else argv)
    try:
        return _execute(options)
    except (ValueError, OSError, Error) as e:
        logging.error(str(e))
        return 1


def _execute(options: Dict[str, Any]) -> int:
    """Checks all options before the command starts, so that a wrong option does not leave it
    running."""
    words = _job.words_of(options["--execute"]) or [""]
    kind = options["--format"] or "text"
    if kind not in ("text", "json"):
        raise ValueError(f'"{kind} is not a valid format. Valid values are "json" or "text".')
    _job.check_output(options["--output"])
    arguments = {name: options[option] for option, name in _TRACKER.items() if options[option] is not None}
    if "sleep_time" in arguments:
        arguments["sleep_time"] = float(arguments["sleep_time"])
    tracker = Tracker(**arguments)

    def run(job: _job.Started) -> int:
        session = job(tracker.sleep_time)
        status = session.run(lambda: None)
        found = session.figures()
        if found is None:
            logging.warning("hiwater returned no figures; those before the start are used.")
        tracker._set_figures(found)
        return status

    path = options["--output"]
    return _job.run_and_report(words, run, kind == "json" and path is None, lambda: _write(tracker, kind, path))


def _write(tracker: Tracker, kind: str, path: Optional[str]) -> None:
    text = json.dumps(tracker.to_json(), indent=1) if kind == "json" else str(tracker)
    if path is None:
        print(text)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(_job.end_as(main()))
