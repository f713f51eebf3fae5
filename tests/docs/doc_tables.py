"""Tables of the documentation that are made from the code and from measurements.

``python tests/docs/doc_tables.py`` writes them into the pages again. Those of measurements are
computed by the scripts in ``results/``.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch
from doc_pages import PAGES, ROOT

sys.path.append(str(ROOT / "results"))

from bench_tables import (
    benchmarks,
    choosing,
    cycle,
    features,
    library,
    performance,
    precision,
    scale,
    ten_million,
    training,
)
from findings_tables import TABLES as FINDINGS
from label_tables import TABLES as LABEL
from markdown_table import table
from paper_tables import accuracy, paper
from readme_tables import write_readme
from study_tables import TABLES as STUDY
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree
from which_tables import TABLES as WHICH

from steepest.core.keyword_options import list_options
from steepest.data.base import DATASETS
from steepest.errors import ConfigError
from steepest.experiment.config import Config, load_config
from steepest.experiment.config import presets as list_presets
from steepest.experiment.record import Record
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.rules import RULES
from steepest.gradnorm.rules.base import Measure
from steepest.gradnorm.watch.uses import Use
from steepest.models.base import MODELS
from steepest.models.factory import GIVEN
from steepest.modules.head import declared_layers
from steepest.modules.losses import resolve
from steepest.pool.states import END, START, State, Verb
from steepest.strategies.base import STRATEGIES, Scorer
from steepest.tasks.base import TASKS
from steepest.training.augment import AUGMENTATIONS

_MARKED = re.compile(
    r"(<!-- table: (?P<name>[a-z ]+) -->\n).*?(?=<!-- end of table -->)", re.DOTALL
)
WITH_TABLES = [*PAGES, ROOT / "README.md"]
_WORDS = {int: "whole number", float: "number", bool: "true or false", str: "text"}


def layer_rules() -> str:
    functions: dict[Measure, list[str]] = {}
    for function, rule in RULES.items():
        functions.setdefault(rule.measure, []).append(f"`{_path_of(function)}`")
    layers = _layers_by_rule()
    rows = []
    for measure, names in functions.items():
        ending = ", ".join(layers.get(measure, ["–"]))
        rows.append((", ".join(names), ending, f"`{measure.__name__}`", _idea(measure)))
    return table(("functions", "layers that end there", "rule", "what it does"), rows)


def strategies() -> str:
    rows = []
    for name in STRATEGIES.names():
        cls = STRATEGIES.get(name)
        idea, _, formula = _idea(cls).partition(": score(x) = ")
        formula = f"`{formula.rstrip('.')}`" if formula else "–"
        chooses = "by score" if issubclass(cls, Scorer) else "batches"
        needs = (cls().needs.name or "").lower().replace("|", ", ")
        maps = "yes" if cls().dense else "–"
        trains = cls.trains or "–"
        link = f"[`{name}`](strategies/{name}.md)"
        rows.append((link, idea.rstrip("."), formula, chooses, needs, trains, maps))
    header = ("strategy", "idea", "score", "chooses", "needs", "trains", "label maps")
    return table(header, rows)


def configuration() -> str:
    return table(("key", "type", "default", "meaning"), _fields(Config))


def presets() -> str:
    rows = []
    for name in list_presets():
        config = load_config(name)
        loop, recipe = config.loop, config.training
        labels = f"{loop.initial} + {loop.cycles - 1} · {loop.k}"
        chosen = f"`{config.strategy.name}`"
        chosen += "".join(f", `{k} = {json.dumps(v)}`" for k, v in config.strategy.options.items())
        data, model = f"`{config.data.name}`", f"`{config.model.name}`"
        length = f"{recipe.epochs} of {recipe.batch_size}"
        row = (data, model, chosen, labels, loop.candidates, f"`{loop.init}`", length, _fast(name))
        rows.append((f"`{name}`", *row))
    header = ("data", "model", "strategy", "labels", "scored", "init", "epochs of batches")
    return table(("preset", *header, "epochs with `--fast`"), rows)


def _fast(name: str) -> object:
    try:
        return load_config(name, variant="fast").training.epochs
    except ConfigError:
        return "–"


def tasks() -> str:
    rows = []
    for name in TASKS.names():
        cls = TASKS.get(name)
        fields = [f for f in dataclasses.fields(cls) if f.name != "classes"]
        options = ", ".join(f"`{f.name}`" for f in fields)
        others = ", ".join(f"`{metric}`" for metric in cls.other_metrics)
        metrics = (f"`{cls.headline}`", others or "–", f"`{cls.per_class}`")
        row = (_idea(cls), *metrics, options or "–")
        rows.append((f"[`{name}`](#{name})", *row))
    header = ("task", "training loss", "headline", "other metrics", "by class", "options")
    return table(header, rows)


def record_fields() -> str:
    return table(("field", "meaning"), [(f"`{n}`", t) for n, t in _attributes(Record).items()])


def pool_verbs() -> str:
    def starts(verb: Verb) -> str:
        return " or ".join(state for state in State if state in START[verb])

    return table(("verb", "from", "to"), [(f"`{v}`", starts(v), END[v]) for v in Verb])


def data_sets() -> str:
    rows = []
    for name in DATASETS.names():
        reader = DATASETS.get(name)
        options = map(_option, list_options(reader, ("root",)).values())
        rows.append((f"`{name}`", _idea(reader), ", ".join(options) or "–"))
    return table(("name", "what loading it does", "options and defaults"), rows)


def _option(parameter: inspect.Parameter) -> str:
    if parameter.default in (parameter.empty, None):
        return f"`{parameter.name}`"
    return f"`{parameter.name} = {json.dumps(parameter.default)}`"


def models() -> str:
    rows = []
    for name in MODELS.names():
        builder = MODELS.get(name)
        with torch.device("meta"):
            model = builder(10)
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        head = model.get_submodule(declared_layers(model, "head_layers")[0])
        width = getattr(head, "in_features", None) or getattr(head, "in_channels", None)
        maps = ", ".join(f"`{layer}`" for layer in declared_layers(model, "block_layers"))
        options = {key: p.default for key, p in list_options(builder, GIVEN).items()}
        said = ", ".join(f"`{k} = {json.dumps(v)}`" for k, v in options.items() if v is not None)
        about = (_idea(builder), f"{trained:,}", width, maps or "–", said)
        rows.append((f"`{name}`", *about))
    header = ("what building it does", "trained at 10 classes", "feature", "maps")
    return table(("name", *header, "options and defaults"), rows)


def augmentations() -> str:
    rows = [
        (f"`{name}`", a.padding, "yes" if a.flip else "no") for name, a in AUGMENTATIONS.items()
    ]
    return table(("name", "moves by up to (pixels)", "mirrors half of the images"), rows)


TABLES: Mapping[str, Callable[[], str]] = types.MappingProxyType(
    {
        "layer rules": layer_rules,
        "strategies": strategies,
        "configuration": configuration,
        "presets": presets,
        "tasks": tasks,
        "record fields": record_fields,
        "pool verbs": pool_verbs,
        "data sets": data_sets,
        "models": models,
        "augmentations": augmentations,
        "performance": performance,
        "benchmarks": benchmarks,
        "library": library,
        "precision": precision,
        "training": training,
        "choosing": choosing,
        "ray": scale,
        "ten million": ten_million,
        "feature cache": features,
        "cycle": cycle,
        "paper": paper,
        "paper accuracy": accuracy,
        **FINDINGS,
        **LABEL,
        **STUDY,
        **WHICH,
    }
)


def with_tables(text: str) -> str:
    """Return a page's text with every marked table made anew."""
    return _MARKED.sub(lambda found: found[1] + TABLES[found["name"]](), text)


