"""Settings of the whole suite: how many examples Hypothesis draws, and from which seed.

``HYPOTHESIS_PROFILE=nightly`` draws many; ``CI=true`` draws the same ones each time.
"""

import os

from hypothesis import HealthCheck, settings

COMMON = {
    "deadline": None,
    "print_blob": True,
    "derandomize": os.environ.get("CI") == "true",
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("dev", **COMMON, max_examples=150)
settings.register_profile("nightly", **COMMON, max_examples=10_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
