#!/usr/bin/env -S uv run --script

# /// script
# dependencies = ["nox>=2025.10.14"]
# ///
"""Sessions of nox, each a target of the Makefile: `nox`, or `nox -s docs`.

The targets make and keep an environment of their own, .venv.
"""

import nox

nox.needs_version = ">=2025.10.14"
nox.options.default_venv_backend = "none"


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and the import contracts."""
    session.run("make", "lint", external=True)


@nox.session
def tests(session: nox.Session) -> None:
    """Build the core and run the test suite; arguments go to pytest."""
    session.run("make", "test", f"PYTEST_FLAGS={' '.join(session.posargs)}", external=True)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the site, where a warning is an error."""
    session.run("make", "docs", external=True)


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build a wheel into dist/."""
    session.run("make", "wheel", external=True)


if __name__ == "__main__":
    nox.main()
