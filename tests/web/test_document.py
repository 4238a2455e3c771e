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


def test_dry_runs_are_answered_as_the_document_says() -> None:
    """A dry run makes nothing, so it answers 200 also where the change answers 201."""
    dry = [
        (f"{method} {path}", operation["responses"])
        for path, operations in json.loads(document())["paths"].items()
        for method, operation in operations.items()
        if any(each.get("name") == "dry_run" for each in operation.get("parameters", ()))
    ]
    assert {name for name, answers in dry if "201" in answers} == {
        "post /v1/jobs", "post /v1/jobs/{job}/rerun", "post /v1/machines",
    }  # fmt: skip
    assert all("200" in answers for _, answers in dry)


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
