"""The committed OpenAPI document is that of the application."""

import json

from omega.web.access.admissions import Access
from omega.web.access.tokens import Tokens
from omega.web.app import create_app
from omega.web.service import Service
from tests.conftest import ROOT

FILE = ROOT / "docs" / "openapi.json"


def document() -> str:
    """Return the text of the file that belongs to the application."""
    return json.dumps(create_app(Service("unix:///nowhere"), Access(Tokens())).openapi(), indent=1) + "\n"


def test_the_committed_document_is_that_of_the_application() -> None:
    assert FILE.read_text(encoding="utf-8") == document(), "write it anew: make openapi"


def test_every_route_is_described() -> None:
    for path, operations in json.loads(document())["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description"), f"{method} {path}"
            assert operation.get("tags"), f"{method} {path}"
            assert {"4XX", "5XX"} < operation["responses"].keys()
            assert all(each.get("description") for each in operation.get("parameters", ())), f"{method} {path}"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
