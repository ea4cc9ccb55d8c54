# SPDX-License-Identifier: MIT
"""The run that measures this whole process (`hiwater run -- python ...`), if there is one: it hears of marks, phases and
logged values, too."""
from __future__ import annotations

import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

_PATIENCE = struct.pack("@ll", 0, 100000)  # of the C library's struct timeval
_is_slow = False


def name() -> Optional[str]:
    """Of its socket; None: no run encloses this process."""
    value = os.environ.get("HIWATER_SOCKET", "")
    return value if value.startswith("@") else None


def tell(text: str) -> None:
    """Nobody is told if it is lost, because the recorder takes nothing; that is waited for only once."""
    global _is_slow
    address = name()
    if address is None:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.settimeout(None)  # whatever the program has as default: Python asks again and again for as long as that
            if not _is_slow:  # the kernel holds ten messages, and waits for room without asking again and again
                s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _PATIENCE)
            s.sendto(text.encode(errors="replace"), socket.MSG_NOSIGNAL | (socket.MSG_DONTWAIT if _is_slow else 0),
                     b"\0" + os.fsencode(address[1:]))
        _is_slow = False
    except BlockingIOError:
        _is_slow = True
    except OSError:
        pass  # it has ended
