"""What passes between CPU and accelerator: one copy in and one out per vector step, nothing per minibatch."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from dictionary_env import DictionaryEnv
from sim_device import Transfers, count_transfers

from proximo import A2C, PPO, MaskablePPO, RecurrentPPO, make_vec_env
from proximo.envs.testing.environments import InvalidActionEnvDiscrete
from proximo.training.callbacks import BaseCallback

SMALL: dict[str, Any] = {"n_steps": 16, "batch_size": 16, "n_epochs": 2}
MEMORY: dict[str, Any] = {"policy_kwargs": {"lstm_hidden_size": 8, "net_arch": [8]}}
CASES: dict[str, tuple[type[Any], str, Any, dict[str, Any]]] = {
    "ppo": (PPO, "MlpPolicy", "CartPole-v1", SMALL),
    "ppo, continuous": (PPO, "MlpPolicy", "Pendulum-v1", SMALL),
    "ppo, dictionary": (PPO, "MultiInputPolicy", partial(DictionaryEnv, length=100), SMALL),
    "a2c with Adam": (A2C, "MlpPolicy", "CartPole-v1", {"n_steps": 16, "use_rms_prop": False}),
    "lstm": (RecurrentPPO, "MlpLstmPolicy", "CartPole-v1", SMALL | MEMORY),
    "masks": (MaskablePPO, "MlpPolicy", InvalidActionEnvDiscrete, SMALL),
}


class PhaseCounter(BaseCallback):
    """Counts the transfers of the rollout and of the update that follows it."""

    def __init__(self) -> None:
        super().__init__()
        self.collecting, self.updating = Transfers(), Transfers()

    def _on_rollout_start(self) -> None:
        self.block = count_transfers()
        self.collecting = self.block.__enter__()

    def _on_rollout_end(self) -> None:
        self.block.__exit__(None, None, None)
        self.block = count_transfers()
        self.updating = self.block.__enter__()

    def _on_training_end(self) -> None:
        self.block.__exit__(None, None, None)

    def _on_step(self) -> bool:
        return True


def counted(name: str, **options: Any) -> PhaseCounter:
    """The transfers of one rollout and its update."""
    algorithm, policy, environment, arguments = CASES[name]
    model = algorithm(policy, make_vec_env(environment, n_envs=2, seed=1), seed=3, device="sim", **arguments | options)
    counter = PhaseCounter()
    model.learn(2 * model.n_steps, callback=counter, log_interval=None)
    return counter


def lengths(transfers: Transfers) -> tuple[int, int]:
    return len(transfers.copies_in), len(transfers.copies_out)


@pytest.mark.parametrize("name", CASES)
def test_a_vector_step_is_one_copy_in_and_one_out(name: str) -> None:
    short, long = counted(name, n_steps=8).collecting, counted(name, n_steps=16).collecting
    assert lengths(long)[0] - lengths(short)[0] == 8, long.copies_in
    assert lengths(long)[1] - lengths(short)[1] == 8, long.copies_out
    assert max(lengths(short)) <= 8 + 2, short  # beside the steps: the values of the last observations


@pytest.mark.parametrize("name", ["ppo", "ppo, continuous", "ppo, dictionary", "masks"])
def test_a_minibatch_is_no_transfer(name: str) -> None:
    few, many = counted(name, batch_size=16).updating, counted(name, batch_size=8).updating
    assert lengths(many) == lengths(few), many


def test_a_minibatch_of_sequences_is_one_number_out() -> None:
    """Sequences are cut where episodes start: how many pieces there are, and how long, decides shapes on the host."""
    few, many = counted("lstm", batch_size=16).updating, counted("lstm", batch_size=8).updating
    minibatches = 2 * 4 - 2 * 2  # two epochs of four minibatches instead of two
    assert len(many.copies_in) == len(few.copies_in)
    assert len(many.copies_out) - len(few.copies_out) == 2 * minibatches  # policy and value have a memory each


def test_a_rollout_goes_to_the_device_once_per_update() -> None:
    few, many = counted("ppo", n_epochs=1).updating, counted("ppo", n_epochs=3).updating
    # observations, actions, values, log-probabilities, advantages and returns; then the order of each epoch
    assert len(few.copies_in) <= 7, few.copies_in
    assert len(many.copies_in) - len(few.copies_in) <= 2, many.copies_in
