"""The report of the lab: what a reader finds in the one file, whatever the run was like."""

import re
from html import escape
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from holdfast.lab.report.charts import Bar, Row, Scale, bars, brief, short
from holdfast.lab.report.report import write_report
from tests.lab import canned

VOID = {"meta", "link", "br"}
RUNS = {"realistic": canned.realistic, "extreme": canned.extreme, "empty": dict}


class Page(HTMLParser):
    """A page as a browser reads it. Fails at a tag that is closed wrongly."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self._text: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data) -> None:
        if "style" not in self.open:
            self._text.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._text).split())

    def ids(self) -> list[str]:
        return [found for _, attrs in self.tags if (found := attrs.get("id"))]

    def charts(self) -> list[ElementTree.Element]:
        return [
            ElementTree.fromstring(svg) for svg in re.findall(r"(?s)<svg.*?</svg>", self.source)
        ]


@pytest.fixture
def written(tmp_path):
    def write(run: dict[str, Any]) -> Page:
        path = tmp_path / "report.html"
        write_report(run, path)
        return Page(path.read_text(encoding="utf-8"))

    return write


@pytest.fixture(params=RUNS)
def page(request, written) -> Page:
    found: Page = written(RUNS[request.param]())
    return found


def test_every_tag_is_closed_and_every_id_is_one_thing(page):
    assert page.open == []
    assert len(page.ids()) == len(set(page.ids()))


def test_every_link_leads_somewhere_in_the_page(page):
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert {link[1:] for link in links} <= set(page.ids())


def test_no_request_leaves_the_file(page):
    asks = {"src", "href", "srcset", "xlink:href", "data", "action", "poster"}
    asked = [value for _, attrs in page.tags for name, value in attrs.items() if name in asks]
    assert [value for value in asked if not value.startswith(("#", "data:"))] == []
    assert not {"script", "iframe", "img", "object", "embed"} & {tag for tag, _ in page.tags}
    assert "@import" not in page.source
    assert "http:" not in page.source
    assert "https:" not in page.source
    assert set(re.findall(r"url\((.)", page.source)) <= {"#"}
    policy = [attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv")]
    assert policy[0].startswith("default-src 'none'")


def test_an_address_that_is_a_source_is_text_and_no_link(written):
    run = canned.realistic()
    run["published"][0]["source"] = "https://example.org/a?b=1&c=2"
    page = written(run)
    assert "https://example.org/a?b=1&c=2" in page.text
    assert "https:" not in re.sub(r"<li>[^<]*</li>", "", page.source)


def test_every_chart_says_what_it_is_to_those_who_do_not_see_it(page):
    for chart in page.charts():
        title, desc = chart.find("title"), chart.find("desc")
        assert title is not None
        assert desc is not None
        assert title.text
        assert desc.text
        assert chart.get("role") == "img"
        assert chart.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"


def test_every_counter_of_every_run_is_in_a_table(written):
    run = canned.realistic()
    rows = table_rows(written(run))
    for each in run["results"]:
        wanted = [
            *(each["strategy"], str(each["processes"]), f"{each['per_second']:,.0f}"),
            *(f"{each[name]:,}" for name in ("stock", "sold", "oversold", "attempts", "retries")),
            *(f"{each[name]:,}" for name in ("gave_up", "statements", "redis_calls")),
            *(ms(each[name]) for name in ("p50_ms", "p99_ms", "max_ms")),
        ]
        assert any(not set(wanted) - set(row) for row in rows), wanted


def test_every_point_of_every_curve_is_in_a_table_and_the_knee_is_marked(written):
    run = canned.realistic()
    page = written(run)
    rows = table_rows(page)
    for curve in run["curves"].values():
        for point in curve["points"]:
            cells = [f"{point['x']:,}", f"{point['per_second']:,.0f}", ms(point["p99_ms"])]
            knee = "knee" if point["x"] == curve["knee"] else ""
            assert [*cells, knee] in rows
    labels = [text.text for chart in page.charts() for text in chart.iter("text")]
    assert labels.count("knee: 300") == 2
    assert labels.count("knee: 2") == 2
    assert page.source.count("No knee in this range.</p>") == 2


def test_machine_versions_and_date_are_told(written):
    run = canned.realistic()
    text = written(run).text
    for told in (*run["versions"].values(), run["machine"]["model"], "2 CPUs", "7.8 GB"):
        assert told in text
    assert "2026-11-16 14:03:22Z" in text
    assert "A quick run." not in text
    assert "A quick run." in written({**run, "quick": True}).text


def test_the_headline_says_who_oversold_and_who_is_first(written):
    text = written(canned.realistic()).text
    assert (
        "naive oversold in 4 scenarios, at worst 530 units too many where there were 2,000" in text
    )
    assert "The other 8 sold no unit twice." in text
    assert "group-commit (Holdfast) is first among the durable designs in 4 of 4" in text


def test_the_headline_praises_nobody_beforehand(written):
    run = canned.realistic()
    for each in run["results"]:
        each["oversold"] = 3 if each["strategy"] == "group-commit" else 0
    text = written(run).text
    assert "group-commit oversold" in text
    assert "group-commit (Holdfast) is first" not in text
    assert "two-layer is first" in text


def test_luck_is_called_luck(written):
    run = canned.realistic()
    for each in run["results"]:
        each["oversold"] = 0
    assert "Nobody oversold in this run. The naive one was lucky" in written(run).text


def test_a_basket_sold_in_part_is_as_wrong_as_one_sold_twice(written):
    run = canned.realistic()
    for each in run["results"]:
        each["oversold"] = 0
        each["torn"] = 7 if each["strategy"] == "naive" else 0
    page = written(run)
    assert "naive oversold in 5 scenarios, at worst 7 buyers with a part" in page.text
    assert "torn 7" in alarms(page)


def test_errors_are_not_passed_over(written):
    run = canned.realistic()
    run["results"][0]["errors"] = 41
    assert "41 buyers got an error instead of an answer." in written(run).text


def test_what_was_oversold_stands_beside_its_bar_in_words(written):
    run = canned.realistic()
    told = alarms(written(run))
    wanted = [f"oversold {each['oversold']:,}" for each in run["results"] if each["oversold"]]
    assert sorted(told) == sorted(wanted)


def test_bars_stand_from_fast_to_slow_and_what_is_not_durable_is_told_apart(written):
    chart = written(canned.realistic()).charts()[0]
    rows = [row for row in chart.iter("g") if row.get("class", "").startswith("row")]
    fastest = [max(number(text) for text in texts(row, "value")) for row in rows]
    assert fastest == sorted(fastest, reverse=True)
    assert len(rows) == 23
    for row in rows:
        hatched = ["url(#" in (bar.get("style") or "") for bar in row.iter("rect")]
        assert hatched == ["not durable" in texts(row, "label")[0]] * 2


def test_the_published_figure_is_marked_at_its_design_and_compared(written):
    page = written(canned.realistic())
    chart = page.charts()[0]
    told = {texts(row, "label")[0]: texts(row, "aside") for row in chart.iter("g")}
    assert told["redis-lua · Redis · not durable"] == ["published 50,000"]
    assert told["atomic · SQLite"] == ["published 2,000"]
    assert told["naive · SQLite"] == [None]
    marked = [row for row in chart.iter("g") if row.find("line") is not None]
    assert len(marked) == 9
    compared = ["atomic", "PostgreSQL", "2,000", "2,870 (1.4 \N{MULTIPLICATION SIGN})"]
    assert compared in [row[:4] for row in table_rows(page)]


def test_storm_and_queue_are_told_with_the_run_s_own_counters(written):
    text = written(canned.realistic()).text
    assert "12,000 buyers made 144,000 attempts: 132,000 retries, 11 for each buyer" in text
    assert "Group commit, for as many buyers, sent 300" in text
    assert "half of the buyers waited more than 23,691 ms" in text
    assert "At one moment 15 transactions waited for a lock." in text


def test_what_was_left_out_is_told_with_its_reason(written):
    run = canned.realistic()
    text = written(run).text
    for left in run["left_out"]:
        assert left["why"] in text
    assert "What was left out" not in written({**run, "left_out": []}).text


def test_names_cannot_become_markup(written):
    page = written(canned.extreme())
    assert "<script>" not in page.source
    assert escape("<script>alert('&')</script>") in page.source
    assert not {"b", "i", "u"} & {tag for tag, _ in page.tags}


def test_an_empty_run_is_told_as_one(written):
    assert "Nothing was measured in this run." in written({}).text


@pytest.mark.parametrize("gone", [*canned.realistic()])
def test_a_run_without_one_of_its_parts_is_still_told(written, gone):
    run = canned.realistic()
    del run[gone]
    assert written(run).open == []


@pytest.mark.parametrize(
    "values", [[0], [0, 0], [1], [0.01, 1_000_000], [3, 4], [1e-9, 1e12], [999.96], [10, 100]]
)
def test_whatever_the_numbers_bars_stay_in_their_lane(values):
    drawn = bars("x", "title", "what", [Row("row", [Bar("1 p", v, brief(v))]) for v in values])
    widths = [float(rect.get("width", "")[:-1]) for rect in bars_of(drawn)]
    assert all(0 <= width <= 50 for width in widths)
    assert [width > 0 for width in widths] == [value > 0 for value in values]
    assert len(Scale(values).ticks()) <= 7


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        *((0, "0"), (0.25, "0.25"), (7, "7"), (950, "950"), (999.96, "1k"), (1_000, "1k")),
        *((12_500, "12.5k"), (999_999, "1M"), (1_000_000, "1M"), (123_456_789, "123M")),
    ],
)
def test_a_number_on_an_axis_is_short(value, shown):
    assert short(value) == shown


def bars_of(svg: str) -> list[ElementTree.Element]:
    return [rect for rect in ElementTree.fromstring(svg).iter("rect") if rect.get("y")]


def ms(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def number(text: str | None) -> float:
    assert text is not None
    return float(text.replace(",", ""))


def texts(row: ElementTree.Element, kind: str) -> list[str]:
    return [text.text for text in row.iter("text") if text.get("class") == kind]  # type: ignore[misc]  # an empty one has none


def alarms(page: Page) -> list[str]:
    spans = [span for chart in page.charts() for span in chart.iter("tspan")]
    return [span.text or "" for span in spans if span.get("class") == "alarm"]


def table_rows(page: Page) -> list[list[str]]:
    """The cells of every row of every table, as a reader sees them."""
    bodies = re.findall(r"(?s)<tr[^>]*><th scope=\"row\">.*?</tr>", page.source)
    return [
        [Page(cell).text for cell in re.findall(r"(?s)<t[hd][^>]*>(.*?)</t[hd]>", body)]
        for body in bodies
    ]
