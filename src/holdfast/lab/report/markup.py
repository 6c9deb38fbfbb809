"""Tables and numbers as HTML."""

from collections.abc import Iterable, Sequence
from html import escape

from holdfast.lab.report.charts import Row, bars, scale_of


def table(
    label: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    words: int = 1,
    own: str | None = None,
) -> str:
    """Cells are HTML already. The first so many columns are words, the others numbers; rows whose
    first cell is `own` are set off."""
    # Not a <caption>: that would be as wide as the table, and half of it scrolled out of sight.
    lines = [f'<p class="muted">{caption}</p>'] if caption else []
    lines += [
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}"><table>'
    ]
    kinds = ["words" if nth < words else "number" for nth in range(len(head))]
    heads = zip(kinds, head, strict=True)
    cells = "".join(f'<th scope="col" class="{kind}">{text}</th>' for kind, text in heads)
    lines.append(f"<thead><tr>{cells}</tr></thead><tbody>")
    for first, *others in rows:
        data = zip(kinds[1:], others, strict=True)
        cells = "".join(f'<td class="{kind}">{text}</td>' for kind, text in data)
        mine = ' class="own"' if first == own else ""
        lines.append(f'<tr{mine}><th scope="row">{first}</th>{cells}</tr>')
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


def figure(
    ident: str, title: str, caption: str, rows: Sequence[Row], legend: str = "", said: str = ""
) -> str:
    """Bars, with what they show above them; the title and what is `said` are for those who do not
    see them. None of the texts is HTML but the legend."""
    description = f"{said} The table that follows has the same numbers.".strip()
    axis = " The axis is logarithmic." if scale_of(rows).log else ""
    return (
        f"<figure><figcaption>{escape(caption)}{axis}</figcaption>{legend}"
        f'<div class="scroll">{bars(ident, title, description, rows)}</div></figure>'
    )


def ms(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"


def rate(value: float) -> str:
    if 0 < value < 1:
        return f"{value:.2g}"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def times(ratio: float) -> str:
    return f"{ratio:,.0f} &times;" if ratio >= 10 else f"{ratio:.2g} &times;"
