"""Charts as Vega-Lite specifications, and as files (PNG, SVG) drawn without a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

# Okabe and Ito's palette, safe for colour-blind readers and dark enough on white.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#1B1F24", "#56B4E9", "#7F3C8D",
    "#B0413E", "#5A7D2B",
)  # fmt: skip
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
INK = "#1b1f24"
#: The format of ticks: 1,500 and 0.05, not 1.5e+3 and 50m.
PLAIN = ",.9~r"


def line_chart(
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str,
    x: str,
    y: str,
    order: Sequence[str],
    log_x: bool = False,
    log_y: bool = False,
) -> dict[str, Any]:
    """Return a line per series with its 95% interval; rows have x, mean, low, high, series."""
    data = alt.InlineData(values=_drawn(rows, log=log_y))
    scale_x = alt.Scale(type="log", nice=False) if log_x else alt.Scale(zero=False, nice=True)
    scale_y = alt.Scale(type="log", nice=False) if log_y else alt.Scale(zero=True)
    present = [name for name in order if any(row["series"] == name for row in rows)]
    ticks = sorted({row["x"] for row in rows})
    axis_x = alt.Axis(values=ticks, labelOverlap=True, labelFlush=False, format=PLAIN, grid=False)
    place = alt.X("x:Q", title=x, scale=scale_x, axis=axis_x)
    series: dict[str, Any] = {"title": None, "sort": list(order), "legend": _legend(present)}
    colour = alt.Color("series:N", scale=_scale(order, COLOURS), **series)
    shape = alt.Shape("series:N", scale=_scale(order, SHAPES), **series)
    tips = [
        alt.Tooltip("series:N", title="series"),
        alt.Tooltip("x:Q", title=x, format=PLAIN),
        alt.Tooltip("mean:Q", title=y, format=",.4~r"),
        alt.Tooltip("low:Q", title="95% from", format=",.4~r"),
        alt.Tooltip("high:Q", title="to", format=",.4~r"),
    ]
    axis_y = alt.Axis(format=PLAIN, tickCount=6)
    value = alt.Y("mean:Q", title=y, scale=scale_y, axis=axis_y)
    base = alt.Chart(data)
    band = base.mark_rule(strokeWidth=2, opacity=0.55).encode(
        x=place, y=alt.Y("floor:Q", title=y, scale=scale_y, axis=axis_y), y2="high:Q", color=colour
    )
    line = base.mark_line(strokeWidth=2).encode(x=place, y=value, color=colour)
    point = base.mark_point(filled=True, size=55, opacity=1).encode(
        x=place, y=value, color=colour, shape=shape, tooltip=tips
    )
    return _finish((line, band, point), title, height=280)


def bar_chart(
    rows: Sequence[Mapping[str, Any]], *, title: str, y: str, order: Sequence[str]
) -> dict[str, Any]:
    """Return a horizontal bar per series with its 95% interval."""
    edged = [row | {"edge": max(row["mean"], row["high"] or row["mean"])} for row in _drawn(rows)]
    data = alt.InlineData(values=edged)
    present = [name for name in order if any(row["series"] == name for row in rows)]
    place = alt.Y("series:N", title=None, sort=present, axis=alt.Axis(labelLimit=150))
    axis = alt.Axis(format=PLAIN, tickCount=5)
    tips = [alt.Tooltip("series:N", title="series"), alt.Tooltip("mean:Q", title=y, format=",.4~r")]
    base = alt.Chart(data)
    bar = base.mark_bar(color=COLOURS[0], height={"band": 0.65}).encode(
        x=alt.X("mean:Q", title=y, scale=alt.Scale(zero=True), axis=axis), y=place, tooltip=tips
    )
    rule = base.mark_rule(color=INK, strokeWidth=1.5).encode(x="floor:Q", x2="high:Q", y=place)
    text = base.mark_text(align="left", dx=4, fontSize=12, color=INK).encode(
        x="edge:Q", y=place, text=alt.Text("mean:Q", format=",.3~r")
    )
    return _finish((bar, rule, text), title, height=60 + 22 * len(present))


def _drawn(rows: Sequence[Mapping[str, Any]], *, log: bool = False) -> list[dict[str, Any]]:
    """Add ``floor``, where the line of an interval begins: ``low``, but not below the chart.

    The interval of a positive metric may reach below zero, which these scales do not show. Only
    the drawing is cut off; ``low`` stays as computed.
    """
    positive = [row[end] for row in rows for end in ("mean", "low") if (row[end] or 0) > 0]
    edge = min(positive, default=0.0) if log else 0.0
    return [
        dict(row)
        | {"floor": row["low"] if row["low"] is None or row["mean"] < 0 else max(edge, row["low"])}
        for row in rows
    ]


def _scale(order: Sequence[str], among: Sequence[str]) -> alt.Scale:
    return alt.Scale(domain=list(order), range=[among[i % len(among)] for i in range(len(order))])


def _legend(order: Sequence[str]) -> alt.Legend:
    widest = max((len(name) for name in order), default=1)
    return alt.Legend(
        orient="bottom",
        values=list(order),
        columns=2 if widest > 14 else 3,
        labelLimit=220,
        symbolSize=70,
        symbolOpacity=1,
    )


def _finish(layers: Sequence[alt.Chart], title: str, *, height: int) -> dict[str, Any]:
    finished = (
        alt.LayerChart(layer=list(layers))
        .properties(
            title=alt.TitleParams(
                title, anchor="start", fontSize=13, fontWeight="normal", color=INK
            ),
            width="container",
            height=height,
            autosize=alt.AutoSizeParams(type="fit", contains="padding"),
            background="#ffffff",
        )
        .configure_axis(
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            labelColor=INK,
            titleColor=INK,
            gridColor="#e6eaee",
            domainColor="#8b949e",
            tickColor="#8b949e",
        )
        .configure_legend(labelFontSize=12, labelColor=INK)
        .configure_view(stroke=None)
    )
    spec: dict[str, Any] = finished.to_dict()
    return spec


def draw(specs: Sequence[Mapping[str, Any]], *, width: int = 420) -> tuple[str, bytes]:
    """Return charts side by side as SVG text and PNG bytes, for papers and slides."""
    import vl_convert

    parts = [
        {
            key: value
            for key, value in spec.items()
            if key not in ("config", "$schema", "autosize", "background", "datasets")
        }
        | {"width": width}
        for spec in specs
    ]
    whole: dict[str, Any] = {
        "$schema": specs[0]["$schema"],
        "config": specs[0].get("config", {}),
        "background": "#ffffff",
        "datasets": {  # Vega-Lite looks for named data only at the top
            name: data for spec in specs for name, data in spec.get("datasets", {}).items()
        },
        "hconcat": parts,
        "spacing": 30,
        "padding": 10,
    }
    svg: str = vl_convert.vegalite_to_svg(whole)
    return svg, vl_convert.svg_to_png(svg, scale=1.5)
