from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from proximo.envs import DummyVecEnv, SubprocVecEnv, VecNormalize
from proximo.envs.adapters.qt import load_qt
from proximo.envs.adapters.torch_vec_env import TorchVecEnv, gather_infos
from proximo.errors import MissingSystemLibraryError
from proximo.rllte import env as makers
from proximo.rllte.env.utils import Gymnasium2Torch

SPACES = [spaces.Box(-1, 1, (7,)), spaces.Discrete(7), spaces.MultiBinary(3), spaces.MultiDiscrete([2, 3, 4])]
TESTING_MAKERS = [
    makers.make_box_env,
    makers.make_discrete_env,
    makers.make_multibinary_env,
    makers.make_multidiscrete_env,
]


class Counter(gym.Env):
    """Shows how many steps it has made; even-numbered copies terminate after three, odd ones are truncated after two.

    ``options["start"]`` is the first number shown.
    """

    made = 0

    def __init__(self, fixed=None):
        self.observation_space = spaces.Box(-100, 100, (2,), np.float64)
        self.action_space = spaces.Discrete(5)
        self.odd = Counter.made % 2 if fixed is None else fixed
        Counter.made += 1
        self.seeds = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.start = (options or {}).get("start", 0)
        self.count = 0
        return self.show(), {"seed": seed}

    def show(self):
        return np.array([self.start + self.count, self.odd], np.float64)

    def step(self, action):
        self.count += 1
        ended = self.count == (2 if self.odd else 3)
        return self.show(), float(action), ended and not self.odd, ended and bool(self.odd), {"count": self.count}


@pytest.fixture
def counters():
    Counter.made = 0
    return makers.make_rllte_env(Counter, num_envs=2, seed=5, asynchronous=False)


def actions_for(env, generator):
    return torch.as_tensor(np.stack([env.action_space.sample() for _ in range(env.num_envs)]))


class TestTorchVecEnv:
    def test_single_spaces_and_names(self, counters):
        assert counters.observation_space == spaces.Box(-100, 100, (2,), np.float64)
        assert counters.action_space == spaces.Discrete(5)
        assert counters.num_envs == 2
        assert counters.device == torch.device("cpu")
        assert isinstance(counters.vec_env, DummyVecEnv)

    def test_ends_stay_two_flags_and_final_observations_are_kept(self, counters):
        observations, _ = counters.reset()
        torch.testing.assert_close(observations, torch.tensor([[0.0, 0.0], [0.0, 1.0]], dtype=torch.float64))
        assert counters.step(torch.tensor([1, 2]))[4] == {}
        observations, rewards, terminated, truncated, infos = counters.step(torch.tensor([[3], [4]]))
        assert rewards.tolist() == [3.0, 4.0]
        assert rewards.dtype == terminated.dtype == truncated.dtype == torch.float32
        assert terminated.tolist() == [0.0, 0.0]
        assert truncated.tolist() == [0.0, 1.0]
        assert observations.tolist() == [[2.0, 0.0], [0.0, 1.0]]
        assert infos["final_observation"][0] is None
        assert infos["final_observation"][1].tolist() == [2.0, 1.0]
        assert infos["_final_observation"].tolist() == [False, True]
        assert infos["final_info"][1]["count"] == 2
        assert infos["episode"]["r"].tolist() == [0.0, 6.0]
        assert infos["episode"]["l"].tolist() == [0, 2]
        _, _, terminated, truncated, infos = counters.step(torch.tensor([0, 0]))
        assert terminated.tolist() == [1.0, 0.0]
        assert truncated.tolist() == [0.0, 0.0]
        assert infos["episode"]["r"].tolist() == [4.0, 0.0]

    def test_tensors_outlive_the_next_step(self, counters):
        first, _ = counters.reset()
        second = counters.step(torch.tensor([0, 0]))[0]
        counters.step(torch.tensor([0, 0]))
        assert first[:, 0].tolist() == [0.0, 0.0]
        assert second[:, 0].tolist() == [1.0, 1.0]

    def test_seeds_and_options_reach_the_environments(self, counters):
        _, infos = counters.reset()
        assert infos["seed"].tolist() == [5, 6]
        observations, infos = counters.reset(seed=40, options={"start": 7})
        assert infos["seed"].tolist() == [40, 41]
        assert observations[:, 0].tolist() == [7.0, 7.0]

    def test_rows_that_only_reset_are_marked(self):
        def make():
            return Counter(fixed=1)

        env = TorchVecEnv(gym.vector.SyncVectorEnv([make, make]))  # gymnasium's default: reset by the next step
        env.reset()
        infos = [env.step(torch.zeros(2, dtype=torch.int64))[4] for _ in range(4)]
        marked = [info.get("VecEnv.autoreset_only", np.zeros(2, bool)).tolist() for info in infos]
        assert marked == [[False, False], [False, False], [True, True], [False, False]]

    def test_takes_what_gymnasium_makes(self):
        env = Gymnasium2Torch(gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3), device="cpu")
        assert env.observation_space.shape == (4,)
        assert env.step(torch.zeros(3)) if env.reset(seed=1) else None

    def test_structured_actions_are_refused(self):
        class Structured(Counter):
            def __init__(self):
                super().__init__()
                self.action_space = spaces.Dict({"a": spaces.Discrete(2)})

        with pytest.raises(TypeError, match="an action tensor cannot hold Dict"):
            TorchVecEnv(Structured())

    def test_gather_infos_keeps_arrays_whole(self):
        gathered = gather_infos({0: {"mask": np.ones(2)}, 2: {"mask": np.zeros(2)}}, 3)
        assert gathered["_mask"].tolist() == [True, False, True]
        assert gathered["mask"][2].tolist() == [0.0, 0.0]
        assert gathered["mask"][1] is None


