"""Pages of a filled cell, asked on the application itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser

import anyio
import httpx

LOADING = "The first reading of this cell is not complete"
HANDLERS = re.compile(r"^on[a-z]+$")
SECONDS = 30.0


class Tags(HTMLParser):
    """The tags and attributes of a page, and its forms by address with the values of their fields."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.forms: list[tuple[str, dict[str, str]]] = []
        self.links: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((given.get("action", ""), {}))
        elif tag == "input" and self.forms and "name" in given and given.get("type") != "checkbox":
            self.forms[-1][1][given["name"]] = given.get("value", "")
        elif tag == "a":
            self.links.append(given.get("href", ""))


@dataclass(frozen=True, slots=True)
class Pages:
    """A client of the pages of a cell; paths that do not begin with a slash are within the cell."""

    client: httpx.AsyncClient
    cell: str

    def path(self, path: str) -> str:
        """Return a whole path."""
        return path if path.startswith("/") else f"/cells/{self.cell}/{path}"

    async def get(self, path: str) -> httpx.Response:
        """Return the answer for a page, once the cell has been read."""
        with anyio.fail_after(SECONDS):
            while True:
                answer = await self.client.get(self.path(path))
                if LOADING not in answer.text:
                    return answer
                await anyio.sleep(0.05)

    async def page(self, path: str, status: int = 200) -> str:
        """Return the HTML of a page, after a check of what holds for every page."""
        return checked(await self.get(path), status)

    async def post(self, path: str, form: Mapping[str, str]) -> httpx.Response:
        """Return the answer to a form."""
        return await self.client.post(self.path(path), data=dict(form))

    async def posted(self, path: str, form: Mapping[str, str], status: int = 200) -> str:
        """Return the HTML of the answer to a form, after the same check."""
        return checked(await self.post(path, form), status)


def checked(answer: httpx.Response, status: int = 200) -> str:
    """Return the HTML of an answer: one script of our own, no style and no handler in an attribute."""
    assert answer.status_code == status, f"{answer.request.url}: {answer.status_code} {answer.text[:2000]}"
    found = Tags(answer.text)
    assert found.tags.count("script") == 1
    assert "style" not in found.tags
    assert "style" not in found.attributes
    assert not [name for name in found.attributes if HANDLERS.match(name)]
    assert not {"\x1b", "\u202e", "\x00"} & set(answer.text)
    return answer.text


def words(html: str) -> str:
    """Return the text of a page, white space as single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())