def marked_tables(text: str) -> list[str]:
    return [found["name"] for found in _MARKED.finditer(text)]


def _path_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", str(function))
    homes = {"torch": torch, "F": F, "Tensor": torch.Tensor}
    found = (home for home, place in homes.items() if getattr(place, name, None) is function)
    return f"{next(found, getattr(function, '__module__', '?'))}.{name}"


def _layers_by_rule() -> dict[Measure, list[str]]:
    """Run every layer once, and see which rules the engine plans for it."""
    found: dict[Measure, dict[str, None]] = {}
    with torch.random.fork_rng():
        for layer, shape in _layers():
            ids = isinstance(layer, nn.Embedding | nn.EmbeddingBag)
            x = torch.ones(3, *shape, dtype=torch.long if ids else None)
            inputs = [x] * {nn.MultiheadAttention: 3, nn.Bilinear: 2}.get(type(layer), 1)
            losses = resolve(lambda out: pytree.tree_leaves(out)[0].flatten(1).sum(1), None, 3)
            engine = Engine(layer.eval())

            def note(use: Use, work: Callable[[], None], name: str = type(layer).__name__) -> None:
                if use.rule is not None:
                    found.setdefault(use.rule.measure, {})[f"`nn.{name}`"] = None
                work()

            engine.observer = note
            engine.squared_norms(inputs, losses)
    return {measure: list(names) for measure, names in found.items()}


