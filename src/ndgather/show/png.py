"""Paint a scene as a PNG file with matplotlib: the same drawing as the SVG file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from ndgather import messages
from ndgather.show import layout
from ndgather.show.layout import Group, Label, Line, Shape, picture_drawing
from ndgather.show.scene import Scene

_DOTS = 192  # an inch: two for every pixel of CSS
_INCH, _POINT = 96.0, 0.75  # in pixels of CSS, and of a pixel of CSS
_MONOSPACE = ["DejaVu Sans Mono", "DejaVu Sans"]  # which come with matplotlib
_ALIGNMENT = {"start": "left", "middle": "center", "end": "right"}


def save(scene: Scene, path: Path, theme_name: str) -> None:
    """Paint a scene in one theme; raises ExtraMissingError without matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise messages.extra_missing("matplotlib", "viz") from None
    drawing = picture_drawing(scene)
    figure = Figure(figsize=(drawing.width / _INCH, drawing.height / _INCH), dpi=_DOTS)
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, drawing.width), ylim=(drawing.height, 0))
    axes.axis("off")
    colours = layout.THEMES[theme_name]
    figure.set_facecolor(colours["page"])
    shapes: list[tuple[Shape, int]] = []
    for item in drawing.items:
        group = item if isinstance(item, Group) else Group(0, "", (item,))
        shapes += ((shape, group.entry % len(layout.ENTRY_COLOURS)) for shape in group.shapes)
    for order, (shape, entry) in enumerate(shapes):
        entry_colours = layout.ON_ENTRY if isinstance(shape, Label) else layout.ENTRY_COLOURS
        _paint(axes, shape, {**colours, layout.ENTRY: entry_colours[entry]}, order)
    with warnings.catch_warnings():  # about letters that these fonts do not have
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(path, format="png", dpi=_DOTS, metadata={"Software": None})


def _paint(axes: Any, shape: Shape, colours: dict[str, str], order: int) -> None:
    from matplotlib.colors import to_rgba  # noqa: PLC0415 - as above
    from matplotlib.patches import FancyBboxPatch  # noqa: PLC0415 - as above

    if isinstance(shape, Label):
        text = layout.TEXTS[shape.style]
        axes.text(
            shape.x,
            shape.y,
            shape.text,
            fontsize=text.size * _POINT,
            fontweight="bold" if text.bold else "normal",
            family=_MONOSPACE if text.family == layout.MONOSPACE else _MONOSPACE[1:],
            color=colours[text.colour],
            ha=_ALIGNMENT[shape.anchor],
            va="baseline",
            zorder=order,
            parse_math=False,
        )
        return
    paint = layout.SHAPES[shape.style]
    if isinstance(shape, Line):
        axes.plot(
            (shape.x, shape.x + shape.dx),
            (shape.y, shape.y + shape.dy),
            color=colours[paint.stroke or "ink"],
            alpha=paint.stroke_opacity,
            linewidth=paint.width * _POINT,
            zorder=order,
        )
        return
    axes.add_patch(
        FancyBboxPatch(
            (shape.x, shape.y),
            shape.width,
            shape.height,
            boxstyle=f"round,pad=0,rounding_size={paint.radius}",
            facecolor=to_rgba(colours[paint.fill], paint.fill_opacity) if paint.fill else "none",
            edgecolor=colours[paint.stroke] if paint.stroke else "none",
            linewidth=paint.width * _POINT if paint.stroke else 0,
            linestyle=(0, tuple(dash / paint.width for dash in paint.dashes) or None),
            zorder=order,
        )
    )
