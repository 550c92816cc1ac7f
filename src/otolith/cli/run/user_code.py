"""The user's own Python files and modules, imported because a command names them.

Their code runs in this process, without a sandbox.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from otolith.cli.errors import user_code_errors
from otolith.errors import Invalid
from otolith.statecharts import Chart, ChartClass

HOW_TO_NAME = "name it as FILE.py:NAME or package.module:NAME"
CODE_NAME = re.compile(r"(.+\.py):([A-Za-z_]\w*)")


def import_code(directory: Path, source: str) -> ModuleType:
    """Import a file, or a module by name from the current directory or where Python searches.

    Raises:
        Invalid: there is no such file or module.
    """
    if source.endswith(".py"):
        path = (directory / source).resolve()
        if not path.is_file():
            raise Invalid(f"there is no file {source}", hint=HOW_TO_NAME)
        return _import_file(path)
    if not all(part.isidentifier() for part in source.split(".")):
        raise Invalid(f"{source!r} is not the name of a module", hint=HOW_TO_NAME)
    sys.path.insert(0, str(directory.resolve()))
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if f"{source}.".startswith(f"{error.name}."):
            raise Invalid(f"there is no module {error.name}", hint=HOW_TO_NAME) from None
        raise  # the module exists, and imports one that does not
    finally:
        sys.path.pop(0)


def _import_file(path: Path) -> ModuleType:
    """Import a file as the module of its name, as if it was started as a script."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    is_new = sys.modules.setdefault(path.stem, module) is module  # its classes are found by name
    # As Python does for a script: it may import its neighbours.
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if is_new:  # do not leave a half-initialised module behind
            del sys.modules[path.stem]
        raise
    return module


def load_chart(file: str) -> Chart:
    """Return the chart in a document, or the one that a Python file has under a name.

    Raises:
        Invalid: the Python file has no such chart.
    """
    code = CODE_NAME.fullmatch(file)
    if code is None:
        if file.endswith(".py"):
            hint = f"write {file}:NAME"
            raise Invalid(f"{file} is Python: which chart in it is meant is not said", hint=hint)
        return Chart.load(file)
    with user_code_errors(file, "it is raised when it is imported"):
        module = import_code(Path.cwd(), code[1])
    found = getattr(module, code[2], None)
    if isinstance(found, type) and issubclass(found, ChartClass) and found is not ChartClass:
        found = found.chart
    if not isinstance(found, Chart):
        charts = [name for name, value in vars(module).items() if isinstance(value, Chart)]
        hint = f"its charts are {', '.join(charts) or 'none'}"
        raise Invalid(f"{code[2]} is not a chart in {code[1]}", hint=hint)
    return found
