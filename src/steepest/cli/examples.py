"""Commands to begin with, shown at the end of each command's help."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from types import MappingProxyType

EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "demo": ("steepest demo",),
        "select": (
            "steepest select photos/ -k 100",
            "steepest select photos/ --labels labels.csv -k 100",
            (
                "steepest select --model mymodel:net --weights model.pt --pool photos/ --size 224"
                " --mean 0.485 0.456 0.406 --std 0.229 0.224 0.225 -k 500 --out picks.csv"
            ),
            (
                "steepest select --model mymodel:net --pool pool.npy -k 20 --strategy margin"
                " --run loop --class-names cat,dog --export csv --out to-label.csv"
            ),
        ),
        "ingest": ("steepest ingest to-label.csv --run loop",),
        "label": (
            "steepest label photos/ --classes cat,dog",
            "steepest label photos/ --classes @classes.txt --host 192.168.1.20",
        ),
        "label-studio": ("steepest label-studio push --run loop",),
        "project": (
            "steepest project export photos/.steepest team.jsonl",
            "steepest project import team.jsonl elsewhere/",
        ),
        "run": (
            "steepest run digits --out runs/digits",
            "steepest run cifar10 --fast --set strategy.name=margin --out runs/cifar10",
        ),
        "compare": (
            "steepest compare digits --strategies margin,entropy-gradnorm --seeds 5 --out digits",
            (
                "steepest compare digits --set data.name=npz --set data.options.path=mine.npz"
                " --set data.options.test_share=0.2 --set model.name=mymodel:net"
                " --strategies margin,myways:Gini --seeds 5 --out mine"
            ),
        ),
        "report": ("steepest report comparisons/digits",),
        "pack": ("steepest pack comparisons/digits",),
        "reproduce": ("steepest reproduce all --smoke --out reproduced",),
        "strategies": ("steepest strategies", "steepest strategies badge"),
        "completion": ("steepest completion bash",),
        "data": ("steepest data list", "steepest data get cifar10 --to data"),
        "bench": ("steepest bench gradnorm --out gradnorm.json",),
    }
)
"""What can be typed as it stands, once the files are there that it names."""

_BEGINNING = "examples:"


def show_examples(parser: argparse.ArgumentParser, command: str) -> None:
    """Put a command's examples below its help, to be copied: their lines are not broken."""
    parser.epilog = "\n  ".join([_BEGINNING, *EXAMPLES[command]])
    parser.formatter_class = _KeepingExamples


class _KeepingExamples(argparse.HelpFormatter):
    """Breaks lines everywhere but in the examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_BEGINNING):
            return text
        return super()._fill_text(text, width, indent)
