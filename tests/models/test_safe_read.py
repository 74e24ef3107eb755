"""Files are read whole, in no more memory than they are long."""

import tracemalloc

import pytest

from ndgather.errors import FileError
from ndgather.models.tensors.tensor_files import content

GIB = 2**30


def test_a_short_file_takes_little_memory_whatever_is_allowed(tmp_path):
    path = tmp_path / "short"
    path.write_bytes(b"content")
    tracemalloc.start()
    try:
        assert content(path, 2 * GIB) == b"content"
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("most", [6, 7, 8])
def test_the_limit_is_the_last_size_that_is_read(tmp_path, most):
    path = tmp_path / "short"
    path.write_bytes(b"content")
    if most >= 7:
        assert content(path, most) == b"content"
    else:
        with pytest.raises(FileError, match="at most 6 bytes"):
            content(path, most)
