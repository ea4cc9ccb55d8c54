# SPDX-License-Identifier: MIT
"""The one exception of this package."""


class Error(Exception):
    """A request failed. The message states the failure, its cause and the remedy.

    Raised by `track`, `start`, `open` and the functions that read recordings, and for invalid
    arguments. A lost or slow recorder never raises into the measured program; `Run.warnings`
    reports it.
    """
