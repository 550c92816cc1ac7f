"""What a step sets around it, beyond its variables, is as it left it in the next process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from otolith import Disk, Versioned
from otolith.workspace import Runner, Step, Workspace

Run = Callable[[str], Step]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Versioned]:
    with Versioned(Disk(tmp_path / "agent.db", durability="fast")) as state:
        yield state


@pytest.fixture
def workspace(state: Versioned, tmp_path: Path) -> Iterator[Workspace]:
    with state.workspace(runner=Runner(sandbox="limits"), folder=tmp_path / "work") as workspace:
        yield workspace


@pytest.fixture
def run(workspace: Workspace) -> Run:
    """Run a step that must succeed."""

    def run(code: str) -> Step:
        step = workspace.run(code)
        assert step.ok, step.error and step.error.traceback
        return step

    return run


SETTINGS = {
    "decimal": (
        "import decimal; decimal.getcontext().prec = 5",
        "str(decimal.Decimal(1) / 3)",
        "0.33333",
    ),
    "decimal traps": (
        "import decimal; decimal.getcontext().traps[decimal.Inexact] = True",
        "decimal.getcontext().traps[decimal.Inexact]",
        True,
    ),
    "numpy errors": (
        "import numpy as np; np.seterr(over='raise');",
        "np.geterr()['over'], np.geterr()['divide']",
        ("raise", "warn"),
    ),
    "numpy printing": (
        "import numpy as np; np.set_printoptions(precision=3)",
        "repr(np.array([1 / 3]))",
        "array([0.333])",
    ),
    "numpy printing by a function": (
        """import numpy as np
def short(x): return '%.1f' % x
np.set_printoptions(formatter={'float': short})""",
        "repr(np.array([1 / 3]))",
        "array([0.3])",
    ),
    "pandas": (
        "import pandas as pd; pd.set_option('display.max_rows', 7)",
        "pd.get_option('display.max_rows'), pd.get_option('display.max_columns')",
        (7, 0),
    ),
    "pandas by a method": (
        "import pandas as pd; pd.options.display.float_format = '{:.1f}'.format",
        "pd.Series([1 / 3]).to_string()",
        "0   0.3",
    ),
    "matplotlib": (
        "import matplotlib as mpl; mpl.rcParams['font.family'].insert(0, 'fantasy')",
        "mpl.rcParams['font.family'][0]",
        "fantasy",
    ),
    "matplotlib by an object": (
        """import matplotlib as mpl
from cycler import cycler
mpl.rcParams['axes.prop_cycle'] = cycler(color=['red'])""",
        "mpl.rcParams['axes.prop_cycle'].by_key()",
        {"color": ["red"]},
    ),
    "sklearn": (
        "import sklearn; sklearn.set_config(working_memory=5)",
        "sklearn.get_config()['working_memory']",
        5,
    ),
    "recursion": ("import sys; sys.setrecursionlimit(1234)", "sys.getrecursionlimit()", 1234),
    "digits": ("import sys; sys.set_int_max_str_digits(9000)", "len(str(10**8000))", 8001),
    "csv": ("import csv; csv.field_size_limit(99);", "csv.field_size_limit()", 99),
    "socket": ("import socket; socket.setdefaulttimeout(3)", "socket.getdefaulttimeout()", 3.0),
    "gc": ("import gc; gc.disable()", "gc.isenabled()", False),
    "locale": (
        "import locale; locale.setlocale(locale.LC_NUMERIC, 'C');",
        "locale.setlocale(locale.LC_NUMERIC)",
        "C",
    ),
    "zone": (
        "import os, time; os.environ['TZ'] = 'Asia/Tokyo'; time.tzset()",
        "time.localtime(0).tm_hour",
        9,
    ),
    "levels": (
        "import logging; logging.getLogger('mine').setLevel(logging.DEBUG)",
        "logging.getLogger('mine').level, logging.getLogger('mine').isEnabledFor(10)",
        (10, True),
    ),
    "a filter of warnings": (
        "import warnings; warnings.filterwarnings('error', message='careful')",
        """try:
    warnings.warn('careful')
    said = False
