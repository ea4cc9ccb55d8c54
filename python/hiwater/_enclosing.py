# SPDX-License-Identifier: MIT
"""The run that measures this whole process (`hiwater run -- python ...`), if there is one: it hears of marks, phases and
logged values, too."""
from __future__ import annotations

import os
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional


def name() -> Optional[str]:
    """Of its socket; None: no run encloses this process."""
    value = os.environ.get("HIWATER_SOCKET", "")
    return value if value.startswith("@") else None


def tell(text: str) -> None:
    """Nothing waits for it, and nobody is told if it is lost."""
    address = name()
    if address is None:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.setblocking(False)
            s.sendto(text.encode(errors="replace"), socket.MSG_NOSIGNAL, b"\0" + os.fsencode(address[1:]))
    except OSError:
        pass
