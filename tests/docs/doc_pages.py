"""The documentation as data: pages, their code blocks, links and headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
WITH_CODE = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
ALL = [*WITH_CODE, ROOT / "CHANGELOG.md"]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

NOT_RUN = "# not run:"

_FENCE = re.compile(r"^( *)(```+|~~~+) *(\S*)")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: What stands behind the fence.
        text: What is inside, without the fence's indentation.
        line: Number of its first line in the page, from 1.
        follows: Whether only blank lines separate it from the block before.
    """

    language: str
    text: str
    line: int
    follows: bool


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def read_blocks(page: Path) -> list[Block]:
    blocks: list[Block] = []
    inside: list[str] | None = None
    fence = language = indent = ""
    start = 0
    prose = True
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if inside is None:
            opening = _FENCE.match(line)
            if opening:
                indent, fence, language = opening.groups()
                inside, start = [], number + 1
            elif line.strip():
                prose = True
        elif line.strip() == fence:
            blocks.append(Block(language, "\n".join(inside) + "\n", start, follows=not prose))
            inside, prose = None, False
        else:
            inside.append(line.removeprefix(indent))
    if inside is not None:
        raise ValueError(f"{name_of(page)}: the block at line {start} is not closed")
    return blocks


def read_lines(page: Path) -> list[str]:
    """Return the lines outside of fenced blocks."""
    kept: list[str] = []
    fence = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        opening = _FENCE.match(line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif opening:
            fence = opening.group(2)
        else:
            kept.append(line)
    return kept


def read_code_spans(page: Path) -> list[str]:
    """Return what stands in `backticks` outside of fenced blocks."""
    text = "\n".join(read_lines(page))
    return [found[0].strip("` \n") for found in _CODE_SPAN.finditer(text)]


def read_links(page: Path) -> list[str]:
    """Return the targets of all links that stay within the repository."""
    prose = _CODE_SPAN.sub("code", "\n".join(read_lines(page)))
    return [target for target in _LINK.findall(prose) if not re.match(r"[a-z]+:", target)]


def read_anchors(page: Path) -> set[str]:
    """Return the anchors of all headings, as GitHub makes them."""
    titles = (re.fullmatch(r"#+ +(.*?) *", line) for line in read_lines(page))
    kept = (re.sub(r"[^\w\- ]", "", title[1].lower()) for title in titles if title)
    return {title.replace(" ", "-") for title in kept}
