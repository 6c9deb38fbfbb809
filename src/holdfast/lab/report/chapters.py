"""The chapters of the report that follow the scenarios: each takes the findings and gives HTML."""

from html import escape

from holdfast.lab.report.charts import Axis, Bar, Row, line, whole
from holdfast.lab.report.findings import (
    OWN,
    STORES,
    Curve,
    Findings,
    Published,
    Result,
    Scenario,
    count,
)
from holdfast.lab.report.markup import figure, ms, rate, table, times

NONE = "&ndash;"
DESIGNS = {
    "naive": "reads the stock, then writes it: two buyers who read at once both sell",
    "pessimistic": "locks the row (FOR UPDATE) and lets all others wait",
    "optimistic": "writes only if the row's version is still the one it read, else tries again",
    "atomic": "one UPDATE that is guarded by the stock itself",
    "skip-locked": "a row for each unit; takes one that nobody else has locked",
    "redis-nx": "holds in Redis with a deadline, a guarded write when it is confirmed",
    "two-layer": "a claim in Redis first, then a guarded write in the database",
    "redis-lua": "counters in Redis, decided in a script; no database",
    OWN: "Holdfast: all who ask meanwhile are decided in one transaction",
}
CURVES = {
    "concurrency": ("Buyers at once", "buyers at once", "Single-seat holds", True),
    "seats_per_hold": ("Seats per hold", "seats in each hold", "Holds", False),
    "event_size": ("Size of the event", "seats in the event", "Holds, each released again,", True),
    "processes": ("Processes", "processes that sell the same event", "Single-seat holds", False),
}
"""By name: heading, what is varied, what is counted, whether the axis is logarithmic."""


def published(found: Findings) -> str:
    """What was written about a design, beside what it does here."""
    if not found.published:
        return ""
    rows = []
    for claim in [*found.published, Published(OWN, 0)]:
        stores = [store for store in found.stores() if found.has(claim.strategy, store)]
        shown = f"{claim.per_second:,.0f}" if claim.per_second else NONE
        for store in stores:
            cells = [_measured(found, claim, store, each) for each in found.scenarios]
            rows.append([escape(claim.strategy), escape(STORES.get(store, store)), shown, *cells])
        if not stores and claim.per_second:
            cells = [NONE for _ in found.scenarios]
            rows.append([escape(claim.strategy), "not measured", shown, *cells])
    head = ["Strategy", "Store", "Published/s", *(escape(each.shown) for each in found.scenarios)]
    caption = (
        "Buyers answered a second here (the better of one and several processes), and in brackets "
        "how many times the published figure that is."
    )
    claims: dict[str, list[str]] = {}
    for each in found.published:
        claims.setdefault(each.source, []).append(f"{each.strategy} {each.per_second:,.0f}")
    sources = "".join(
        f"<li>{escape(', '.join(figures))}: {escape(source or 'source unknown')}</li>"
        for source, figures in claims.items()
    )
    return (
        '<section id="published"><h2>Published figures beside measured ones</h2>'
        "<p>The figures that write-ups give for these designs come without machine, store or "
        "load. Here each design meets all loads on one machine.</p>"
        f"{table('Published and measured', head, rows, caption, words=2, own=OWN)}"
        f"<p>Where they are from:</p><ul>{sources}</ul></section>"
    )


def _measured(found: Findings, claim: Published, store: str, scenario: Scenario) -> str:
    place = (claim.strategy, store)
    runs = [run for run in found.of(scenario) if (run.strategy, run.store) == place]
    if not runs:
        return NONE
    best = max(run.per_second for run in runs)
    against = f" ({times(best / claim.per_second)})" if claim.per_second else ""
    return f"{rate(best)}{against}"


def storm(found: Findings) -> str:
    run = found.storm()
    if run is None:
        return ""
    lost = run.each(run.retries)
    told = (
        f"On {escape(run.where)}, {count(run.buyers, 'buyer', 'buyers')} made {run.attempts:,} "
        f"attempts: {run.retries:,} retries, {lost:,.2g} for each buyer, and {run.statements:,} "
        f"statements to sell {count(run.sold, 'unit', 'units')}. "
        f"{count(run.gave_up, 'buyer', 'buyers') if run.gave_up else 'Nobody'} gave up."
        if run.retries
        else "In this run nobody had to try again: too few buyers met at the same row."
    )
    rows = [
        Row(
            label=each.strategy,
            bars=[Bar("", each.each(each.statements), f"{each.each(each.statements):,.2f}")],
            strong=each.strategy == OWN,
        )
        for each in found.peers(run)
    ]
    chart = figure(
        "storm-bars",
        "Statements for each buyer",
        f"Statements that reached the database for each buyer: {_place(found, run)}.",
        sorted(rows, key=lambda row: -row.bars[0].value),
    )
    return (
        '<section id="storm"><h2>The optimistic retry storm</h2>'
        "<p>A version check lets everybody read at once, and lets one of those who read the same "
        "version write. All others did their work for nothing and do it again, against each other: "
        f"the more buyers, the more of the work is lost.</p><p>{told}{_own_statements(found, run)}"
        "</p>"
        f"{chart}{_peers(found, run)}</section>"
    )


