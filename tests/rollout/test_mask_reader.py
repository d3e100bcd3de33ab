"""Action masks: read before every step, obeyed in every step, refused when they allow nothing."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from scripted_envs import HYBRID, Masked, Scripted

from proximo import A2C, PPO, MaskablePPO, make_vec_env
from proximo.envs import DummyVecEnv, SubprocVecEnv
from proximo.rollout.masks import MaskReader

LENGTHS = [[3, -2], [-4, 1]]
SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "seed": 0}


def masked(action_space: Any = None, vec_env: Any = DummyVecEnv) -> Any:
    return vec_env([lambda i=i, each=each: Masked(i, each, action_space) for i, each in enumerate(LENGTHS)])


class WithMasks(Scripted):
    """Never-ending, with masks that a function gives."""

    def __init__(self, action_space: Any, masks: Any, number: int = 0) -> None:
        super().__init__(number, [1000], action_space)
        self.given = masks

    def action_masks(self) -> Any:
        return self.given(self)


def test_masks_of_every_step_are_kept() -> None:
    """Environment 0 shows episodes of 3 and 2 steps; (step + episode + environment) mod 3 is what it forbids."""
    model = PPO("MlpPolicy", masked(), **SMALL).learn(32, use_masking=True)
    masks = model.rollout_buffer.rollout.action_masks
    assert masks.shape == (16, 2, 3)
    forbidden = np.argmin(masks[:, 0], axis=1)
    assert forbidden[:6].tolist() == [0, 1, 2, 1, 2, 2]
    assert (masks.sum(axis=2) == 2).all()
    actions = model.rollout_buffer.rollout.actions
    assert np.take_along_axis(masks, actions, axis=2).all()


@pytest.mark.parametrize("vec_env", [DummyVecEnv, SubprocVecEnv])
@pytest.mark.parametrize("action_space", [None, HYBRID], ids=["discrete", "hybrid"])
@pytest.mark.parametrize("algorithm", [PPO, MaskablePPO, A2C])
def test_forbidden_actions_are_never_taken(algorithm: Any, action_space: Any, vec_env: Any) -> None:
    """The environment itself raises for a forbidden action."""
    settings = {"n_steps": 16, "seed": 0} | ({} if algorithm is A2C else {"batch_size": 16, "n_epochs": 2})
    env = masked(action_space, vec_env)
    try:
        model = algorithm("MlpPolicy", env, learning_rate=0.01, **settings).learn(640, use_masking=True)
    finally:
        env.close()
    assert model.num_timesteps == 640


def test_without_masks_forbidden_actions_are_taken() -> None:
    with pytest.raises(AssertionError):
        PPO("MlpPolicy", masked(), **SMALL).learn(320)


def test_masks_may_be_turned_off_again() -> None:
    free = DummyVecEnv([lambda: WithMasks(spaces.Discrete(3), lambda _: np.array([True, False, False]))])
    model = MaskablePPO("MlpPolicy", free, **SMALL).learn(32)
    assert not model.rollout_buffer.actions.any()
    model.learn(64, use_masking=False)
    assert model.rollout_buffer.rollout.action_masks is None
    assert set(model.rollout_buffer.actions.flatten().tolist()) == {0, 1, 2}
    model.learn(32)
    assert not model.rollout_buffer.actions.any()


def test_five_thousand_actions() -> None:
    def masks(env: WithMasks) -> np.ndarray:
        allowed = np.zeros(5000, bool)
        allowed[env.steps % 5000], allowed[4999 - env.steps % 17] = True, True
        return allowed

    env = DummyVecEnv([lambda: WithMasks(spaces.Discrete(5000), masks)] * 2)
    model = MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=4, learning_rate=0.05, seed=0)
    model.learn(512)
    for environment in env.envs:
        for step, action in enumerate(environment.unwrapped.taken):
            assert action in (step, 4999 - step % 17)
    assert all(np.isfinite(weight).all() for weight in model.policy.state_dict().values())


BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
ALL = np.ones(3, bool)
BAD: dict[str, tuple[Any, list[str]]] = {
    "masks for Box": (lambda: WithMasks(BOX, lambda _: ALL), ["discrete choices", "Box(-1.0, 1.0, (2,)"]),
    "masks for a Dict of Box": (
        lambda: WithMasks(spaces.Dict(a=BOX), lambda _: ALL),
        ["discrete choices", "Dict("],
    ),
    "no masks": (lambda: gym.make("CartPole-v1"), ["no method action_masks()", "ActionMasker(env, function)"]),
    "too short": (lambda: WithMasks(spaces.Discrete(4), lambda _: ALL), ["3", "4", "Discrete(4)"]),
    "too long": (lambda: WithMasks(spaces.Discrete(2), lambda _: ALL), ["3", "2", "Discrete(2)"]),
    "half of MultiBinary": (lambda: WithMasks(spaces.MultiBinary(3), lambda _: ALL), ["3", "6", "MultiBinary(3)"]),
    "nothing allowed": (
        lambda: WithMasks(spaces.Discrete(3), lambda _: ~ALL),
        ["environment 0", "no action", "step 0", "at least one"],
    ),
    "one choice of two without a way out": (
        lambda: WithMasks(spaces.MultiDiscrete([2, 1]), lambda _: np.array([True, True, False])),
        ["environment 0", "no action", "step 0"],
    ),
}


@pytest.mark.parametrize(("make", "pieces"), BAD.values(), ids=BAD)
def test_bad_masks_are_refused_before_anything_is_learned(make: Any, pieces: list[str]) -> None:
    model = PPO("MlpPolicy", DummyVecEnv([make]), **SMALL)
    before = model.policy.parameters_to_vector()
    with pytest.raises(ValueError, match="(?s)" + ".*".join(map(re.escape, pieces))):
        model.learn(32, use_masking=True)
    assert np.array_equal(before, model.policy.parameters_to_vector())


@pytest.mark.parametrize("vec_env", [DummyVecEnv, SubprocVecEnv])
def test_dead_end_names_environment_and_step(vec_env: Any) -> None:
    def masks(env: WithMasks) -> np.ndarray:
        return ALL if env.number == 0 or env.steps < 5 else ~ALL

    env = vec_env([lambda i=i: WithMasks(spaces.Discrete(3), masks, i) for i in range(2)])
    try:
        with pytest.raises(ValueError, match=r"environment 1 allows no action at step 5 of the rollout"):
            MaskablePPO("MlpPolicy", env, **SMALL).learn(32)
    finally:
        env.close()


def test_dead_end_outside_of_a_rollout() -> None:
    env = DummyVecEnv([lambda: WithMasks(spaces.Discrete(3), lambda _: ~ALL)])
    env.reset()
    with pytest.raises(ValueError, match="environment 0 allows no action at step 5 of the evaluation"):
        MaskReader(env, stage="evaluation").read(5)


def test_lengths_that_differ_between_environments() -> None:
    env = DummyVecEnv([lambda i=i: WithMasks(spaces.Discrete(3), lambda _: np.ones(3 + i, bool), i) for i in range(2)])
    with pytest.raises(ValueError, match=r"environment 1\b.*4.*3"):
        MaskablePPO("MlpPolicy", env, **SMALL).learn(32)


def test_masks_pass_through_wrappers() -> None:
    """Monitor, TimeLimit and a wrapped vector environment stand between the masks and their reader."""
    from proximo.envs import VecNormalize

    env = VecNormalize(make_vec_env(lambda: gym.wrappers.TimeLimit(Masked(0, [50]), 7), n_envs=2))
    env.reset()
    reader = MaskReader(env)
    assert reader.width == 3
    assert reader.read(0).tolist() == [[False, True, True], [False, True, True]]


PREDICT_BAD: dict[str, tuple[Any, Any, list[str]]] = {
    "too short": (spaces.Discrete(4), np.ones(3), ["(3,)", "(1, 4)", "Discrete(4)"]),
    "for other rows": (spaces.Discrete(3), np.ones((2, 3)), ["(2, 3)", "(1, 3)"]),
    "nothing allowed": (spaces.Discrete(3), np.zeros(3), ["observation 0", "no action"]),
    "nothing allowed in one choice": (spaces.MultiDiscrete([2, 2]), [1, 1, 0, 0], ["observation 0", "no action"]),
    "for Box": (BOX, np.ones(2), ["discrete choices", "Box"]),
    "for a Tuple of Box": (spaces.Tuple([BOX]), np.ones(2), ["discrete choices", "Tuple"]),
}


@pytest.mark.parametrize("policy", ["MlpPolicy", "MlpLstmPolicy"])
@pytest.mark.parametrize(("action_space", "masks", "pieces"), PREDICT_BAD.values(), ids=PREDICT_BAD)
def test_bad_masks_in_predict(action_space: Any, masks: Any, pieces: list[str], policy: str) -> None:
    model = PPO(policy, Scripted(0, [5], action_space), **SMALL)
    with pytest.raises(ValueError, match="(?s)" + ".*".join(map(re.escape, pieces))):
        model.predict(np.zeros(3, np.float32), action_masks=masks)


@pytest.mark.parametrize("policy", ["MlpPolicy", "MlpGruPolicy"])
def test_masks_in_predict(policy: str) -> None:
    model = PPO(policy, Scripted(0, [5], spaces.MultiDiscrete([3, 2])), **SMALL)
    batch = np.zeros((200, 3), np.float32)
    masks = np.tile(np.array([True, False, True, False, True]), (200, 1))
    actions, _ = model.predict(batch, action_masks=masks)
    assert set(actions[:, 0].tolist()) == {0, 2}
    assert set(actions[:, 1].tolist()) == {1}
    one, _ = model.predict(batch[0], action_masks=[0, 0, 1, 1, 0], deterministic=True)
    assert one.tolist() == [2, 0]


class Counted(WithMasks):
    """Counts how often it is asked."""

    asked = 0

    def action_masks(self) -> Any:
        Counted.asked += 1
        return ALL


def test_masks_in_the_process_are_read_without_looking_methods_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 vector steps of 2 environments: each is asked once per step, its method was found once for all."""
    looked_up: list[str] = []
    for name in ("env_method", "get_attr"):
        method = getattr(DummyVecEnv, name)

        def spy(self: Any, wanted: str, *others: Any, method: Any = method, **options: Any) -> Any:
            looked_up.append(wanted)
            return method(self, wanted, *others, **options)

        monkeypatch.setattr(DummyVecEnv, name, spy)
    env = DummyVecEnv([lambda i=i: Counted(spaces.Discrete(3), None, i) for i in range(2)])
    model = MaskablePPO("MlpPolicy", env, **SMALL)
    looked_up.clear()
    Counted.asked = 0
    model.learn(64)
    assert Counted.asked == 64
    assert looked_up == ["action_masks", "action_masks"]  # whether there is one, and which


def test_masks_of_workers_come_with_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message to each worker per vector step and none for masks, but for the first."""
    from proximo.envs.workers.worker_pool import WorkerPool

    questions, steps = [], []
    ask, send = WorkerPool.ask, WorkerPool.send

    def asked(self: Any, given: Any) -> Any:
        questions.extend(call.method if call.method != "call" else call.arguments[0] for _, call in given)
        return ask(self, given)

    def sent(self: Any, handle: Any, message: bytes) -> Any:
        steps.append(message)
        return send(self, handle, message)

    monkeypatch.setattr(WorkerPool, "ask", asked)
    monkeypatch.setattr(WorkerPool, "send", sent)
    env = SubprocVecEnv([lambda i=i: Masked(i, [50]) for i in range(4)], envs_per_worker=2)
    try:
        model = MaskablePPO("MlpPolicy", env, **SMALL)
        questions.clear(), steps.clear()
        model.learn(3 * 16 * 4)
        per_worker = ["has_attr", "action_masks", "share_masks"]
        assert sorted(questions) == sorted(per_worker * 2)
        assert len([message for message in steps if len(message) == 1]) == 3 * 16 * 2
    finally:
        env.close()
