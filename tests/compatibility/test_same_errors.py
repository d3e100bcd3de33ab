"""Where Stable-Baselines3 raises or warns, so does the library: the same class or a subclass, on the same occasion."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

Occasion = Callable[["Library", Any], Any]
OCCASIONS: dict[str, Occasion] = {}


class Library:
    """The modules of one of the two, by Stable-Baselines3's names: ``library.vec_env`` is ``common.vec_env``."""

    def __init__(self, package: str) -> None:
        self.package = package

    def __getattr__(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.package}.common.{name}")

    def model(self, env: Any = "CartPole-v1", policy: Any = "MlpPolicy", **arguments: Any) -> Any:
        return importlib.import_module(self.package).PPO(
            policy, env, **{"n_steps": 8, "batch_size": 8, "device": "cpu", **arguments}
        )

    def load(self, *arguments: Any, **options: Any) -> Any:
        return importlib.import_module(self.package).PPO.load(*arguments, **options)

    def contrib(self, path: str = "") -> ModuleType:
        package = {"stable_baselines3": "sb3_contrib", "proximo.sb3": "proximo.sb3_contrib"}[self.package]
        return importlib.import_module(f"{package}{path}")

    def vector(self, env: Any = "CartPole-v1", n_envs: int = 1) -> Any:
        factory = (lambda: gym.make(env)) if isinstance(env, str) else env
        return self.vec_env.DummyVecEnv([factory] * n_envs)


def occasion(function: Occasion) -> Occasion:
    OCCASIONS[function.__name__] = function
    return function


