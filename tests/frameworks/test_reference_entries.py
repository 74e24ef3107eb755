"""The reference has an entry for every public name of the torch and JAX adapters."""

import pytest

from tests.docs.reference_names import documented, public, without_entry

ADAPTERS = pytest.mark.parametrize(
    "module", [f"ndgather.arrays.{name}" for name in ("torch", "torch.checked", "jax")]
)


@ADAPTERS
def test_every_public_name_has_an_entry(module):
    assert without_entry([module]) == []


@ADAPTERS
def test_every_entry_is_a_public_name(module):
    entries = [name.rpartition(".") for name in documented()]
    assert {name for home, _, name in entries if home == module} == public(module)
