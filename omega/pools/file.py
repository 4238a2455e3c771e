"""Files of pools: YAML or JSON with ``trees`` and ``pools``, as ``omega pool export`` writes them (docs/pools.md)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from omega.cellstate.errors import BadInput
from omega.cellstate.pools import DEFAULT_TREE, Pool, Pools, PoolTree, Setting, table
from omega.cellstate.resources import Dimensions
from omega.jobfile.document import Document, joined, parse
from omega.pools.form import amounts, limits

LARGEST_FILE = 8 << 20
Amounts = dict[str, str | int | float]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=False)


def _field(each: Setting) -> tuple[Any, Any]:
    """Return the type of a setting in a file, and its default; a name has none."""
    kind, default = each.value_type, each.default
    if each.nested:
        kind = _model(kind)
        default = kind()
    elif each.amounts:
        kind = Amounts
    elif kind == tuple[str, ...]:
        kind, default = list[str], list(default)
    elif each.choices:
        kind = Literal[each.choices]
    return kind | None if each.optional else kind, ... if each.name == "name" else default


def _model(kind: type) -> type[BaseModel]:
    given: dict[str, Any] = {each.file: _field(each) for each in table(kind) if each.configurable}
    return create_model(f"{kind.__name__}Fields", __base__=_Strict, **given)


PoolFields, TreeFields = _model(Pool), _model(PoolTree)
FileFields = create_model(
    "FileFields", __base__=_Strict,
    version=(int | None, Field(default=None, ge=0, strict=True)),
    trees=(list[TreeFields], [TreeFields(name=DEFAULT_TREE)]),  # type: ignore[valid-type]
    pools=(list[PoolFields], []),  # type: ignore[valid-type]
)  # fmt: skip
"""A whole file. `version`: of the pools that it was made from."""


def read(path: Path, dimensions: Dimensions) -> tuple[Pools, int | None]:
    """Read a file; returns its pools and the version that it names. Raises BadInput with the line of what is wrong."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadInput(f"{path}: larger than {LARGEST_FILE >> 20} MiB, which no file of pools needs")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from None
    return from_document(parse(str(path), text, "pools and trees"), dimensions)


def from_document(document: Document, dimensions: Dimensions) -> tuple[Pools, int | None]:
    """Return the pools of a document, and the version that it names."""
    try:
        file = FileFields.model_validate(document.value).model_dump()
    except ValidationError as error:
        wrong = [
            f"{document.where(each['loc'])}: {'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg'].lower()}"
            for each in error.errors()
        ]
        raise BadInput(f"{joined(wrong)}; fields: see docs/pool-settings.md") from None
    pools, trees = (
        tuple(_settings(kind, each, dimensions, document.where((name, at))) for at, each in enumerate(file[name]))
        for kind, name in ((Pool, "pools"), (PoolTree, "trees"))
    )
    return Pools(pools, trees), file["version"]


def from_values(values: Mapping[str, Any], dimensions: Dimensions) -> tuple[Pools, int | None]:
    """Return the pools of plain values in the form of a file, and the version that they name."""
    return from_document(Document("pools", values, None), dimensions)


def _settings(kind: type, values: Mapping[str, Any], dimensions: Dimensions, where: str) -> Any:
    """Return settings of a kind from a file's, amounts in smallest units."""
    settings = {}
    for each in table(kind):
        value = values.get(each.file)
        if each.nested:
            value = _settings(each.value_type, value or {}, dimensions, where)
        elif each.amounts and value is not None:
            what = f"{where}: {each.name}"
            value = amounts(limits(value, dimensions, what) if each.names else value, dimensions, what)
        if each.configurable:
            settings[each.name] = tuple(value) if isinstance(value, list) else value
    return kind(**settings)
