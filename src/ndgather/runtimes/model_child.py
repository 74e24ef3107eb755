"""One runtime in a process of its own, with one model: requests in, answers out, pickled.

The first request is the source and the options of the model, every other one names and inputs. An
answer is ``("version", text)``, ``("values", list)`` or ``("refused", text)``. What the runtime
prints goes to standard error.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from typing import Any

from ndgather.runtimes.known_runtimes import model_runtime


def main(name: str) -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")

    def say(kind: str, what: Any) -> None:
        pickle.dump((kind, what), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()

    source, options = pickle.load(sys.stdin.buffer)
    try:
        adapter = model_runtime(name).load()
        session = adapter.session(source, options)
    except Exception as error:  # whatever the runtime finds that it cannot load
        say("refused", _text(error))
        return
    version = getattr(adapter, "version", lambda: "")
    say("version", version())
    while True:
        try:
            names, inputs = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        try:
            say("values", session.run(names, inputs))
        except Exception as error:  # the runtime's own refusal
            say("refused", _text(error))
    # A runtime that has been driven into undefined behaviour may crash while it ends.
    answers.flush()
    os._exit(0)


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(sys.argv[1])