class TestMakeRllteEnv:
    def test_asynchronous_means_workers_and_the_same_numbers(self):
        runs = []
        for asynchronous, kind in ((True, SubprocVecEnv), (False, DummyVecEnv)):
            env = makers.make_rllte_env("CartPole-v1", num_envs=2, seed=3, asynchronous=asynchronous)
            assert type(env.vec_env) is kind
            rows = [env.reset()[0]]
            rows += [env.step(torch.tensor([step % 2, 1]))[0] for step in range(20)]
            runs.append(torch.stack(rows))
            env.close()
        torch.testing.assert_close(runs[0], runs[1], rtol=0, atol=0)

    def test_one_environment_needs_no_worker(self):
        assert isinstance(makers.make_rllte_env("CartPole-v1").vec_env, DummyVecEnv)

    def test_keyword_arguments_reach_the_environment(self):
        env = makers.make_rllte_env("Pendulum-v1", env_kwargs={"g": 3.5})
        assert env.vec_env.get_attr("g") == [3.5]

    def test_unknown_id(self):
        with pytest.raises(ValueError, match="did you mean 'CartPole-v1'"):
            makers.make_rllte_env("CartPole-v11", num_envs=2)

    def test_absent_makers_say_what_to_do(self):
        with pytest.raises(ImportError, match="give make_rllte_env an id or a callable"):
            from proximo.rllte.env import make_dmc_env  # noqa: F401


class TestTestingEnvs:
    @pytest.mark.parametrize(("make", "action_space"), list(zip(TESTING_MAKERS, SPACES, strict=True)))
    @pytest.mark.parametrize("env_id", ["StateObsEnv", "PixelObsEnv", "DictObsEnv"])
    def test_every_space_steps(self, make, action_space, env_id):
        env = make(env_id, num_envs=2, asynchronous=False)
        assert env.action_space == action_space
        observations, _ = env.reset()
        ends = torch.zeros(2)
        for _ in range(30):
            observations, rewards, terminated, truncated, _ = env.step(actions_for(env, None))
            assert rewards.tolist() == [0.5, 0.5]
            ends += torch.stack([terminated.sum(), truncated.sum()])
        assert (ends > 0).all()
        if env_id == "DictObsEnv":
            assert {key: tuple(value.shape) for key, value in observations.items()} == {
                "image": (2, 3, 84, 84),
                "state": (2, 49),
            }
        else:
            assert observations.shape == (2, *env.observation_space.shape)
            assert observations.dtype == torch.float32

    def test_unknown_name(self):
        with pytest.raises(ValueError, match="did you mean 'StateObsEnv'"):
            makers.make_box_env("StateObsEn")

    def test_bitflipping(self):
        env = makers.make_bitflipping_env(num_envs=2, n_bits=4, max_steps=4, asynchronous=False)
        observations, _ = env.reset()
        assert observations["observation"].shape == (2, 4)
        _, rewards, *_ = env.step(torch.tensor([0, 1]))
        assert set(rewards.tolist()) <= {-1.0, 0.0}


