"""The lab's report: one HTML file that needs nobody, from the JSON of `holdfast lab --json`.

Charts are inline SVG (`charts.py`), every chart has a table with the same numbers, and the page's
own policy lets no request leave it.
"""

from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from holdfast.lab.report import chapters
from holdfast.lab.report.charts import Bar, Row, brief, short
from holdfast.lab.report.findings import OWN, STORES, Findings, Result, Scenario, count, read
from holdfast.lab.report.markup import figure, ms, rate, table, times

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_report(result: dict[str, Any], path: Path) -> None:
    """Writes the report of a run. Raises OSError where the file cannot be written."""
    path.write_text(page(read(result)), encoding="utf-8")


def page(found: Findings) -> str:
    style = (files(__package__) / "report.css").read_text(encoding="utf-8")
    parts = [
        _header(found),
        _headline(found),
        _contents(found),
        _leaders(found),
        *(_scenario(found, each, nth) for nth, each in enumerate(found.scenarios)),
        chapters.published(found),
        chapters.storm(found),
        chapters.queue(found),
        chapters.curves(found),
        chapters.left_out(found),
        chapters.reading(found),
    ]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<link rel="icon" href="data:,">',
            "<title>Holdfast lab: who oversells, who is fast</title>",
            f"<style>\n{style}</style></head><body>",
            *(part for part in parts if part),
            "</body></html>\n",
        ]
    )


def _header(found: Findings) -> str:
    machine = found.machine
    memory = machine.get("memory_gb")
    facts = {
        "Date": found.date.replace("T", " "),
        "Machine": ", ".join(
            str(part)
            for part in (
                machine.get("model"),
                f"{machine['cpus']} CPUs" if machine.get("cpus") else None,
                f"{memory:g} GB" if isinstance(memory, int | float) else None,
                machine.get("system"),
            )
            if part
        ),
        "Versions": ", ".join(
            f"{name} {version}"
            for name, version in [*found.versions.items(), ("Python", machine.get("python"))]
            if version
        ),
    }
    listed = "".join(
        f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in facts.items() if value
    )
    return (
        "<header><h1>Who oversells, and who is fast</h1>"
        '<p class="muted">Every published way to sell the last seat once, side by side on one '
        f"machine: a run of <code>holdfast lab</code>.</p><dl>{listed}</dl></header>"
    )


def _headline(found: Findings) -> str:
    said = [_who_oversold(found), *_who_is_first(found)]
    if errors := sum(each.errors for each in found.results):
        said.append(f"{count(errors, 'buyer', 'buyers')} got an error instead of an answer.")
    if not found.results:
        said = ["Nothing was measured in this run."]
    quick = (
        '<p class="warning"><strong>A quick run.</strong> Few buyers and short measurements: read '
        "who oversells, not who is faster.</p>"
        if found.quick
        else ""
    )
    return f'<div class="headline">{"".join(f"<p>{text}</p>" for text in said)}</div>{quick}'


def _who_oversold(found: Findings) -> str:
    sinners = found.oversellers()
    if not sinners:
        naive = any(each.strategy == "naive" for each in found.results)
        luck = " The naive one was lucky: nothing in it prevents it." if naive else ""
        return f"Nobody oversold in this run.{luck}"
    titles = {each.name: each.shown for each in found.scenarios}
    said = []
    for strategy, runs in sinners.items():
        worst = max(runs, key=lambda each: (each.oversold, each.torn))
        scenarios = count(len({each.scenario for each in runs}), "scenario", "scenarios")
        excess = f"{count(worst.oversold, 'unit', 'units')} too many"
        if not worst.oversold:
            excess = f"{count(worst.torn, 'buyer', 'buyers')} with a part of what they wanted"
        said.append(
            f'<strong class="alarm">{escape(strategy)} oversold</strong> in {scenarios}, at worst '
            f"{excess} where there {'was' if worst.stock == 1 else 'were'} {worst.stock:,} to sell "
            f"({escape(titles[worst.scenario])}; {escape(worst.where)})."
        )
    others = {each.strategy for each in found.results} - sinners.keys()
    rest = f" The other {len(others)} sold no unit twice." if others else ""
    return " ".join(said) + rest


