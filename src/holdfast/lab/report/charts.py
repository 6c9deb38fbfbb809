"""Two kinds of chart as inline SVG: bars in rows, and a line with its knee.

Text never meets text, whatever the numbers are: every kind of text has a lane of its own. Bars are
laid out in percent, so they fit a phone and their text keeps its size.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

LABEL_CHARS_MAX = 34
LOG_FROM_RATIO = 20
"""Where the largest value is so many times the smallest, the axis is logarithmic."""
DECADES_MAX = 6
"""Labels of a logarithmic axis that fit side by side on a phone."""


class Bar(NamedTuple):
    tag: str
    """What tells it from the other bars of its row, in three letters or so."""
    value: float
    text: str
    alarm: str = ""
    """Said after the value, in red."""


class Row(NamedTuple):
    label: str
    bars: Sequence[Bar]
    hatched: bool = False
    strong: bool = False
    mark: float | None = None
    """A value from elsewhere, to compare the bars with."""
    aside: str = ""
    """Said at the end of the label's line."""


class Scale:
    """From values to a place between 0 and 1."""

    def __init__(self, values: Sequence[float], log: bool | None = None) -> None:
        positive = [value for value in values if value > 0] or [1.0]
        least, most = min(positive), max(positive)
        self.log = most / least > LOG_FROM_RATIO if log is None else log
        if self.log:
            # A bar of the least value is to be seen, so the axis begins below it.
            self.low = 10.0 ** (math.ceil(math.log10(least)) - 1)
            self.high = max(10.0 ** math.ceil(math.log10(most)), self.low * 10)
        else:
            self.low = 0.0
            step = _step(most)
            self.high = step * math.ceil(most / step - 1e-9)

    def at(self, value: float) -> float:
        if not self.log:
            return min(max(value / self.high, 0.0), 1.0)
        if value <= self.low:
            return 0.0
        return min(math.log10(value / self.low) / math.log10(self.high / self.low), 1.0)

    def ticks(self) -> list[float]:
        if not self.log:
            step = _step(self.high)
            return [step * nth for nth in range(round(self.high / step) + 1)]
        decades = round(math.log10(self.high / self.low))
        stride = math.ceil(decades / DECADES_MAX)
        return [self.low * 10.0**nth for nth in range(0, decades + 1, stride)]


class Between(Scale):
    """An axis that begins with its first value and ends with its last: for what is varied."""

    def __init__(self, values: Sequence[float], log: bool) -> None:
        self.log = log and min(values) > 0
        self.low, self.high = min(values), max(values)
        self._values = values

    def at(self, value: float) -> float:
        if self.low == self.high:
            return 0.5
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Those of the values that leave room for each other's labels."""
        kept: list[float] = []
        for value in sorted(set(self._values)):
            if not kept or self.at(value) - self.at(kept[-1]) > 0.095:
                kept.append(value)
        return kept


def _step(most: float) -> float:
    """1, 2 or 5 times a power of ten, so that three to five of them reach the most."""
    rough = most / 4
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(power * nice for nice in (1, 2, 5, 10) if power * nice >= rough * 0.999)


def short(value: float) -> str:
    """A number in five letters or so: 0, 0.25, 950, 12.5k, 3M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit * 0.9995:
            return f"{_three(value / limit)}{unit}"
    return _three(value)


def whole(value: float) -> str:
    """A number in full, without the .0 of a whole one."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,}"


def brief(value: float) -> str:
    """A number in full as long as it fits its lane."""
    return f"{value:,.0f}" if value < 999_999.5 else short(value)


