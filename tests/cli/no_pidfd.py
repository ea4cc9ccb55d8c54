# SPDX-License-Identifier: MIT
"""Runs a command as on a kernel that has no pidfd_open (before Linux 5.3)."""
import ctypes
import errno
import os
import struct
import sys

PIDFD_OPEN = 434  # on every processor
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def forget_pidfd_open():
    steps = [(LOAD_WORD, 0, 0, 0), (JUMP_IF_EQUAL, 0, 1, PIDFD_OPEN), (RETURN, 0, 0, ERRNO | errno.ENOSYS), (RETURN, 0, 0, ALLOW)]
    program = Program(len(steps), b"".join(struct.pack("HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        sys.exit(f"no_pidfd: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    forget_pidfd_open()
    os.execvp(sys.argv[1], sys.argv[1:])
