"""Print a script that completes commands, options and choices in bash, zsh or fish.

Write it to a file where the shell looks, and again after an update:
bash: ~/.local/share/bash-completion/completions/steepest; zsh: any file that
~/.zshrc sources; fish: ~/.config/fish/completions/steepest.fish.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

from steepest.cli.parser import Parser
from steepest.strategies.base import STRATEGIES

EXAMPLES = ("steepest completion bash",)

_BASH = """\
_steepest() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" words=""
  COMPREPLY=()
  case "${{COMP_WORDS[1]}} $previous" in
{choices}
  esac
  if [[ -z "$words" ]]; then
    if [[ $COMP_CWORD -eq 1 ]]; then
      words="{commands}"
    elif [[ "$current" == -* ]]; then
      case "${{COMP_WORDS[1]}}" in
{options}
      esac
    fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _steepest steepest
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to complete in")


def execute(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from steepest.cli.main import SUMMARIES, make_parser

    _, parsers = make_parser()
    if arguments.shell == "fish":
        print("\n".join(_fish(parsers, SUMMARIES)))
    else:
        loaded = "autoload -U +X bashcompinit && bashcompinit\n" if arguments.shell == "zsh" else ""
        print(loaded + _bash(parsers), end="")
    return 0


def _bash(parsers: Mapping[str, Parser]) -> str:
    options, choices = [], []
    for command, parser in parsers.items():
        arguments = list(_arguments(parser))
        words = dict.fromkeys(name for action in arguments for name in action.option_strings)
        options.append(f'        {command}) words="{" ".join(words)}" ;;')
        seen: set[str] = set()
        for action in arguments:
            keys = [key for key in action.option_strings or [command] if key not in seen]
            if keys and (values := _values(action)):
                seen.update(keys)
                at = "|".join(f'"{command} {key}"' for key in keys)
                choices.append(f'    {at}) words="{" ".join(values)}" ;;')
    return _BASH.format(
        commands=" ".join(parsers), options="\n".join(options), choices="\n".join(choices)
    )


def _fish(parsers: Mapping[str, Parser], summaries: Mapping[str, str]) -> Iterator[str]:
    for command, parser in parsers.items():
        yield (
            "complete -c steepest -n __fish_use_subcommand -f"
            f" -a {command} -d {_quoted(summaries[command])}"
        )
        for action in _arguments(parser):
            values = _values(action)
            words = f" -a {_quoted(' '.join(values))}" if values else ""
            names = "".join(
                f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}"
                for name in action.option_strings
            )
            if not names and not words:
                continue
            takes = " -r" if names and action.nargs != 0 else ""
            text = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
            about = f" -d {_quoted(text.partition(';')[0])}" if names and text else ""
            seen = f"'__fish_seen_subcommand_from {command}'"
            yield f"complete -c steepest -n {seen}{names}{takes}{words}{about}"


def _arguments(parser: Parser) -> Iterator[argparse.Action]:
    """Yield the arguments of a command, then those of the commands below it."""
    yield from parser.completions()
    for action in parser.completions():
        if isinstance(action.choices, Mapping):
            for below in action.choices.values():
                yield from _arguments(below)


def _values(action: argparse.Action) -> list[str]:
    """Return the completions of an argument; nothing if it may be anything."""
    if "--strategy" in action.option_strings or action.dest == "strategy":
        return list(STRATEGIES.names())
    return [str(choice) for choice in action.choices or ()]


def _quoted(text: str) -> str:
    """Return text in quotes for fish, where a backslash stands before a quote."""
    return "'" + text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'") + "'"
