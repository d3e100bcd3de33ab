"""``proximo train``: from an environment's id, a preset and flags to a trained agent in a run folder."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from proximo import ALGORITHMS
from proximo.cli.algorithms import algorithm_class, default_arguments
from proximo.cli.command import check_at_least, flag, parse
from proximo.cli.flags import (
    Count,
    OptionalChoice,
    OptionalCount,
    OptionalNumber,
    OptionalPath,
    OptionalSeeds,
    OptionalTable,
    OptionalText,
    default_is,
    given_flags,
    hyperparameter_flags,
    one_word,
    whole_number,
    workers_of,
)
from proximo.cli.group import Group
from proximo.cli.launching import launch, launch_name, number_of_processes
from proximo.cli.runs import Run, RunConfig
from proximo.cli.workers import with_value
from proximo.config import other_default
from proximo.distributed import Group as Processes
from proximo.distributed import join
from proximo.envs.make import versioned_id
from proximo.files.plain_text import brief
from proximo.training.checkpoints import MAX_CHECKPOINT_GIGABYTES
from proximo.training.run_folder import RunFolderError
from proximo.training.signals import SECONDS_TO_END, ignore_scheduler_warnings, keep_interrupts
from proximo.zoo import available_presets
from proximo.zoo.presets import NAMED_PARTS, PresetFile, preset_by_name

SUMMARY = """Train an agent on ENV: any id that gymnasium knows; "package:Id-v0" imports the package first.

