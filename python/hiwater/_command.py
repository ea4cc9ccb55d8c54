# SPDX-License-Identifier: MIT
"""Finds and runs the hiwater command."""
from __future__ import annotations

import os
import sys

from ._errors import ArgumentValueError, Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

USAGE = 2  # exit status of the command for invalid arguments


def command() -> Optional[str]:
    """The path of the hiwater command: that of HIWATER_COMMAND, else the one installed with this
    package, else the first on PATH, else None."""
    named = os.environ.get("HIWATER_COMMAND")
    if named:
        return named
    for folder in _folders():
        path = os.path.normpath(os.path.join(folder, "hiwater"))
        if os.access(path, os.X_OK):
            return path
    import shutil

    return shutil.which("hiwater")


def _folders() -> list[str]:
    """The folder of the interpreter, its scripts folder, and folders above the package (pip install
    --prefix, --target)."""
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.join(sys.prefix, "bin"), os.path.join(here, *[os.pardir] * 4, "bin"), os.path.join(here, os.pardir, "bin")]
    if not os.access(os.path.join(folders[0], "hiwater"), os.X_OK):
        import sysconfig

        folders.append(sysconfig.get_path("scripts"))
    return folders


def needed_command() -> str:
    path = command()
    if path is None:
        raise Error("the hiwater command was found neither next to this package nor on PATH: "
                    "pip install hiwater again, or set HIWATER_COMMAND to its path")
    return path


def output_of(*arguments: str) -> str:
    """The stdout of the command. Raises Error with its error message if it fails, ArgumentValueError
    if its arguments are invalid."""
    from ._spawn import run

    path = needed_command()
    try:
        status, stdout, stderr = run([path, *arguments], {k: v for k, v in os.environb.items() if k != b"CLICOLOR_FORCE"})
    except OSError as e:
        raise Error(f"{path} cannot be started: {e.strerror}") from e
    if status:
        kind = ArgumentValueError if status == USAGE else Error
        raise kind(stderr.decode(errors="replace").strip().removeprefix("hiwater: ") or
                   f"{path} {arguments[0]} ended with {status}")
    return stdout.decode(errors="replace")
