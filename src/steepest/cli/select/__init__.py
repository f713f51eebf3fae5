"""Choose the samples to label next from a folder of images, a table of texts or an array.

Without --model, samples are chosen by the features of a pretrained net and the labels in --labels,
if there are any yet. With --model, they are chosen by your own model.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch import nn

from steepest.cli.arguments import add_flags, add_former, add_shared, pairs
from steepest.cli.select.loop import (
    add_loop_arguments,
    choose_round,
    class_names,
    loop_pool,
    loop_settings,
    say_chosen,
    write_out,
)
from steepest.cli.select.model import (
    ClassNames,
    add_model_arguments,
    check_weights,
    make_model,
    make_task,
)
from steepest.cli.select.pool import add_pool_arguments, check_pool_given, open_pool
from steepest.cli.select.pretrained import (
    add_pretrained_arguments,
    check_model_given,
    select_without_model,
)
from steepest.cli.select.shards import (
    add_ray_arguments,
    add_shard_arguments,
    check_shard_arguments,
    choose_scored,
    engine_of,
    score_shard,
)
from steepest.cli.select.support import add_support_arguments, read_labelled, read_support
from steepest.core.files import check_writable
from steepest.core.own_code import own_failures_told
from steepest.errors import InputError
from steepest.labelling.exchange.export import SUFFIXES as EXPORTED
from steepest.labelling.exchange.export import check_export
from steepest.labelling.exchange.rounds import Round
from steepest.pool import Pool
from steepest.selecting import Selection, select
from steepest.selecting.options import DEFAULT_SCORE, DEFAULT_STRATEGY, SelectionOptions
from steepest.selecting.ray_engine import Engine
from steepest.selecting.samples import as_samples
from steepest.selecting.selection_file import SUFFIXES, sidecar_of

EXAMPLES = (
    "steepest select photos/ -k 100",
    "steepest select photos/ -k 100 --labels labels.csv",
    "steepest select photos/ -k 100 --model mymodel:net --mean 0.5 --std 0.25 --out picks.csv",
    "steepest select pool.npy -k 20 --model mymodel:net --run loop --classes cat,dog",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    pretrained = parser.add_argument_group("without a model")
    images = parser.add_argument_group("images of the pool")
    model = parser.add_argument_group("with your model")
    loop = parser.add_argument_group("labelling loop")
    machines = parser.add_argument_group("several processes or machines")
    add_pool_arguments(parser, images)
    parser.add_argument(
        "-k",
        type=int,
        required=True,
        metavar="K",
        help="number of samples to choose; with --run, samples that still wait for a label count",
    )
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help="a strategy of `steepest strategies`, or package.module:Class (default: "
        f"{DEFAULT_STRATEGY}; with --shard or --scores {DEFAULT_SCORE})",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="option of the strategy, such as norm=tensor-sum; may be repeated",
    )
    names = parser.add_argument(
        "--classes",
        action=ClassNames,
        dest="class_names",
        metavar="A,B",
        help="names of the classes in the model's order, or @FILE with one per line, for --run, "
        "--labelled and the summary of the picks",
    )
    add_former(parser, "--class-names", names)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="picks.csv or picks.json, or a file of --format; needed with --model, unless --run is "
        "given",
    )
    kind = parser.add_argument(
        "--format",
        dest="export",
        choices=tuple(EXPORTED),
        help="write --out for annotators: a table or JSON lines to fill in, or Label Studio tasks",
    )
    add_former(parser, "--export", kind)
    add_flags(parser, SelectionOptions, ["subset", "seed"])
    add_shared(parser, "--quiet")
    add_pretrained_arguments(pretrained)
    add_model_arguments(model)
    add_support_arguments(parser, model)
    add_flags(model, SelectionOptions, ["precision", "batch_size"])
    add_shared(model, "--device")
    add_loop_arguments(loop)
    add_ray_arguments(machines)
    add_shard_arguments(machines)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    check_pool_given(arguments)
    if arguments.model is None:
        if arguments.engine != "here":
            raise InputError("--engine ray runs a model of yours: give --model, or leave it out")
        return select_without_model(arguments)
    check_model_given(arguments)
    _check_out(arguments)
    with engine_of(arguments) as engine:
        return _select_by_model(arguments, engine)


def _select_by_model(arguments: argparse.Namespace, engine: Engine) -> int:
    from steepest.core.devices import choose_device
    from steepest.modules.weights import load_weights
    from steepest.selecting.options import as_strategy
    from steepest.strategies import Needs

    check_weights(arguments)
    by_score = arguments.shard is not None or bool(arguments.scores)
    usual = DEFAULT_SCORE if by_score else DEFAULT_STRATEGY
    arguments.strategy = arguments.strategy or usual
    strategy = as_strategy(arguments.strategy, pairs(arguments.option))
    settings = loop_settings(arguments)
    names = class_names(arguments, settings)
    device = choose_device(arguments.device)

    def load(weights: Path | None) -> nn.Module:
        made = make_model(arguments)
        if weights is not None:
            load_weights(made, weights)
        return made.to(device)

    # Before the pool, of which a folder may take minutes to look through.
    model = load(arguments.weights)
    pool = open_pool(arguments)
    left_out, labels = read_labelled(
        arguments.labelled,
        as_samples(pool).ids,
        names,
        learnt_from=Needs.TARGETS in strategy.needs_alone,
    )

    def look(loop: Pool | None) -> dict[str, Any]:
        return {
            "labelled": left_out if loop is None else {*loop.taken(), *(left_out or ())},
            "subset": arguments.subset,
            "seed": arguments.seed,
            "task": make_task(arguments),
            "support": read_support(arguments, labels, load, loop),
            "batch_size": arguments.batch_size,
            "precision": arguments.precision,
            "progress": not arguments.quiet,
        }

    def named(loop: Pool | None) -> dict[str, Any]:
        return {**look(loop), "class_names": names, "engine": engine}

    def choose(loop: Pool | None, k: int) -> Selection:
        if arguments.scores is not None:
            return choose_scored(arguments.scores, model, pool, k, strategy, named(loop))
        with own_failures_told("strategy", arguments.strategy):
            return select(model, pool, k, strategy, **named(loop))

    if arguments.shard is not None:
        loop = None if settings is None else loop_pool(arguments, settings)
        with own_failures_told("strategy", arguments.strategy):
            score_shard(arguments, model, pool, strategy, look(loop))
        return 0
    if settings is not None:
        chosen = choose_round(arguments, settings, model, pool, choose)
    else:
        chosen = choose(None, arguments.k)
        write_out(arguments, [(0, Round(chosen))])
        say_chosen(arguments, chosen)
    if chosen is not None:
        _say_what_to_think(chosen)
    return 0


def _say_what_to_think(picks: Selection) -> None:
    if picks.regime is not None:
        correlation = picks.regime.rank_correlation
        shown = "n/a" if correlation is None else f"{correlation:+.2f}"
        print(
            f"mean entropy {picks.regime.entropy_ratio:.0%} of its maximum; "
            f"rank correlation of score and entropy {shown}"
        )
    if picks.verdict is not None:
        print(picks.verdict)


def _check_out(arguments: argparse.Namespace) -> None:
    out, kind = arguments.out, arguments.export
    if out is None:
        if arguments.run is None or kind is not None:
            raise InputError("say where the picks go to, by --out FILE")
        if arguments.shard is not None:
            raise InputError("say where the scores go to, by --out FILE.npz")
        return
    if check_shard_arguments(arguments):
        pass
    elif kind is not None:
        check_export(kind, out)
    elif out.suffix not in SUFFIXES:
        raise InputError(f"--out {out}: picks are saved as .csv or .json")
    elif out.suffix == ".csv":
        check_writable(sidecar_of(out))
    check_writable(out)
