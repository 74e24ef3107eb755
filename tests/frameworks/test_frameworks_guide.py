"""The pages of the guide about other libraries: every example runs."""

import pytest
from tests.docs.test_guide import FRAMEWORKS, run_examples


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of torch
@pytest.mark.parametrize("page", FRAMEWORKS, ids=lambda page: page.stem)
def test_every_example_of_the_page_runs(page):
    run_examples(page)
