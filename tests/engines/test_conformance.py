"""Every engine keeps the contracts of `docs/contracts.md`: one suite, run on each of them."""

import pytest

from rillflow.engines.local import Local
from rillflow.engines.sim import Sim
from rillflow.testing.conformance import CHECKS

every_check = pytest.mark.parametrize(
    "check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_")
)


@every_check
def test_sim(check):
    """On the simulator, with everything immediate."""
    check(Sim)


@every_check
@pytest.mark.parametrize("transport", [0.0, 0.3])
def test_sim_with_latency(check, transport):
    """On the simulator, with work and travel that take random times."""
    check(lambda: Sim(latency=lambda rng: rng.random(), transport=transport))


@every_check
@pytest.mark.proc
def test_local(check):
    """On processes and shared memory."""
    check(Local)


@every_check
@pytest.mark.ray
@pytest.mark.usefixtures("users_ray")
def test_ray(check):
    """On Ray actors and object references."""
    from rillflow.engines.ray import RayEngine

    check(RayEngine)
