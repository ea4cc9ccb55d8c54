# SPDX-License-Identifier: MIT
"""sandbox.py WITHOUT COMMAND...: runs a command where one system call is refused.

no-pidfd: as on a kernel that has no pidfd_open (before Linux 5.3). no-vfork: as under a filter that knows fork alone.
no-pipe: as if as many files were open as may be, once it comes to a pipe. no-byte: a write of one byte is not permitted, as is
that of a process to the list of a cgroup. no-timerfd and so on: that call does not exist. refused-wait4 and so on: that call is
not permitted."""
import ctypes
import errno
import os
import platform
import struct
import sys

PIDFD_OPEN = 434  # on every processor
PIPE2 = 293 if platform.machine() == "x86_64" else 59
CLONE, VFORK = (56, 58) if platform.machine() == "x86_64" else (220, 220)  # elsewhere vfork is a clone
CLONE_VFORK = 0x4000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, JUMP_IF_BITS, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBER, FLAGS, THIRD = 0, 16, 32  # in struct seccomp_data


def absent(x86_64, other, error=errno.ENOSYS):
    number = x86_64 if platform.machine() == "x86_64" else other
    return [(LOAD_WORD, 0, 0, NUMBER), (JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | error)]


def refused(x86_64, other):
    return absent(x86_64, other, errno.EPERM)


REFUSED = {
    "no-pidfd": [(LOAD_WORD, 0, 0, NUMBER), (JUMP_IF_EQUAL, 0, 1, PIDFD_OPEN), (RETURN, 0, 0, ERRNO | errno.ENOSYS)],
    "no-vfork": [(LOAD_WORD, 0, 0, NUMBER), (JUMP_IF_EQUAL, 3, 0, VFORK if VFORK != CLONE else 0xFFFF),
                 (JUMP_IF_EQUAL, 0, 3, CLONE), (LOAD_WORD, 0, 0, FLAGS), (JUMP_IF_BITS, 0, 1, CLONE_VFORK),
                 (RETURN, 0, 0, ERRNO | errno.EPERM)],
    "no-byte": [(LOAD_WORD, 0, 0, NUMBER), (JUMP_IF_EQUAL, 0, 3, 1 if platform.machine() == "x86_64" else 64), (LOAD_WORD, 0, 0, THIRD),
                (JUMP_IF_EQUAL, 0, 1, 1), (RETURN, 0, 0, ERRNO | errno.EACCES)],
    "no-timerfd": absent(283, 85),
    "no-signalfd": absent(289, 74),
    "no-epoll": absent(291, 20),
    "no-waitid": absent(247, 95),
    "no-ppoll": absent(271, 73),
    "no-poll": [*absent(271, 73), *absent(7, 73)],
    "refused-poll": [*refused(271, 73), *refused(7, 73)],
    "only-poll-refused": refused(7, 0xFFFF),
    "no-wait4": absent(61, 260),
    "refused-wait4": refused(61, 260),
    "no-wait": [*absent(61, 260), *absent(247, 95)],
    "refused-wait": [*refused(61, 260), *refused(247, 95)],
    "no-perf": absent(298, 241),
    "refused-perf": refused(298, 241),
    "no-pipe": [(LOAD_WORD, 0, 0, NUMBER), (JUMP_IF_EQUAL, 0, 1, PIPE2), (RETURN, 0, 0, ERRNO | errno.EMFILE)],
}


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def refuse(what):
    steps = [*REFUSED[what], (RETURN, 0, 0, ALLOW)]
    program = Program(len(steps), b"".join(struct.pack("HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        sys.exit(f"sandbox: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    refuse(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
