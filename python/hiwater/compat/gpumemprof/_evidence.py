# SPDX-License-Identifier: MIT
"""What a tracker tells a recorder, so that it is there after a kill -9: the run that measures this process already, or a
recorder of its own. Nothing here raises into the tracker, and nothing waits longer than a moment."""
from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque

from ..._errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, Mapping, Optional

    from ..._channel import Channel

log = logging.getLogger(__name__)

SWITCH = "HIWATER_COMPAT_RECORD"  # "0": no recorder
PERIOD_S = 0.05   # least between two readings that are no new peak
REPEAT_S = 5.0    # most between two readings that are equal
START_LIMIT_S = 1.0  # for one that was just started to be there at the end
END_LIMIT_S = 5.0
ANSWER_LIMIT_S = 0.5
WAITING_MOST = 1000


def _present() -> Optional[Callable[[str], object]]:
    """Of a run that measures this process: hiwater.track here, or hiwater run around it."""
    run = sys.modules.get("hiwater._run")
    running = getattr(run, "_running", None)
    if running:
        tell: Callable[[str], object] = running[-1]._notify
        return tell
    from ... import _enclosing

    return _enclosing.notify if _enclosing.name() is not None else None


def _recorder(name: str) -> Channel:
    from ..._channel import Channel
    from ..._command import needed_command
    from ..._options import arguments

    return Channel(needed_command(), arguments({"name": name, "exact": False}))


class Evidence:
    """Of one tracker. Used by its thread and by whoever calls the tracker."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._tell: Optional[Callable[[str], object]] = None
        self._channel: Optional[Channel] = None
        self._starter: Optional[threading.Thread] = None  # while the recorder begins
        self._lock = threading.RLock()
        self._waiting: Optional[Deque[str]] = None  # said while it begins
        self._pid = 0
        self._told: Dict[str, Any] = {}
        self._told_at = 0.0
        self._path: Optional[str] = None

    def begin(self, name: str) -> None:
        """Finds a recorder, or has one started meanwhile; where none can be had there is no evidence, and nobody is told but
        the log."""
        self._pid, self._told, self._path = os.getpid(), {}, None
        if os.environ.get(SWITCH) == "0":
            return
        self._tell = _present()
        if self._tell is None:
            self._waiting = deque(maxlen=WAITING_MOST)
            self._starter = threading.Thread(target=self._start, args=(name,), daemon=True)
            self._starter.start()

    def _start(self, name: str) -> None:
        """What was said meanwhile is said first."""
        channel: Optional[Channel] = None
        try:
            channel = _recorder(name)
        except Exception as e:
            log.debug("nothing is recorded: %s", e)
        with self._lock:
            waiting, self._waiting = self._waiting, None
            if channel is not None and waiting is None:
                channel.close()  # it came too late
            elif channel is not None:
                for text in waiting or ():
                    channel.notify(text)
                self._channel, self._tell = channel, channel.notify

    def say(self, text: str) -> None:
        if self._pid != os.getpid():
            return
        with self._lock:
            tell = self._tell
            if tell is None and self._waiting is not None:
                self._waiting.append(text)
        try:
            if tell is not None:
                tell(text)
        except Exception as e:
            log.debug("not recorded: %s", e)

    def path(self) -> Optional[str]:
        """Of the recording; None: there is none, none yet, or none of this tracker's own."""
        channel = self._channel
        if channel is not None and self._path is None and self._pid == os.getpid():
            try:
                channel.ask("read", ANSWER_LIMIT_S)  # it says where it writes when it begins to, and is heard when asked
            except Error:
                pass
            self._path = channel.file
        return self._path

    def reading(self, values: Mapping[str, Optional[int]], is_peak: bool) -> None:
        """Sizes in bytes, each a series."""
        now = time.monotonic()
        is_new, since_s = values != self._told, now - self._told_at
        is_due = is_new and (is_peak or since_s >= PERIOD_S) or since_s >= REPEAT_S
        if not is_due or (self._tell is None and self._waiting is None):
            return
        self._told, self._told_at = dict(values), now
        words = [f"{self._prefix}/{key}={value}" for key, value in values.items() if value is not None]
        if words:
            self.say(f"log {' '.join(words)}")

    def forget(self) -> None:
        """In a forked process: the recorder is the other's."""
        self._lock = threading.RLock()
        self._tell = self._channel = self._starter = self._waiting = None

    def end(self) -> None:
        starter, self._starter = self._starter, None
        if starter is not None:
            starter.join(START_LIMIT_S)
        with self._lock:
            channel, self._channel, self._tell, self._waiting = self._channel, None, None, None
        if channel is None or self._pid != os.getpid():
            return
        try:
            self._path = channel.ask("stop", END_LIMIT_S) or None
        except Error as e:
            self._path = channel.file
            log.debug("the recording was not ended: %s", e)
        finally:
            channel.close()
