"""A FastAPI app that is limited by a Tidegate service. README.md in this folder says how to start it."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from tidegate import Reservation, Tidegate, by_header
from tidegate.fastapi import install, limit, reserve

client = Tidegate(
    os.environ.get("TIDEGATE_URL"),
    fallback=os.environ.get("TIDEGATE_FALLBACK", "local"),  # type: ignore[arg-type]
)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Closes the connections of the client when the app ends."""
    async with client:
        yield


app = FastAPI(lifespan=lifespan)
install(app, client=client, trusted_proxies=["127.0.0.1/32"])


@app.get("/", response_class=PlainTextResponse)
async def hello() -> str:
    """Not limited."""
    return "hello"


@app.get("/health", response_class=PlainTextResponse)
async def health() -> str:
    """Not limited, because monitoring calls it often."""
    return "ok"


@app.get("/search", dependencies=[Depends(limit("5/minute;100/hour", name="search"))])
async def search(q: str = "") -> dict[str, list[str]]:
    """Limited in code, per address."""
    return {"results": []}


def order(request: Request) -> list[tuple[str, str]]:
    """Returns the descriptor that the rules of the service match."""
    return [("api_key", request.headers.get("x-api-key") or "anonymous"), ("endpoint", "POST /v1/orders")]


@app.post("/orders", status_code=201, dependencies=[Depends(limit(domain="api_platform", descriptors=order))])
async def orders() -> dict[str, str]:
    """Limited by the rules of the service, per customer."""
    return {"order": "accepted"}


def pages(request: Request) -> int:
    """Returns the cost of a report: one unit per page, at least 1."""
    try:
        return max(1, int(request.query_params.get("pages", "1")))
    except ValueError:
        return 1


@app.post(
    "/reports",
    dependencies=[Depends(limit("10/minute", name="reports", cost=pages, key=by_header("x-api-key")))],
)
async def reports() -> dict[str, str]:
    """Limited with a cost that depends on the request, per customer, or per address without a key."""
    return {"report": "done"}


class Prompt(BaseModel):
    """A request to a language model. In this example it contains what it will use."""

    prompt: str
    max_tokens: int = Field(ge=0)
    used: int = Field(ge=0)


def most_tokens(prompt: Prompt) -> int:
    """Returns the most units that a request can use."""
    return prompt.max_tokens


tokens = reserve("1000/minute", cost=Depends(most_tokens), name="complete", key=by_header("x-api-key"))


@app.post("/complete")
async def complete(prompt: Prompt, reservation: Reservation = Depends(tokens)) -> dict[str, int]:
    """Limited with a cost that is known only afterwards: reserves the maximum, settles the real cost."""
    used = prompt.used  # the model works here
    reservation.settle(used)
    return {"used": used}


def main() -> None:
    """Listens on PORT of the loopback address; 0 selects a free port."""
    listener = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "8000"))))

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)

    # The app decides which proxies to trust, so uvicorn must not.
    Server(uvicorn.Config(app, log_level="warning", proxy_headers=False)).run(sockets=[listener])


if __name__ == "__main__":
    main()
