"""The YAML that Omega reads: the core schema of YAML 1.2, and merge keys.

PyYAML resolves plain scalars as YAML 1.1 does: `1:30` is 90, `010` is 8, `yes` is true, a date is a date. These
loaders replace its tables: `null`, booleans, numbers and text, nothing else. `010` is 10, `0o10` is 8.
"""

import re
from typing import Any

import yaml

MOST_DIGITS = 40
"""Digits of a whole number; no field takes more than 15."""

NULL, BOOLEAN, INTEGER, FLOAT, TEXT, MERGE, SEQUENCE, MAPPING = (
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "merge", "seq", "map")
)
_RESOLVED = (
    (NULL, "~|null|Null|NULL|", ["~", "n", "N", ""]),
    (BOOLEAN, "true|True|TRUE|false|False|FALSE", list("tTfF")),
    (INTEGER, r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        FLOAT,
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+0123456789."),
    ),
    (MERGE, "<<", ["<"]),
)
"""Tag, plain scalars that have it, their first characters. The first match counts (YAML 1.2.2, section 10.3.2)."""
_FORMS = {tag: re.compile(f"(?:{form})", re.ASCII) for tag, form, _ in _RESOLVED}
_BASES = {"0o": 8, "0x": 16}


def _refuse(node: Any, what: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, f"{what}: {str(node.value)[:MOST_DIGITS]!r}", node.start_mark)


def _scalar(loader: Any, node: Any, tag: str) -> str:
    text: str = loader.construct_scalar(node)
    if not _FORMS[tag].fullmatch(text):
        raise _refuse(node, f"not of the type {tag.rpartition(':')[2]}")
    return text


def _null(loader: Any, node: Any) -> None:
    _scalar(loader, node, NULL)


def _boolean(loader: Any, node: Any) -> bool:
    return _scalar(loader, node, BOOLEAN).lower() == "true"


def _integer(loader: Any, node: Any) -> int:
    text = _scalar(loader, node, INTEGER)
    if len(text) > MOST_DIGITS:
        raise _refuse(node, f"a number of more than {MOST_DIGITS} digits")
    base = _BASES.get(text[:2])
    return int(text[2:], base) if base else int(text)


def _float(loader: Any, node: Any) -> float:
    return float(_scalar(loader, node, FLOAT).lower().replace(".inf", "inf").replace(".nan", "nan"))


_CONSTRUCTORS = {
    NULL: _null,
    BOOLEAN: _boolean,
    INTEGER: _integer,
    FLOAT: _float,
    MERGE: yaml.SafeLoader.yaml_constructors[TEXT],
    **{tag: yaml.SafeLoader.yaml_constructors[tag] for tag in (TEXT, SEQUENCE, MAPPING, None)},
}


Resolvers = dict[str, list[tuple[str, re.Pattern[str]]]]


def _resolvers() -> Resolvers:
    resolvers: Resolvers = {}
    for tag, form, firsts in _RESOLVED:
        for first in firsts:
            resolvers.setdefault(first, []).append((tag, re.compile(f"(?:{form})$", re.ASCII)))
    return resolvers


def core(loader: type[Any]) -> type[Any]:
    """Return a subclass of a safe PyYAML loader that resolves and constructs the core schema only."""
    tables: dict[str, Any] = {"yaml_implicit_resolvers": _resolvers(), "yaml_constructors": _CONSTRUCTORS}
    tables["yaml_multi_constructors"] = {}
    return type(f"Core{loader.__name__}", (loader,), tables)


Loader = core(getattr(yaml, "CSafeLoader", yaml.SafeLoader))
"""The loader in C where PyYAML has it, else the one in Python; both read the same."""


class Dumper(yaml.SafeDumper):
    """Quotes text that YAML 1.1 or the core schema would read as something else."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own table
        first: [*yaml.SafeDumper.yaml_implicit_resolvers.get(first, []), *_resolvers().get(first, [])]
        for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *_resolvers()}
    }

    def ignore_aliases(self, data: Any) -> bool:
        """Write every value out."""
        return True


def dump(value: Any) -> str:
    """Return a value as YAML that `Loader` reads back."""
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text
