"""A policy over HTTP acts as it does here; requests that come together are one pass."""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from gymnasium.spaces import Box

from rillflow.envs.mixed_box import MixedBox
from rillflow.errors import BuildError, RunError
from rillflow.policies.spec import PolicySpec
from rillflow.results.trained import Trained
from rillflow.serving import Served, serve
from rillflow.serving.observations import actions_to_json, described
from rillflow.serving.server import BODY_BYTES, example
from tests.masked import Beside, Gate
from tests.results.policies import untrained
from tests.results.test_structured import Room, masked_room, pair_room

PATIENCE = 60.0


def ask(
    served: Served, body: Any, path: str = "/act", method: str = "POST", **headers: str
) -> tuple[int, Any]:
    """One request; the status, and what JSON it answers."""
    parts = urlsplit(served.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    known = {"Authorization": f"Bearer {served.token}", **headers}
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(method, path, data, {k: v for k, v in known.items() if v})
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "application/json"
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


@pytest.fixture(scope="module")
def pole() -> Trained:
    return untrained("CartPole-v1")


@pytest.fixture(scope="module")
def served(pole: Trained) -> Iterator[Served]:
    with serve(pole) as served:
        yield served


def numbers(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, (count, 4)).astype(np.float32)


def test_it_acts_as_the_policy_does(served: Served, pole: Trained) -> None:
    obs = numbers(40)
    expected = pole.act(obs).tolist()
    assert len(set(expected)) == 2
    assert ask(served, {"observations": obs.tolist()}) == (200, {"actions": expected})
    assert ask(served, {"observation": obs[3].tolist()}) == (200, {"action": expected[3]})
    assert ask(served, {"observations": []}) == (200, {"actions": []})


def test_bytes_stand_for_numbers(served: Served, pole: Trained) -> None:
    obs = numbers(1)[0]
    encoded = {"base64": base64.b64encode(obs.tobytes()).decode(), "dtype": "float32", "shape": [4]}
    assert ask(served, {"observation": encoded})[1] == {"action": int(pole.act(obs))}


def test_it_says_what_it_takes(served: Served) -> None:
    status, about = ask(served, None, "/", "GET")
    assert status == 200
    assert about["observation"] == {"space": "Box", "shape": [4], "dtype": "float32"}
    assert about["action"]["choices"] == 2
    assert about["remembers"] is False
    assert about["limits"]["bytes"] == BODY_BYTES


def test_requests_that_come_together_are_one_pass(pole: Trained) -> None:
    """Sixteen ask at once, and within the window: the network runs once or twice."""
    with serve(pole, window=0.5) as served, ThreadPoolExecutor(16) as pool:
        together = threading.Barrier(16)
        obs = numbers(16)

        def one(place: int) -> Any:
            together.wait(PATIENCE)
            return ask(served, {"observation": obs[place].tolist()})[1]["action"]

        assert list(pool.map(one, range(16))) == pole.act(obs).tolist()
        assert served.batcher.rows == 16
        assert served.batcher.passes <= 4


def test_a_connection_may_ask_again(served: Served) -> None:
    parts = urlsplit(served.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    head = {"Authorization": f"Bearer {served.token}"}
    socket = None
    for body, status in [(b'{"observation": [0, 0, 0, 0]}', 200), (b"nonsense", 400)] * 3:
        connection.request("POST", "/act", body, head)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
        assert socket is None or connection.sock is socket, "the same connection"
        socket = connection.sock
    connection.close()


def test_actions_of_a_box_are_within_its_bounds() -> None:
    trained = untrained("Pendulum-v1")
    trained.weights["action_head.bias"] = trained.weights["action_head.bias"] + 100
    trained = Trained(trained.config, trained.spec, trained.weights, [])
    assert isinstance(trained.spec.action_space, Box)
    with serve(trained) as served:
        assert ask(served, {"observation": [0, 0, 0]})[1] == {"action": [2.0]}


def test_sampled_actions_differ(pole: Trained) -> None:
    flat = {name: 0 * array for name, array in pole.weights.items()}
    with serve(Trained(pole.config, pole.spec, flat, []), sampled=True) as served:
        many = ask(served, {"observations": [[0.0] * 4] * 64})[1]["actions"]
    assert set(many) == {0, 1}


# -- observations of several parts, and masks --------------------------------------------------


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return (
        [plain(part) for part in value] if isinstance(value, tuple) else np.asarray(value).tolist()
    )


@pytest.mark.parametrize("room", [Room, masked_room, pair_room])
def test_an_observation_may_have_parts(room: Any) -> None:
    trained = untrained(room, model="cnn")
    env = room()
    seen = [env.reset(seed=seed)[0] for seed in range(6)]
    expected = [int(trained.act(obs)) for obs in seen]
    with serve(trained) as served:
        assert ask(served, {"observations": [plain(obs) for obs in seen]})[1] == {
            "actions": expected
        }
        command = example(served)
        assert "/act" in command
        if room is Room:
            for wrong, told in [
                ([1, 2], "observation is an object with"),
                ({"arm": [0, 0]}, "observation lacks 'camera', 'deep'"),
                ({**plain(seen[0]), "more": 1}, "observation has no 'more'"),
                ({**plain(seen[0]), "arm": [0]}, r"observation.arm has shape [1], and must"),
                ({**plain(seen[0]), "deep": {"mode": 9}}, "mode must be between 1 and 3"),
                ({**plain(seen[0]), "deep": {"mode": 1.5}}, "mode must be whole numbers"),
                ({**plain(seen[0]), "deep": 3}, "observation.deep is an object with 'mode'"),
            ]:
                status, answer = ask(served, {"observation": wrong})
                assert status == 400
                assert told in answer["error"]


def test_what_a_mask_forbids_is_not_done() -> None:
    inside, beside = untrained(Gate), untrained(Beside)
    with serve(inside) as served:
        for place in range(5):
            mask = [int(place == one) for one in range(5)]
            obs = {"observation": [0.5] * 5, "action_mask": mask}
            assert ask(served, {"observation": obs})[1] == {"action": place}
        status, answer = ask(served, {"observation": {"observation": [0.5] * 5}})
        assert (status, "mask under 'action_mask'" in answer["error"]) == (400, True)
    with serve(beside) as served:
        masks = [[int(place == one) for one in range(5)] for place in range(5)]
        asked = {"observations": [[0.5] * 5] * 5, "action_masks": masks}
        assert ask(served, asked)[1] == {"actions": [0, 1, 2, 3, 4]}
        assert ask(served, {"observation": [0.5] * 5})[0] == 200, "all is allowed"
        for mask, told in [([1], "1 entries, and there are 5"), ([0] * 5, "no action at all")]:
            status, answer = ask(served, {"observation": [0.5] * 5, "action_mask": mask})
            assert (status, told in answer["error"]) == (400, True)


# -- memory ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def remembers() -> Trained:
    return untrained("CartPole-v1", memory="gru", memory_size=16)


def alone(trained: Trained, obs: Any) -> list[int]:
    """What one episode by itself gives."""
    fresh = Trained(trained.config, trained.spec, trained.weights, [])
    return [int(fresh.act(one, starts=place == 0)) for place, one in enumerate(obs)]


def test_each_session_has_its_own_memory(remembers: Trained) -> None:
    episodes = {name: numbers(12, seed) for seed, name in enumerate("abc")}
    with serve(remembers) as served:
        given: dict[str, list[int]] = {name: [] for name in episodes}
        for step in range(12):
            body = {
                "observations": [obs[step].tolist() for obs in episodes.values()],
                "sessions": list(episodes),
                "starts": [step == 0] * 3,
            }
            for name, action in zip(episodes, ask(served, body)[1]["actions"], strict=True):
                given[name].append(action)
        assert given == {name: alone(remembers, obs) for name, obs in episodes.items()}
        again = {"observation": episodes["a"][0].tolist(), "session": "a", "start": True}
        assert ask(served, again)[1] == {"action": given["a"][0]}
        assert ask(served, {"session": "a"}, "/forget")[1] == {"forgotten": True}
        assert ask(served, {"session": "a"}, "/forget")[1] == {"forgotten": False}


def test_requests_of_one_session_that_come_together_keep_their_order(remembers: Trained) -> None:
    """Two in one window are two passes: the second goes on from the first."""
    from rillflow.serving.batching import Batcher, Question

    obs = numbers(6)
    batcher = Batcher(remembers.spec, remembers.weights, window=0.05)
    try:
        answers = [
            batcher.ask(Question(obs[place : place + 1], ["x"], [place == 0])) for place in range(6)
        ]
        assert [int(one.result(PATIENCE)[0]) for one in answers] == alone(remembers, obs)
        assert batcher.passes == 6
    finally:
        batcher.close()


def test_the_sessions_that_asked_last_are_remembered(
    remembers: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rillflow.serving.batching.SESSIONS", 2)
    with serve(remembers) as served:
        for name in ["a", "b", "a", "c"]:
            ask(served, {"observation": [0] * 4, "session": name})
        kept = {name: ask(served, {"session": name}, "/forget")[1]["forgotten"] for name in "abc"}
    assert kept == {"a": True, "b": False, "c": True}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, '"session": a text of 1 to 200 letters'),
        ({"session": ""}, '"session": a text'),
        ({"session": 3}, '"session": a text'),
        ({"session": "x" * 201}, '"session": a text'),
        ({"session": "x", "start": 1}, "start is true"),
    ],
)
def test_a_policy_that_remembers_asks_whose_episode_it_is(
    remembers: Trained, body: Any, told: str
) -> None:
    with serve(remembers) as served:
        status, answer = ask(served, {"observation": [0] * 4, **body})
        assert (status, told in answer["error"]) == (400, True), answer
        twice = {"observations": [[0] * 4] * 2, "sessions": ["x", "x"]}
        assert "one session in one request" in ask(served, twice)[1]["error"]