except UserWarning:
    said = True
said""",
        True,
    ),
    "a filter for a class of the session": (
        "import warnings\nclass Loud(UserWarning): pass\nwarnings.simplefilter('error', Loud)",
        "try:\n    warnings.warn(Loud('x'))\n    said = False\nexcept Loud:\n    said = True\nsaid",
        True,
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_there_in_later_steps(name: str, run: Run) -> None:
    code, question, answer = SETTINGS[name]
    run(code)
    run("between = 1")
    assert run(question).value == answer


def test_a_setting_is_undone_with_its_step(workspace: Workspace, run: Run) -> None:
    run("import decimal, string")
    run("decimal.getcontext().prec = 5; string.digits = 'none'")
    workspace.undo()
    assert run("decimal.getcontext().prec, string.digits").value == (28, "0123456789")


def test_a_setting_that_is_put_back_is_not_kept(workspace: Workspace, run: Run) -> None:
    run("import numpy as np; np.seterr(all='raise');")
    assert "numpy.errors" in _ambient(workspace)["settings"]
    run("np.seterr(divide='warn', over='warn', under='ignore', invalid='warn');")
    assert "settings" not in _ambient(workspace)


def test_nothing_is_kept_of_settings_that_nobody_changed(workspace: Workspace, run: Run) -> None:
    run("import decimal, logging, matplotlib, warnings\nimport numpy as np, pandas as pd")
    run("x = np.arange(3)")
    assert _ambient(workspace).keys() & {"settings", "groups", "patches"} == set()


def test_logs_are_written_as_they_were(run: Run) -> None:
    run("import logging\nlogging.basicConfig(level='INFO', format='%(levelname)s %(message)s')")
    run("log = logging.getLogger('mine')")
    assert run("log.info('here'); log.debug('not here')").stderr == "INFO here\n"
    assert run("len(logging.root.handlers)").value == 1


def test_a_log_in_a_file_goes_on(run: Run) -> None:
    run("import logging\nhandler = logging.FileHandler('a.log')\nlog = logging.getLogger('mine')")
    run("log.addHandler(handler); log.warning('one')")
    run("log.warning('two')")
    assert run("open('a.log').read()").value == "one\ntwo\n"
    assert run("log.handlers[0] is handler").value is True


def test_what_cannot_be_kept_of_a_setting_is_told(run: Run) -> None:
    step = run("import string, threading\nstring.lock = threading.Lock()")
    assert list(step.lost) == ["string.lock"]
    assert run("hasattr(string, 'lock')").value is False


def test_a_setting_waits_for_what_it_belongs_to(workspace: Workspace, run: Run) -> None:
    run("open('tool.py', 'w').write('n = 1')\nimport importlib, os\nimportlib.invalidate_caches()")
    run("import sys; sys.path.append('lib'); os.mkdir('lib'); os.rename('tool.py', 'lib/tool.py')")
    run("import tool; tool.n = 2; del tool; sys.path.remove('lib'); os.rename('lib', 'other')")
    step = run("x = 1")
    run("sys.path.append('other')")
    assert run("import tool; tool.n").value == 2
    assert step.ok


def test_code_may_do_anything_to_a_module(workspace: Workspace, run: Run) -> None:
    run("import logging, warnings, decimal\nlogging.root = None\nwarnings.filters = None")
    run("decimal.getcontext = lambda: 1 / 0")
    assert run("1 + 1").value == 2


# ---------------------------------------------------------------- patches


PATCHES = {
    "an attribute": ("import string\nstring.mine = {'a': 1}", "string.mine", {"a": 1}),
    "by setattr": ("import string\nsetattr(string, 'mine', 4)", "string.mine", 4),
    "in a function": (
        "def patch():\n    import string as s\n    s.mine = 5\npatch()\nimport string",
        "string.mine",
        5,
    ),
    "a function": ("import math\nmath.double = lambda x: 2 * x", "math.double(4)", 8),
    "a module in a package": ("import os\nos.path.mine = 6", "os.path.mine", 6),
    "a method": (
        "from pathlib import Path\nPath.shout = lambda self: self.name.upper()",
        "Path('/a/b').shout()",
        "B",
    ),
    "several at once": ("import string\nstring.a, string.b = 1, 2", "string.a + string.b", 3),
    "what was deleted": (
        "import string\ndel string.capwords",
        "hasattr(string, 'capwords')",
        False,
    ),
    "a wrapper of what it replaced": (
        "import math\nplain = math.sqrt\ndef sqrt(x):\n    return plain(x) + 100\nmath.sqrt = sqrt",
        "math.sqrt(4), plain(9)",
        (102.0, 3.0),
    ),
    "a wrapper that has what it replaced": (
        """import textwrap
