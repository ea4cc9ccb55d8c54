# SPDX-License-Identifier: MIT
from os import PathLike
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, TypeVar, Union, overload

from ._run import Phase, Run

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])
_Path = Union[str, PathLike[str]]
_Span = Union[float, str]
_Rules = Union[str, Sequence[str]]
_Request = Union[str, Mapping[str, object]]

@overload
def track(function: _F, /) -> _F: ...
@overload
def track(name: Optional[str] = None, /, *, pid: Optional[int] = None, interval: _Span = 0.1,
          note: Optional[str] = None, output: Optional[_Path] = None, record: bool = True, cgroup: Optional[str] = None, gpu: Optional[str] = None,
          exact: Optional[bool] = None, pss: bool = False, print_every: Optional[_Span] = None,
          summary: Optional[str] = None, live: bool = False, alert: Optional[_Rules] = None, on_alert: Optional[_Rules] = None,
          limit: Optional[_Rules] = None, grace: Optional[_Span] = None, request: Optional[_Request] = None,
          json: Optional[_Path] = None, summary_file: Optional[_Path] = None, units: Optional[str] = None,
          plain: bool = False, strict: bool = False, trace: Union[bool, str, Sequence[str], None] = None,
          trace_window: Optional[_Rules] = None, where: Union[bool, str, Sequence[str], None] = None) -> Run: ...
def start(name: Optional[str] = None, /, *, pid: Optional[int] = None, interval: _Span = 0.1,
          note: Optional[str] = None, output: Optional[_Path] = None, record: bool = True, cgroup: Optional[str] = None, gpu: Optional[str] = None,
          exact: Optional[bool] = None, pss: bool = False, print_every: Optional[_Span] = None,
          summary: Optional[str] = None, live: bool = False, alert: Optional[_Rules] = None, on_alert: Optional[_Rules] = None,
          limit: Optional[_Rules] = None, grace: Optional[_Span] = None, request: Optional[_Request] = None,
          json: Optional[_Path] = None, summary_file: Optional[_Path] = None, units: Optional[str] = None,
          plain: bool = False, strict: bool = False, trace: Union[bool, str, Sequence[str], None] = None,
          trace_window: Optional[_Rules] = None, where: Union[bool, str, Sequence[str], None] = None) -> Run: ...
def stop() -> Optional[Run]: ...
def current() -> Optional[Run]: ...
def last() -> Optional[Run]: ...
def log(values: Optional[Mapping[str, Any]] = None, /, *, step: Optional[int] = None, **more: Any) -> None: ...
def mark(text: str) -> None: ...
def phase(name: str, /, *, nvtx: bool = False, **facts: Any) -> Phase: ...
def step(number: Optional[int] = None) -> None: ...
def wrap_loader(loader: Iterable[_T], *, prefix: str = "") -> Iterable[_T]: ...
def oom(what: Union[BaseException, str]) -> bool: ...
