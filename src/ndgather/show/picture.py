"""The picture of one call: draws itself in a notebook and in a terminal, and saves itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ndgather.errors import option_errors
from ndgather.show import svg, text
from ndgather.show.resolve import attempted, refused
from ndgather.show.stage import staged
from ndgather.show.theme import THEMES

if TYPE_CHECKING:
    import os

    from ndgather.array_call import Call
    from ndgather.errors import NdgatherError
    from ndgather.show.scene import Scene

ENDINGS = (".svg", ".png")


class Picture:
    """A picture of one call, which shows where each element comes from.

    In a notebook it draws itself; ``print`` writes it as text. The functions of `ndgather.show` and
    `Operator.show` make one.

    Attributes
    ----------
    error : NdgatherError or None
        What the call raises; it is drawn all the same.

    Examples
    --------
    >>> import ndgather.show
    >>> picture = ndgather.show.gather_nd([10, 11, 12], [[2], [0]])
    >>> print(picture.to_text(width=80))
    gather_nd(data, indices)
    <BLANKLINE>
    data  int64 (3,)    indices  int64 (2, 1)    result  int64 (2,)
       0   1     2           axis 0                 0     1
    10 b  11  12 a      [0]     2 a              12 a  10 b
                        [1]     0 b
    >>> picture.to_svg()[:4]
    '<svg'
    """

    def __init__(self, scene: Scene, error: NdgatherError | None) -> None:
        self._scene = scene
        self.error = error

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_text(self, width: int | None = None) -> str:
        """Return the picture as lines of text of a width, that of the terminal by default."""
        return text.render(self._scene, width or shutil.get_terminal_size().columns)

    def to_html(self, style: bool = True) -> str:
        """Return the picture as an element of a page, whose parts wrap where it is narrow.

        Parameters
        ----------
        style : bool, default True
            Whether it has its style sheet with it. A page of many pictures may have that of
            `ndgather.show.style_sheet` once instead.
        """
        return svg.render_html(self._scene, style)

    def to_svg(self, theme: str | None = None) -> str:
        """Return the picture as the text of an SVG file.

        Parameters
        ----------
        theme : {"light", "dark"}, optional
            By default the picture follows the page that it stands on, or else the system.
        """
        return svg.render(self._scene, _checked_theme("to_svg", theme))

    def save(self, path: str | os.PathLike[str], theme: str | None = None) -> None:
        """Save the picture as an SVG or a PNG file, by the ending of its name.

        Parameters
        ----------
        path : path
            ``NAME.svg`` or ``NAME.png``; for PNG, install ``ndgather[viz]``.
        theme : {"light", "dark"}, optional
            See `to_svg`; a PNG file is light by default.

        Raises
        ------
        AttributeValueError
            The name has another ending, or the theme is unknown.
        ExtraMissingError
            matplotlib, which makes PNG files, is not installed.
        OSError
            The file cannot be written.
        """
        _checked_theme("save", theme)
        ending = Path(path).suffix.lower()
        if ending == ".svg":
            Path(path).write_text(self.to_svg(theme), encoding="utf-8")
        elif ending == ".png":
            from ndgather.show import png  # noqa: PLC0415 - an extra

            png.save(self._scene, Path(path), theme or "light")
        else:
            raise option_errors.unknown_choice("save", "path", str(path), ENDINGS)


def _checked_theme(caller: str, theme: str | None) -> str | None:
    if theme is not None and theme not in THEMES:
        raise option_errors.unknown_choice(caller, "theme", theme, tuple(THEMES))
    return theme


def picture(call: Call, shape: tuple[int, ...] | None = None) -> Picture:
    """Return the picture of a call; its caller may give a result another shape."""
    attempt = attempted(call)
    return Picture(staged(attempt, shape), attempt.error)


def picture_of_refused(call: Call, error: NdgatherError) -> Picture:
    """Return the picture of a call that its caller refuses: its arrays, and the error."""
    return Picture(staged(refused(call, error)), error)
