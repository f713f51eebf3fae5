"""The public surface: its names, its cost, its habits."""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import json
import pickle
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import steepest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "steepest"

PUBLIC = {
    "ActiveLoop",
    "Config",
    "Experiment",
    "Pool",
    "Scores",
    "Selection",
    "Strategy",
    "Task",
    "__version__",
    "errors",
    "gradient_norms",
    "load_classifier",
    "load_config",
    "score",
    "select",
    "strategies",
}


def in_new_process(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_public_names_are_those_documented():
    assert set(steepest.__all__) == PUBLIC
    assert len(steepest.__all__) == len(PUBLIC)
    assert all(hasattr(steepest, name) for name in PUBLIC)
    assert all(getattr(steepest, name).__doc__ for name in PUBLIC - {"__version__"})


def test_the_signature_of_gradient_norms_is_as_documented():
    signature = inspect.signature(steepest.gradient_norms)
    kinds = {name: p.kind.description for name, p in signature.parameters.items()}
    defaults = {
        name: p.default for name, p in signature.parameters.items() if p.default is not p.empty
    }
    keywords = ["targets", "norm", "microbatch", "precision", "verify", "autotune"]
    assert list(kinds) == ["model", "inputs", "loss", *keywords]
    assert [name for name, kind in kinds.items() if kind == "keyword-only"] == keywords
    assert defaults == {
        "loss": "entropy",
        "targets": None,
        "norm": "l2",
        "microbatch": None,
        "precision": "tf32",
        "verify": 0,
        "autotune": False,
    }


@pytest.mark.parametrize(
    ("function", "leading", "strategy"),
    [
        (steepest.select, ["model", "pool", "k", "strategy"], None),  # Depends on the model.
        (steepest.score, ["model", "pool", "strategy"], "entropy-gradnorm"),
    ],
)
def test_the_leading_parameters_are_as_documented(function, leading, strategy):
    parameters = inspect.signature(function).parameters
    positional = [name for name, p in parameters.items() if p.kind is not p.KEYWORD_ONLY]
    assert positional == leading
    assert parameters["strategy"].default == strategy
    required = [name for name, p in parameters.items() if p.default is p.empty]
    assert required == leading[:-1]
    assert parameters["seed"].default == 0


def test_select_takes_all_that_score_takes():
    scoring = inspect.signature(steepest.score).parameters
    choosing = inspect.signature(steepest.select).parameters
    # What picks alone are about, and labels for choosing without a model.
    assert set(choosing) - set(scoring) == {"k", "class_names", "labels"}
    assert set(scoring) - set(choosing) == {"shard"}  # of which nothing can be chosen
    shared = set(scoring) - {"shard", "strategy"}
    assert all(scoring[name].default == choosing[name].default for name in shared)


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert steepest.__version__ == project["version"]


def test_importing_is_light_and_leaves_the_machine_alone():
    told = in_new_process(
        "import random, sys\n"
        "import numpy, torch\n"
        "states = random.getstate(), torch.random.get_rng_state()\n"
        "numbers = numpy.random.get_state()[1].copy()\n"
        "threads = torch.get_num_threads()\n"
        "import steepest\n"
        "assert random.getstate() == states[0]\n"
        "assert torch.equal(torch.random.get_rng_state(), states[1])\n"
        "assert (numpy.random.get_state()[1] == numbers).all()\n"
        "assert torch.get_num_threads() == threads\n"
        "assert not torch.cuda.is_initialized()\n"
        "assert not torch.are_deterministic_algorithms_enabled()\n"
        "heavy = {'matplotlib', 'rich', 'scipy', 'sklearn', 'pandas', 'torchvision'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    assert told == "[]\n"


def test_importing_does_not_import_torch_or_the_image_library():
    told = in_new_process(
        "import sys, steepest\n"
        "steepest.errors.InputError, steepest.__version__, dir(steepest)\n"
        "print(sorted({'torch', 'numpy', 'PIL'} & set(sys.modules)))\n"
    )
    assert told == "[]\n"


def loads(*rooms):
    return {"core", "errors", "version", *rooms}


MODELS = ("gradnorm", "modules")
CHOOSING = (*MODELS, "pool", "strategies", "tasks")
NEEDED = (
    {
        "errors": loads(),
        "__version__": loads(),
        "gradient_norms": loads(*MODELS),
    },
    {
        "Pool": loads("pool"),
        "Task": loads("modules", "pool", "tasks"),
        "Strategy": loads(*CHOOSING),
        "strategies": loads(*CHOOSING),
        "Scores": loads(*CHOOSING, "data", "selecting"),
        "Selection": loads(*CHOOSING, "data", "selecting"),
        "score": loads(*CHOOSING, "data", "selecting"),
        "select": loads(*CHOOSING, "data", "selecting"),
        "ActiveLoop": loads(*CHOOSING, "data", "labelling", "loop", "selecting", "training"),
    },
)
"""Rooms by public name; each name needs those of the name before it too."""


def test_a_public_name_loads_the_rooms_that_it_needs_and_no_more():
    told = in_new_process(
        "import json, os, sys, torch\n"
        f"for names in {[list(needed) for needed in NEEDED]}:\n"
        "    if os.fork() == 0:\n"
        "        import steepest\n"
        "        for name in names:\n"
        "            getattr(steepest, name)\n"
        "            loaded = {n.split('.')[1] for n in sys.modules if n.startswith('steepest.')}\n"
        "            os.write(1, (json.dumps([name, sorted(loaded)]) + '\\n').encode())\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
    )
    found = {name: set(loaded) for name, loaded in map(json.loads, told.splitlines())}
    needed = {**NEEDED[0], **NEEDED[1]}
    assert found.keys() == needed.keys()
    assert {name: found[name] - needed[name] for name in needed} == {name: set() for name in needed}
    for names in map(list, NEEDED):
        assert all(needed[a] <= needed[b] for a, b in itertools.pairwise(names))


def test_public_names_are_those_of_their_modules_and_found_once():
    assert steepest.select is steepest.selecting.select
    assert steepest.Pool is importlib.import_module("steepest.pool").Pool
    assert "select" in vars(steepest)
    assert pickle.loads(pickle.dumps(steepest.Pool)) is steepest.Pool
    assert pickle.loads(pickle.dumps(steepest.select)) is steepest.select
    everything = {}
    exec("from steepest import *", everything)
    assert set(everything) - {"__builtins__"} == PUBLIC


def test_no_public_name_is_hidden_by_a_module_of_that_name():
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {p.name for p in PACKAGE.iterdir()}
    assert modules & PUBLIC == {"errors", "strategies"}


def test_modules_are_attributes_where_the_packages_that_they_need_are_installed():
    told = in_new_process(
        "import sys\n"
        "sys.modules['sklearn'] = sys.modules['sklearn.base'] = None\n"
        "import steepest\n"
        "print(steepest.influence.hold_out.__name__, steepest.tasks.MultiLabel.__name__)\n"
        "print({'influence', 'tasks', *steepest.__all__} <= set(dir(steepest)))\n"
        "print(hasattr(steepest, 'sklearn'))\n"
        "try:\n"
        "    steepest.sklearn\n"
        "except AttributeError as error:\n"
        "    print(error)\n"
        "try:\n"
        "    from steepest import sklearn\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    found, listed, there, asked, imported = told.splitlines()
    assert (found, listed, there) == ("hold_out MultiLabel", "True", "False")
    assert asked == imported
    assert asked.startswith("steepest.sklearn needs scikit-learn: ")


@pytest.mark.parametrize("name", ["selct", "_private", "__wrapped__", "no.such"])
def test_what_is_not_there_is_no_attribute(name):
    with pytest.raises(AttributeError, match=name.partition(".")[0]):
        getattr(steepest, name)
    assert not hasattr(steepest, name)


def test_type_checkers_see_every_public_name():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported >= PUBLIC | {"influence", "tasks"}
    # Seen by them, a look-up of any name would make every misspelt one right.
    assert not any(isinstance(n, ast.FunctionDef) and n.name == "__getattr__" for n in tree.body)


def test_scoring_and_experiments_need_neither_bars_nor_figures(tmp_path):
    """A server without rich, matplotlib and scipy can still choose and train."""
    told = in_new_process(
        "import sys, warnings\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('rich', 'matplotlib', 'scipy'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import torch, steepest\n"
        "warnings.simplefilter('ignore', steepest.errors.RegimeWarning)\n"
        "torch.set_num_threads(1)\n"
        "model = torch.nn.Linear(6, 3)\n"
        "pool = torch.randn(20, 6)\n"
        "print(len(steepest.score(model, pool)), len(steepest.select(model, pool, 4)))\n"
        "config = steepest.load_config('digits', ['loop.cycles=2', 'training.epochs=1'])\n"
        f"print(len(steepest.Experiment(config, {str(tmp_path / 'run')!r}).run()))\n"
    )
    assert told == "20 4\n2\n"


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()
