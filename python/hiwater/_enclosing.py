# SPDX-License-Identifier: MIT
"""Sends marks, phases and logged values to the run that measures this whole process (`hiwater run
-- python ...`), if any."""
from __future__ import annotations

import os
import time

# Not from socket: gevent and eventlet replace its names by sockets that switch to another greenlet.
from _socket import AF_UNIX, MSG_NOSIGNAL, SOCK_DGRAM, socket, timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

ROOM_LIMIT_S = 0.1
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
    if text.startswith("mark "):  # of this instant
        text = f"at {time.clock_gettime_ns(time.CLOCK_BOOTTIME)} {text}"
    try:
        made = socket(AF_UNIX, SOCK_DGRAM)
    except OSError:
        return
    try:
        made.settimeout(0)
        made.connect(b"\0" + os.fsencode(address[1:]))  # poll() sees the room at a peer that is connected
        try:
            made.send(text.encode(errors="replace"), MSG_NOSIGNAL)
        except BlockingIOError:  # the kernel queues ten messages
            if _is_slow:
                raise
            made.settimeout(ROOM_LIMIT_S)  # Python's: one of the kernel's would begin anew after each signal
            made.send(text.encode(errors="replace"), MSG_NOSIGNAL)
        _is_slow = False
    except (BlockingIOError, timeout):
        _is_slow = True
    except OSError:
        pass  # the recorder has ended
    finally:
        made.close()
