"""The page of the guide about other libraries: every example runs."""

import pytest
from tests.docs.test_guide import FRAMEWORKS, run_examples


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch
def test_every_example_of_the_page_runs():
    run_examples(FRAMEWORKS)
