"""One page has the table of the settings of pools, as the table in the code has it."""

from tests.tutorial.page import DOCS
from tests.tutorial.settings_table import BEGIN, END, as_markdown


def test_one_page_has_the_table_of_the_settings() -> None:
    pages = [text for page in DOCS.glob("*.md") if BEGIN in (text := page.read_text("utf-8"))]
    assert [page.split(BEGIN)[1].split(END)[0].strip() for page in pages] == [as_markdown()]
