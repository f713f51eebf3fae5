"""The documentation does what it says: code runs, commands parse, links lead somewhere."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import warnings

import pytest
from doc_pages import (
    ALL,
    EXAMPLES,
    NOT_RUN,
    ROOT,
    WITH_CODE,
    name_of,
    read_anchors,
    read_blocks,
    read_code_spans,
    read_links,
)
from doc_runner import run_page

from steepest.cli.main import make_parser
from steepest.data.base import DATASETS
from steepest.experiment.config import load_config, parse_setting, presets
from steepest.experiment.variants import parse_variants
from steepest.gradnorm.rules import RULES
from steepest.models.base import MODELS
from steepest.strategies import create
from steepest.strategies.base import STRATEGIES
from steepest.tasks.base import TASKS

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
HERE = [page for page in WITH_CODE if page != CONTRIBUTING]
SHELL = {"sh", "console", "bash", "shell"}


def blocks_of(*languages):
    return [
        pytest.param(block, id=f"{name_of(page)}:{block.line}")
        for page in WITH_CODE
        for block in read_blocks(page)
        if block.language in languages
    ]


def commands():
    """Return every line of a shell block, continued lines joined, without a prompt."""
    for page in WITH_CODE:
        for block in read_blocks(page):
            if block.language in SHELL:
                for line in block.text.replace("\\\n", " ").splitlines():
                    yield pytest.param(
                        line.strip().removeprefix("$ "), id=f"{name_of(page)}:{block.line}"
                    )


@pytest.fixture(scope="module")
def parser():
    return make_parser()[0]


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """Work in an empty folder; what a page registers or imports is gone afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    for registry in (STRATEGIES, DATASETS, MODELS, TASKS):
        registry.names()  # found before the copy, or their files would be lost with it
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    rules, modules = dict(RULES), set(sys.modules)
    yield tmp_path
    RULES.clear()
    RULES.update(rules)
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def run_python(*arguments, cwd):
    """Run a script with warnings as errors and return what it prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("STEEPEST_DATA", None)
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", HERE, ids=name_of)
def test_the_python_blocks_of_a_page_run_in_order(page, own_folder):
    wanted = [b for b in read_blocks(page) if b.language == "python"]
    skipped = [b for b in wanted if b.text.startswith(NOT_RUN)]
    assert run_page(page) == len(wanted) - len(skipped)


def test_the_examples_of_contributing_can_be_added_to_the_package(tmp_path):
    run_python(ROOT / "tests/docs/doc_runner.py", CONTRIBUTING, cwd=tmp_path)
    added = sorted(p.relative_to(tmp_path / "added").as_posix() for p in tmp_path.rglob("*.py"))
    assert added == ["data/stl10.py", "strategies/gini.py"]


def test_the_strategy_of_contributing_keeps_every_contract(tmp_path):
    blocks = (b.text for b in read_blocks(CONTRIBUTING) if b.language == "python")
    text = next(t for t in blocks if t.startswith("# src/steepest/strategies/gini.py"))
    folder = tmp_path / "strategies"
    folder.mkdir()
    (folder / "gini.py").write_text(text, encoding="utf-8")
    script = tmp_path / "with_gini.py"
    script.write_text(
        "import sys, pytest, steepest.strategies\n"
        f"steepest.strategies.__path__.append({str(folder)!r})\n"
        "sys.exit(pytest.main(sys.argv[1:]))\n",
        encoding="utf-8",
    )
    contracts = ROOT / "tests/strategies/test_strategy_contracts.py"
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-k", "gini", "--rootdir", ROOT]
    printed = run_python(script, *options, contracts, cwd=ROOT)
    assert int(re.search(r"(\d+) passed", printed)[1]) > 10


def run_script(path, capsys, monkeypatch):
    """Run a script within this process, which has imported what it needs, and return its words."""
    monkeypatch.setattr(sys, "argv", [str(path)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(path), run_name="__main__")
    return capsys.readouterr().out


OPTIONAL = ("datasets", "lightning", "pyarrow", "skorch", "sklearn", "transformers")
"""What examples may take that need not be installed."""


@pytest.mark.usefixtures("same_process")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example, own_folder, capsys, monkeypatch):
    text = example.read_text(encoding="utf-8")
    assert f"python examples/{example.name}" in text
    needed = {p for p in OPTIONAL if re.search(rf"^(?:import|from) {p}\b", text, re.MULTILINE)}
    for package in needed:
        pytest.importorskip(package)
    if "lightning" in needed:  # It sets up the process it is in.
        assert run_python(example, cwd=own_folder).strip()
    else:
        assert run_script(example, capsys, monkeypatch).strip()


@pytest.mark.parametrize("block", blocks_of("python"))
def test_a_block_that_is_not_run_says_why(block):
    if block.text.startswith(NOT_RUN):
        assert len(block.text.splitlines()[0].removeprefix(NOT_RUN).split()) >= 3


@pytest.mark.parametrize("block", blocks_of("toml"))
def test_a_toml_block_parses_and_a_whole_configuration_loads(block, tmp_path):
    table = tomllib.loads(block.text)
    if {"data", "model", "loop"} <= table.keys():
        path = tmp_path / "page.toml"
        path.write_text(block.text, encoding="utf-8")
        assert load_config(path).data.name == table["data"]["name"]


@pytest.mark.parametrize("command", list(commands()))
def test_a_command_exists_with_its_options(command, parser, capsys):
    words = shlex.split(command, comments=True)
    if words[:1] == ["make"]:
        targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        assert set(words[1:]) <= set(targets)
    if words[:1] == ["steepest"]:
        check_arguments(parser.parse_args(words[1:]))
    assert not capsys.readouterr().err  # no former name of an option


def check_arguments(arguments):
    """Check names of presets, settings and strategies as well; run nothing."""
    for setting in getattr(arguments, "changes", []):
        parse_setting(setting)
    if getattr(arguments, "config", None) in presets():
        load_config(arguments.config, arguments.changes)
    elif getattr(arguments, "plan", None) is not None:
        assert arguments.plan.suffix == ".toml"
    elif hasattr(arguments, "config"):
        assert arguments.config.endswith(".toml")
    parse_variants([getattr(arguments, "strategies", None) or ""])
    if hasattr(arguments, "option"):
        name = arguments.strategy or "max-herding"  # Without one the command's own is taken.
        create(name, dict(option.split("=") for option in arguments.option))


def read_command(parser, words):
    """Return the parser of the command that is named, and the words that follow."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and words and words[0][0] != "-":
            assert words[0] in action.choices
            return read_command(action.choices[words[0]], words[1:])
    return parser, words


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_commands_in_running_text_exist_with_their_options(page, parser):
    for span in read_code_spans(page):
        first, *words = span.split() or [""]
        if first == "steepest":
            command, words = read_command(parser, words)
            options = {word.strip("[],.").partition("=")[0] for word in words if word[:2] == "--"}
            assert options <= command._option_string_actions.keys(), span


@pytest.mark.parametrize("page", ALL, ids=name_of)
def test_links_lead_to_files_and_headings(page):
    for target in read_links(page):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name_of(page)} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in read_anchors(file), f"{name_of(page)} links to {target}"


def test_every_page_is_on_the_map():
    index = ROOT / "docs/index.md"
    linked = {(index.parent / link).resolve() for link in read_links(index)}
    assert {page for page in ALL if page.parent == index.parent} - {index} <= linked
    assert set(EXAMPLES) <= linked
