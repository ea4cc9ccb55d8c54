# SPDX-License-Identifier: MIT
"""The one exception of this package."""


class Error(Exception):
    """Something that was asked of hiwater could not be done: what, why, and what to do about it.

    Raised by `track`, `start`, `open` and what reads recordings, and for arguments that make no sense. Never raised into
    a measured program because the recorder was lost or is slow: that is in `Run.warnings`.
    """
