# SPDX-License-Identifier: MIT
"""hiwater: what a job used, its memory, processors, I/O and GPUs, at their peak and all the way there.

The command is what there is so far: `hiwater run -- python train.py` measures a command, `hiwater show` shows what
was recorded. To come here: `with hiwater.track(): ...` for a block of Python, phases, logged values, and reading
recordings. Until then `hiwater.command()` says where the command is.
"""
import os
import shutil
import sys
import sysconfig

try:
    from importlib.metadata import version as _version

    __version__ = _version("hiwater")
except ImportError:  # not installed: used from the source
    __version__ = "0.1.0"

__all__ = ["__version__", "command"]


def command():
    """The path of the hiwater command that was installed with this package, else of the first on PATH, else None."""
    beside = [sysconfig.get_path("scripts"), os.path.join(sys.prefix, "bin"),
              os.path.join(os.path.dirname(__file__), *[os.pardir] * 4, "bin")]
    for folder in beside:
        path = os.path.normpath(os.path.join(folder, "hiwater"))
        if os.access(path, os.X_OK):
            return path
    return shutil.which("hiwater")
