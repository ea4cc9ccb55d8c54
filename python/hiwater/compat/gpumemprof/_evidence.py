# SPDX-License-Identifier: MIT
"""Sends the samples and events of a tracker to a recorder, so that they survive a kill -9: to the
run that already measures this process, or to a new recorder. Nothing here raises into the tracker;
all waits are limited by the constants below."""
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
PERIOD_S = 0.05   # least time between two samples without a new peak
REPEAT_S = 5.0    # longest time between two samples, also if they are equal
START_LIMIT_S = 1.0  # wait at the end for a recorder that is still starting
END_LIMIT_S = 5.0
ANSWER_LIMIT_S = 0.5
WAITING_MOST = 1000  # messages kept while the recorder starts


def _existing_run() -> Optional[Callable[[str], object]]:
    """The function that sends to a run that already measures this process (hiwater.track, or an
    enclosing hiwater run)."""
    run = sys.modules.get("hiwater._run")
    running = [one for one in getattr(run, "_running", ()) if one.is_running]
    if running:
        notify: Callable[[str], object] = running[-1]._notify
        return notify
    from ... import _enclosing

    return _enclosing.notify if _enclosing.name() is not None else None


def _recorder(name: str) -> Channel:
    from ..._channel import Channel
    from ..._command import needed_command
    from ..._options import arguments

    return Channel(needed_command(), arguments({"name": name, "exact": False}))


class Evidence:
    """The recording of one tracker. Used by the thread of the tracker and by its callers."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._notify: Optional[Callable[[str], object]] = None
        self._channel: Optional[Channel] = None
        self._starter: Optional[threading.Thread] = None  # while the recorder starts
        self._lock = threading.RLock()
        self._waiting: Optional[Deque[str]] = None  # messages to send once the recorder has started
        self._pid = 0
        self._logged: Dict[str, Any] = {}
        self._logged_at = 0.0
        self._path: Optional[str] = None

    def begin(self, name: str) -> None:
        """Finds a recorder, or starts one in a thread. If none can be started, nothing is recorded;
        only the debug log says so."""
        self._pid, self._logged, self._path = os.getpid(), {}, None
        if os.environ.get(SWITCH) == "0":
            return
        self._notify = _existing_run()
        if self._notify is None:
            self._waiting = deque(maxlen=WAITING_MOST)
            starter = threading.Thread(target=self._start, args=(name,), daemon=True)
            try:
                starter.start()
                self._starter = starter
            except RuntimeError as e:  # no more threads
                self._waiting = None
                log.debug("nothing is recorded: %s", e)

    def _start(self, name: str) -> None:
        """Starts a recorder, and sends the waiting messages first."""
        channel: Optional[Channel] = None
        try:
            channel = _recorder(name)
        except Exception as e:
            log.debug("nothing is recorded: %s", e)
        with self._lock:
            waiting, self._waiting = self._waiting, None
            if channel is not None and waiting is None:
                channel.close()  # `end` or `forget` was called meanwhile
            elif channel is not None:
                for text in waiting or ():
                    channel.notify(text)
                self._channel, self._notify = channel, channel.notify

    def send(self, text: str) -> None:
        if self._pid != os.getpid():
            return
        with self._lock:
            notify = self._notify
            if notify is None and self._waiting is not None:
                self._waiting.append(text)
        try:
            if notify is not None:
                notify(text)
        except Exception as e:
            log.debug("not recorded: %s", e)

    def path(self) -> Optional[str]:
        """The path of the recording; None if there is none, none yet, or it belongs to another
        run."""
        channel = self._channel
        if channel is not None and self._path is None and self._pid == os.getpid():
            try:
                channel.ask("read", ANSWER_LIMIT_S)  # also receives the notice with the path
            except Error:
                pass
            self._path = channel.file
        return self._path

    def log_sample(self, values: Mapping[str, Optional[int]], is_peak: bool) -> None:
        """Logs sizes in bytes, each as a series."""
        now = time.monotonic()
        is_new, since_s = values != self._logged, now - self._logged_at
        is_due = is_new and (is_peak or since_s >= PERIOD_S) or since_s >= REPEAT_S
        if not is_due or (self._notify is None and self._waiting is None):
            return
        self._logged, self._logged_at = dict(values), now
        words = [f"{self._prefix}/{key}={value}" for key, value in values.items() if value is not None]
        if words:
            self.send(f"log {' '.join(words)}")

    def forget(self) -> None:
        """In a forked process: the recorder belongs to the parent."""
        self._lock = threading.RLock()
        self._notify = self._channel = self._starter = self._waiting = None

    def end(self) -> None:
        starter, self._starter = self._starter, None
        if starter is not None:
            starter.join(START_LIMIT_S)
        with self._lock:
            channel, self._channel, self._notify, self._waiting = self._channel, None, None, None
        if channel is None or self._pid != os.getpid():
            return
        try:
            self._path = channel.ask("stop", END_LIMIT_S) or None
        except Error as e:
            self._path = channel.file
            log.debug("the recording was not ended: %s", e)
        finally:
            channel.close()
