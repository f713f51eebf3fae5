"""Parsers with short usage lines, and with colours where a terminal shows them."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_EXAMPLES = "examples:"


class Parser(argparse.ArgumentParser):
    """An ``ArgumentParser`` whose usage shows only required arguments."""

    def format_usage(self) -> str:
        """Return the usage in one line: command, ``[options]``, required options and arguments."""
        return f"usage: {self._usage()}\n"

    def format_help(self) -> str:
        """Return the help, which begins with the short usage."""
        shown, self.usage = self.usage, self._usage()
        try:
            return super().format_help()
        finally:
            self.usage = shown

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help; headings and options have colours on a terminal."""
        stream = sys.stdout if file is None else file
        if not (isinstance(stream, io.TextIOBase) and stream.isatty()):
            super().print_help(stream)
            return
        from rich.console import Console
        from rich.text import Text

        text = Text(self.format_help().rstrip("\n"))
        text.highlight_regex(r"(?m)^\S.*:$", "bold")
        text.highlight_regex(r"^usage:", "bold")
        text.highlight_regex(r"(?<![\w/.-])--?[a-zA-Z][\w-]*", "cyan")
        Console(file=cast("IO[str]", stream), highlight=False).print(text, soft_wrap=True)

    def show_examples(self, examples: Sequence[str]) -> None:
        """End the help with commands to copy: their lines are not broken."""
        self.epilog = "\n  ".join([_EXAMPLES, *examples])
        self.formatter_class = _KeepingExamples

    def completions(self) -> list[argparse.Action]:
        """Return all arguments but the hidden ones, for scripts that complete them."""
        return [action for action in self._actions if action.help != argparse.SUPPRESS]

    def _usage(self) -> str:
        options = [a for a in self._actions if a.option_strings]
        words = [self.prog, *(["[options]"] if options else [])]
        words += [_written(a) for a in options if a.required]
        words += [_written(a) for a in self._actions if not a.option_strings]
        return " ".join(words).replace("%", "%%")


class _KeepingExamples(argparse.HelpFormatter):
    """Breaks lines everywhere but in the examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_EXAMPLES):
            return text
        return super()._fill_text(text, width, indent)


def _written(action: argparse.Action) -> str:
    """Return an argument as it is typed, such as ``--out DIR`` or ``[POOL]``."""
    if action.option_strings:
        named = max(action.option_strings, key=len)
        return f"{named} {action.metavar or action.dest.upper()}" if action.nargs != 0 else named
    name: Any = action.metavar or action.dest
    if action.nargs in ("?", "*"):
        return f"[{name}{' …' if action.nargs == '*' else ''}]"
    return f"{name} …" if action.nargs in ("+", argparse.PARSER) else str(name)
