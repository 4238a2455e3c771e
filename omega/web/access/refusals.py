"""Refused requests, and the documents that answer them."""

import json
from http import HTTPStatus

from starlette.responses import Response


def of_status(status: int, detail: str) -> Response:
    """Return the problem document of a status of HTTP (until omega.web.problems takes its place)."""
    title = HTTPStatus(status).phrase
    name = title.lower().replace(" ", "-")
    document = {"type": f"urn:omega:problem:{name}", "title": title, "status": status, "detail": detail}
    return Response(json.dumps(document), status, {"Cache-Control": "no-store"}, "application/problem+json")


class Refusal(Exception):
    """A request is refused: the status, and one line that says why and what to do."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status, self.headers = status, {name.replace("_", "-"): value for name, value in headers.items()}

    def response(self) -> Response:
        """Return the problem document."""
        answer = of_status(self.status, str(self))
        answer.headers.update(self.headers)
        return answer
