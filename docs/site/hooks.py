"""Pages that the site has beside those in `docs/`, and links that hold on it.

Made while the site is built, never committed: the command line's help, the Python API room by room,
notebooks, examples, and files at the root of the repository.
"""

from __future__ import annotations

import inspect
import json
import os
import posixpath
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
AT_THE_ROOT = {
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "README.md": "about.md",  # a README beside index.md would be the same page to MkDocs
    "results/README.md": "records.md",
}
_FENCE_LINK_OR_SPAN = re.compile(
    r"^ *```.*?^ *```|(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)|`[^`\n]+`",
    re.MULTILINE | re.DOTALL,
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add a page for each strategy and each example to the navigation."""
    strategies = sorted((ROOT / "docs" / "strategies").glob("*.md"))
    _find(config.nav, "Strategies").extend(f"strategies/{path.name}" for path in strategies)
    _find(config.nav, "Examples")[:] = _pages_of_examples().values()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    pages = {site: (ROOT / path).read_text(encoding="utf-8") for path, site in AT_THE_ROOT.items()}
    for path, site in _pages_of_examples().items():
        pages[site] = _show_example(ROOT / path)
    for path, site in _pages_of_notebooks().items():
        pages[site] = _show_notebook(ROOT / path)
    rooms = [
        posixpath.basename(site).removesuffix(".md")
        for site in _listed(config.nav)
        if site.startswith("api/")
    ]
    for room in rooms:
        pages[f"api/{room}.md"] = _show_surface(rooms) if room == "index" else _show_room(room)
    pages["commands.md"] = _show_commands()
    for site, text in pages.items():
        files.append(File.generated(config, site, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where the site has the files; of files that it has not, keep the words."""
    del config
    sites = AT_THE_ROOT | _pages_of_examples() | _pages_of_notebooks()
    here = page.file.src_uri
    source = {site: path for path, site in sites.items()}.get(here, f"docs/{here}")

    def lead(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if target is None:
            return found[0]
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return found[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        site = sites.get(wanted, wanted.removeprefix("docs/"))
        if files.get_file_from_path(site) is None:
            if (ROOT / wanted).exists():
                return words
            return found[0]  # MkDocs says that it leads nowhere
        relative = posixpath.relpath(site, posixpath.dirname(here) or ".")
        return f"{picture}[{words}]({relative}{mark}{anchor})"

    return _FENCE_LINK_OR_SPAN.sub(lead, markdown)


def _find(nav: Any, title: str) -> list[Any]:  # noqa: ANN401 (YAML)
    """Return the entries under a title, at any depth."""
    for entry in nav if isinstance(nav, list) else []:
        for name, below in entry.items() if isinstance(entry, dict) else ():
            found: list[Any] = below if name == title else _find(below, title)
            if found:
                return found
    return []


def _listed(nav: Any) -> Iterator[str]:  # noqa: ANN401 (YAML)
    """Yield every page of the navigation."""
    if isinstance(nav, str):
        yield nav
    for entry in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _listed(entry)


def _pages_of_examples() -> dict[str, str]:
    paths = sorted((ROOT / "examples").iterdir())
    return {
        f"examples/{path.name}": f"examples/{path.stem}.md"
        for path in paths
        if path.suffix in {".py", ".toml"}
    }


def _pages_of_notebooks() -> dict[str, str]:
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    return {f"notebooks/{path.name}": f"notebooks/{path.stem}.md" for path in paths}


def _show_example(path: Path) -> str:
    language = path.suffix.replace(".py", "python").lstrip(".")
    return f"# {path.name}\n\n```{language}\n{path.read_text(encoding='utf-8')}```\n"


def _show_notebook(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = (("".join(cell["source"]), cell["cell_type"]) for cell in cells)
    shown = [f"```python\n{text}\n```" if kind == "code" else text for text, kind in texts]
    return "\n\n".join(shown) + f"\n\nTo run and to change: `notebooks/{path.name}`.\n"


def _show_room(name: str) -> str:
    """Show the public names of a room, each from the file that defines it."""
    if name == "errors":
        return "# steepest.errors\n\n::: steepest.errors\n"
    room = import_module(f"steepest.{name}")
    shown = [f"# steepest.{name}", (room.__doc__ or "").replace("::\n", "")]
    for public in sorted(room.__all__):
        value = getattr(room, public)
        defined = isinstance(value, type) or inspect.isfunction(value)
        module = value.__module__ if defined else room.__name__
        shown.append(f"::: {module}.{public}\n    options: {{show_root_heading: true}}")
    return "\n\n".join(shown) + "\n"


def _show_surface(rooms: list[str]) -> str:
    """List the names of the package itself, with links to where they are described."""
    import steepest

    shown = ["# Public names", "These names are kept; all others may change."]
    rows, alone = ["| name | is |", "| --- | --- |"], []
    for public in steepest.__all__:
        value = getattr(steepest, public)
        if inspect.ismodule(value):
            target = f"{public}.md"
        elif public.startswith("_"):
            continue
        else:
            room = value.__module__.split(".")[1]
            anchor = f"{value.__module__}.{public}"
            target = f"{room}.md#{anchor}"
            if public not in import_module(f"steepest.{room}").__all__:
                target = f"#{anchor}"
                alone.append(f"::: {anchor}\n    options: {{show_root_heading: true}}")
        about = (value.__doc__ or "").strip().splitlines()[0]
        rows.append(f"| [`steepest.{public}`]({target}) | {about} |")
    for room in sorted(set(rooms) - {"index", *steepest.__all__}):
        about = (import_module(f"steepest.{room}").__doc__ or "").strip().splitlines()[0]
        rows.append(f"| [`steepest.{room}`]({room}.md) | {about} |")
    return "\n\n".join([*shown, "\n".join(rows), *alone]) + "\n"


def _show_commands() -> str:
    os.environ["COLUMNS"] = "84"  # argparse asks for it
    from steepest.cli.main import make_parser

    parser, commands = make_parser()
    shown = ["# Command line", f"```text\n{parser.format_help()}```"]
    for name, command in commands.items():
        shown += [f"## steepest {name}", f"```text\n{command.format_help()}```"]
    return "\n\n".join(shown) + "\n"