class TestGames:
    def test_atari(self):
        pytest.importorskip("ale_py")
        env = makers.make_atari_env("Breakout-v5", num_envs=2, seed=1, asynchronous=False)
        observations, _ = env.reset()
        assert observations.shape == (2, 4, 84, 84)
        assert observations.dtype == torch.uint8
        env.step(torch.zeros(2, dtype=torch.int64))
        frames = env.vec_env.get_attr("unwrapped")[0].ale.getEpisodeFrameNumber()
        env.step(torch.zeros(2, dtype=torch.int64))
        assert env.vec_env.get_attr("unwrapped")[0].ale.getEpisodeFrameNumber() == frames + 4

    def test_envpool_atari(self):
        pytest.importorskip("envpool")
        env = makers.make_envpool_atari_env("Pong-v5", num_envs=2)
        assert env.reset()[0].shape == (2, 4, 84, 84)
        assert env.step(torch.zeros(2, dtype=torch.int64))[0].dtype == torch.uint8

    @pytest.mark.parametrize("make", [makers.make_procgen_env, makers.make_envpool_procgen_env])
    def test_procgen(self, make):
        pytest.importorskip("envpool")
        try:
            load_qt()
        except MissingSystemLibraryError as error:
            pytest.skip(str(error))
        env = make("maze", 4, gamma=0.9)
        assert isinstance(env.vec_env, VecNormalize)
        assert env.vec_env.gamma == 0.9
        observations, _ = env.reset()
        assert observations.shape == (4, 3, 64, 64)
        assert observations.dtype == torch.uint8
        generator = torch.Generator().manual_seed(0)
        ended = []
        for _ in range(300):
            _, rewards, terminated, _, infos = env.step(torch.randint(15, (4,), generator=generator))
            ended += [(bool(reward > 0), infos["episode"]["r"].max()) for reward in rewards[terminated > 0]]
        assert ended
        assert set(ended) == {(True, 10.0)}  # a terminal reward is shown, and reported as the game pays it

    def test_bullet(self):
        pytest.importorskip("pybullet_envs_gymnasium")
        env = makers.make_bullet_env("HopperBulletEnv-v0", num_envs=2, parallel=False)
        assert env.reset()[0].shape == (2, 15)
        assert env.step(torch.zeros(2, 3))[1].isfinite().all()

    @pytest.mark.parametrize(
        ("arguments", "shape"),
        [({}, (3, 5, 5)), ({"frame_stack": 3}, (9, 5, 5)), ({"fully_observable": False}, (2835,))],
    )
    def test_minigrid(self, arguments, shape):
        pytest.importorskip("minigrid")
        env = makers.make_minigrid_env(num_envs=2, asynchronous=False, **arguments)
        observations, _ = env.reset()
        assert env.observation_space.shape == shape
        assert observations.shape == (2, *shape)
        assert env.step(torch.tensor([2, 2]))[0].dtype == torch.uint8

    def test_minigrid_in_numbers(self):
        pytest.importorskip("minigrid")
        env = makers.make_minigrid_env(num_envs=2, asynchronous=False, fully_observable=False, fully_numerical=True)
        observations, _ = env.reset()
        assert {key: tuple(value.shape) for key, value in observations.items()} == {
            "direction": (2,),
            "image": (2, 3, 7, 7),
            "mission": (2, 50),
        }
