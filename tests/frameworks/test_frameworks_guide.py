"""The page of the guide about other libraries: every example runs."""

from tests.docs.test_guide import FRAMEWORKS, run_examples


def test_every_example_of_the_page_runs():
    run_examples(FRAMEWORKS)
