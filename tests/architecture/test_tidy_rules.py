"""Every rule of test_tidy.py refuses what it should, says where and what instead, and lets the rest pass."""

import inspect
from collections.abc import Callable, Iterator

import pytest

from tests.architecture import lua, rules
from tests.architecture.sources import Source

Rule = Callable[[Source], Iterator[str]]
LUA = "cellstate/lua/commit.lua"
HOME = "/" + "home/fred/omega"
FIELDS = "{}\nclass A{}:\n    a: str\n    b: str\n    c: str\n    d: str\n"
SHELL = "import subprocess\nsubprocess.run('ls', shell=True)\n"

# (rule, path, text, line of the finding, what the finding says)
REFUSED: list[tuple[Rule, str, str, int, str]] = [
    (rules.long_files, "omega/run.py", "x = 1\n" * 901, 901, "901 lines"),
    (rules.long_files, LUA, "-- a\n" * 901, 901, "901 lines"),
    (
        rules.exchangeable,
        "omega/run.py",
        "def f(a: int, b: int, c: int, d: 'int | None'): 0\n",
        1,
        "f takes 4 parameters",
    ),
    (rules.exchangeable, "omega/run.py", FIELDS.format("@dataclass(frozen=True)", ""), 2, "4 fields of type str"),
    (rules.exchangeable, "omega/run.py", FIELDS.format("", "(NamedTuple)"), 2, "A takes 4 fields"),
    (rules.empty_names, "omega/utils.py", "", 1, "'utils'"),
    (rules.empty_names, "omega/common/run.py", "", 1, "'common'"),
    (rules.empty_names, "tests/unit/test_manager.py", "", 1, "'manager'"),
    (rules.talking, "omega/run.py", "print('done')\n", 1, "cli prints it"),
    (rules.talking, "omega/run.py", "import sys\nsys.exit(1)\n", 2, "raise an OmegaError"),
    (rules.talking, "omega/run.py", "from sys import exit as leave\nleave()\n", 2, "raise an OmegaError"),
    (rules.talking, "omega/run.py", "raise SystemExit\n", 1, "raise an OmegaError"),
    (rules.talking, "omega/run.py", "raise SystemExit(1)\n", 1, "raise an OmegaError"),
    (rules.talking, "schedulers/loop.py", "from click import echo\n", 1, "only cli"),
    (rules.clocks, "schedulers/loop.py", "import time\n", 1, "as an argument"),
    (rules.clocks, "schedulers/loop.py", "from time import monotonic\n", 1, "as an argument"),
    (rules.clocks, "schedulers/loop.py", "def f():\n    import threading\n", 2, "yield an effect"),
    (rules.clocks, "cellstate/snapshot.py", "import signal\n", 1, "yield an effect"),
    (rules.clocks, "omega/run.py", "import subprocess as sp\n", 1, "omega/live"),
    (rules.clocks, "omega/run.py", "from datetime import datetime\nnow = datetime.now()\n", 2, "as an argument"),
    (rules.randomness, "omega/run.py", "import random\nx = random.random()\n", 2, "all share"),
    (rules.randomness, "omega/run.py", "from random import choice\n", 1, "all share"),
    (rules.randomness, "omega/run.py", "import numpy as np\nx = np.random.rand(3)\n", 2, "all share"),
    (rules.randomness, "omega/run.py", "from numpy import random\nx = random.rand(3)\n", 2, "all share"),
    (rules.randomness, "omega/run.py", "from random import Random\nrng = Random(7)\n", 2, "at module level"),
    (rules.randomness, "omega/run.py", "from random import Random\ndef f(): return Random()\n", 2, "without a seed"),
    (rules.dangers, "omega/run.py", "import pickle\n", 1, "MessagePack or JSON"),
    (rules.dangers, "omega/run.py", "from pickle import loads\n", 1, "MessagePack or JSON"),
    (rules.dangers, "omega/run.py", "x = eval('1')\n", 1, "parse what is allowed"),
    (rules.dangers, "omega/run.py", "exec('x = 1')\n", 1, "parse what is allowed"),
    (rules.dangers, "omega/run.py", "import yaml\nyaml.load('1', Loader=yaml.FullLoader)\n", 2, "yaml.safe_load"),
    (rules.dangers, "omega/run.py", "from yaml import unsafe_load as u\nu('1')\n", 2, "yaml.safe_load"),
    (rules.dangers, "benchmarks/commit.py", SHELL, 2, "a list of arguments"),
    (rules.dangers, "tests/conftest.py", "import os\nos.system('ls')\n", 2, "with a list"),
    (rules.dangers, "omega/run.py", "import numpy\nnumpy.load('x', allow_pickle=True)\n", 2, "plain arrays"),
    (rules.twins, "cellstate/memory/tasks.py", "from omega.cellstate.redis.calls import end\n", 1, "share words"),
    (rules.twins, "cellstate/redis/cell.py", "from omega.cellstate import memory\n", 1, "share words"),
    (rules.twins, "cellstate/audit/replay.py", "import omega.cellstate.memory\n", 1, "share words"),
    (
        rules.implementations,
        "omega/run.py",
        "\nfrom omega.cellstate.redis import RedisCell\n",
        2,
        "omega.cellstate.ports",
    ),
    (rules.implementations, "cellstate/backup/file.py", "def f(cell: 'RedisCell'): ...\n", 1, "omega.cellstate.store"),
    (rules.old_names, "tests/x.py", f"\nfrom {'schedulers'}.loop import attempts\n", 2, "omega.schedulers"),
    (rules.old_names, "tests/x.py", f"import {'cli'}\n", 1, "omega.cli"),
    (rules.old_names, "docs/x.md", f"as `{'cellstate'}.model` says\n", 1, "omega.cellstate"),
    (rules.old_names, "pyproject.toml", f'omega = "{"cli"}.main:main"\n', 1, "omega.cli"),
    (rules.rule_numbers, "cellstate/x.py", "# as it must (semantics " + "2, 99)\n", 1, "no rule of that number"),
    (rules.pages, "cellstate/x.py", "# one in flight (performance.md)\n", 1, "no page of this project"),
    (rules.machine_paths, "docs/use.md", f"Go to\n{HOME} now.\n", 2, "derive it"),
    (rules.machine_paths, "omega/run.py", f"x = '{HOME}'\n", 1, "derive it"),
    (rules.machine_paths, "omega/run.py", "x = '../" + "shared/traces'\n", 1, "shared_directory"),
    (lua.lua_headers, LUA, "-- KEYS 1: machines\nreturn 1\n", 1, "no line `-- ARGV`"),
    (lua.lua_headers, LUA, "-- ARGV 1: size\nreturn 1\n-- KEYS\n", 1, "no line `-- KEYS`"),
    (lua.lua_headers, "cellstate/lua/parts/parse.lua", "#!lua name=x\n", 1, "a shebang"),
    (lua.lua_calls, LUA, "local a = 1\nredis.call('TIME')\n", 2, "as an argument"),
    (lua.lua_calls, LUA, 'redis.pcall( "randomkey")\n', 1, "as an argument"),
    (lua.lua_calls, LUA, "local call = redis.call\nlocal k = call('KEYS', '*')\n", 2, "every key in KEYS"),
    (lua.lua_calls, LUA, "--[[ two\nlines ]]\nlocal x = math.random(3)\n", 3, "as an argument"),
    (lua.lua_checks_first, LUA, "redis.call('HSET', KEYS[1], 1, 2)\nif x then return { 'gone' } end\n", 2, "in line 1"),
    (lua.lua_checks_first, LUA, "publish(at, by)\nlocal names = lacking()\n", 2, "validate first"),
    (lua.lua_calls, LUA, "local x = cmsgpack.unpack(ARGV[1])\n", 1, "opaque to scripts"),
]

