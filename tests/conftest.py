"""Settings shared by all tests. Fixtures live next to the tests that use them."""

from hypothesis import settings

# Machines differ in speed, so no deadline per example: the timeout per test is the limit.
settings.register_profile("rillflow", deadline=None, print_blob=True)
settings.load_profile("rillflow")
