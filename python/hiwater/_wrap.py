# SPDX-License-Identifier: MIT
"""Wraps a function so that each call runs within a context of its own."""
from __future__ import annotations

import functools
import inspect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, ContextManager, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])


def wrap(function: F, context: Callable[[], ContextManager[Any]]) -> F:
    """Wraps plain functions, coroutines and generators; the context stays open until they
    return."""
    wrapper: Callable[..., Any]
    if inspect.iscoroutinefunction(function):
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with context():
                return await function(*args, **kwargs)
    elif inspect.isasyncgenfunction(function):
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with context():
                async for item in function(*args, **kwargs):
                    yield item
    elif inspect.isgeneratorfunction(function):
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with context():
                return (yield from function(*args, **kwargs))
    else:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with context():
                return function(*args, **kwargs)
    return functools.wraps(function)(wrapper)  # type: ignore[return-value]