class Scripted(gym.Env):
    """Any spaces; an observation can be replaced by one that does not fit."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self, observation_space: Any, action_space: Any = None, observation: Any = None, **faults: Any
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space or spaces.Discrete(2)
        self.given, self.faults = observation, faults

    def _observation(self) -> Any:
        return self.observation_space.sample() if self.given is None else self.given

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.faults.get("reset", (self._observation(), {}))

    def step(self, action: Any) -> Any:
        values = {"reward": 0.0, "terminated": False, "truncated": False, "info": {}, **self.faults}
        return self._observation(), values["reward"], values["terminated"], values["truncated"], values["info"]


VECTOR = spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (40, 40, 3), np.uint8)
IMAGE_FIRST = spaces.Box(0, 255, (3, 40, 40), np.uint8)
PARTS = spaces.Dict({"a": VECTOR, "b": VECTOR})


# ------------------------------------------------------------------------------------------------ constructing models


@occasion
def negative_clip_range_of_values(library: Library, tmp: Any) -> None:
    library.model(clip_range_vf=-0.1)


@occasion
def minibatch_of_one(library: Library, tmp: Any) -> None:
    library.model(batch_size=1)


@occasion
def rollout_of_one(library: Library, tmp: Any) -> None:
    library.model(n_steps=1)


@occasion
def last_minibatch_is_short(library: Library, tmp: Any) -> None:
    library.model(n_steps=10, batch_size=8)


@occasion
def minibatch_larger_than_the_rollout(library: Library, tmp: Any) -> None:
    library.model(n_steps=8, batch_size=64)


@occasion
def unknown_policy(library: Library, tmp: Any) -> None:
    library.model(policy="MlpPolicyy")


@occasion
def perceptron_for_a_dictionary(library: Library, tmp: Any) -> None:
    library.model(Scripted(PARTS))


@occasion
def state_dependent_noise_with_discrete_actions(library: Library, tmp: Any) -> None:
    library.model(use_sde=True)


@occasion
def unbounded_actions(library: Library, tmp: Any) -> None:
    library.model(Scripted(VECTOR, spaces.Box(-np.inf, np.inf, (1,))))


@occasion
def binary_actions_of_two_dimensions(library: Library, tmp: Any) -> None:
    library.model(Scripted(VECTOR, spaces.MultiBinary((2, 2))))


@occasion
def squashed_without_state_dependent_noise(library: Library, tmp: Any) -> None:
    library.model("Pendulum-v1", policy_kwargs={"squash_output": True})


@occasion
def net_arch_in_a_list(library: Library, tmp: Any) -> None:
    library.model(policy_kwargs={"net_arch": [{"pi": [8], "vf": [8]}]})


@occasion
def convolutions_for_a_vector(library: Library, tmp: Any) -> None:
    library.model(policy="CnnPolicy")


@occasion
def convolutions_for_floats(library: Library, tmp: Any) -> None:
    library.model(Scripted(spaces.Box(0.0, 1.0, (3, 40, 40))), "CnnPolicy")


@occasion
def convolutions_for_floats_that_are_images(library: Library, tmp: Any) -> None:
    env = Scripted(spaces.Box(0.0, 1.0, (3, 40, 40)))
    library.model(env, "CnnPolicy", policy_kwargs={"normalize_images": False}).learn(8)


@occasion
def nature_network_for_a_dictionary(library: Library, tmp: Any) -> None:
    library.torch_layers.NatureCNN(PARTS)


@occasion
def learning_rate_is_text(library: Library, tmp: Any) -> None:
    library.model(learning_rate="0.1")


@occasion
def schedule_of_text(library: Library, tmp: Any) -> None:
    library.utils.FloatSchedule("0.1")


@occasion
def entropy_coefficient_below_zero(library: Library, tmp: Any) -> None:
    library.model(ent_coef=-0.1).learn(8)


@occasion
def discount_of_more_than_one(library: Library, tmp: Any) -> None:
    library.model(gamma=1.01).learn(8)


@occasion
def lambda_of_more_than_one(library: Library, tmp: Any) -> None:
    library.model(gae_lambda=1.1).learn(8)


@occasion
def value_coefficient_below_zero(library: Library, tmp: Any) -> None:
    library.model(vf_coef=-0.5).learn(8)


@occasion
def clip_range_of_zero(library: Library, tmp: Any) -> None:
    library.model(clip_range=0.0).learn(8)


@occasion
def learning_rate_of_zero(library: Library, tmp: Any) -> None:
    library.model(learning_rate=0.0).learn(8)


@occasion
def no_epochs(library: Library, tmp: Any) -> None:
    library.model(n_epochs=0)


@occasion
def target_divergence_of_zero(library: Library, tmp: Any) -> None:
    library.model(target_kl=0.0).learn(8)


# --------------------------------------------------------------------------------------------------- using models


@occasion
def another_number_of_environments(library: Library, tmp: Any) -> None:
    library.model().set_env(library.vector(n_envs=2))


@occasion
def environment_of_other_spaces(library: Library, tmp: Any) -> None:
    library.model().set_env(library.vector("Acrobot-v1"))


@occasion
def training_without_environment(library: Library, tmp: Any) -> None:
    library.model().save(tmp / "model")
    library.load(tmp / "model", device="cpu").learn(8)


@occasion
def loading_for_other_spaces(library: Library, tmp: Any) -> None:
    library.model().save(tmp / "model")
    library.load(tmp / "model", env=library.vector("Acrobot-v1"))


@occasion
def loading_with_another_network(library: Library, tmp: Any) -> None:
    library.model().save(tmp / "model")
    library.load(tmp / "model", policy_kwargs={"net_arch": [3]})


@occasion
def loading_what_is_not_there(library: Library, tmp: Any) -> None:
    library.load(tmp / "nothing")


@occasion
def loading_what_is_no_model(library: Library, tmp: Any) -> None:
    (tmp / "model.zip").write_text("no zip")
    library.load(tmp / "model.zip")


@occasion
def unknown_parameters(library: Library, tmp: Any) -> None:
    library.model().set_parameters({"critic": {}})


@occasion
def missing_parameters(library: Library, tmp: Any) -> None:
    library.model().set_parameters({})


@occasion
def observation_of_another_shape(library: Library, tmp: Any) -> None:
    library.model().predict(np.zeros(7, np.float32))


@occasion
def observation_with_info_of_gymnasium(library: Library, tmp: Any) -> None:
    library.model().predict(gym.make("CartPole-v1").reset())


@occasion
def a_tuple_instead_of_a_list_of_callbacks(library: Library, tmp: Any) -> None:
    library.callbacks.CallbackList((library.callbacks.CheckpointCallback(1, str(tmp)),))


@occasion
def threshold_without_evaluation(library: Library, tmp: Any) -> None:
    library.model().learn(8, callback=library.callbacks.StopTrainingOnRewardThreshold(1.0))


@occasion
def improvement_without_evaluation(library: Library, tmp: Any) -> None:
    library.model().learn(8, callback=library.callbacks.StopTrainingOnNoModelImprovement(1))


@occasion
def episodes_without_dones(library: Library, tmp: Any) -> None:
    callback = library.callbacks.StopTrainingOnMaxEpisodes(1)
    callback.init_callback(library.model())
    callback.on_step()


@occasion
def callback_of_a_model_without_environment(library: Library, tmp: Any) -> None:
    model = library.model()
    model.env = None
    callback = library.callbacks.StopTrainingOnMaxEpisodes(1)
    callback.init_callback(model)


@occasion
def evaluation_below_the_threshold(library: Library, tmp: Any) -> None:
    library.evaluation.evaluate_policy(library.model(), library.model().get_env(), 1, reward_threshold=1e6)


@occasion
def evaluation_without_monitor(library: Library, tmp: Any) -> None:
    library.evaluation.evaluate_policy(library.model(), library.vector(), 1)


@occasion
def evaluation_wrapped_otherwise(library: Library, tmp: Any) -> None:
    training = library.vec_env.VecNormalize(library.vector())
    library.model(training).learn(8, callback=library.callbacks.EvalCallback(library.vector(), eval_freq=4))


@occasion
def extractor_given_where_two_are(library: Library, tmp: Any) -> None:
    policy = library.model(policy_kwargs={"share_features_extractor": False}).policy
    policy.extract_features(torch.zeros(1, 4), policy.features_extractor)


# ------------------------------------------------------------------------------------------------ vector environments


@occasion
def transposing_a_vector(library: Library, tmp: Any) -> None:
    library.vec_env.VecTransposeImage(library.vector())


@occasion
def transposing_what_is_channels_first(library: Library, tmp: Any) -> None:
    library.vec_env.VecTransposeImage(library.vector(lambda: Scripted(IMAGE_FIRST)))


@occasion
def channels_in_the_middle(library: Library, tmp: Any) -> None:
    library.preprocessing.is_image_space_channels_first(spaces.Box(0, 255, (40, 3, 40), np.uint8))


@occasion
def stacking_discrete_observations(library: Library, tmp: Any) -> None:
    library.vec_env.VecFrameStack(library.vector(lambda: Scripted(spaces.Discrete(3))), 2)


@occasion
def stacking_in_no_order(library: Library, tmp: Any) -> None:
    library.vec_env.VecFrameStack(library.vector(lambda: Scripted(IMAGE)), 2, channels_order="middle")


@occasion
def stacking_a_box_in_a_dictionary_of_orders(library: Library, tmp: Any) -> None:
    library.vec_env.VecFrameStack(library.vector(lambda: Scripted(IMAGE)), 2, channels_order={"a": "last"})


@occasion
def normalising_keys_of_a_box(library: Library, tmp: Any) -> None:
    library.vec_env.VecNormalize(library.vector(), norm_obs_keys=["a"])


@occasion
def normalising_discrete_observations(library: Library, tmp: Any) -> None:
    library.vec_env.VecNormalize(library.vector(lambda: Scripted(spaces.Discrete(3))))


@occasion
def normaliser_given_environments_twice(library: Library, tmp: Any) -> None:
    library.vec_env.VecNormalize(library.vector()).set_venv(library.vector())


@occasion
def statistics_between_different_wrappers(library: Library, tmp: Any) -> None:
    library.vec_env.sync_envs_normalization(library.vec_env.VecNormalize(library.vector()), library.vector())


@occasion
def extracting_from_a_box(library: Library, tmp: Any) -> None:
    library.vec_env.VecExtractDictObs(library.vector(), "a")


@occasion
def filming_without_images(library: Library, tmp: Any) -> None:
    library.vec_env.VecVideoRecorder(library.vector(), str(tmp), lambda step: True)


@occasion
def two_monitors(library: Library, tmp: Any) -> None:
    library.vec_env.VecMonitor(library.vector(lambda: library.monitor.Monitor(gym.make("CartPole-v1"))))


@occasion
def one_environment_twice(library: Library, tmp: Any) -> None:
    env = gym.make("CartPole-v1")
    library.vector(lambda: env, n_envs=2)


@occasion
def rendering_without_mode(library: Library, tmp: Any) -> None:
    library.vector().render()


@occasion
def no_number_in_an_observation(library: Library, tmp: Any) -> None:
    vec_env = library.vec_env.VecCheckNan(
        library.vector(lambda: Scripted(VECTOR, observation=np.full(3, np.nan, "f4")))
    )
    vec_env.reset()


@occasion
def no_number_raises(library: Library, tmp: Any) -> None:
    library.vec_env.VecCheckNan(
        library.vector(lambda: Scripted(VECTOR, observation=np.full(3, np.nan, "f4"))), raise_exception=True
    ).reset()


@occasion
def monitor_stepped_after_the_end(library: Library, tmp: Any) -> None:
    env = library.monitor.Monitor(Scripted(VECTOR, terminated=True))
    env.reset()
    env.step(0)
    env.step(0)


@occasion
def monitor_reset_too_early(library: Library, tmp: Any) -> None:
    env = library.monitor.Monitor(Scripted(VECTOR), allow_early_resets=False)
    env.reset()
    env.step(0)
    env.reset()


@occasion
def monitor_without_its_keyword(library: Library, tmp: Any) -> None:
    library.monitor.Monitor(Scripted(VECTOR), reset_keywords=("level",)).reset()


@occasion
def no_monitor_files(library: Library, tmp: Any) -> None:
    try:
        library.monitor.load_results(str(tmp))
    except library.monitor.LoadMonitorResultsError as error:
        raise FileNotFoundError("as it should") from error


# --------------------------------------------------------------------------------------------------- logging, helpers


@occasion
def unknown_log_format(library: Library, tmp: Any) -> None:
    library.logger.configure(str(tmp), ["yaml"])


@occasion
def long_keys_that_become_the_same(library: Library, tmp: Any) -> None:
    logger = library.logger.configure(str(tmp), ["stdout"])
    logger.record("a/" + "x" * 60 + "1", 1)
    logger.record("a/" + "x" * 60 + "2", 2)
    logger.dump()


@occasion
def nothing_to_log(library: Library, tmp: Any) -> None:
    library.logger.configure(str(tmp), ["stdout"]).dump()


@occasion
def video_to_a_table(library: Library, tmp: Any) -> None:
    logger = library.logger.configure(str(tmp), ["csv"])
    logger.record("video", library.logger.Video(torch.zeros(1, 2, 3, 8, 8), fps=4))
    try:
        logger.dump()
    except library.logger.FormatUnsupportedError as error:
        raise NotImplementedError("as it should") from error


@occasion
def hyperparameters_without_metrics(library: Library, tmp: Any) -> None:
    library.logger.HParam({"a": 1}, {})


@occasion
def log_to_a_number(library: Library, tmp: Any) -> None:
    library.logger.HumanOutputFormat(3)


@occasion
def deprecated_constant(library: Library, tmp: Any) -> Any:
    return library.utils.constant_fn(0.1)(0.5)


@occasion
def deprecated_line(library: Library, tmp: Any) -> Any:
    return library.utils.get_linear_fn(1.0, 0.0, 0.5)(0.75)


@occasion
def deprecated_schedule(library: Library, tmp: Any) -> Any:
    return library.utils.get_schedule_fn(0.1)(0.5)


@occasion
def explained_variance_of_a_matrix(library: Library, tmp: Any) -> None:
    library.utils.explained_variance(np.zeros((2, 2)), np.zeros((2, 2)))


@occasion
def tensor_of_a_list(library: Library, tmp: Any) -> None:
    library.utils.obs_as_tensor([1.0], torch.device("cpu"))


@occasion
def spaces_of_other_shapes(library: Library, tmp: Any) -> None:
    library.utils.check_shape_equal(VECTOR, IMAGE)


@occasion
def parts_of_another_space(library: Library, tmp: Any) -> None:
    importlib.import_module(f"{library.package}.common.vec_env.util").dict_to_obs(VECTOR, {"a": np.zeros(3)})


@occasion
def minibatches_of_an_unfilled_buffer(library: Library, tmp: Any) -> None:
    list(library.buffers.RolloutBuffer(4, VECTOR, spaces.Discrete(2), device="cpu").get(2))


@occasion
def divergence_of_different_distributions(library: Library, tmp: Any) -> None:
    kinds = library.distributions
    gaussian = kinds.DiagGaussianDistribution(2).proba_distribution(torch.zeros(1, 2), torch.zeros(2))
    kinds.kl_divergence(gaussian, kinds.CategoricalDistribution(2).proba_distribution(torch.zeros(1, 2)))


@occasion
def distribution_of_no_action(library: Library, tmp: Any) -> None:
    library.distributions.make_proba_distribution(spaces.Text(3))


@occasion
def shape_of_no_observation(library: Library, tmp: Any) -> None:
    library.preprocessing.get_obs_shape(spaces.Text(3))


@occasion
def dictionary_preprocessed_as_a_tensor(library: Library, tmp: Any) -> None:
    library.preprocessing.preprocess_obs(torch.zeros(1, 3), PARTS)


@occasion
def axis_that_is_none(library: Library, tmp: Any) -> None:
    import pandas

    library.results_plotter.ts2xy(pandas.DataFrame({"r": [1.0], "l": [1], "t": [0.1]}), "moons")


# ------------------------------------------------------------------------------------- found by reading both sources


class Rendered(Scripted):
    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "human", "ansi"]}  # noqa: RUF012

    def __init__(self, render_mode: str) -> None:
        super().__init__(VECTOR)
        self.render_mode = render_mode


@occasion
def table_that_is_no_monitor_file(library: Library, tmp: Any) -> None:
    (tmp / "a.monitor.csv").write_text("r,l,t\n1,2,3\n")
    library.monitor.load_results(str(tmp))


@occasion
def divergence_over_other_choices(library: Library, tmp: Any) -> None:
    kind = library.distributions.MultiCategoricalDistribution
    one, other = (kind(sizes).proba_distribution(torch.zeros(1, 5)) for sizes in ([2, 3], [3, 2]))
    library.distributions.kl_divergence(one, other)


@occasion
def warping_what_is_no_image(library: Library, tmp: Any) -> None:
    library.atari_wrappers.WarpFrame(Scripted(spaces.Discrete(3)))


@occasion
def extractor_without_features(library: Library, tmp: Any) -> None:
    type("Empty", (library.torch_layers.BaseFeaturesExtractor,), {})(VECTOR, 0)


@occasion
def identity_of_two_spaces(library: Library, tmp: Any) -> None:
    library.envs.IdentityEnv(dim=3, space=spaces.Discrete(3))


@occasion
def noise_of_a_policy_without(library: Library, tmp: Any) -> None:
    library.model().policy.reset_noise()


@occasion
def two_render_modes(library: Library, tmp: Any) -> None:
    library.vec_env.DummyVecEnv([lambda: Rendered("rgb_array"), lambda: Rendered("human")])


@occasion
def another_render_mode(library: Library, tmp: Any) -> None:
    library.vector(lambda: Rendered("ansi")).render("rgb_array")


@occasion
def images_of_text(library: Library, tmp: Any) -> None:
    library.vector(lambda: Rendered("ansi")).get_images()


@occasion
def attribute_of_two_wrappers(library: Library, tmp: Any) -> Any:
    twice = library.vec_env.VecNormalize(library.vec_env.VecNormalize(library.vector()))
    return library.vec_env.VecMonitor(twice).obs_rms


@occasion
def normalising_a_key_that_is_not_there(library: Library, tmp: Any) -> None:
    library.vec_env.VecNormalize(library.vector(lambda: Scripted(PARTS)), norm_obs_keys=["c"])


@occasion
def statistics_that_are_not_there(library: Library, tmp: Any) -> None:
    library.vec_env.VecNormalize.load(str(tmp / "nothing.pkl"), library.vector())


PAIR = spaces.Tuple([VECTOR, IMAGE])


@occasion
def normalising_a_tuple(library: Library, tmp: Any) -> None:
    library.vec_env.VecNormalize(library.vector(lambda: Scripted(PAIR)))


@occasion
def stacking_a_tuple(library: Library, tmp: Any) -> None:
    library.vec_env.VecFrameStack(library.vector(lambda: Scripted(PAIR)), 2)


@occasion
def transposing_a_tuple(library: Library, tmp: Any) -> None:
    library.vec_env.VecTransposeImage(library.vector(lambda: Scripted(PAIR)))


@occasion
def a_tuple_is_not_nested(library: Library, tmp: Any) -> None:
    library.preprocessing.check_for_nested_spaces(PAIR)
    importlib.import_module(f"{library.package}.common.vec_env.util").obs_space_info(PAIR)


@occasion
def a_dictionary_in_a_tuple_is_nested(library: Library, tmp: Any) -> None:
    library.preprocessing.check_for_nested_spaces(spaces.Tuple([PARTS]))


@occasion
def parts_of_a_tuple_are_missing(library: Library, tmp: Any) -> None:
    importlib.import_module(f"{library.package}.common.vec_env.util").dict_to_obs(PAIR, {0: np.zeros(3)})


@occasion
def training_on_tuples(library: Library, tmp: Any) -> None:
    library.model(Scripted(PAIR), "MultiInputPolicy")


@occasion
def actions_of_text(library: Library, tmp: Any) -> None:
    library.model(Scripted(VECTOR, spaces.Text(3)))


@occasion
def environment_that_nobody_registered(library: Library, tmp: Any) -> None:
    library.model("NoSuchEnv-v0")


@occasion
def version_that_nobody_registered(library: Library, tmp: Any) -> None:
    library.model("CartPole-v99")


@occasion
def environment_is_a_number(library: Library, tmp: Any) -> None:
    library.model(3)


@occasion
def logs_under_their_old_name(library: Library, tmp: Any) -> None:
    library.model().learn(8)._dump_logs(1)


@occasion
def saving_into_a_folder_that_is_not_there(library: Library, tmp: Any) -> None:
    library.model().save(tmp / "a" / "b" / "model")


@occasion
def weights_are_missing(library: Library, tmp: Any) -> None:
    model = library.model()
    parameters = model.get_parameters()
    parameters["policy"] = dict(list(parameters["policy"].items())[:-1])
    model.set_parameters(parameters)


@occasion
def observation_is_a_dictionary(library: Library, tmp: Any) -> None:
    library.model().predict({"a": np.zeros(4)})


@occasion
def observation_lacks_a_key(library: Library, tmp: Any) -> None:
    library.model(Scripted(PARTS), "MultiInputPolicy").predict({"a": np.zeros(3, np.float32)})


@occasion
def vector_environment_reset_like_a_single_one(library: Library, tmp: Any) -> None:
    _observation, _info = library.model().get_env().reset()


@occasion
def vector_environment_stepped_like_a_single_one(library: Library, tmp: Any) -> None:
    env = library.model().get_env()
    env.reset()
    _observation, _reward, _terminated, _truncated, _info = env.step(np.array([0]))


@occasion
def writer_that_was_closed(library: Library, tmp: Any) -> None:
    writer = library.logger.TensorBoardOutputFormat(str(tmp))
    writer.close()
    writer.write({"a": 1}, {"a": ()}, 1)


@occasion
def masks_for_continuous_actions(library: Library, tmp: Any) -> None:
    library.contrib().MaskablePPO("MlpPolicy", "Pendulum-v1", n_steps=8, device="cpu")


@occasion
def no_masks(library: Library, tmp: Any) -> None:
    library.contrib().MaskablePPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, device="cpu").learn(8)


@occasion
def masker_of_what_is_no_method(library: Library, tmp: Any) -> None:
    library.contrib(".common.wrappers").ActionMasker(gym.make("CartPole-v1"), "action_space")


@occasion
def one_memory_and_a_second(library: Library, tmp: Any) -> None:
    library.contrib().RecurrentPPO(
        "MlpLstmPolicy", "CartPole-v1", n_steps=8, device="cpu", policy_kwargs={"shared_lstm": True}
    )


@occasion
def one_memory_of_two_extractors(library: Library, tmp: Any) -> None:
    options = {"shared_lstm": True, "enable_critic_lstm": False, "share_features_extractor": False}
    library.contrib().RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=8, device="cpu", policy_kwargs=options)


@occasion
def time_beside_an_image(library: Library, tmp: Any) -> None:
    library.contrib(".common.wrappers").TimeFeatureWrapper(Scripted(IMAGE))


@occasion
def trust_region_of_one_step(library: Library, tmp: Any) -> None:
    library.contrib().TRPO("MlpPolicy", "CartPole-v1", n_steps=1, device="cpu")


# --------------------------------------------------------------------------------------------------------- check_env

CHECKED: dict[str, Callable[[], Any]] = {
    "no environment": lambda: object(),
    "an image of floats": lambda: Scripted(spaces.Box(0.0, 1.0, (40, 40, 3))),
    "a small image": lambda: Scripted(spaces.Box(0, 255, (8, 8, 3), np.uint8)),
    "a matrix": lambda: Scripted(spaces.Box(0, 1, (4, 4))),
    "discrete observations from 1": lambda: Scripted(spaces.Discrete(3, start=1)),
    "discrete actions from 1": lambda: Scripted(VECTOR, spaces.Discrete(3, start=1)),
    "a grid of choices": lambda: Scripted(spaces.MultiDiscrete([[2, 2], [2, 2]])),
    "a sequence": lambda: Scripted(spaces.Sequence(VECTOR)),
    "actions of doubles": lambda: Scripted(VECTOR, spaces.Box(-1, 1, (1,), np.float64)),
    "actions not around zero": lambda: Scripted(VECTOR, spaces.Box(0, 2, (1,))),
    "unbounded actions": lambda: Scripted(VECTOR, spaces.Box(-np.inf, np.inf, (1,))),
    "a list": lambda: Scripted(VECTOR, observation=[0.0, 0.0, 0.0]),
    "another shape": lambda: Scripted(VECTOR, observation=np.zeros(4, np.float32)),
    "doubles": lambda: Scripted(VECTOR, observation=np.zeros(3)),
    "out of bounds": lambda: Scripted(VECTOR, observation=np.full(3, 2.0, np.float32)),
    "wrong under a key": lambda: Scripted(
        PARTS, observation={"a": np.zeros(3, np.float32), "b": np.zeros(4, np.float32)}
    ),
    "a key too few": lambda: Scripted(PARTS, observation={"a": np.zeros(3, np.float32)}),
    "a reset without info": lambda: Scripted(VECTOR, reset=np.zeros(3, np.float32)),
    "an array as reward": lambda: Scripted(VECTOR, reward=np.zeros(1)),
    "a number as end": lambda: Scripted(VECTOR, terminated=0),
    "no info": lambda: Scripted(VECTOR, info=None),
    "well made": lambda: Scripted(VECTOR, spaces.Box(-1, 1, (1,))),
}

for _name, _make in CHECKED.items():
    OCCASIONS[f"check_env: {_name}"] = lambda library, tmp, make=_make: library.env_checker.check_env(make())


# ------------------------------------------------------------------------------------------------------------ the test

DIFFERENT: dict[str, type | None] = {
    # refused, where Stable-Baselines3 trains on returns that grow without bound, hardly, or not at all
    "discount_of_more_than_one": ValueError,
    "lambda_of_more_than_one": ValueError,
    "target_divergence_of_zero": ValueError,
    "no_epochs": ValueError,
    # accepted, because it can be done
    "a_tuple_instead_of_a_list_of_callbacks": None,
    "explained_variance_of_a_matrix": None,
    "training_on_tuples": None,
}


def outcome(happens: Occasion, package: str, tmp_path: Any) -> tuple[Exception | None, set[type[Warning]]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            happens(Library(package), tmp_path)
        except Exception as error:  # whichever
            return error, {warning.category for warning in seen} & {UserWarning}
    return None, {warning.category for warning in seen} & {UserWarning}


@pytest.mark.parametrize("name", OCCASIONS)
def test_same_class_on_the_same_occasion(name: str, tmp_path: Any) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    theirs, their_warnings = outcome(OCCASIONS[name], "stable_baselines3", tmp_path / "theirs")
    ours, our_warnings = outcome(OCCASIONS[name], "proximo.sb3", tmp_path / "ours")
    if name in DIFFERENT:
        assert type(theirs) is not type(ours)
        assert isinstance(ours, DIFFERENT[name] or type(None))
        return
    assert isinstance(ours, type(theirs)), f"{ours!r} instead of {theirs!r}"
    if theirs is None:
        assert our_warnings >= their_warnings


def test_check_env_names_the_key_that_is_wrong() -> None:
    with pytest.raises(AssertionError, match=r"observation 'b' from reset\(\) has shape \(4,\), its space \(3,\)"):
        Library("proximo.sb3").env_checker.check_env(CHECKED["wrong under a key"]())
