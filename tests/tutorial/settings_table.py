"""The table of the settings of pools as Markdown, as a page of docs/ has it between `BEGIN` and `END`.

`python -m tests.tutorial.settings_table` prints it.
"""

from omega.cellstate.pools import Integral, Pool, PoolTree, PreemptionSettings, Setting, table

BEGIN, END = (
    "<!-- settings of pools: tests/tutorial/settings_table.py -->",
    "<!-- end of the settings -->",
)
HEADINGS = {
    Pool: "field of a pool", Integral: "field of `integral`", PreemptionSettings: "field of `preemption`",
    PoolTree: "field of a tree",
}  # fmt: skip
WORDS = {str: "text", bool: "true or false", int: "whole number", float: "number", tuple[str, ...]: "list"}


def as_markdown() -> str:
    """The rows of the table, by group."""
    return "\n\n".join(
        "\n".join(
            [f"| {heading} | meaning | values | default | counts for |", "| --- | --- | --- | --- | --- |"]
            + [_row(each) for each in table(kind) if each.configurable]
        )
        for kind, heading in HEADINGS.items()
    )


def _row(each: Setting) -> str:
    meaning = each.meaning.replace("<Root>", "`<Root>`")
    return f"| `{each.file}` | {meaning} | {_values(each)} | {_default(each)} | {each.counts} |"


def _values(each: Setting) -> str:
    if each.nested:
        return "the fields below"
    if each.choices:
        words = ", ".join(f"`{choice}`" for choice in each.choices)
        return f"list of {words}" if each.value_type == tuple[str, ...] else words
    if each.amounts:
        return f"amounts {each.unit}".strip()
    return ", ".join(filter(None, (each.unit or WORDS[each.value_type], each.bounds.text if each.bounds else "")))


def _default(each: Setting) -> str:
    value = each.default if each.inherited is None else each.inherited
    if each.without or each.nested or each.name == "name":
        return each.without
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:,g}"
    if isinstance(value, tuple):
        return ", ".join(f"`{word}`" for word in value)
    return f"`{value}`" if value and isinstance(value, str) else "none"


if __name__ == "__main__":
    print(as_markdown())  # noqa: T201 - the page is written from it
