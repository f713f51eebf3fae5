from __future__ import annotations

from steepest.core.markup import Safe, element, heat_cell, join, paragraph, table


def test_text_is_escaped_and_elements_are_not():
    inner = element("b", "<&>")
    assert element("p", "a < b ", inner) == "<p>a &lt; b <b>&lt;&amp;&gt;</b></p>"


def test_attributes_are_escaped_renamed_and_left_out_if_none():
    made = element("div", class_='a"b', aria_label="<x>", id=None)
    assert made == '<div class="a&quot;b" aria-label="&lt;x&gt;"></div>'


def test_void_elements_have_no_end():
    assert element("img", alt="") == '<img alt="">'


def test_join_leaves_out_none():
    assert join(["a", None, Safe("<br>")]) == "a<br>"


def test_a_paragraph_keeps_short_equations_together():
    assert paragraph("so n = 3 and p < 0.1.", "note") == (
        '<p class="note">so n\u00a0=\u00a03 and p\u00a0&lt;\u00a00.1.</p>'
    )


def test_a_table_heads_its_columns_and_rows():
    made = table("what <it> shows", ["name", "value"], [["<a>", 1], ["b", heat_cell("2", 1.0)]])
    assert made.count('<th scope="col">') == 2
    one = '<th scope="row">&lt;a&gt;</th><td data-label="value"><span>1</span></td>'
    assert one in made
    assert "<caption><span>what &lt;it&gt; shows</span></caption>" in made
    assert made.count("<td") == 2


def test_heat_stays_within_its_range():
    assert "0.40" in heat_cell("x", 7.0)
    assert "0.04" in heat_cell("x", -1.0)
