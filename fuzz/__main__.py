"""``python -m fuzz onnx|ir [FLAGS OF LIBFUZZER] FOLDERS``: fuzz a reader of models."""

import sys

import atheris

from fuzz.verdict import limit_memory

with atheris.instrument_imports(include=["ndgather"]):
    from fuzz import ir_models, onnx_models

READERS = {"onnx": onnx_models, "ir": ir_models}


def main() -> None:
    """Fuzz until the time is up or a promise is broken; the exit status tells which."""
    reader = READERS[sys.argv[1]]

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        return reader.mutate(data, most, seed, atheris.Mutate)

    limit_memory()
    atheris.Setup([sys.argv[0], *sys.argv[2:]], reader.one_input, custom_mutator=mutate)
    atheris.Fuzz()


main()