Everything about the training goes into a new run folder: config.toml, versions.json, the metrics (progress.csv,
progress.jsonl), learning_curve.png, model.zip, checkpoints. Ctrl-C ends the training and keeps what there is.
A training that was killed goes on with --resume RUN as if nothing had happened.
Several seeds (--seeds) are several processes, with a run folder each in one group folder."""
EXAMPLES = (
    "proximo train CartPole-v1",
    "proximo train CartPole-v1 --seeds 1-5 --jobs 2",
    "proximo train HalfCheetah-v5 --eval-every 1e5 --eval-episodes 10 --record-every 1e6",
    "proximo train Hopper-v5 --algo a2c --print-config",
    "proximo train CartPole-v1 --seed 1 --until 475 --video",
    "proximo train Pendulum-v1 --learning-rate lin_1e-3 --n-steps 512",
    "proximo train CartPole-v1 --algo a2c --use-rms-prop false",
    "proximo train HalfCheetah-v5 --preset none --envs 4 --workers 2 --normalize true",
    "proximo train MountainCar-v0 --intrinsic-reward rnd --intrinsic-reward-kwargs 'beta = 0.5'",
    "proximo train PongNoFrameskip-v4 --steps 1e6 --checkpoint-every 1e5",
    "proximo train HalfCheetah-v5 --envs 16 --processes 4",
    "proximo train HopperBulletEnv-v0 --on-env-failure restart --on-non-finite skip",
    "proximo train CartPole-v1 --track wandb --record-every 5e4",
    "proximo train --resume runs/CartPole-v1-ppo-1-20260131-120000",
    "proximo train --resume runs/CartPole-v1-ppo-1-20260131-120000 --steps 2e5",
    "proximo train HalfCheetah-v5 --pause-at 1e5",
    "proximo train CartPole-v1 --init-from runs/CartPole-v1-ppo-1-20260131-120000",
)

TrackerName = Literal["wandb", "mlflow", "trackio", "tensorboard"]
_from_preset = default_is("the preset's")


def processes_of(text: str) -> int | Literal["auto"]:
    return "auto" if text == "auto" else whole_number(text)


@dataclass(frozen=True, kw_only=True)
class Train:
    """What to train, for how long, and what to leave behind."""

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV"), default_is("that of the given run")] = flag(
        "Id of the environment, such as CartPole-v1; procgen:starpilot (procgen:starpilot-easy) for Procgen's games, "
        "envpool:Pong-v5 for environments that EnvPool steps, my_package:MyEnv-v0 for those of a module.",
        "",
    )
    resume: Annotated[OptionalPath, default_is("a new run")] = flag(
        "A run to go on with from its newest checkpoint, exactly; or one of its checkpoints, RUN/checkpoints/NAME; or"
        " a group of --seeds, each from where it was.",
        None,
    )
    algo: str = flag("The algorithm; --algo a2c --help shows the hyperparameters of A2C.", next(iter(ALGORITHMS)))
    preset: Annotated[str, tyro.conf.arg(metavar="{auto,none}|NAME|FILE|RUN")] = flag(
        "Hyperparameters: auto takes those tuned for ENV, none the defaults; or a preset's name (`proximo presets` "
        "lists them), a file of yours such as my.toml, or a run to repeat.",
        "auto",
    )
    print_config: bool = flag(
        "Show the whole configuration as TOML and train nothing: --print-config > my.toml is a start for a preset.",
        False,
    )
    steps: Annotated[OptionalCount, _from_preset] = flag(
        "Steps of the training, all environments together, such as 1e6.", None
    )
    pause_at: Annotated[OptionalCount, default_is("train to the end")] = flag(
        "Stop at the first update after this many steps, evaluate, and leave the rest for --resume, such as 2e5; "
        "schedules go over all --steps, so that a run with pauses is the run without.",
        None,
    )
    envs: Annotated[OptionalCount, _from_preset] = flag("Parallel environments, such as 8.", None)
    processes: Annotated[Any, one_word(processes_of, "INT|auto")] = flag(
        "Processes that train together, each with its share of the environments, such as 4; auto starts one per core.",
        1,
    )
    workers: Annotated[int | str, one_word(workers_of, "{auto,cores}|INT")] = flag(
        "Worker processes that step the environments: auto times a few steps and decides, 0 has none, a number has so "
        "many, cores (or no word) one for each core. The training is the same.",
        "auto",
    )
    on_env_failure: Literal["raise", "restart"] = flag(
        "What becomes of an environment that crashes or hangs in its worker: the training ends, or it is made again "
        "(restart), which needs worker processes.",
        "raise",
    )
    on_non_finite: Literal["raise", "skip"] = flag(
        "What becomes of NaN and infinity in a step or an update: the training ends, or they are left out (skip).",
        "raise",
    )
    seed: Annotated[OptionalCount, default_is("a random one, which is written down")] = flag(
        "Seed of everything random, such as 1.", None
    )
    seeds: Annotated[OptionalSeeds, default_is("one training")] = flag(
        "Train once with each seed, as processes of their own: 1-5, or 1,3,7. One that fails does not end the others.",
        None,
    )
    jobs: Annotated[OptionalCount, default_is("one per core")] = flag(
        "Trainings of --seeds at a time, such as 2.", None
    )
    until: Annotated[OptionalNumber, default_is("train once")] = flag(
        "Train on, up to five times the steps, until the evaluation's mean return is at least this, such as 475.", None
    )
    eval_every: Annotated[OptionalCount, default_is("only after the training")] = flag(
        "Evaluate every so many steps during the training too, such as 1e4; the best model is kept as best.zip.", None
    )
    eval_episodes: Count = flag("Episodes of each evaluation, such as 10; 0 leaves out the one after the training.", 20)
    video: bool = flag("Film the trained agent into video.gif.", False)
    record_every: Annotated[OptionalCount, default_is("no films during the training")] = flag(
        "Film the agent every so many steps during the training, such as 1e6, into films/step_1000000.gif and so on.",
        None,
    )
    checkpoint_every: Annotated[OptionalCount, default_is("an interval in minutes")] = flag(
        "Steps between checkpoints, from which --resume goes on, such as 1e5.", None
    )
    checkpoint_minutes: Annotated[OptionalNumber, default_is("10, longer where saving takes 1 % of the time")] = flag(
        "Minutes between checkpoints, such as 5.", None
    )
    checkpoint_mode: Literal["auto", "state", "boundary", "off"] = flag(
        "auto saves the environments' state if they can give it; if not, a resume resets them and is not exact. state"
        " refuses such; boundary seeds and resets them at every checkpoint, and so is exact for them too.",
        "auto",
    )
    keep_checkpoints: Count = flag("Checkpoints to keep, besides the best one, such as 10.", 3)
    track: Annotated[tyro.conf.UseAppendAction[tuple[TrackerName, ...]], default_is("the run folder alone")] = flag(
        "Keep metrics, configuration, films and model in a tracker too; for several, repeat it: --track wandb --track "
        "mlflow. A resumed run goes on in the same one; of --seeds each is a run of its tracker, in one group.",
        (),
    )
    tensorboard: bool = flag("The same as --track tensorboard: tensorboard --logdir runs.", False)
    runs_dir: Path = flag("Where run folders are made, such as /data/runs.", Path("runs"))
    device: str = flag("Where the policy learns: auto, cpu, cuda, cuda:1, …", "auto")
    backend: Literal["auto", "fused", "torch"] = flag(
        "Who runs the policy: the fused kernels, PyTorch, or the faster of those that can.", "auto"
    )
    policy: Annotated[str | None, tyro.conf.arg(metavar="NAME"), default_is("the preset's, else what fits")] = flag(
        "MlpPolicy, CnnPolicy or MultiInputPolicy; with memory MlpLstmPolicy, MlpGruPolicy and so on.", None
    )
    policy_kwargs: Annotated[OptionalTable, _from_preset] = flag(
        "Arguments of the policy as TOML, such as 'net_arch = [256, 256], activation_fn = \"ReLU\"'.", None
    )
    env_kwargs: Annotated[OptionalTable, _from_preset] = flag(
        "Arguments of the environment as TOML, such as 'continuous = true'.", None
    )
    use_sde: Annotated[OptionalChoice, _from_preset] = flag(
        "Explore continuous actions with state-dependent noise (gSDE) instead of independent noise: true.", None
    )
    sde_sample_freq: Annotated[OptionalCount, _from_preset] = flag(
        "Steps between new noise matrices of gSDE, such as 4; -1 draws them once per rollout.", None
    )
    intrinsic_reward: Annotated[OptionalText, tyro.conf.arg(metavar="NAME|none"), _from_preset] = flag(
        "A reward for what is new: rnd, icm, re3, ride, ngu, pseudo_counts, e3b or disagreement.", None
    )
    intrinsic_reward_kwargs: Annotated[OptionalTable, _from_preset] = flag(
        "Arguments of the intrinsic reward as TOML, such as 'beta = 0.5, own_value = true, discount = 0.99'.", None
    )
    augmentation: Annotated[OptionalText, tyro.conf.arg(metavar="NAME|none"), _from_preset] = flag(
        "A change of observations that policy and value shall not mind (DrAC), such as random_shift or gaussian_noise.",
        None,
    )
    augmentation_kwargs: Annotated[OptionalTable, _from_preset] = flag(
        "Arguments of the augmentation as TOML, such as 'pad = 2'.", None
    )
    atari_native: Annotated[OptionalChoice, _from_preset] = flag(
        "Let ale-py step Atari games all at once in its own threads, with frames that differ a little: true. Exact "
        "resuming then needs --checkpoint-mode boundary.",
        None,
    )
    normalize: Annotated[OptionalChoice, _from_preset] = flag(
        "Normalise observations and rewards by their running statistics: true.", None
    )
    init_from: Annotated[OptionalPath, default_is("new weights")] = flag(
        "A model file, or a run, whose weights (and statistics of normalisation) the new run starts with.", None
    )
    strict: bool = flag(
        "With --resume: what keeps it from being exact, such as other versions of packages, is an error.", False
    )
    take_over: bool = flag(
        "With --resume: make the process that writes the run's folder stop, and go on in its place.", False
    )
    step_timeout: Annotated[OptionalNumber, default_is("600")] = flag(
        "Seconds after which a worker that has not finished a step is killed.", None
    )
    reset_timeout: Annotated[OptionalNumber, default_is("600")] = flag(
        "Seconds after which a worker that has not answered anything else is killed.", None
    )
    max_restarts: Annotated[OptionalCount, default_is("100")] = flag(
        "With --on-env-failure restart: how often an environment is made again in all.", None
    )
    restarts_per_hour: Annotated[OptionalCount, default_is("5")] = flag(
        "With --on-env-failure restart: how often an environment is made again within an hour.", None
    )
    stop_seconds: float = flag(
        "Seconds that a training has to save and end after Ctrl-C, SIGTERM or SIGHUP.", SECONDS_TO_END
    )
    max_checkpoint_gigabytes: float = flag(
        "With --resume: the largest checkpoint that is read.", MAX_CHECKPOINT_GIGABYTES
    )
    hyperparameters: tyro.conf.Suppress[Any] = flag("The algorithm's own flags; their type depends on it.", None)


def run(words: Sequence[str]) -> int:
    ignore_scheduler_warnings()
    keep_interrupts()
    arguments = parse_arguments(words)
    if (processes := join()) is not None:
        with processes.telling_failures():
            return train_together(arguments, processes)
    if arguments.resume is not None and Group.is_one(arguments.resume):
        from proximo.cli.seeds import resume_group

        return resume_group(Group.open(arguments.resume), resumed_jobs(arguments))
    task = task_of(arguments)
    if isinstance(task, RunConfig):
        if arguments.print_config:
            from proximo.cli.session import print_config

            return print_config(arguments, task)
        if arguments.seeds is not None:
            from proximo.cli.seeds import train_group

            return train_group(arguments, task, words)
    if (count := number_of_processes(*processes_for(arguments, task))) > 1:
        return launch(words, count)
    return do(arguments, task)


def train_together(arguments: Train, processes: Processes) -> int:
    """The same in one of several processes; only the first needs the run folder."""
    if arguments.seeds is not None or arguments.print_config:
        raise ValueError("--seeds and --print-config are for one process; start proximo without torchrun or srun")
    task = task_of(arguments) if processes.rank == 0 else None
    return do(arguments, processes.first(task, "starting"))  # type: ignore[arg-type]


def do(arguments: Train, task: RunConfig | tuple[Train, Run]) -> int:
    from proximo.cli import session

    if isinstance(task, RunConfig):
        return session.train(arguments, task)
    return session.resume(arguments.resume or Path(), *task)


def task_of(arguments: Train) -> RunConfig | tuple[Train, Run]:
    """What is to be trained: a new run, or one to go on with and the arguments that it was started with."""
    return run_config(arguments) if arguments.resume is None else resumed_arguments(arguments)


def processes_for(arguments: Train, task: RunConfig | tuple[Train, Run]) -> tuple[int | Literal["auto"], int]:
    """How many processes were asked for, and for how many environments."""
    if isinstance(task, RunConfig):
        return arguments.processes, task.preset.n_envs
    return task[0].processes, task[1].config.preset.n_envs


SESSION_FLAGS = (
    "workers", "on_env_failure", "on_non_finite", "until", "eval_every", "eval_episodes", "video", "record_every",
    "tensorboard", "track", "device", "backend", "checkpoint_every", "checkpoint_minutes", "checkpoint_mode",
    "keep_checkpoints", "step_timeout", "reset_timeout", "max_restarts", "restarts_per_hour", "stop_seconds",
)  # fmt: skip
"""What a run's configuration remembers for resuming it, beside what is trained."""
RESUME_FLAGS = ("resume", "steps", "pause_at", "strict", "take_over", "max_checkpoint_gigabytes", "processes")
"""What may be given with ``--resume``; everything else is as the run was started."""
WORKER_FLAGS = ("step_timeout", "reset_timeout", "max_restarts", "restarts_per_hour")


