# SPDX-License-Identifier: MIT
"""Sends marks, phases and logged values to the run that measures this whole process (`hiwater run
-- python ...`), if any."""
from __future__ import annotations

import os
import socket
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

_ROOM_TIMEOUT = struct.pack("@ll", 0, 100000)  # 0.1 s, as struct timeval
_is_slow = False  # the last message was lost: the next does not wait for room


def name() -> Optional[str]:
    """The name of its socket; None if no run encloses this process."""
    value = os.environ.get("HIWATER_SOCKET", "")
    return value if value.startswith("@") else None


def notify(text: str) -> None:
    """Sends a message. It is lost without an error if the recorder does not read; only the first
    such message waits for it."""
    global _is_slow
    address = name()
    if address is None:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.settimeout(None)  # overrides socket.setdefaulttimeout(), with which Python would retry in a loop
            if not _is_slow:  # the kernel queues ten messages; SO_SNDTIMEO waits for room in the kernel
                s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _ROOM_TIMEOUT)
            if text.startswith("mark "):  # of this instant
                text = f"at {time.clock_gettime_ns(time.CLOCK_BOOTTIME)} {text}"
            s.sendto(text.encode(errors="replace"), socket.MSG_NOSIGNAL | (socket.MSG_DONTWAIT if _is_slow else 0),
                     b"\0" + os.fsencode(address[1:]))
        _is_slow = False
    except BlockingIOError:
        _is_slow = True
    except OSError:
        pass  # the recorder has ended
