"""The scripts: headers that name KEYS and ARGV, parts included once, the same text every time."""

import re
from pathlib import Path

import pytest
from lupa import lua51

import omega.cellstate
from omega.cellstate import keys
from omega.cellstate.redis import scripts
from omega.cellstate.redis.schedulers import GENERAL_KEYS
from omega.cellstate.redis.scripts import script
from tests.architecture import lua

FOLDER = Path(omega.cellstate.__file__).parent / "lua"
NAMES = sorted(path.stem for path in FOLDER.glob("*.lua"))
KNOWN = {line.split()[0].partition(":")[0] for line in (keys.__doc__ or "").splitlines() if line.startswith("    ")}


@pytest.mark.parametrize("name", NAMES)
def test_every_script_loads(name: str) -> None:
    loaded = script(name)
    assert loaded is script(name)
    assert "--@include" not in loaded.text
    assert loaded.text.count("local fixed_keys, fixed_args = ") == 1
    assert set(loaded.keys) <= KNOWN, "a key that keys.py does not describe"
    assert len(set(loaded.keys + loaded.arguments)) == len(loaded.keys) + len(loaded.arguments)


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_given_by_its_name(name: str) -> None:
    """No position is counted by hand: what a script calls is one of its named keys or was asked for."""
    source = scripts._include((FOLDER / f"{name}.lua").read_text())
    assert not re.search(r"KEYS\[\d", source)
    assert not re.search(r"ARGV\[\d", source)


@pytest.mark.parametrize("name", NAMES)
def test_every_script_has_the_rare_keys_that_it_names(name: str) -> None:
    """A name without a variable would be read as a global one, an error in the middle of the writes of a script."""
    loaded = script(name)
    source, rest = lua.without_comments(loaded.text), scripts.RARE.intersection(loaded.keys)
    assert not re.search(r"\b(" + "|".join(scripts.RARE) + r")_key\b", source)
    for place in re.findall(r"KEYS\[(\d+)\]", source):
        assert loaded.keys[int(place) - 1] in rest
    for key in set(re.findall(r"\bnamed\.([a-z]+)\b", source)) & scripts.RARE:
        assert name == "commit", f"{key} is not in its header"
        assert key in GENERAL_KEYS


SECTIONS = ("far", "far.copies", "losses", "lanes", "pools", "shares", "waiters")
"""Tables of functions that scripts share."""


@pytest.mark.parametrize("name", NAMES)
def test_every_function_of_a_table_that_a_script_calls_is_in_it(name: str) -> None:
    """One that is not there would be an error in the middle of the writes of a script."""
    text = lua.without_comments(script(name).text)
    for section in SECTIONS:
        table = re.escape(section)
        called = set(re.findall(rf"(?<![\w.]){table}\.(\w+)\(", text))
        given = set(re.findall(rf"function {table}\.(\w+)\(", text))
        for names in re.findall(rf"((?:{table}\.\w+(?:, )?)+) =", text):
            given.update(re.findall(rf"{table}\.(\w+)", names))
        unused = {"write"} if section == "far" else set()  # only after runs in chunks were changed
        assert called - given <= unused, section


PARTS = """
local function first(x) return x + 1 end
local second
do
  local function hidden(x)
    return first(x)
  end
  function second(x)
    return hidden(x)
  end
end
local t = {}
function t.kept(x)
  local function inside() return x end
  return inside()
end
function t.alone(x)
  if x then return t.alone(x - 1) end
end
return t.kept(1)
"""


def test_functions_that_nothing_uses_are_left_out() -> None:
    text = scripts._without_unused(PARTS)
    assert re.findall(r"function ([\w.]+)", text) == ["t.kept", "inside"]
    assert lua51.LuaRuntime().execute(text) == 1
    assert scripts._without_unused(PARTS + "local s = second\n").count("function") == 5


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_out_of_a_script_is_whole_functions(name: str) -> None:
    runtime, source = lua51.LuaRuntime(), scripts._include((FOLDER / f"{name}.lua").read_text())
    for found in scripts.FUNCTION.finditer(source):
        runtime.compile(found[0])  # raises LuaSyntaxError
    runtime.compile(script(name).text)


def test_every_part_is_used() -> None:
    used = {
        part
        for path in FOLDER.rglob("*.lua")
        for line in path.read_text().splitlines()
        if line.lstrip().startswith("--@include")
        for part in line.split()[1:]
    }
    fast_path = {f"fast_path/{path.stem}" for path in (FOLDER / "fast_path").glob("*.lua")}
    assert used == fast_path | {path.stem for path in (FOLDER / "parts").glob("*.lua")}


def test_arguments_in_the_order_of_the_header() -> None:
    loaded = scripts.Script("x", "", "", (), ("dims", "at"))
    assert loaded.pack_arguments({"at": 2, "dims": 1, "more": 3}, ["rest"]) == [1, 2, "rest"]
    with pytest.raises(KeyError):
        loaded.pack_arguments({"at": 2})


def test_a_header_without_keys_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="KEYS"):
        scripts._header("-- ARGV a\n", "KEYS")
