"""List the data sets, get one into the data folder, or check that it is whole."""

from __future__ import annotations

import argparse

from steepest.cli import data_check, data_get, data_list

_ACTIONS = (data_list, data_get, data_check)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, one sub-command each."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for action in _ACTIONS:
        sub = actions.add_parser(action.NAME, help=action.HELP, description=action.__doc__)
        action.add_arguments(sub)
        sub.set_defaults(execute_action=action.execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run the action that was named."""
    code: int = arguments.execute_action(arguments)
    return code
