"""Refused requests."""

from starlette.responses import HTMLResponse, Response

from omega.web.console.render import environment
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

    def page(self, path: str, *, sent: bool) -> Response:
        """Return a page for a person with a link back; `sent`: a form was, and its page keeps what it has."""
        html = environment().get_template("refused.html").render(error=str(self), back=form_page(path), unsent=sent)
        return HTMLResponse(html, self.status, {**self.headers, "Cache-Control": "no-store"})


def form_page(path: str) -> str:
    """Return the page of the form that is sent to a path: the one above ``…/change``."""
    return path.removesuffix("/change")
