"""A scene as a PNG file, painted by matplotlib: the same drawing as the SVG file."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ndgather.errors import run_errors
from ndgather.show import theme
from ndgather.show.layout import composed
from ndgather.show.scene import Group, Label, Line, Rect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ndgather.show.scene import Drawing, Scene, Shape

_DOTS = 192  # an inch: two for each pixel of CSS
_INCH = 96.0  # pixels of CSS
_POINT = 0.75  # of a pixel of CSS
_MONOSPACE = ["DejaVu Sans Mono", "DejaVu Sans"]  # which come with matplotlib


def save(scene: Scene, path: Path, theme_name: str) -> None:
    """Paint a scene in one theme.

    Raises
    ------
    ExtraMissingError
        matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise run_errors.extra_missing("matplotlib", "viz") from None
    drawing = composed(scene)
    figure = Figure(figsize=(drawing.width / _INCH, drawing.height / _INCH), dpi=_DOTS)
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
    axes.axis("off")
    colours = theme.THEMES[theme_name]
    figure.set_facecolor(colours["page"])
    for order, (shape, entry) in enumerate(_shapes(drawing)):
        _paint(axes, shape, entry, colours, order)
    with warnings.catch_warnings():  # of letters that these fonts do not have
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(path, format="png", dpi=_DOTS, metadata={"Software": None})


def _shapes(drawing: Drawing) -> Iterator[tuple[Shape, int]]:
    """Yield the shapes with the number of the colour of their entry."""
    for item in drawing.items:
        if isinstance(item, Group):
            colour = item.entry % len(theme.ENTRY_COLOURS)
            yield from ((shape, colour) for shape in item.shapes)
        else:
            yield item, 0


def _paint(axes: Any, shape: Shape, entry: int, colours: Mapping[str, str], order: int) -> None:
    match shape:
        case Rect():
            _paint_rect(axes, shape, entry, colours, order)
        case Line():
            paint = theme.SHAPES[shape.style]
            axes.plot(
                (shape.x, shape.to_x),
                (shape.y, shape.to_y),
                color=colours[paint.stroke or "ink"],
                alpha=paint.stroke_opacity,
                linewidth=paint.width * _POINT,
                zorder=order,
            )
        case Label():
            _paint_label(axes, shape, entry, colours, order)


def _paint_rect(axes: Any, rect: Rect, entry: int, colours: Mapping[str, str], order: int) -> None:
    from matplotlib.colors import to_rgba  # noqa: PLC0415 - as above
    from matplotlib.patches import FancyBboxPatch  # noqa: PLC0415 - as above

    own = theme.ENTRY_COLOURS[entry]
    paint = {**theme.SHAPES, "box": theme.BOX, "chip": theme.CHIP}[rect.style]
    if rect.style in ("box", "chip"):
        fill: str | None = own
        stroke = own if rect.style == "box" else None
    else:
        fill = None if paint.fill is None else colours[paint.fill]
        stroke = None if paint.stroke is None else colours[paint.stroke]
    opacity = rect.weight if rect.weight != 1 else paint.fill_opacity
    axes.add_patch(
        FancyBboxPatch(
            (rect.x, rect.y),
            rect.width,
            rect.height,
            boxstyle=f"round,pad=0,rounding_size={paint.radius}",
            facecolor="none" if fill is None else to_rgba(fill, opacity),
            edgecolor="none" if stroke is None else stroke,
            linewidth=paint.width * _POINT if stroke else 0,
            linestyle=(0, tuple(each / paint.width for each in paint.dashes) or None),
            zorder=order,
        )
    )


def _paint_label(
    axes: Any, label: Label, entry: int, colours: Mapping[str, str], order: int
) -> None:
    text = theme.LETTER if label.style == "letter" else theme.TEXTS[label.style]
    colour = theme.ON_ENTRY[entry] if label.style == "letter" else colours[text.colour]
    axes.text(
        label.x,
        label.y,
        label.text,
        fontsize=text.size * _POINT,
        fontweight="bold" if text.bold else "normal",
        family=_MONOSPACE if text.family == theme.MONOSPACE else _MONOSPACE[1:],
        color=colour,
        ha={"start": "left", "middle": "center", "end": "right"}[label.anchor],
        va="baseline",
        zorder=order,
        parse_math=False,
    )
