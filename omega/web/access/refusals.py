"""Refused requests."""

from starlette.responses import Response

from omega.web.problems import of_status


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