# -- what is wrong is told ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "a request is an object"),
        (b"[" * 100_000, "not JSON"),
        (b'{"observation": [NaN, 0, 0, 0]}', "not finite"),
        (b'{"observation": [1e999, 0, 0, 0]}', "not finite"),
        (b'{"observation": [1e39, 0, 0, 0]}', "not finite"),
        ({}, "give an observation"),
        ({"observation": [0] * 4, "observations": []}, "give an observation"),
        ({"obs": [0] * 4}, "unknown 'obs'"),
        ({"observation": [0, 0]}, "has shape [2], and must have [4]"),
        ({"observation": [[0] * 4]}, "has shape [1, 4]"),
        ({"observation": 3}, "has shape []"),
        ({"observation": None}, "must be numbers"),
        ({"observation": "abcd"}, "must be numbers"),
        ({"observation": [0, 0, 0, "x"]}, "must be numbers"),
        ({"observation": [0, 0, 0, [1]]}, "must be numbers"),
        ({"observation": [0, 0, 0, 10**30]}, "must be numbers"),
        ({"observation": {"base64": "!", "dtype": "float32", "shape": [4]}}, "base64 cannot"),
        ({"observation": {"base64": "AAAA", "dtype": "float32", "shape": [4]}}, "are not float32"),
        ({"observation": {"base64": "", "dtype": "object", "shape": [0]}}, 'object with "base64"'),
        ({"observation": {"base64": "", "dtype": "float32", "shape": [-1]}}, 'with "base64"'),
        ({"observation": {"base64": "", "dtype": "float32", "shape": [2**40]}}, 'with "base64"'),
        ({"observations": [0] * 4}, "has shape []"),
        ({"observations": {"a": 1}}, "observations is a list"),
        ({"observations": [[0] * 4] * 5000}, "at most 4,096"),
        ({"observation": [0] * 4, "action_mask": [1, 1]}, "knows no masks"),
        ({"observation": [0] * 4, "action_masks": [[1, 1]]}, "belongs to a list"),
        ({"observations": [[0] * 4], "action_mask": [1, 1]}, "belongs to one observation"),
    ],
)
def test_bad_input_gets_one_clear_error(served: Served, body: Any, told: str) -> None:
    status, answer = ask(served, body)
    assert status == 400
    assert list(answer) == ["error"]
    assert told in answer["error"]
    assert "\n" not in answer["error"]
    assert len(answer["error"]) < 500
    assert ask(served, {"observation": [0] * 4})[0] == 200, "and the next is answered"