HEADER = "-- Commit claims.\n-- KEYS\n--   1 machines (hash)\n-- ARGV\n--   1 size\n"

# (rule, path, text): what must pass
ALLOWED: list[tuple[Rule, str, str]] = [
    (rules.long_files, "omega/run.py", "x = 1\n" * 900),
    (rules.exchangeable, "omega/run.py", "def f(a: int, b: int, c: int, d: float, *, e: int): 0\n"),
    (rules.exchangeable, "omega/run.py", "def f(self, a: int, b: int, c: int): 0\n"),
    (rules.exchangeable, "cli/run.py", "@click.command()\ndef command(a: str, b: str, c: str, d: str): 0\n"),
    (rules.exchangeable, "omega/run.py", FIELDS.format("@dataclass(kw_only=True)", "")),
    (rules.exchangeable, "omega/run.py", FIELDS.format("@dataclass", "").replace("    c", "    _: KW_ONLY\n    c")),
    (
        rules.exchangeable,
        "omega/run.py",
        FIELDS.format("@dataclass", "").replace("d: str", "d: str = field(init=False)"),
    ),
    (rules.exchangeable, "omega/run.py", FIELDS.format("", "(Protocol)")),
    (rules.empty_names, "omega/utilisation.py", ""),
    (rules.empty_names, "tests/unit/test_based.py", ""),
    (rules.talking, "cli/main.py", "import click\nprint(1)\n"),
    (rules.talking, "omega/run.py", "def f(report): report.print(1)\n"),
    (rules.talking, "benchmarks/commit.py", "print(1)\n"),
    (rules.clocks, "schedulers/process/scheduler.py", "import time, signal\n"),
    (rules.clocks, "schedulers/process_intake.py", "import threading\n"),
    (rules.clocks, "omega/live.py", "import subprocess\n"),
    (rules.clocks, "omega/live/simulated/executor.py", "import subprocess\n"),
    (rules.clocks, "omega/embedded/server.py", "import time\n"),
    (rules.clocks, "schedulers/loop.py", "from datetime import datetime\nx = datetime.fromtimestamp(0)\n"),
    (rules.randomness, "omega/run.py", "from random import Random\ndef f(seed): return Random(f'{seed}/jobs')\n"),
    (rules.randomness, "omega/run.py", "import numpy as np\ndef f(s): return np.random.default_rng(s)\n"),
    (rules.randomness, "omega/run.py", "from random import Random\ndef f(random: Random): return random.choice([1])\n"),
    (rules.randomness, "omega/run.py", "def f(rng): return rng.random()\n"),
    (rules.dangers, "omega/run.py", "def f(store): store.eval('return 1', 0)\n"),
    (rules.dangers, "omega/run.py", "import ast\nast.literal_eval('1')\n"),
    (rules.dangers, "omega/run.py", "import yaml\nyaml.load('1', Loader=yaml.SafeLoader)\n"),
    (rules.dangers, "omega/run.py", "import subprocess\nsubprocess.run(['ls'], shell=False)\n"),
    (rules.twins, "cellstate/memory/cell.py", "import redis\nfrom omega.cellstate.memory.tasks import end\n"),
    (
        rules.twins,
        "cellstate/audit/report.py",
        "from omega.cellstate.model import Job\nfrom omega.cellstate.auditing import x\n",
    ),
    (rules.twins, "omega/live.py", "from omega.cellstate import memory, redis\n"),
    (rules.old_names, "docs/x.md", "see cellstate/keys.py and client.schedulers()['schedulers']\n"),
    (rules.old_names, "tests/x.py", "from omega.queries import schedulers\nschedulers.describe(cell)\n"),
    (rules.implementations, "cellstate/store.py", "from omega.cellstate.redis import RedisCell\n"),
    (rules.implementations, "tests/conftest.py", "from omega.cellstate.redis import RedisCell\n"),
    (rules.rule_numbers, "cellstate/lua/x.lua", "-- semantics 1 and 2, 19; 20 runs\n"),
    (rules.pages, "omega/workload/x.py", "# tables/README.md, docs/semantics.md, FILE.md, https://example.org/a.md\n"),
    (rules.machine_paths, "tests/conftest.py", "x = '../" + "shared'\n"),
    (rules.machine_paths, "docs/use.md", "HOME=/" + "home/someone omega up\n"),
    (rules.machine_paths, "docs/use.md", "See https://example.org" + HOME + " and ./docs" + HOME + ".\n"),
    (lua.lua_headers, LUA, HEADER),
    (lua.lua_headers, "cellstate/lua/parts/parse.lua", "local x = 1\n"),
    (lua.lua_calls, LUA, "-- no TIME: redis.call('TIME')\nlocal n = #KEYS\nredis.call('HMGET', KEYS[1], 'TIME')\n"),
    (lua.lua_checks_first, LUA, "local names = lacking()\nredis.call('HSET', KEYS[1], 1, 2)\nreturn { 'ok' }\n"),
    (lua.lua_checks_first, LUA, "local function f()\n  redis.call('DEL', KEYS[1])\nend\nreturn { 'gone' }\n"),
    (lua.lua_checks_first, "cellstate/lua/parts/parse.lua", "redis.call('DEL', x)\nlacking()\n"),
    (lua.lua_calls, LUA, "--[[ redis.call('TIME') ]]\nlocal habit = 1\n"),
]


@pytest.mark.parametrize(("rule", "path", "text", "line", "said"), REFUSED)
def test_refuses(rule: Rule, path: str, text: str, line: int, said: str) -> None:
    findings = list(rule(Source(path, text)))
    assert len(findings) == 1, findings
    assert findings[0].startswith(f"{path}:{line}: ")
    assert said in findings[0]


@pytest.mark.parametrize(("rule", "path", "text"), ALLOWED)
def test_lets_pass(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text))) == []


def test_every_rule_is_shown_to_refuse_and_to_let_pass() -> None:
    form = {"source": Source, "return": Iterator[str]}
    every = {
        function
        for module in (lua, rules)
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and function.__annotations__ == form
    }
    assert len(every) > 10
    assert {case[0] for case in REFUSED} == every
    assert {case[0] for case in ALLOWED} == every
