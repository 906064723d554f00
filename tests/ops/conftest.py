"""Lists in, lists out: most tests on `sim`, the essential ones on `local` as well."""

import pytest


@pytest.fixture(params=["sim", pytest.param("local", marks=pytest.mark.proc)])
def engine(request) -> str:
    return request.param