def test_a_request_that_is_too_long_is_not_read(served: Served) -> None:
    status, answer = ask(served, b"[" + b"0," * (BODY_BYTES // 2) + b"0]")
    assert (status, "at most 16,777,216 bytes" in answer["error"]) == (413, True)
    assert ask(served, None, headers="x")[0] in (400, 411)
    parts = urlsplit(served.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    connection.putrequest("POST", "/act")
    connection.putheader("Authorization", f"Bearer {served.token}")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    assert connection.getresponse().status == 411
    connection.close()


@pytest.mark.parametrize(
    ("headers", "status", "told"),
    [
        ({"Authorization": ""}, 401, "show the token"),
        ({"Authorization": "Bearer wrong"}, 401, "show the token"),
        ({"Authorization": "Basic x"}, 401, "show the token"),
        ({"Host": "evil.example"}, 403, "not the host"),
        ({"Host": "127.0.0.1.evil.example"}, 403, "not the host"),
        ({"Origin": "http://evil.example"}, 403, "web pages"),
        ({"Origin": "null"}, 403, "web pages"),
    ],
)
def test_only_who_has_the_token_is_answered(
    served: Served, headers: dict[str, str], status: int, told: str
) -> None:
    found, answer = ask(served, {"observation": [0] * 4}, **headers)
    assert (found, told in answer["error"]) == (status, True)
    assert ask(served, None, "/", "GET", **headers)[0] == status


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/act", 405), ("POST", "/", 405), ("GET", "/etc/passwd", 404),
        ("POST", "/act/../x", 404), ("PUT", "/act", 501), ("DELETE", "/", 501),
        ("OPTIONS", "/act", 501),
    ],
)  # fmt: skip
def test_there_are_three_things_to_ask(served: Served, method: str, path: str, status: int) -> None:
    found, answer = ask(served, {}, path, method)
    assert found == status
    assert "/act" in answer["error"]


def test_a_network_that_fails_is_told_and_the_next_is_answered(pole: Trained) -> None:
    with serve(pole) as served:
        policy = served.batcher._policy
        right = policy.greedy
        policy.greedy = lambda rows: 1 / 0
        status, answer = ask(served, {"observation": [0] * 4})
        assert (status, "ZeroDivisionError" in answer["error"]) == (500, True)
        policy.greedy = right
        assert ask(served, {"observation": [0] * 4})[0] == 200


def test_closing_frees_the_port_and_leaves_no_thread(pole: Trained) -> None:
    before = set(threading.enumerate())
    served = serve(pole)
    port = urlsplit(served.url).port or 0
    assert ask(served, {"observation": [0] * 4})[0] == 200
    with pytest.raises(RunError, match=rf"serve: port {port} of 127\.0\.0\.1 is in use"):
        serve(pole, port=port)
    served.close()
    served.close()
    with serve(pole, port=port) as again:
        assert ask(again, {"observation": [0] * 4})[0] == 200
    left = {thread.name for thread in set(threading.enumerate()) - before}
    assert not {name for name in left if name.startswith("serve")}


def test_other_machines_are_let_in_only_with_a_token_of_ones_own(pole: Trained) -> None:
    with pytest.raises(BuildError, match="can be reached from other machines"):
        serve(pole, host="0.0.0.0")
    with pytest.raises(BuildError, match="a token has 16 to 200"):
        serve(pole, token="short")
    with pytest.raises(BuildError, match="a port is a number"):
        serve(pole, port=70_000)
    with pytest.raises(BuildError, match="a window is 0 to 1"):
        serve(pole, window=2)


def test_mixed_actions_say_what_they_are_and_stay_within_their_bounds() -> None:
    """The indices of choices first, then the numbers, clipped as an environment would clip them."""
    space = Box(-1, 1, (2,), np.float32)
    spec = PolicySpec(observation_space=space, action_space=MixedBox([3, 2], [-1.0], [1.0]))
    about = described(spec)["action"]
    assert (about["choices"], about["numbers"]) == ([3, 2], 1)
    found = actions_to_json(spec, np.array([[2, 0, 5.0]], np.float32))
    assert found == [[2.0, 0.0, 1.0]]