def _who_is_first(found: Findings) -> Iterator[str]:
    """Over all stores, among those whose sales outlive a crash."""
    wins: dict[str, list[tuple[Scenario, list[Result]]]] = {}
    for scenario in found.contended() or found.scenarios:
        if ranked := found.ranked(each for each in found.of(scenario) if each.durable):
            wins.setdefault(ranked[0].strategy, []).append((scenario, ranked))
    compared = sum(map(len, wins.values()))
    kind = "contended scenarios" if found.contended() else "scenarios"
    for strategy, won in sorted(wins.items(), key=lambda each: -len(each[1])):
        scenario, ranked = max(won, key=lambda each: _lead(each[1]))
        best = ranked[0]
        over = (
            f", {times(_lead(ranked))} the next durable design ({escape(ranked[1].strategy)}: "
            f"{ranked[1].per_second:,.0f})"
            if len(ranked) > 1
            else ""
        )
        yield (
            f"<strong>{escape(_called(strategy))} is first</strong> among the durable designs in "
            f"{len(won)} of {compared} {kind}, each design on its best store. Its widest lead: "
            f"{escape(scenario.shown)}, {best.per_second:,.0f} buyers answered a second "
            f"({escape(best.where)}){over}."
        )


def _called(strategy: str) -> str:
    return f"{strategy} (Holdfast)" if strategy == OWN else strategy


def _lead(ranked: Sequence[Result]) -> float:
    if len(ranked) < 2 or not ranked[1].per_second:
        return 1.0
    return ranked[0].per_second / ranked[1].per_second


def _contents(found: Findings) -> str:
    links = [(f"s{nth}", each.shown) for nth, each in enumerate(found.scenarios)]
    links += [("published", "Published figures")] if found.published else []
    links += [("storm", "Retry storm")] if found.storm() else []
    links += [("queue", "Lock queue")] if found.queue() else []
    links += [("curves", "Scaling")] if found.curves else []
    links += [("left-out", "Left out")] if found.left_out else []
    links += [("reading", "How to read it")]
    items = "".join(f'<li><a href="#{ident}">{escape(text)}</a></li>' for ident, text in links)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _leaders(found: Findings) -> str:
    """The first of each scenario and store, and how far ahead of the next."""
    if not found.results:
        return ""
    rows = []
    for scenario in found.scenarios:
        cells = [escape(scenario.shown)]
        for store in found.stores():
            ranked = found.ranked(each for each in found.of(scenario) if each.store == store)
            if not ranked:
                cells.append("nobody")
                continue
            said = [escape(ranked[0].strategy), f"{rate(ranked[0].per_second)}"]
            said += [f"{times(_lead(ranked))} {escape(each.strategy)}" for each in ranked[1:2]]
            cells.append("".join(f'<span class="whole">{text}</span>' for text in said))
        rows.append(cells)
    head = ["Scenario", *(escape(STORES.get(store, store)) for store in found.stores())]
    caption = (
        "Buyers answered a second by the fastest design that never oversold, and how many times "
        "the next one's rate that is. The better of one and several processes counts."
    )
    return "<h2>Who is first</h2>" + table("Who is first", head, rows, caption, words=len(head))


def _scenario(found: Findings, scenario: Scenario, nth: int) -> str:
    results = found.of(scenario)
    facts = (
        f"{count(scenario.buyers, 'buyer', 'buyers')} and {count(scenario.units, 'unit', 'units')}"
    )
    if scenario.quantity > 1:
        facts += f"; each buyer wants {scenario.quantity}"
    meets = "buyers meet at the same rows" if scenario.contended else "buyers rarely meet"
    said = f"{facts}; {meets}."
    top = f'<section id="s{nth}"><h2>{escape(scenario.shown)}</h2><p class="muted">{said}</p>'
    if not results:
        return f"{top}<p>Not measured in this run.</p></section>"
    rows = [_bar_row(found, runs) for runs in _by_design(results)]
    chart = figure(
        f"bars{nth}",
        f"{scenario.shown}: buyers answered a second by each design and store",
        "Buyers answered a second, the fastest first.",
        rows,
        _legend(sorted({each.processes for each in results})),
        said,
    )
    return (
        f"{top}{chart}<details><summary>All counters of this scenario</summary>"
        f"{_counters(found, results)}</details></section>"
    )


