"""Refused requests, and the forms that are shown again with what they had."""

from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.responses import HTMLResponse, Response

from omega.web.console.render import environment
from omega.web.problems import of_status

MOST_FIELDS = 5_000
"""Fields of a form that is shown again."""


class KeptForm(NamedTuple):
    """A form that was not accepted: where it is sent, its fields, and the token of forms that it gets."""

    action: str
    fields: tuple[tuple[str, str], ...]
    csrf: str = ""

    @classmethod
    def of(cls, action: str, body: bytes, csrf: str = "") -> "KeptForm | None":
        """Return the form of a body; None for an empty one, or one that cannot be read."""
        try:
            found = parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
        except ValueError:
            return None
        fields = tuple((name, value) for name, value in found if name != "csrf")
        return cls(action, fields, csrf) if fields else None


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

    def page(self, path: str, *, sent: bool, kept: KeptForm | None = None) -> Response:
        """Return a page for a person with a link back; `sent`: a form was, and its page keeps what it has.

        `kept`: the form, for browsers without JavaScript.
        """
        html = (
            environment()
            .get_template("refused.html")
            .render(error=str(self), back=form_page(path), unsent=sent, kept=kept)
        )
        return HTMLResponse(html, self.status, {**self.headers, "Cache-Control": "no-store"})


def form_page(path: str) -> str:
    """Return the page of the form that is sent to a path: the one above ``…/change``."""
    return path.removesuffix("/change")
