"""The tools that check the documentation do notice what is wrong."""

from __future__ import annotations

import doc_pages
import doc_runner
import pytest
from doc_pages import read_anchors, read_blocks, read_code_spans, read_links
from doc_runner import run_page


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doc_pages, "ROOT", tmp_path)

    def page(text):
        path = tmp_path / "page.md"
        path.write_text(text, encoding="utf-8")
        return path

    return page


def test_blocks_have_language_text_and_line(write):
    page = write("intro\n\n```python\na = 1\n```\n\n```text\n1\n```\nthen\n\n```sh\nls\n```\n")
    found = [(b.language, b.text, b.line, b.follows) for b in read_blocks(page)]
    assert found == [
        ("python", "a = 1\n", 4, False),
        ("text", "1\n", 8, True),
        ("sh", "ls\n", 13, False),
    ]


def test_a_block_that_is_not_closed_is_an_error(write):
    with pytest.raises(ValueError, match="line 2 is not closed"):
        read_blocks(write("```python\na = 1\n"))


def test_links_anchors_and_spans_are_found_outside_of_code(write):
    page = write(
        "# A `title`, and more\n[x](a.md#b) `[y](c.md)` [z](https://d) ![p](e.png)\n"
        "```text\n# no title\n[no](f.md)\n```\n"
    )
    assert read_links(page) == ["a.md#b", "e.png"]
    assert read_anchors(page) == {"a-title-and-more"}
    assert read_code_spans(page) == ["title", "[y](c.md)"]


def test_blocks_of_a_page_share_names_and_what_is_printed_is_compared(write):
    good = "```python\na = 1\n```\nthen\n```python\nprint(a)\n```\n\n```text\n1\n```\n"
    assert run_page(write(good)) == 2
    with pytest.raises(AssertionError, match="line 10: the page shows\n2\n"):
        run_page(write(good.replace("\n1\n", "\n2\n")))


def test_a_block_may_say_that_it_is_not_run(write):
    assert run_page(write("```python\n# not run: it needs a GPU\nx = 1 / 0\n```\n")) == 0


def test_warnings_are_errors_but_that_of_the_regime(write):
    code = "```python\nimport warnings\nfrom steepest import errors\nwarnings.warn('x', {})\n```\n"
    assert run_page(write(code.format("errors.RegimeWarning"))) == 1
    with pytest.raises(UserWarning, match="x"):
        run_page(write(code.format("UserWarning")))


def test_a_traceback_names_the_line_of_the_page(write):
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(write("one\n\n```python\n\nx = 1 / 0\n```\n"))
    assert caught.traceback[-1].lineno + 1 == 5


def test_nothing_of_a_page_stays_behind(write):
    import sys

    run_page(write("```python\na = 1\n```\n"))
    assert not any(name.startswith("page_") for name in sys.modules)
    assert doc_runner.run_page is run_page
