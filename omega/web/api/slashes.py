"""Slashes within names in URLs: ``/v1/jobs/batch%2Fcrawl`` is the job batch/crawl, not a path of two names."""

from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

ENCODED = "%2F"


class EncodedSlashes:
    """Leaves encoded slashes in paths as they are, for routes to find the names; `decoded` decodes them."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        raw: bytes = scope.get("raw_path") or b""
        if b"%2" in raw and ENCODED.encode() in raw.upper():
            parts = (unquote_to_bytes(part) for part in raw.partition(b"?")[0].replace(b"%2f", b"%2F").split(b"%2F"))
            scope["path"] = ENCODED.join(part.decode("utf-8", "replace") for part in parts)
        await self.app(scope, receive, send)


def decoded(name: str) -> str:
    """Return a name from a path with its slashes."""
    return name.replace(ENCODED, "/")