def resumed_arguments(arguments: Train) -> tuple[Train, Run]:
    """The arguments that the run to resume was started with, and the run."""
    check_only_resume(arguments, *RESUME_FLAGS)
    check_numbers(arguments)
    run = Run.open(arguments.resume or "")
    session = {name: value for name, value in run.config.session.items() if name in SESSION_FLAGS}
    if isinstance(workers := session.get("workers"), bool):  # of an earlier version
        session["workers"] = "cores" if workers else 0
    now = {name: getattr(arguments, name) for name in RESUME_FLAGS}
    resumed = Train(env=run.config.env, algo=run.config.algo, **session, **now)
    try:
        check_session(session)
        check_numbers(resumed)
    except ValueError as error:
        raise RunFolderError(f"{run.folder.config}: {error}") from error
    return resumed, run


def check_session(session: Mapping[str, Any]) -> None:
    """Refuse values of a file that the flag of that name could not have; what is missing has its default."""
    kinds = get_type_hints(Train)
    for name, value in session.items():
        kind = kinds[name]
        if get_origin(kind) is tuple:
            kind, values = get_args(kind)[0], value if isinstance(value, list) else [None]
            if not all(each in get_args(kind) for each in values):
                raise ValueError(f"{name} of its session is {brief(value)}; expected of {', '.join(get_args(kind))}")
            continue
        choices = get_args(kind) if get_origin(kind) is Literal else None
        expected = tuple(part for part in get_args(kind) if isinstance(part, type)) or (kind,)
        expected = (*expected, int) if float in expected else expected
        fits = value in choices if choices else isinstance(value, expected) and (bool in expected or value is not True)
        if not fits:
            raise ValueError(f"{name} of its session is {brief(value)}, which the flag cannot be")