def _by_design(results: Sequence[Result]) -> list[list[Result]]:
    """The runs of each strategy on each store, one for each number of processes."""
    rows: dict[tuple[str, str], list[Result]] = {}
    for each in sorted(results, key=lambda each: each.processes):
        rows.setdefault((each.strategy, each.store), []).append(each)
    return sorted(rows.values(), key=lambda runs: -max(each.per_second for each in runs))


def _bar_row(found: Findings, runs: Sequence[Result]) -> Row:
    one = runs[0]
    published = found.published_for(one.strategy)
    return Row(
        label=f"{one.strategy} · {one.shown_store}" + ("" if one.durable else " · not durable"),
        bars=[
            Bar(f"{short(run.processes)} p", run.per_second, brief(run.per_second), _alarm(run))
            for run in runs
        ],
        hatched=not one.durable,
        strong=one.strategy == OWN,
        mark=published.per_second if published else None,
        aside=f"published {brief(published.per_second)}" if published else "",
    )


def _alarm(run: Result) -> str:
    if run.oversold:
        return f"oversold {brief(run.oversold)}"
    return f"torn {brief(run.torn)}" if run.torn else ""


def _legend(processes: Sequence[int]) -> str:
    keys = [
        (f"bar{int(each == processes[-1])}", f"{each} p: {count(each, 'process', 'processes')}")
        for each in processes
    ]
    keys += [
        ("hatched", "hatched: not durable"),
        ("mark", "line across: the published figure"),
        ("wrong", "oversold: units that somebody bought in vain; torn: baskets sold in part"),
    ]
    items = "".join(f'<li><span class="swatch {kind}"></span> {text}</li>' for kind, text in keys)
    return f'<ul class="legend">{items}</ul>'


Column = tuple[str, Callable[[Result], str]]
COLUMNS: tuple[Column, ...] = (
    ("Processes", lambda run: f"{run.processes}"),
    ("Answered/s", lambda run: rate(run.per_second)),
    ("Stock", lambda run: f"{run.stock:,}"),
    ("Sold", lambda run: f"{run.sold:,}"),
    (
        "Oversold",
        lambda run: f'<span class="alarm">{run.oversold:,}</span>' if run.oversold else "0",
    ),
    ("Attempts", lambda run: f"{run.attempts:,}"),
    ("Retries", lambda run: f"{run.retries:,}"),
    ("Gave up", lambda run: f"{run.gave_up:,}"),
    ("Statements", lambda run: f"{run.statements:,}"),
    ("p50 ms", lambda run: ms(run.p50_ms)),
    ("p99 ms", lambda run: ms(run.p99_ms)),
    ("max ms", lambda run: ms(run.max_ms)),
)
RARE: tuple[Column, ...] = (
    ("Redis calls", lambda run: f"{run.redis_calls:,}"),
    ("Torn", lambda run: f"{run.torn:,}"),
    ("Errors", lambda run: f"{run.errors:,}"),
    ("Lock queue", lambda run: f"{run.lock_queue or 0:,}"),
)
"""Shown where one of them is not nought."""


def _counters(found: Findings, results: Sequence[Result]) -> str:
    columns = [*COLUMNS]
    columns += [column for column in RARE if any(column[1](run) != "0" for run in results)]
    rows = []
    for runs in _by_design(results):
        for run in runs:
            durable = "yes" if run.durable else "no"
            published = found.published_for(run.strategy)
            figure = f"{published.per_second:,.0f}" if published else "&ndash;"
            cells = [escape(run.shown_store), durable, *(show(run) for _, show in columns), figure]
            rows.append([escape(run.strategy), *cells])
    head = ["Strategy", "Store", "Durable", *(name for name, _ in columns), "Published/s"]
    return table("All counters", head, rows, words=3, own=OWN)
