"""``proximo export``: a trained policy as a file that runs without this library."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from proximo.cli.command import flag, parse
from proximo.cli.flags import OptionalPath, default_is

if TYPE_CHECKING:
    from proximo.agents.on_policy import OnPolicyAlgorithm

SUMMARY = """Write the policy of a run or a model file as one ONNX file (.onnx) or PyTorch program (.pt2), which needs
neither Proximo nor, as ONNX, PyTorch. It takes observations as the environment gives them and answers with actions as
the environment takes them; the critic is not in it. Before it is written it is compared with the model's own
predictions."""
EXAMPLES = (
    "proximo export runs/CartPole-v1-ppo-1-20260102-030405 policy.onnx",
    "proximo export RUN policy.onnx --model best.zip",
    "proximo export RUN policy.onnx --stochastic      (a sample, from an input of noise)",
    "proximo export model.zip policy.pt2",
    "proximo export model_from_sb3.zip policy.onnx --normalizer vecnormalize.pkl",
)
NEVER_USED = {"learning_rate": 3e-4, "clip_range": 0.2}
"""In the place of code in a file: only training would read it."""


@dataclass(frozen=True, kw_only=True)
class Export:
    """What to export, and where to."""

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN|MODEL")] = flag(
        "Run folder, as made by proximo train, or model file."
    )
    out: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="OUT")] = flag(
        "File to write; its ending says what it becomes: .onnx or .pt2."
    )
    model: Annotated[OptionalPath, default_is("the run's model.zip")] = flag(
        "Another model file of the run, such as best.zip.", None
    )
    stochastic: bool = flag(
        "Sample the actions, from an input of noise; otherwise the most likely one is taken.", False
    )
    masks: bool = flag("Take action masks as an input, also where the algorithm does not ask for them.", False)
    normalizer: Annotated[OptionalPath, default_is("the model's")] = flag(
        "File of VecNormalize, for a model whose own file holds no statistics, as Stable-Baselines3's.", None
    )
    overwrite: bool = flag("Replace OUT if it exists.", False)


def run(words: Sequence[str]) -> int:
    arguments = parse(Export, "export", SUMMARY, EXAMPLES, words)
    if arguments.out.exists() and not arguments.overwrite:
        raise FileExistsError(f"{arguments.out} exists; choose another name, or add --overwrite")
    from proximo.cli.console import output, quiet_libraries, shown_path
    from proximo.cli.inspect import readable_size
    from proximo.export import export_policy
    from proximo.export.writers import format_of
    from proximo.files.normalizer_file import read_normalizer

    format_of(arguments.out.suffix)  # before environments are made
    given = None if arguments.normalizer is None else read_normalizer(arguments.normalizer)
    with quiet_libraries():
        model, file, env = load_policy(arguments.source, arguments.model)
        with nullcontext() if env is None else closing(env):
            report = export_policy(
                model,
                arguments.out,
                stochastic=arguments.stochastic,
                action_masks=arguments.masks or model.masks_actions,
                normalizer=given,
                source=file,
            )
    console = output()
    console.print(f"{shown_path(report.path)}: {readable_size(report.size)}", markup=False)
    for name in ("inputs", "outputs"):
        for port, what in report.metadata[name].items():
            shape = ", ".join(map(str, what["shape"]))
            console.print(f"  {name[:-1]:6} {port}: {what['dtype']} [{shape}]", markup=False)
    console.print(f"  {report}", markup=False)
    return 0


def load_policy(source: Path, name: Path | None) -> tuple[OnPolicyAlgorithm, Path, Any]:
    """The model of a run with environments like those it was trained in, or that of a file by itself; and the file."""
    from proximo.cli.playing import find_model, load_agent
    from proximo.cli.runs import Run
    from proximo.training.run_folder import RunFolderError

    try:
        run = Run.open(source)
    except RunFolderError:
        if not source.is_file():
            raise
        if name is not None:
            raise ValueError(f"--model names a file of a run, and {source} is a model file itself") from None
        return load_bare(source), source, None
    file = source if source.is_file() and name is None else find_model(run, name)
    model, env = load_agent(run, n_envs=1, seed=None, model_file=file.resolve(), device="cpu")
    return model, file, env


def load_bare(path: Path) -> OnPolicyAlgorithm:
    from proximo.cli.algorithms import algorithm_class, algorithm_of_file
    from proximo.persistence.inspection import inspect_file

    code = inspect_file(path).needs
    replaced = {name: value for name, value in NEVER_USED.items() if name in code}
    algorithm, _ = algorithm_of_file(path)
    return algorithm_class(algorithm).load(path, device="cpu", custom_objects=replaced or None)