def resumed_jobs(arguments: Train) -> int | None:
    """How many trainings of a resumed group run at a time; None for as many as before."""
    try:
        check_only_resume(arguments, "resume", "jobs")
    except ValueError as error:
        path = arguments.resume
        raise ValueError(f"{error}. {path} is a group; one run of it takes more: --resume {path}/RUN") from error
    if arguments.jobs is not None:
        check_at_least("--jobs", arguments.jobs, 1)
    return arguments.jobs


def check_only_resume(arguments: Train, *allowed: str) -> None:
    given = [item.name for item in fields(arguments) if getattr(arguments, item.name) != item.default]
    given += list(given_flags(arguments.hyperparameters))
    if others := [name for name in given if name not in (*allowed, "hyperparameters")]:
        flags = ", ".join("ENV" if name == "env" else f"--{name.replace('_', '-')}" for name in others)
        raise ValueError(f"--resume goes on with the run as it was started, and takes no {flags}; leave it out")


def parse_arguments(words: Sequence[str]) -> Train:
    """The arguments, with those of the chosen algorithm in ``hyperparameters``."""
    chosen = _chosen_algorithm(words)
    algorithm = algorithm_class(chosen)
    flags = hyperparameter_flags(algorithm.config_class, default_arguments(algorithm))
    own = [
        ("algo", Literal[tuple(ALGORITHMS)], other_default(Train, "algo", chosen)),
        ("hyperparameters", flags, other_default(Train, "hyperparameters", flags())),
    ]
    kind = make_dataclass("Train", own, bases=(Train,), frozen=True, kw_only=True)
    return parse(kind, "train", SUMMARY, EXAMPLES, with_value(words))


