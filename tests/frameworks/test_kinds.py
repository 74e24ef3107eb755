"""The table of docs/kinds.md says what calls give back."""

from tests.frameworks import kinds_table


def test_the_table_is_what_calls_give_back():
    expected = kinds_table.table()
    assert kinds_table.written() == expected  # python -m tests.frameworks.kinds_table writes it
    assert not [line for line in expected if "lost" in line]
