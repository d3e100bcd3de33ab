"""TRPO: the mathematics on known systems, each phase changes its own parameters, every action space, bad input."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from proximo import TRPO, make_vec_env
from proximo.errors import NonFiniteError
from proximo.learners.trpo import TRPOLearner
from proximo.learners.trust_region import (
    assign_values,
    conjugate_gradient,
    fisher_product,
    flat_gradient,
    flat_values,
    influential,
    largest_step,
)
from proximo.networks.distributions import kl_divergence, make_proba_distribution
from proximo.networks.distributions.base import frozen
from proximo.rollout.storage import RolloutBuffer
from proximo.training.callbacks import CallbackList
from proximo.training.loggers import configure

# -- mathematics


def positive_definite(size: int, seed: int) -> torch.Tensor:
    factor = torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return factor @ factor.T + torch.eye(size, dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 2, 7, 20])
def test_conjugate_gradient_solves_linear_systems(size: int) -> None:
    matrix, target = positive_definite(size, size), torch.arange(1.0, size + 1.0, dtype=torch.float64)
    solution = conjugate_gradient(lambda vector: matrix @ vector, target, iterations=2 * size, tolerance=1e-24)
    torch.testing.assert_close(solution, torch.linalg.solve(matrix, target), atol=1e-9, rtol=1e-9)


def test_conjugate_gradient_improves_with_each_iteration_and_stops_when_done() -> None:
    matrix, target = positive_definite(6, 0), torch.ones(6, dtype=torch.float64)
    products: list[torch.Tensor] = []

    def product(vector: torch.Tensor) -> torch.Tensor:
        products.append(vector)
        return matrix @ vector

    def error(iterations: int) -> float:
        difference = conjugate_gradient(product, target, iterations) - torch.linalg.solve(matrix, target)
        return float(difference @ matrix @ difference)

    errors = [error(iterations) for iterations in range(1, 7)]
    assert all(later < earlier for earlier, later in pairwise(errors)), errors
    products.clear()
    conjugate_gradient(product, target, iterations=100)
    assert len(products) <= 7
    assert torch.equal(conjugate_gradient(product, torch.zeros(6, dtype=torch.float64), 5), torch.zeros(6))


def test_flat_gradient_has_zeros_where_nothing_depends() -> None:
    used, unused = nn.Parameter(torch.tensor([[1.0, 2.0]])), nn.Parameter(torch.tensor([3.0]))
    output = used.square().sum()
    assert flat_gradient(output, [unused, used], retain_graph=True).tolist() == [0.0, 2.0, 4.0]
    assert influential(output, [unused, used]) == [used]


def test_fisher_product_is_the_hessian() -> None:
    """Of ½ xᵀAx the Hessian is A; the damping adds a multiple of the identity."""
    matrix = positive_definite(3, 1)
    point = nn.Parameter(torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64))
    product = fisher_product(0.5 * point @ matrix @ point, [point], damping=0.1)
    vector = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(product(vector), matrix @ vector + 0.1 * vector)


def test_fisher_matrix_of_a_gaussian() -> None:
    """For N(μ, σ²) with parameters μ and log σ it is diag(1/σ², 2)."""
    mean, log_std = nn.Parameter(torch.tensor([[0.5]])), nn.Parameter(torch.tensor([0.7]))
    space = spaces.Box(-1.0, 1.0, (1,))
    old = frozen(make_proba_distribution(space).proba_distribution(mean, log_std))
    new = make_proba_distribution(space).proba_distribution(mean, log_std)
    product = fisher_product(kl_divergence(new, old).mean(), [mean, log_std], damping=0.0)
    columns = torch.stack([product(unit) for unit in torch.eye(2)])
    torch.testing.assert_close(columns, torch.diag(torch.tensor([np.exp(-1.4), 2.0], dtype=torch.float32)))


def test_largest_step_has_the_target_divergence_in_the_quadratic_model() -> None:
    matrix, direction = positive_definite(4, 2), torch.ones(4, dtype=torch.float64)
    step = largest_step(direction, matrix @ direction, target_kl=0.03)
    assert float(0.5 * step @ matrix @ step) == pytest.approx(0.03)
    assert torch.equal(largest_step(direction * 0.0, direction * 0.0, 0.03), torch.zeros(4))


def test_values_are_written_in_place() -> None:
    layer = nn.Linear(3, 2)
    parameters, addresses = list(layer.parameters()), [part.data_ptr() for part in layer.parameters()]
    before = flat_values(parameters)
    assign_values(parameters, before + 1.0)
    torch.testing.assert_close(flat_values(parameters), before + 1.0)
    assert [part.data_ptr() for part in layer.parameters()] == addresses


# -- the learner


class SpacesEnv(gym.Env[Any, Any]):
    """Random observations; the reward is higher for the actions that stand first. Masks where they can."""

    def __init__(self, action_space: spaces.Space[Any], masks: int = 0) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (3,))
        self.action_space, self.masks, self.steps = action_space, masks, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        parts = list(action.values()) if isinstance(action, dict) else [action]
        if self.masks:
            assert self.action_masks()[int(np.ravel(action)[0])]
        reward = -float(sum(np.sum(part) for part in parts))
        return self._observation(), reward, False, self.steps >= 10, {}

    def action_masks(self) -> np.ndarray:
        return np.arange(self.masks) >= 1  # the first action is forbidden

    def _observation(self) -> np.ndarray:
        return self.np_random.uniform(-1.0, 1.0, 3).astype(np.float32)


ACTIONS = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-1.0, 1.0, (2,)),
    "multidiscrete": spaces.MultiDiscrete([2, 3]),
    "multibinary": spaces.MultiBinary(2),
    "hybrid": spaces.Dict(kind=spaces.Discrete(3), power=spaces.Box(-1.0, 1.0, (2,)), on=spaces.MultiBinary(1)),
}


def make_model(action_space: spaces.Space[Any] = ACTIONS["discrete"], masks: int = 0, **arguments: Any) -> TRPO:
    env = make_vec_env(lambda: SpacesEnv(action_space, masks), n_envs=2, seed=0)
    return TRPO("MlpPolicy", env, **{"n_steps": 128, "batch_size": 64, "seed": 0, **arguments})


def weights(model: TRPO) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.policy.state_dict().items()}


def changed(model: TRPO, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, value in model.policy.state_dict().items() if not torch.equal(value, before[name])}


def update(model: TRPO, skip_non_finite: bool = False, **settings: Any) -> dict[str, float]:
    """One more update from the latest rollout."""
    learner = TRPOLearner(model.runtime)
    return learner.update(model.rollout_buffer, replace(model._settings(), **settings), skip_non_finite)


def is_value(name: str) -> bool:
    return "value_net" in name


def test_each_phase_changes_its_own_parameters() -> None:
    model = make_model(ACTIONS["box"]).learn(256)
    before = weights(model)
    assert update(model, learning_rate=0.0)["is_line_search_success"] == 1.0
    assert changed(model, before) == {name for name in before if not is_value(name)}
    before = weights(model)
    metrics = update(model, target_kl=1e6, line_search_max_iter=1)
    assert (metrics["is_line_search_success"], metrics["kl_divergence_loss"]) == (0.0, 0.0)
    assert changed(model, before) == {name for name in before if is_value(name)}


def test_a_step_improves_the_objective_within_the_trust_region() -> None:
    """The advantages have mean zero, so the objective of the old policy is zero."""
    model = make_model().learn(256)
    callback = CallbackList([])
    callback.init_callback(model)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    for target_kl in (0.001, 0.03):
        start = weights(model)
        metrics = update(model, target_kl=target_kl)
        assert 0.3 * target_kl < metrics["kl_divergence_loss"] < target_kl
        assert metrics["policy_objective"] > 0.01
        model.policy.load_state_dict(start)


@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS)
def test_every_action_space_learns(action_space: spaces.Space[Any]) -> None:
    model = make_model(action_space, stats_window_size=10_000, target_kl=0.05).learn(256 * 12)
    returns = [episode["r"] for episode in model.ep_info_buffer]
    assert np.mean(returns[-25:]) > np.mean(returns[:25]) + 1.5


def test_state_dependent_exploration_learns() -> None:
    model = make_model(ACTIONS["box"], stats_window_size=10_000, target_kl=0.05, use_sde=True).learn(256 * 12)
    returns = [episode["r"] for episode in model.ep_info_buffer]
    assert np.mean(returns[-25:]) > np.mean(returns[:25]) + 1.5


def test_masks() -> None:
    """The forbidden action is never taken (the environment would fail), and the best allowed one is found."""
    model = make_model(ACTIONS["discrete"], masks=3, target_kl=0.05).learn(256 * 8, use_masking=True)
    observation = np.zeros(3, np.float32)
    distribution = model.policy.get_distribution(torch.zeros(1, 3), torch.tensor([[False, True, True]]))
    forbidden, best, _ = distribution.log_probs.exp()[0].tolist()
    assert forbidden == 0.0
    assert best > 0.7
    assert model.predict(observation, deterministic=True, action_masks=np.array([False, True, True]))[0] == 1


def test_frozen_distributions_do_not_move_with_the_policy() -> None:
    model = make_model(ACTIONS["hybrid"])
    with torch.no_grad():
        old = frozen(model.policy.get_distribution(torch.ones(2, 3)))
        assert float(kl_divergence(model.policy.get_distribution(torch.ones(2, 3)), old).abs().max()) < 1e-6
        for parameter in model.policy.parameters():
            parameter.add_(0.5)
        assert float(kl_divergence(model.policy.get_distribution(torch.ones(2, 3)), old).min()) > 0.05


def test_a_buffer_of_the_users_is_asked_for_its_minibatches() -> None:
    sizes: list[int | None] = []

    class Counting(RolloutBuffer):
        def get(self, batch_size: int | None = None) -> Any:
            sizes.append(batch_size)
            return super().get(batch_size)

    make_model(rollout_buffer_class=Counting, n_critic_updates=3).learn(256)
    assert sizes == [None, 64, 64, 64]


def test_sub_sampling_reads_every_nth_sample() -> None:
    model = make_model(sub_sampling_factor=4).learn(256)
    seen: list[int] = []
    get_distribution = model.policy.get_distribution

    def remember(observations: torch.Tensor, *masks: Any) -> Any:
        seen.append(len(observations))
        return get_distribution(observations, *masks)

    model.policy.get_distribution = remember  # type: ignore[method-assign]
    model.train()
    assert set(seen) == {64}


def test_the_same_seed_gives_the_same_training() -> None:
    first, second = (make_model().learn(512) for _ in range(2))
    for name, value in first.policy.state_dict().items():
        assert torch.equal(value, second.policy.state_dict()[name])


def test_logged_names(tmp_path: Path) -> None:
    model = make_model(ACTIONS["box"])
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(512)
    with open(tmp_path / "progress.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {name for name in rows[-1] if name.startswith("train/")} == {
        "train/policy_objective", "train/value_loss", "train/kl_divergence_loss", "train/explained_variance",
        "train/is_line_search_success", "train/std", "train/n_updates", "train/learning_rate",
    }  # fmt: skip
    assert rows[-1]["train/n_updates"] == "2"


def test_save_load_predict_and_go_on(tmp_path: Path) -> None:
    model = make_model(cg_damping=0.2).learn(256)
    model.save(tmp_path / "model")
    loaded = TRPO.load(tmp_path / "model", env=model.get_env())
    assert (loaded.cg_damping, loaded.num_timesteps, loaded._n_updates) == (0.2, 256, 1)
    observations = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    expected, _ = model.predict(observations, deterministic=True)
    np.testing.assert_array_equal(loaded.predict(observations, deterministic=True)[0], expected)
    assert loaded.learn(256, reset_num_timesteps=False).num_timesteps == 512


# -- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target_kl": 0.0}, "target_kl is 0.0; expected a positive number"),
        ({"cg_damping": -0.1}, "cg_damping is -0.1"),
        ({"cg_max_steps": 0}, "cg_max_steps is 0; expected a positive whole number"),
        (
            {"line_search_shrinking_factor": 1.0},
            "line_search_shrinking_factor is 1.0; expected a number between 0 and 1",
        ),
        ({"line_search_max_iter": 2.5}, "line_search_max_iter is 2.5"),
        ({"sub_sampling_factor": 0}, "sub_sampling_factor is 0"),
        ({"n_critic_updates": 0}, "n_critic_updates is 0"),
    ],
)
def test_arguments_that_cannot_work(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_model(**arguments)


def test_policies_with_memory_are_refused() -> None:
    with pytest.raises(ValueError, match="TRPO cannot train MlpLstmPolicy, a policy with memory; use RecurrentPPO"):
        TRPO("MlpLstmPolicy", "CartPole-v1")


def test_a_batch_that_does_not_divide_the_rollout_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="truncated mini-batch of 56"):
        make_model(batch_size=100)


@pytest.mark.parametrize(("poisoned", "network"), [("advantages", "policy"), ("returns", "value network")])
def test_nothing_of_an_update_with_nan_is_applied(poisoned: str, network: str) -> None:
    model = make_model().learn(256)
    getattr(model.rollout_buffer, poisoned)[0, 0] = np.nan
    with pytest.raises(NonFiniteError, match=f"gradient of the {network}"):
        update(model)
    assert all(torch.isfinite(value).all() for value in model.policy.state_dict().values())


# -- training


@pytest.mark.parametrize("backend", ["fused", pytest.param("torch", marks=pytest.mark.slow)])
def test_cartpole(backend: str) -> None:
    """30,000 steps are enough for a mean return above 200."""
    env = make_vec_env("CartPole-v1", n_envs=4, seed=1)
    model = TRPO("MlpPolicy", env, n_steps=256, n_critic_updates=5, seed=1, backend=backend).learn(30_000)
    assert np.mean([episode["r"] for episode in list(model.ep_info_buffer)[-30:]]) > 200.0


@pytest.mark.parametrize("poisoned", ["advantages", "returns"])
def test_steps_that_are_no_numbers_can_be_skipped(poisoned: str) -> None:
    model = make_model().learn(256, on_non_finite="skip")
    before = weights(model)
    getattr(model.rollout_buffer, poisoned)[0, 0] = np.nan
    with pytest.warns(UserWarning, match="skipped"):
        update(model, skip_non_finite=True)
    assert all(torch.isfinite(value).all() for value in model.policy.state_dict().values())
    moved = changed(model, before)
    assert all(is_value(name) for name in moved) if poisoned == "advantages" else moved


def test_discrete_hybrid_actions_have_no_deviation() -> None:
    model = make_model(spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])).learn(256)
    assert "std" not in update(model)
