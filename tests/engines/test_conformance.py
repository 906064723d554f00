"""Every engine keeps every contract: one suite, run on each of them."""

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


@pytest.fixture(scope="module")
def ray_engine():
    """A function that makes ray engines, on one small Ray for the whole file."""
    ray = pytest.importorskip("ray")
    from rillflow.engines.ray import RayEngine

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=200 * 2**20)
    yield RayEngine
    ray.shutdown()


@every_check
@pytest.mark.ray
def test_ray(check, ray_engine):
    """On Ray actors and object references."""
    check(ray_engine)
