"""The mark by which xarray's tests say for which parameters they do not hold.

Its repository has this in a file that its package leaves out.
"""

import pytest

# Only where it is named, as `make test-xarray` does: its marks are of the settings of xarray.
collect_ignore = ["engine_tests.py"]


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "skip_if_param(reason, condition, **values): for these parameters"
    )


def pytest_runtest_setup(item):
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    for mark in item.iter_markers("skip_if_param"):
        values = dict(mark.kwargs)
        reason, condition = values.pop("reason"), values.pop("condition", True)
        if condition and all(parameters.get(name) == value for name, value in values.items()):
            pytest.skip(reason)