def run_config(arguments: Train) -> RunConfig:
    """Preset, then flags: the whole description of the run that is to be."""
    check_numbers(arguments)
    if arguments.strict or arguments.take_over:
        raise ValueError("--strict and --take-over are for runs that go on: give --resume RUN too, or leave them out")
    base = base_config(arguments)
    changes = given_flags(arguments.hyperparameters)
    for name in ("policy_kwargs", "use_sde", "sde_sample_freq"):
        if (value := getattr(arguments, name)) is not None:
            changes[name] = value
    if arguments.sde_sample_freq is not None and not changes.get(
        "use_sde", base.preset.model_arguments().get("use_sde")
    ):
        raise ValueError(
            f"--sde-sample-freq is {arguments.sde_sample_freq}, but nothing is drawn without gSDE; give --use-sde true "
            "too"
        )
    changes |= named_parts(arguments)
    settings = {
        "n_timesteps": arguments.steps,
        "n_envs": arguments.envs,
        "policy": arguments.policy,
        "env_kwargs": arguments.env_kwargs,
        "normalize": arguments.normalize,
        "atari_native": arguments.atari_native,
    }
    seed = arguments.seed if arguments.seeds is None else arguments.seeds[0]
    return replace(
        base,
        seed=base.seed if seed is None else seed,
        preset=base.preset.changed(changes, **{name: value for name, value in settings.items() if value is not None}),
        session={
            **{name: getattr(arguments, name) for name in SESSION_FLAGS},
            "launch": launch_name(),
            "init_from": None if arguments.init_from is None else str(arguments.init_from),
        },
    )


def named_parts(arguments: Train) -> dict[str, Any]:
    """Intrinsic reward and augmentation; another name has other arguments than that of the preset."""
    changes: dict[str, Any] = {}
    for part in NAMED_PARTS:
        name, options = getattr(arguments, part), getattr(arguments, f"{part}_kwargs")
        if name is not None:
            changes |= {part: None if name.lower() == "none" else name, f"{part}_kwargs": options or {}}
        elif options is not None:
            changes[f"{part}_kwargs"] = options
    return changes