def _layers() -> Iterator[tuple[nn.Module, tuple[int, ...]]]:
    """Yield small layers, and the shape of one sample that each takes."""
    for dims in (1, 2, 3):
        sample = (2, *[4] * dims)
        for kind in ("Conv", "ConvTranspose"):
            yield getattr(nn, f"{kind}{dims}d")(2, 2, 3), sample
        yield getattr(nn, f"BatchNorm{dims}d")(2), sample
        yield getattr(nn, f"InstanceNorm{dims}d")(2, affine=True), sample
    yield from ((nn.Linear(2, 2), (2,)), (nn.Bilinear(2, 2, 2), (2,)))
    yield nn.MultiheadAttention(2, 1, batch_first=True), (3, 2)
    yield from ((nn.GroupNorm(1, 2), (2, 3)), (nn.LayerNorm(2), (2,)), (nn.RMSNorm(2), (2,)))
    yield from ((nn.PReLU(), (2,)), (nn.Embedding(2, 2), (3,)), (nn.EmbeddingBag(2, 2), (3,)))


def _idea(thing: object) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]


def _fields(cls: type, prefix: str = "") -> list[tuple[str, str, str, str]]:
    rows: list[tuple[str, str, str, str]] = []
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        hint, meaning = hints[field.name], field.metadata["help"]
        if dataclasses.is_dataclass(hint):
            rows += _fields(hint, f"{field.name}.")
        else:
            rows.append((f"`{prefix}{field.name}`", _kind(hint), _default(field), meaning))
    return rows


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return f"`{json.dumps(field.default_factory())}`"
    if field.default is dataclasses.MISSING:
        return "required"
    return "–" if field.default is None else f"`{json.dumps(field.default)}`"


def _kind(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(f"`{json.dumps(choice)}`" for choice in get_args(hint))
    if get_origin(hint) in (Union, types.UnionType):
        return _kind(next(part for part in get_args(hint) if part is not type(None)))
    if get_origin(hint) is tuple:
        return f"list of {_kind(get_args(hint)[0])}s"
    return "table" if get_origin(hint) is Mapping else _WORDS[hint]


def _attributes(cls: type) -> dict[str, str]:
    """Read the ``Attributes`` section of a class's docstring."""
    section = (inspect.getdoc(cls) or "").split("Attributes:\n")[1]
    return dict(re.findall(r"^    (\w+): (.*)$", section, flags=re.MULTILINE))


def main() -> None:
    for page in WITH_TABLES:
        text = page.read_text(encoding="utf-8")
        page.write_text(with_tables(text), encoding="utf-8")
    write_readme()


if __name__ == "__main__":
    main()