def _own_statements(found: Findings, run: Result) -> str:
    own = next((each for each in found.peers(run) if each.strategy == OWN), None)
    if own is None:
        return ""
    return (
        f" Group commit, for as many buyers, sent {own.statements:,}: those who would have met are "
        "decided one after the other in memory, and written together."
    )


def queue(found: Findings) -> str:
    run = found.queue()
    if run is None:
        return ""
    waiting = (
        f" At one moment {count(run.lock_queue, 'transaction', 'transactions')} waited for a lock."
        if run.lock_queue
        else ""
    )
    share = f" ({run.p99_ms / run.elapsed_ms:.0%} of the whole run)" if run.elapsed_ms else ""
    rows = [
        Row(
            label=each.strategy,
            bars=[
                Bar("p50", each.p50_ms, f"{ms(each.p50_ms)} ms"),
                Bar("p99", each.p99_ms, f"{ms(each.p99_ms)} ms"),
            ],
            strong=each.strategy == OWN,
        )
        for each in sorted(found.peers(run), key=lambda each: -each.p99_ms)
    ]
    chart = figure(
        "queue-bars",
        "How long buyers waited",
        f"How long buyers waited for their answer: {_place(found, run)}.",
        rows,
    )
    return (
        '<section id="queue"><h2>The pessimistic queue</h2>'
        "<p>A row lock makes everybody wait for everybody before him: nothing is done twice, and "
        "nothing is done at the same time. The lock is held through the round trips of a "
        "transaction and its flush to disk, so the queue moves at the pace of one transaction "
        f"after the other.</p><p>On {escape(run.where)} it needed {run.retries:,} retries, but "
        f"half of the buyers waited more than {ms(run.p50_ms)} ms, one in a hundred more than "
        f"{ms(run.p99_ms)} ms{share}, the last {ms(run.max_ms)} ms.{waiting}</p>"
        f"{chart}{_peers(found, run)}</section>"
    )


def _place(found: Findings, run: Result) -> str:
    titles = {each.name: each.shown for each in found.scenarios}
    return f"{titles[run.scenario]}, {run.where}"


def _peers(found: Findings, run: Result) -> str:
    rows = [
        [
            escape(each.strategy),
            rate(each.per_second),
            *(f"{each.each(n):,.2f}" for n in (each.attempts, each.retries, each.statements)),
            f"{each.gave_up:,}",
            NONE if each.lock_queue is None else f"{each.lock_queue:,}",
            *map(ms, (each.p50_ms, each.p99_ms, each.max_ms)),
        ]
        for each in found.peers(run)
    ]
    head = ["Strategy", "Answered/s", "Attempts a buyer", "Retries a buyer", "Statements a buyer"]
    head += ["Gave up", "Lock queue", "p50 ms", "p99 ms", "max ms"]
    return table("Counters under the same circumstances", head, rows, own=OWN)


def curves(found: Findings) -> str:
    drawn = [_curve(name, each) for name, each in (found.curves or {}).items() if each.points]
    if not drawn:
        return ""
    return (
        '<section id="curves"><h2>How Holdfast scales</h2>'
        "<p>Holds through the Python API while one thing grows. The knee is the first point past "
        "which growing on pays less than 10 % in rate for each doubling. For seats per hold that "
        "is the rate of seats, not of holds; for the size of an event, the point past which "
        "growing on costs more than 10 %.</p>"
        f"{''.join(drawn)}</section>"
    )