def check_numbers(arguments: Train) -> None:
    """Refuse numbers that no training can have; hyperparameters are checked by the algorithm."""
    for name, value, least in (
        ("--steps", arguments.steps, 1),
        ("--pause-at", arguments.pause_at, 1),
        ("--envs", arguments.envs, 1),
        ("--seed", arguments.seed, 0),
        ("--jobs", arguments.jobs, 1),
        ("--eval-every", arguments.eval_every, 1),
        ("--eval-episodes", arguments.eval_episodes, 0 if arguments.until is arguments.eval_every is None else 1),
        ("--record-every", arguments.record_every, 1),
        ("--checkpoint-every", arguments.checkpoint_every, 1),
        ("--keep-checkpoints", arguments.keep_checkpoints, 1),
        ("--max-restarts", arguments.max_restarts, 0),
        ("--restarts-per-hour", arguments.restarts_per_hour, 1),
    ):
        if value is not None:
            check_at_least(name, value, least)
    if arguments.checkpoint_minutes is not None and not arguments.checkpoint_minutes > 0:
        raise ValueError(f"--checkpoint-minutes is {arguments.checkpoint_minutes}; expected a number above 0")
    for name, seconds in (
        ("--step-timeout", arguments.step_timeout),
        ("--reset-timeout", arguments.reset_timeout),
        ("--stop-seconds", arguments.stop_seconds),
        ("--max-checkpoint-gigabytes", arguments.max_checkpoint_gigabytes),
    ):
        if seconds is not None and not seconds > 0:
            raise ValueError(f"{name} is {seconds}; expected a number above 0")
    if arguments.workers not in ("auto", "cores") and (isinstance(arguments.workers, str) or arguments.workers < 0):
        raise ValueError(f"--workers is {arguments.workers}; expected auto, cores, or a number of at least 0")
    if arguments.workers == 0 and (needed_for := flags_of_workers(arguments)) is not None:
        raise ValueError(f"{needed_for}: for environments in worker processes; leave --workers 0 out")
    if arguments.seeds is not None and arguments.seed is not None:
        raise ValueError("give --seed or --seeds, not both")
    if arguments.jobs is not None and arguments.seeds is None:
        raise ValueError("--jobs says how many of several trainings run at a time: give --seeds too, such as 1-5")
    if None not in (arguments.pause_at, arguments.steps) and arguments.pause_at >= arguments.steps:  # type: ignore[operator]
        raise ValueError(f"--pause-at is {arguments.pause_at}, which is no pause in {arguments.steps} --steps")
    if arguments.pause_at is not None and (
        arguments.checkpoint_mode in ("boundary", "off") or arguments.until is not None
    ):
        raise ValueError(
            "--pause-at needs a checkpoint at the pause, and a training with a last step: it goes neither with "
            "--checkpoint-mode boundary or off nor with --until"
        )
    if arguments.checkpoint_mode == "boundary" and arguments.checkpoint_every is None:
        raise ValueError(
            "--checkpoint-mode boundary resets the environments at checkpoints: say when, in steps, with "
            "--checkpoint-every"
        )
    if arguments.checkpoint_every is not None and arguments.checkpoint_minutes is not None:
        raise ValueError("give --checkpoint-every or --checkpoint-minutes, not both")


def flags_of_workers(arguments: Train) -> str | None:
    """The flags that only mean something where worker processes step the environments; None if none was given."""
    given = [f"--{name.replace('_', '-')}" for name in WORKER_FLAGS if getattr(arguments, name) is not None]
    if arguments.on_env_failure == "restart":
        given.append("--on-env-failure restart")
    return ", ".join(given) or None


def base_config(arguments: Train) -> RunConfig:
    """What is trained without the flags: the run that ``--preset`` repeats, else an environment and its preset."""
    source = preset_source(arguments.preset)
    algo, env = arguments.algo, arguments.env
    if source is not None:
        if (source.algo or algo) != algo:
            raise ValueError(f"{arguments.preset} is for {source.algo}, not {algo}; leave --algo out")
        env = env or source.env or ""
    if not env:
        raise ValueError("give the id of an environment (proximo train CartPole-v1), or a run to go on with (--resume)")
    env = versioned_id(env)
    if isinstance(source, RunConfig):
        return replace(source, env=env)
    preset = preset_by_name(arguments.preset, algo, env) if source is None else source.preset(algo, env)
    return RunConfig(env=env, algo=algo, seed=_drawn_seed(), preset=preset)


def preset_source(preset: str) -> RunConfig | PresetFile | None:
    """The configuration or the file that ``--preset`` names; None for a preset, whose name goes before a path."""
    presets = {"auto", "none", *(name for algorithm in ALGORITHMS for name in available_presets(algorithm))}
    path = Path(preset)
    if preset in presets or not path.exists():
        return None
    if path.suffix != ".toml" or path.is_dir():
        return Run.open(path).config
    file = PresetFile.read(path)
    return file if file.of_run is None else RunConfig.from_table(file.of_run, path)


def _chosen_algorithm(words: Sequence[str]) -> str:
    """The algorithm decides which flags there are, so it is looked up before they are parsed."""
    if (name := _value_of("--algo", words)) in ALGORITHMS:
        return name
    source = preset_source(_value_of("--preset", words) or "auto")
    return (source and source.algo) or next(iter(ALGORITHMS))


def _value_of(flag: str, words: Sequence[str]) -> str:
    """The last value that the words give to a flag, in either form (``--flag value``, ``--flag=value``)."""
    last = ""
    for word, following in pairwise([*words, ""]):
        name, equals, value = word.partition("=")
        if name == flag:
            last = value if equals else following
    return last


def _drawn_seed() -> int:
    return secrets.randbelow(2**31)
