# SPDX-License-Identifier: MIT
"""hiwater: peak and over-time resource use of a program: memory, CPUs, I/O, GPUs.

    import hiwater
    with hiwater.track() as run:
        for epoch in range(3):
            with run.phase("epoch", epoch=epoch):
                run.log(loss=train())
    print(run.summary)

A separate process, the hiwater command, measures; the sampling does not run in this interpreter,
and the program continues if that process fails. `track` measures a block, a function or another
process; `open` reads a recording; `compare` compares runs, and `report` writes one page about
several.
"""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import callbacks as callbacks
    from . import sinks as sinks
    from ._command import command as command
    from ._compare import Comparison as Comparison
    from ._compare import compare as compare
    from ._compare import report as report
    from ._errors import Error as Error
    from ._ipython import load_ipython_extension as load_ipython_extension
    from ._ipython import unload_ipython_extension as unload_ipython_extension
    from ._recording import Recording as Recording
    from ._recording import open_recording as open
    from ._run import Phase as Phase
    from ._run import Run as Run
    from ._summary import Summary as Summary
    from ._track import current as current
    from ._track import last as last
    from ._track import log as log
    from ._track import mark as mark
    from ._track import oom as oom
    from ._track import phase as phase
    from ._track import start as start
    from ._track import step as step
    from ._track import stop as stop
    from ._track import track as track
    from ._track import wrap_loader as wrap_loader

    __version__: str

# Name: (module, attribute), imported at first use, so that `import hiwater` stays cheap.
_NAMES = {
    "Comparison": ("_compare", "Comparison"), "compare": ("_compare", "compare"), "report": ("_compare", "report"),
    "Error": ("_errors", "Error"), "Phase": ("_run", "Phase"), "Recording": ("_recording", "Recording"),
    "Run": ("_run", "Run"), "load_ipython_extension": ("_ipython", "load_ipython_extension"),
    "unload_ipython_extension": ("_ipython", "unload_ipython_extension"), "Summary": ("_summary", "Summary"), "command": ("_command", "command"),
    "current": ("_track", "current"),
    "last": ("_track", "last"), "log": ("_track", "log"), "mark": ("_track", "mark"), "oom": ("_track", "oom"),
    "open": ("_recording", "open_recording"), "phase": ("_track", "phase"), "start": ("_track", "start"), "step": ("_track", "step"),
    "stop": ("_track", "stop"), "track": ("_track", "track"), "wrap_loader": ("_track", "wrap_loader"),
}

_MODULES = {"callbacks", "sinks"}

__all__ = ["Comparison", "Error", "Phase", "Recording", "Run", "Summary", "__version__", "callbacks", "command", "compare", "current",
           "last", "log", "mark", "oom", "open", "phase", "report", "sinks", "start", "step", "stop", "track", "wrap_loader"]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("hiwater")
    except PackageNotFoundError:  # used from the source tree
        return "0.1.0"


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = _version()
    elif name in _NAMES:
        from importlib import import_module

        module, attribute = _NAMES[name]
        value = getattr(import_module(f"{__name__}.{module}"), attribute)
    elif name in _MODULES:
        from importlib import import_module

        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
