"""Tables as data: in HTML, in Markdown, and escaped in both."""

from mrc_testbed.report.page import part
from mrc_testbed.report.table import Table, TableCell

TABLE = Table(
    ("name", "#count"), [("a|b", "1"), (TableCell("c", is_code=True), TableCell("2", is_strong=True))]
)


def test_cells_carry_the_names_of_their_columns() -> None:
    text = TABLE.html()
    assert '<th scope="col">name</th><th scope="col" class="number">count</th>' in text
    assert '<td data-label="name">a|b</td><td data-label="count" class="number">1</td>' in text
    assert '<td data-label="name"><code>c</code></td>' in text
    assert '<td data-label="count" class="number"><strong>2</strong></td>' in text


def test_a_table_without_rows_is_nothing() -> None:
    assert Table(("a",), []).html() == ""


def test_a_row_may_have_a_heading_instead_of_the_table() -> None:
    text = Table((), [(TableCell("Kernel", is_heading=True), "6.1")]).html()
    assert '<tr><th scope="row">Kernel</th><td>6.1</td></tr>' in text
    assert "<thead>" not in text


def test_markdown_has_the_same_cells() -> None:
    assert TABLE.markdown() == ["| name | count |", "| --- | ---: |", "| a\\|b | 1 |", "| `c` | **2** |"]


def test_texts_are_escaped_wherever_they_stand() -> None:
    bad = '<b>"&'
    cell = TableCell(bad, lead=bad, notes=(bad,), link=bad, codes=(bad,), last=bad)
    text = Table((bad,), [[cell]]).html()
    assert "<b>" not in text
    assert text.count("&lt;b&gt;&#34;&amp;") == 8  # the column's name twice
    assert "<br>" in text


def test_html_that_a_template_made_stays() -> None:
    bar = part("bar", "90.0", "180.0", "good", "<why>")
    text = Table((), [[TableCell("", more=bar)]]).html()
    assert '<rect class="good" y="6" width="90.0"' in text
    assert 'aria-label="&lt;why&gt;"' in text
