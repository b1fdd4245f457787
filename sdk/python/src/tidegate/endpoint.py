"""Endpoints of FastAPI and Starlette as a decorator sees them: what they take, and how they are called."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.responses import Response

T = TypeVar("T")

REQUEST = "tidegate_request"
RESPONSE = "tidegate_response"


def take(
    name: str, kind: type[T], signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> T | None:
    """Returns the request or response that a decorator asked for, else the argument of that kind.

    What the decorator asked for is taken away from an endpoint that does not know it; a decorator below may.
    """
    asked_for: T | None = kwargs.get(name) if name in signature.parameters else kwargs.pop(name, None)
    if asked_for is not None:
        return asked_for
    return next((value for value in (*args, *kwargs.values()) if isinstance(value, kind)), None)


def threaded(endpoint: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """The endpoint in a thread, so that nobody else waits for it."""

    @functools.wraps(endpoint)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await run_in_threadpool(endpoint, *args, **kwargs)

    return call


def resolved_signature(endpoint: Callable[..., Any]) -> inspect.Signature:
    """The endpoint's own signature; annotations that are texts are looked up where it was written."""
    signature = inspect.signature(endpoint)
    try:
        hints = typing.get_type_hints(endpoint, include_extras=True)
    except (NameError, TypeError):
        return signature
    parameters = [
        parameter.replace(annotation=hints.get(name, parameter.annotation))
        for name, parameter in signature.parameters.items()
    ]
    return signature.replace(
        parameters=parameters, return_annotation=hints.get("return", signature.return_annotation)
    )


def with_parameters(signature: inspect.Signature) -> inspect.Signature:
    """With a connection and a response, which FastAPI then hands in; Starlette does not look.

    A connection is what requests and websockets have in common. FastAPI hands each kind to one parameter
    only, so an endpoint that has its own keeps it.
    """
    parameters = list(signature.parameters.values())
    last = parameters.pop() if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD else None
    for name, kind in ((REQUEST, HTTPConnection), (RESPONSE, Response)):
        if not any(parameter.annotation is kind for parameter in parameters):
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind))
    if last is not None:
        parameters.append(last)
    return signature.replace(parameters=parameters)