def _three(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    text = f"{value:.3g}"
    return text if "e" not in text else f"{value:.1g}"


def _text(kind: str, x: float | str, y: float, text: str, anchor: str = "start") -> str:
    at = f'x="{x}" y="{y:g}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {at}>{escape(text)}</text>'


def _rule(kind: str, x: tuple[float | str, float | str], y: tuple[float, float]) -> str:
    ends = f'x1="{x[0]}" x2="{x[1]}" y1="{y[0]:g}" y2="{y[1]:g}"'
    return f'<line class="{kind}" {ends}></line>'


PLOT_LEFT, PLOT_RIGHT, TEXT_LEFT = 8.0, 58.0, 59.5
LABEL_PX, BAR_PX, BAR_GAP_PX, ROW_GAP_PX, AXIS_PX = 18, 11, 3, 9, 20


def scale_of(rows: Sequence[Row]) -> Scale:
    values = [bar.value for row in rows for bar in row.bars]
    return Scale([*values, *(row.mark for row in rows if row.mark is not None)])


def bars(ident: str, title: str, description: str, rows: Sequence[Row]) -> str:
    """Rows of bars, in the order given. Tags, labels, bars and values each have their own lane."""
    scale = scale_of(rows)
    heights = [LABEL_PX + len(row.bars) * (BAR_PX + BAR_GAP_PX) + ROW_GAP_PX for row in rows]
    height = AXIS_PX + sum(heights) + AXIS_PX
    tops = itertools.accumulate(heights, initial=AXIS_PX)
    return "\n".join(
        [
            f'<svg class="bars" width="100%" height="{height}" {_named(ident)}>',
            _names(ident, title, description),
            f"<defs>{''.join(_hatch(ident, nth) for nth in range(2))}</defs>",
            *_grid(scale, height),
            *(
                line
                for row, top in zip(rows, tops, strict=False)
                for line in _row(ident, scale, row, top)
            ),
            "</svg>",
        ]
    )


def _named(ident: str) -> str:
    return f'role="img" aria-labelledby="{ident}-t {ident}-d"'


def _names(ident: str, title: str, description: str) -> str:
    return (
        f'<title id="{ident}-t">{escape(title)}</title>'
        f'<desc id="{ident}-d">{escape(description)}</desc>'
    )


def _hatch(ident: str, nth: int) -> str:
    return (
        f'<pattern id="{ident}-h{nth}" class="bar{nth}" width="5" height="5" '
        'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="2.5" height="5"></rect></pattern>'
    )


def _x(scale: Scale, value: float) -> float:
    return PLOT_LEFT + (PLOT_RIGHT - PLOT_LEFT) * scale.at(value)


def _grid(scale: Scale, height: int) -> Iterator[str]:
    for tick in scale.ticks():
        x = f"{_x(scale, tick):.2f}%"
        yield _rule("grid", (x, x), (AXIS_PX - 4, height - AXIS_PX))
        for y in (AXIS_PX - 8, height - 6):
            yield _text("tick", x, y, short(tick), "middle")


def _row(ident: str, scale: Scale, row: Row, top: int) -> Iterator[str]:
    label = row.label
    if len(label) > LABEL_CHARS_MAX:
        label = label[: LABEL_CHARS_MAX - 1] + "…"
    yield f'<g class="row{" strong" if row.strong else ""}"><title>{escape(row.label)}</title>'
    yield _text("label", 0, top + 13, label)
    yield _text("aside", "100%", top + 13, row.aside, "end")
    y = top + LABEL_PX
    for nth, bar in enumerate(row.bars):
        # The last of a row is the darkest: a single one is not to look like half of a pair.
        shade = int(nth == len(row.bars) - 1)
        yield _text("tag", 0, y + BAR_PX - 2, bar.tag)
        yield _bar(ident, scale, bar, y, shade, row.hatched)
        alarm = f' <tspan class="alarm">{escape(bar.alarm)}</tspan>' if bar.alarm else ""
        at = f'x="{TEXT_LEFT}%" y="{y + BAR_PX - 2}"'
        yield f'<text class="value" {at}>{escape(bar.text)}{alarm}</text>'
        y += BAR_PX + BAR_GAP_PX
    if row.mark is not None:
        x = f"{_x(scale, row.mark):.2f}%"
        yield _rule("mark", (x, x), (top + LABEL_PX - 3, y))
    yield "</g>"


def _bar(ident: str, scale: Scale, bar: Bar, y: int, shade: int, hatched: bool) -> str:
    width = _x(scale, bar.value) - PLOT_LEFT
    look = f'class="bar{shade} full"'
    if hatched:
        # As a style, for the sheet's colours outrank an attribute.
        look = f'class="bar{shade}" style="fill:url(#{ident}-h{shade})"'
    at = f'x="{PLOT_LEFT}%" y="{y}" width="{width:.2f}%" height="{BAR_PX}"'
    return f"<rect {look} {at}></rect>"


WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 26, 46
INSET = 12
"""Between the edges of the plot and the first and last point."""


class Axis(NamedTuple):
    label: str
    log: bool = False


def line(
    ident: str,
    title: str,
    description: str,
    points: Sequence[tuple[float, float]],
    x_axis: Axis,
    knee: float | None,
) -> str:
    """A line through the points. The knee's label has the lane above the plot to itself."""
    across = Between([x for x, _ in points], x_axis.log)
    up = Scale([y for _, y in points])
    places = [(_across(across, x), _up(up, y)) for x, y in points]
    trace = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return "\n".join(
        [
            f'<svg class="line" viewBox="0 0 {WIDTH} {HEIGHT}" {_named(ident)}>',
            _names(ident, title, description),
            *_line_grid(across, up, x_axis.label),
            *(_knee(across, knee) if knee is not None else ()),
            f'<polyline class="trace" points="{trace}"></polyline>',
            *(
                f'<circle class="dot{" knee" if point[0] == knee else ""}" cx="{x:.1f}" '
                f'cy="{y:.1f}" r="{5.5 if point[0] == knee else 3.5}">'
                f"<title>{whole(point[0])}: {whole(point[1])}</title></circle>"
                for point, (x, y) in zip(points, places, strict=True)
            ),
            "</svg>",
        ]
    )


def _across(scale: Scale, x: float) -> float:
    return LEFT + INSET + (WIDTH - LEFT - RIGHT - 2 * INSET) * scale.at(x)


def _up(scale: Scale, y: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * scale.at(y)


def _line_grid(across: Scale, up: Scale, x_label: str) -> Iterator[str]:
    left, right, bottom = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM
    for tick in up.ticks():
        y = round(_up(up, tick), 1)
        yield _rule("grid", (left, right), (y, y))
        yield _text("tick", left - 6, y + 4, short(tick), "end")
    for tick in across.ticks():
        x = round(_across(across, tick), 1)
        yield _rule("grid", (x, x), (bottom, bottom + 4))
        yield _text("tick", x, bottom + 19, short(tick), "middle")
    yield _text("axis", (left + right) / 2, HEIGHT - 7, x_label, "middle")


def _knee(across: Scale, knee: float) -> Iterator[str]:
    x = round(_across(across, knee), 1)
    # Near an edge the label stands on the side where there is room.
    anchor = "start" if x < 110 else "end" if x > WIDTH - 110 else "middle"
    yield _rule("knee", (x, x), (TOP - 6, HEIGHT - BOTTOM))
    yield _text("knee", x, TOP - 10, f"knee: {whole(knee)}", anchor)
