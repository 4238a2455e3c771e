"""Scripts as jobs, as Slurm's sbatch takes them: the script travels with the job, its directives are options.

The directives are the lines ``#OMEGA OPTION…`` between the first line, ``#!INTERPRETER``, and the first command. They
take the options of `omega job run`.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from omega.arrays import parse_array
from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput
from omega.jobfile.options import JobOptions, read_rules, stem
from omega.output_pattern import read_pattern
from omega.schedulers.constraints.demands import read_constraint, read_runner
from omega.submission import free_name

if TYPE_CHECKING:
    from omega.cellstate.model import JobSpec
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.resources import Dimensions

MARK, MOST = "#OMEGA", 10**14 - 1
STDIN = "stdin"
SHELLS = ("sh", "ash", "bash", "dash", "ksh", "mksh", "zsh")
FLAGS = {"python": "-c", "perl": "-e", "ruby": "-e", "node": "-e"} | dict.fromkeys(SHELLS, "-c")
"""Option of an interpreter with which an argument is the script, by the interpreter's name without its version."""
Form = str | bool | tuple[type, float, float]
"""What an option is: "text", "list" (repeatable), "pairs" (repeatable NAME=VALUE); a flag and the value that it gives;
or a number with its least and its largest value."""
OPTIONS: Mapping[str, tuple[str, Form]] = {
    "--name": ("name", "text"), "--kind": ("kind", "text"), "--user": ("user", "text"), "--pool": ("pool", "text"),
    "--cpu": ("cpu", "text"), "--memory": ("memory", "text"), "--resource": ("others", "pairs"),
    "--duration": ("duration", "text"), "--time-limit": ("time_limit", "text"),
    "--output": ("output", "text"), "--error": ("error", "text"), "--array": ("array", "text"),
    "--env": ("environment", "pairs"), "--policy": ("own", "pairs"), "--directory": ("directory", "text"),
    "--runner": ("runner", "text"), "--image": ("image", "text"), "--constraint": ("constraints", "list"),
    "--after": ("waits", "list"), "--count": ("count", (int, 1, 10_000_000)), "--restart": ("restart", (int, 0, 1_000)),
    "--precedence": ("precedence", (int, 0, 1_000_000)), "--gang-min": ("gang_min", (int, 1, MOST)),
    "--weight": ("weight", (float, 0.001, 100_000)), "--gang": ("gang", True), "--strict-gang": ("strict_gang", True),
    "--repeatable": ("repeatable", True), "--speculation": ("speculation", "text"),
    "--simulate": ("simulate", True), "--hold": ("hold", True), "--follow": ("follow", True),
    "--detach": ("follow", False),
}  # fmt: skip
"""The options of `omega job run`: the parameter and the form of each. A test compares them with the command's."""
_NUMBERS = {"count": 1, "restart": 0, "precedence": 0}


class Directive(NamedTuple):
    """The words of a directive, and its line, counted from 1."""

    line: int
    words: list[str]


@dataclass(frozen=True, slots=True)
class Script:
    """A script: its name for messages, its text, and the arguments of its command."""

    name: str
    text: str
    arguments: Sequence[str] = ()

    @classmethod
    def read(cls, name: str, data: bytes, arguments: Sequence[str] = ()) -> "Script":
        """Read a script. Raises BadInput when it is not UTF-8 text."""
        try:
            return cls(name, data.decode().replace("\r\n", "\n"), arguments)
        except UnicodeDecodeError as error:
            raise BadInput(f"{name}: not UTF-8 text at byte {error.start}; save it as such") from None

    @property
    def short(self) -> str:
        """The name of a job of it that has no other: that of its file, of one without that of its interpreter."""
        return stem([PurePath(self.name).name] if self.name != STDIN else self.command()[:1])

    def command(self) -> list[str]:
        """Return the command that runs it. Raises BadInput for an interpreter that is not known."""
        words = self.text.partition("\n")[0].removeprefix("#!").split()
        if words and PurePath(words[0]).name == "env":
            words = words[2:] if words[1:2] == ["-S"] else words[1:]
        program = PurePath(words[0]).name.rstrip("0123456789.") if words else ""
        if program not in FLAGS:
            known = ", ".join(FLAGS)
            raise BadInput(f"{self.name}:1: no interpreter that takes a script as an argument; known are {known}")
        called = [PurePath(self.name).name] if program in SHELLS else []  # $0; others have no name for it
        return [*words, FLAGS[program], self.text, *called, *self.arguments]

    def directives(self, warn: Callable[[str], None]) -> Iterator[Directive]:
        """Yield the directives; warn about those that follow a command. Raises BadInput for one that is no words."""
        command = 0
        for number, line in enumerate(self.text.split("\n"), 1):
            if line.strip() and not line.startswith("#") and not command:
                command = number
            elif line.split(maxsplit=1)[:1] == [MARK] and line.startswith(MARK):
                if command:
                    warn(f"{self.name}:{number}: has no effect after the first command, in line {command}")
                    continue
                try:
                    yield Directive(number, shlex.split(line.removeprefix(MARK), comments=True))
                except ValueError as error:
                    said = f"{str(error).lower()}; close the quotation on this line"
                    raise BadInput(f"{self.name}:{number}: {said}") from None

    def options(self, dimensions: "Dimensions", warn: Callable[[str], None]) -> dict[str, Any]:
        """Return the values of the directives by parameter; of a repeated option the last, or all of a list.

        Raises BadInput with the line for an option that is unknown or has no valid value.
        """
        values: dict[str, Any] = {}
        for line, words in self.directives(warn):
            try:
                _add(values, list(words), dimensions)
            except BadInput as error:
                raise BadInput(f"{self.name}:{line}: {error}") from None
        return values