def louder(f):
    return lambda *a: f(*a).upper()
textwrap.dedent = louder(textwrap.dedent)""",
        "textwrap.dedent('  a')",
        "A",
    ),
}


@pytest.mark.parametrize("name", PATCHES)
def test_what_a_step_put_into_a_module_is_there_in_later_steps(name: str, run: Run) -> None:
    code, question, answer = PATCHES[name]
    run(code)
    run("between = 1")
    assert run(question).value == answer


def test_an_object_in_a_module_and_in_a_variable_is_one(run: Run) -> None:
    run("import string\nmine = string.mine = {'a': []}\nclass C: pass\nc = string.c = C()")
    run("string.mine['a'].append(1); string.c.n = 3")
    assert run("mine, string.mine is mine, c.n, string.c is c").value == ({"a": [1]}, True, 3, True)


def test_what_was_replaced_can_be_put_back(run: Run) -> None:
    run("import math\nplain = math.sqrt\nmath.sqrt = lambda x: 'patched'")
    assert run("math.sqrt(4)").value == "patched"
    run("math.sqrt = plain")
    assert run("math.sqrt(4), math.sqrt is plain").value == (2.0, True)


def _ambient(workspace: Workspace) -> Any:
    cell = workspace.state.cell_at((".workspace", "ambient"))  # nothing shows it to users
    assert cell is not None
    return workspace.state.cells.load(cell)


# ---------------------------------------------------------------- modules of the work folder

WRITE = (
    "from pathlib import Path\nimport importlib\nPath('tool.py').write_text('def f(): return {}')"
)


def test_a_module_is_what_it_was_imported_as(run: Run) -> None:
    run(WRITE.format(1) + "\nimportlib.invalidate_caches()\nimport tool\nf = tool.f")
    run(WRITE.format(2))
    assert run("f(), tool.f(), tool.f is f").value == (1, 1, True)
    run("import tool as again")
    assert run("again.f()").value == 1


def test_a_module_that_is_reloaded_is_what_its_file_is(run: Run) -> None:
    run(WRITE.format(1) + "\nimportlib.invalidate_caches()\nimport tool\nf = tool.f")
    run(WRITE.format(2) + "\nimportlib.reload(tool)")
    assert run("f(), tool.f()").value == (1, 2)
    run(WRITE.format(3))
    assert run("f(), tool.f()").value == (1, 2)


def test_a_module_whose_file_is_gone_is_still_there(run: Run) -> None:
    run(WRITE.format(1) + "\nimportlib.invalidate_caches()\nimport tool")
    run("Path('tool.py').unlink()")
    assert run("tool.f()").value == 1


def test_an_edit_is_undone_with_its_step(workspace: Workspace, run: Run) -> None:
    run(WRITE.format(1) + "\nimportlib.invalidate_caches()\nimport tool")
    run(WRITE.format(2) + "\nimportlib.reload(tool)")
    workspace.undo()
    assert run("importlib.reload(tool).f()").value == 1
