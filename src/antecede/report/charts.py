"""Charts as Vega-Lite specifications, and as files (PNG, SVG) drawn without a browser.

A specification is plain data. It is written out here, because libraries that build and check one
would take most of a page's time. Pages that must be small and quickly written use `bars`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from antecede.report.numbers import figure

# Okabe and Ito's palette, safe for colour-blind readers and dark enough on white.
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#1B1F24", "#56B4E9", "#7F3C8D",
    "#B0413E", "#5A7D2B",
)  # fmt: skip
#: As many as colours, so that no two series have the same; the last ones are paths.
SHAPES = (
    "circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right",
    "triangle-left", "M-1,-1H1L-1,1H1Z", "M-1,-0.4H1V0.4H-1Z",
)  # fmt: skip
INK = "#1b1f24"
#: The colour that replaces each where the reader prefers a dark page.
NIGHT = {
    "#ffffff": "transparent", INK: "#e6edf3", "#e6eaee": "#2a313a", "#8b949e": "#7d8590",
    "#0072b2": "#4fa3e0", "#d55e00": "#ff8a3d", "#009e73": "#2cc79b", "#8a6d00": "#d9b23d",
    "#7f3c8d": "#c389d4", "#b0413e": "#f07f7b", "#5a7d2b": "#9cc466",
}  # fmt: skip
#: The format of ticks: 1,500 and 0.05, not 1.5e+3 and 50m.
PLAIN = ",.9~r"
EXACT = ",.4~r"
#: The labels of an axis of times.
TIMES = (
    "datum.value == 0 ? '0' "
    ": datum.value < 0.001 ? format(datum.value * 1e6, ',.3~r') + ' \u00b5s' "
    ": datum.value < 1 ? format(datum.value * 1000, ',.3~r') + ' ms' "
    ": format(datum.value, ',.3~r') + ' s'"
)
_BARS = """
.bars{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:1rem 2rem}
.bars dl{display:grid;grid-template-columns:fit-content(45%) 1fr;gap:.25rem .6rem;margin:0}
.bars h3{font-size:.95rem;font-weight:normal;margin:.2rem 0 .5rem}
.bars dt{text-align:right;font-size:.85rem;overflow-wrap:anywhere}
.bars dd{margin:0;display:flex;align-items:center;gap:.4rem;font-size:.85rem}
.bars i{display:block;height:1rem;min-width:1px;background:var(--mark,#0072B2);flex:none}
"""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

Spec = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]


def line_chart(
    rows: Rows,
    *,
    title: str,
    x: str,
    y: str,
    order: Sequence[str],
    log_x: bool = False,
    log_y: bool = False,
    bands: Rows = (),
    curves: Rows = (),
) -> Spec:
    """Return a line per series with its 95% interval; rows have x, mean, low, high, series.

    ``bands`` are areas around series (series, x, low, high), ``curves`` dashed lines without
    points (series, x, mean).
    """
    known = {row["series"] for row in (*rows, *curves)}
    present = [name for name in order if name in known]
    scale_x = {"type": "log", "nice": False} if log_x else {"zero": False, "nice": True}
    scale_y = {"type": "log", "nice": False} if log_y else {"zero": True}
    axis_x = {"values": sorted({row["x"] for row in rows}), "labelOverlap": True}
    axis_x |= {"labelFlush": False, "format": PLAIN, "grid": False}
    axis_y = _axis(y, [row["mean"] for row in (*rows, *curves)], log=log_y)
    place = _number("x", title=x, scale=scale_x, axis=axis_x)
    series: Spec = {"field": "series", "type": "nominal", "title": None, "sort": list(order)}
    series["legend"] = _legend(present)
    colour = series | {"scale": _scale(order, COLOURS)}
    shape = series | {"scale": _scale(order, SHAPES)}
    value, floor, low = (
        _number(name, title=y, scale=scale_y, axis=axis_y) for name in ("mean", "floor", "low")
    )
    tips = [
        {"field": "series", "type": "nominal", "title": "series"},
        _number("x", title=x, format=PLAIN),
        _number("mean", title=y, format=EXACT),
        _number("low", title="95% from", format=EXACT),
        _number("high", title="to", format=EXACT),
    ]
    data = _drawn(rows, log=log_y)
    layers = [
        _layer(data, {"type": "line", "strokeWidth": 2}, x=place, y=value, color=colour),
        _layer(
            data, {"type": "rule", "strokeWidth": 2, "opacity": 0.55},
            x=place, y=floor, y2={"field": "high"}, color=colour,
        ),
        _layer(
            data, {"type": "point", "filled": True, "size": 55, "opacity": 1},
            x=place, y=value, color=colour, shape=shape, tooltip=tips,
        ),
    ]  # fmt: skip
    if bands:
        area, high = {"type": "area", "opacity": 0.16}, {"field": "high"}
        layers.insert(0, _layer(bands, area, x=place, y=low, y2=high, color=colour))
    if curves:
        dashed = {"type": "line", "strokeWidth": 2, "strokeDash": [5, 4]}
        layers.append(_layer(curves, dashed, x=place, y=value, color=colour))
    return _finish(layers, title, height=280)


def bar_chart(rows: Rows, *, title: str, y: str, order: Sequence[str]) -> Spec:
    """Return a horizontal bar per series with its 95% interval."""
    data = [row | {"edge": max(row["mean"], row["high"] or row["mean"])} for row in _drawn(rows)]
    present = [name for name in order if any(row["series"] == name for row in rows)]
    place: Spec = {"field": "series", "type": "nominal", "title": None, "sort": present}
    place["axis"] = {"labelLimit": 150}
    length = _number("mean", title=y, scale={"zero": True}, axis=_axis(y) | {"tickCount": 5})
    tips = [
        {"field": "series", "type": "nominal", "title": "series"},
        _number("mean", title=y, format=EXACT),
    ]
    bar = {"type": "bar", "color": COLOURS[0], "height": {"band": 0.65}}
    rule = {"type": "rule", "color": INK, "strokeWidth": 1.5}
    text = {"type": "text", "align": "left", "dx": 4, "fontSize": 12, "color": INK}
    layers = [
        _layer(data, bar, x=length, y=place, tooltip=tips),
        _layer(data, rule, x=_number("floor"), x2={"field": "high"}, y=place),
        _layer(data, text, x=_number("edge"), y=place, text=_number("mean", format=",.3~r")),
    ]
    return _finish(layers, title, height=60 + 22 * len(present))


def _axis(title: str, values: Sequence[float] = (), *, log: bool = False) -> Spec:
    """Return an axis: evenly spaced ticks on a logarithmic scale, times in s, ms and \u00b5s."""
    axis: Spec = {"format": PLAIN, "tickCount": 6}
    if title.startswith("seconds"):
        # The ticks name their units.
        axis |= {"labelExpr": TIMES, "title": title.replace("seconds", "time", 1)}
    positive = [value for value in values if value > 0]
    if log and positive:
        first, last = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        steps = (1, 2, 5) if last - first <= 2 else (1,)
        axis["values"] = [
            float(f"{step}e{power}") for power in range(first, last + 1) for step in steps
        ]
    return axis


def _number(name: str, **more: object) -> Spec:
    return {"field": name, "type": "quantitative", **more}


def _layer(rows: Rows, mark: Spec, **encoding: object) -> Spec:
    return {"data": {"values": [dict(row) for row in rows]}, "mark": mark, "encoding": encoding}


def _drawn(rows: Sequence[Mapping[str, Any]], *, log: bool = False) -> list[dict[str, Any]]:
    """Add ``floor``, the lower end of an interval's line: ``low``, but not below the chart.

    The interval of a positive metric may reach below zero, which these scales do not show. Only the
    drawing is cut off; ``low`` stays as computed.
    """
    positive = [row[end] for row in rows for end in ("mean", "low") if (row[end] or 0) > 0]
    edge = min(positive, default=0.0) if log else 0.0
    return [
        dict(row)
        | {"floor": row["low"] if row["low"] is None or row["mean"] < 0 else max(edge, row["low"])}
        for row in rows
    ]


def _scale(order: Sequence[str], among: Sequence[str]) -> Spec:
    return {"domain": list(order), "range": [among[i % len(among)] for i in range(len(order))]}


def _legend(order: Sequence[str]) -> Spec:
    widest = max((len(name) for name in order), default=1)
    is_wide = widest > 14 or len(order) > 6
    return {
        "orient": "bottom",
        "values": list(order),
        "columns": 1 if widest > 22 else 2 if is_wide else 3,  # a phone has room for one column
        "labelLimit": 220,
        "symbolSize": 70,
        "symbolOpacity": 1,
    }


_CONFIG = {
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": "#e6eaee",
        "domainColor": "#8b949e",
        "tickColor": "#8b949e",
    },
    "legend": {"labelFontSize": 12, "labelColor": INK},
    "view": {"stroke": None},
}


def _finish(layers: Sequence[Spec], title: str, *, height: int) -> Spec:
    """Return the chart with each table stored once, under a name that no other table has."""
    datasets = {}
    for layer in layers:
        rows = layer["data"]["values"]
        text = json.dumps(rows, sort_keys=True).encode()
        name = f"data-{hashlib.sha256(text).hexdigest()[:16]}"
        datasets[name] = rows
        layer["data"] = {"name": name}
    return {
        "$schema": SCHEMA,
        "title": {
            "text": title,
            "anchor": "start",
            "fontSize": 13,
            "fontWeight": "normal",
            "color": INK,
        },
        "width": "container",
        "height": height,
        "autosize": {"type": "fit", "contains": "padding"},
        "background": "#ffffff",
        "config": _CONFIG,
        "datasets": datasets,
        "layer": list(layers),
    }


def draw(specs: Sequence[Mapping[str, Any]], *, width: int = 420) -> tuple[str, bytes]:
    """Return charts side by side as SVG text and PNG bytes, for papers and slides."""
    import vl_convert

    specs = json.loads(json.dumps(list(specs)))
    # Charts side by side share one legend: it names the series of all.
    legends = [
        channel["legend"]
        for spec in specs
        for layer in spec.get("layer", ())
        for channel in layer["encoding"].values()
        if isinstance(channel, dict) and channel.get("legend")
    ]
    every = list(dict.fromkeys(name for legend in legends for name in legend["values"]))
    for legend in legends:
        legend["values"] = every
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


def draw_asked() -> None:
    """Draw the lists of specifications on standard input, and print SVG and PNG."""
    drawn = [draw(specs) for specs in json.load(sys.stdin)]
    json.dump([(svg, base64.b64encode(png).decode()) for svg, png in drawn], sys.stdout)


def bars(charts: Mapping[str, Mapping[str, float]], *, unit: str) -> str:
    """Return one chart of horizontal bars per title, with a number beside each bar."""
    parts = []
    for title, values in charts.items():
        most = max(values.values(), default=0) or 1
        rows = "".join(
            f'<dt>{escape(name)}</dt><dd title="{escape(name)}: {figure(value)} {escape(unit)}">'
            f'<i style="width:{70 * value / most:.1f}%"></i>{figure(value)}</dd>'
            for name, value in values.items()
        )
        parts.append(f"<div><h3>{escape(title)}</h3><dl>{rows}</dl></div>")
    return f'<style>{_BARS}</style><div class="bars">{"".join(parts)}</div>'