def _curve(name: str, curve: Curve) -> str:
    plain = name.replace("_", " ")
    heading, varied, counted, log = CURVES.get(name, (plain.capitalize(), plain, "Holds", False))
    store = STORES.get(curve.store, curve.store)
    axis = Axis(varied, log)
    verdict = _verdict(curve, varied)
    drawn = []
    for kind, label, points in (
        ("rate", f"{counted} a second", [(each.x, each.per_second) for each in curve.points]),
        ("p99", "p99, in milliseconds", [(each.x, each.p99_ms) for each in curve.points]),
    ):
        ident, title = f"curve-{escape(name)}-{kind}", f"{heading}: {label}"
        chart = line(ident, title, verdict, points, axis, curve.knee)
        drawn.append(f"<figure><figcaption>{label}</figcaption>{chart}</figure>")
    rows = [
        [
            f"{whole(each.x)}",
            rate(each.per_second),
            ms(each.p99_ms),
            "knee" if each.x == curve.knee else "",
        ]
        for each in curve.points
    ]
    head = [escape(varied.capitalize()), escape(f"{counted} a second"), "p99 ms", ""]
    return (
        f"<h3>{escape(heading)}{f' ({escape(store)})' if store else ''}</h3>"
        f"<p>{escape(verdict)}</p>"
        f'<div class="pair">{"".join(drawn)}</div>'
        f"<details><summary>The numbers</summary>{table(heading, head, rows)}</details>"
    )


def _verdict(curve: Curve, varied: str) -> str:
    first, last = curve.points[0], curve.points[-1]
    way = (
        f"From {whole(first.x)} to {whole(last.x)} {varied} the rate goes from "
        f"{rate(first.per_second)} to {rate(last.per_second)} a second, "
        f"p99 from {ms(first.p99_ms)} to {ms(last.p99_ms)} ms."
    )
    if curve.knee is None:
        return f"{way} No knee in this range."
    at = next((each for each in curve.points if each.x == curve.knee), None)
    there = f" ({rate(at.per_second)} a second, p99 {ms(at.p99_ms)} ms)" if at else ""
    return f"{way} The knee is at {whole(curve.knee)}{there}."


def left_out(found: Findings) -> str:
    if not found.left_out:
        return ""
    rows = []
    for each in found.left_out:
        store = each.store or "all"
        shown = STORES.get(store, store)
        rows.append([escape(each.strategy or "all"), escape(shown), escape(each.why)])
    listed = table("Left out", ["Strategy", "Store", "Why"], rows, words=3)
    return f'<section id="left-out"><h2>What was left out, and why</h2>{listed}</section>'


def reading(found: Findings) -> str:
    known = {each.strategy for each in found.results}
    designs = "".join(
        f"<dt>{escape(name)}</dt><dd>{text}</dd>" for name, text in DESIGNS.items() if name in known
    )
    cpus = found.machine.get("cpus")
    shared = f"all {cpus} CPUs" if cpus else "the CPUs"
    notes = "".join(f"<li>{note.format(shared=shared)}</li>" for note in NOTES)
    return (
        '<section id="reading"><h2>How to read it, and what is not fair</h2>'
        f"{f'<dl>{designs}</dl>' if designs else ''}<ul>{notes}</ul></section>"
    )


NOTES = (
    "<strong>Answered a second</strong> counts every buyer who got an answer, sold or sold out. In "
    "a scenario of 10,000 buyers and one seat, nearly all answers are refusals.",
    "<strong>Sold and oversold</strong> are counted from the rows after the run, not from what a "
    "design said about itself.",
    "<strong>Durable</strong> means that a confirmed sale outlives a loss of power. A design whose "
    "sales live in Redis alone is faster for not having to promise that, so it is hatched and not "
    "ranked with the others.",
    "Buyers, strategies and databases share {shared}. Several processes therefore take time from "
    "the database, and four are not four times one.",
    "Everything is Python on one machine: no network lies between buyer, shop and store. With a "
    "network, designs of many round trips lose more than those of few.",
    "The strategies sell from tables made for the lab and keep no log. Holdfast sells as it always "
    "does: holds with deadlines, ids that make repeats safe, a log in the same transaction. That "
    "is unfair to Holdfast.",
    "All buyers click in the same instant. That is what batches are made for, and unfair to the "
    "others; under one buyer at a time, group commit is one transaction like theirs.",
    "The naive strategy pauses for a moment between its look and its write, so that what it does "
    "wrong does not depend on luck; its rate is no measure of anything. What it oversold is one "
    "throw of the dice, too.",
    "Published figures come from other machines, stores and languages. What can be compared is "
    "their order and how far apart they are, not the numbers.",
    "One run on one machine is one sample: differences below a fifth or so are noise.",
)