def is_script(data: bytes) -> bool:
    """Return whether a file is a script rather than a job file: it begins with ``#!``."""
    return data.startswith(b"#!")


def script_job(cell: "RedisCell", script: Script, warn: Callable[[str], None]) -> tuple["JobSpec", bool]:
    """Return the job of a script, and whether it is to be held; without a name it has one that is free.

    Raises BadInput, Refused.
    """
    words = script.command()
    values = defaults() | script.options(cell.dimensions, warn)
    name, hold, _ = (values.pop(each) for each in ("name", "hold", "follow"))
    job = JobOptions(words=words, **values).job(cell, name or script.short)
    return job if name else replace(job, name=free_name(cell, job.name, job.id)), hold


def defaults() -> dict[str, Any]:
    """Return the values of all parameters when no option is given."""
    empty: Mapping[Form, Any] = {"pairs": {}, "list": (), True: False}
    known = {name: empty.get(form) for name, form in OPTIONS.values()}
    return known | _NUMBERS | {"kind": "batch", "follow": None}


def _add(values: dict[str, Any], words: list[str], dimensions: "Dimensions") -> None:
    """Add the options of a directive. Raises BadInput."""
    given: set[tuple[str, str]] = set()
    while words:
        option, equals, value = words.pop(0).partition("=")
        if not option.startswith("--"):
            raise BadInput(f"unexpected word {option!r}; want options of omega job run")
        if option not in OPTIONS:
            near = get_close_matches(option, OPTIONS, 1)
            hint = f"did you mean {near[0]}?" if near else "see omega job run --help"
            raise BadInput(f"no option {option}; {hint}")
        name, form = OPTIONS[option]
        if isinstance(form, bool):
            if equals:
                raise BadInput(f"{option}: takes no value")
            values[name] = form
            continue
        if not equals:
            if not words:
                raise BadInput(f"{option}: its value is missing")
            value = words.pop(0)
        try:
            _set(values, name, form, value, given)
            _check(name, values[name], dimensions)
        except BadInput as error:
            raise BadInput(f"{option}: {error}") from None


def _set(values: dict[str, Any], name: str, form: Form, text: str, given: set[tuple[str, str]]) -> None:
    """Set a parameter, or add to one of several values; `given` are the names of pairs of this directive."""
    if form == "text":
        values[name] = text
    elif form == "list":
        values[name] = (*values.get(name, ()), text)
    elif form == "pairs":
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise BadInput(f"{text!r} is not NAME=VALUE")
        if (name, key) in given:
            raise BadInput(f"{key} is given twice")
        given.add((name, key))
        values[name] = {**values.get(name, {}), key: value}
    elif isinstance(form, tuple):
        values[name] = _number(text, *form)


def _number(text: str, kind: type, least: float, most: float) -> Any:
    try:
        number = kind(text)
    except ValueError:
        raise BadInput(f"{text!r} is not a {'whole ' * (kind is int)}number") from None
    if not least <= number <= most:
        raise BadInput(f"{text} is not allowed; want at least {least:,} and at most {most:,}")
    return number


def _check(key: str, value: Any, dimensions: "Dimensions") -> None:
    """Raise BadInput for a value that is not of the form of its parameter."""
    readers: Mapping[str, Callable[[Any], Any]] = {
        "duration": parse_duration,
        "time_limit": parse_duration,
        "output": read_pattern,
        "error": read_pattern,
        "array": parse_array,
        "runner": read_runner,
        "speculation": read_rules,
        "constraints": lambda texts: [read_constraint(text) for text in texts],
        "cpu": lambda amount: dimensions.parse_need({"cpu": amount}),
        "memory": lambda amount: dimensions.parse_need({"memory": amount}),
        "others": dimensions.parse_need,
    }
    if key in readers:
        readers[key](value)
