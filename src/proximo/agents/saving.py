"""The files' side of an agent: parameters, model files, checkpoints. The files themselves are in ``persistence``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Self

import torch

from proximo.agents.attributes import AgentAttributes
from proximo.distributed import Group, join
from proximo.functional.return_moments import RETURN_MOMENTS, stored_moments, stored_units
from proximo.persistence import model_files, training_state
from proximo.training.callbacks import BaseCallback

if TYPE_CHECKING:
    from proximo.export import ExportReport


def _from_first(group: Group, path: str | Path | BinaryIO) -> BinaryIO:
    """The file that the first process reads, for all of them."""
    data = None
    if group.rank == 0:
        with group.telling_failures():
            data = Path(path).read_bytes() if isinstance(path, str | Path) else path.read()
    return BytesIO(group.first(data, "loading a model") or b"")


class FileSide(AgentAttributes):
    """What an agent offers to be saved, loaded and resumed."""

    saved_attributes: ClassVar[tuple[str, ...]] = ()
    """Attributes of a subclass that its model files hold: plain values. A file sets no others besides the library's."""

    masks_actions: ClassVar[bool] = False
    """Whether the environments are asked which actions are allowed, if nobody says otherwise."""

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """State dictionaries of policy and optimiser; once the value is in units of returns, these units too."""
        policy = self.policy
        parameters = {"policy": policy.state_dict(), "policy.optimizer": policy.optimizer.state_dict()}
        if self.return_moments.count:
            parameters[RETURN_MOMENTS] = stored_units(self.return_moments)
        return parameters

    def set_parameters(
        self,
        load_path_or_dict: str | Path | Mapping[str, Mapping[str, Any]],
        exact_match: bool = True,
        device: torch.device | str = "auto",
    ) -> None:
        """Load weights (and optimiser state) from :meth:`get_parameters`' dictionary or from a model file.

        With ``exact_match`` every part and every weight must be there; without, only what is given is changed. The
        units of the value come with the weights of a model with ``normalize_returns``; a whole dictionary without them
        is in units of rewards.
        """
        if isinstance(load_path_or_dict, Mapping):
            parameters = {name: part for name, part in load_path_or_dict.items() if name != RETURN_MOMENTS}
            if exact_match or RETURN_MOMENTS in load_path_or_dict:
                self._use_units(stored_moments(load_path_or_dict.get(RETURN_MOMENTS, {})))  # type: ignore[attr-defined]
            model_files.set_parameters(self, parameters, exact_match)  # type: ignore[arg-type]
        else:
            model_files.load_parameters(self, load_path_or_dict, exact_match)  # type: ignore[arg-type]

    def save(
        self, path: str | Path | BinaryIO, exclude: Iterable[str] | None = None, include: Iterable[str] | None = None
    ) -> None:
        """Write the model as one safe file: nothing in it is code, and it appears whole or not at all.

        Attributes of a subclass are saved when its ``saved_attributes`` names them. Of processes that train together
        only the first writes files, so all of them may call this.
        """
        if self._writes(path):
            if isinstance(path, str | Path) and not (folder := Path(path).absolute().parent).exists():
                warnings.warn(f"the folder {folder} is not there; it is made", stacklevel=2)
            model_files.save(self, path, exclude=exclude, include=include)  # type: ignore[arg-type]

    def export(
        self,
        path: str | Path,
        *,
        stochastic: bool = False,
        action_masks: bool | None = None,
        normalizer: str | Path | None = None,
    ) -> ExportReport:
        """Write the policy alone as one file that runs without this library: ``.onnx``, or PyTorch's ``.pt2``.

        The file takes observations as the environment gives them and answers with actions as it takes them:
        normalisation, network, the likeliest action (``stochastic``: a sample from an input of noise) and bounds are
        inside, the critic is not. ``action_masks`` makes masks an input, by default where the model learned with them.
        ``normalizer`` is a file of ``VecNormalize`` for a model that has no statistics of its own. The file is compared
        with :meth:`predict` first; ``ExportError`` says why there is none.
        """
        from proximo.export import export_policy  # not needed to train
        from proximo.files.normalizer_file import read_normalizer

        return export_policy(
            self,  # type: ignore[arg-type]
            path,
            stochastic=stochastic,
            action_masks=self._learned_with_masks() if action_masks is None else action_masks,
            normalizer=None if normalizer is None else read_normalizer(Path(normalizer)),
            write=self._writes(path),
        )

    def _learned_with_masks(self) -> bool:
        collector = self._collector
        return self.masks_actions or (collector is not None and collector.masks is not None)

    def _writes(self, path: str | Path | BinaryIO) -> bool:
        """Whether this process writes there: a stream is its own, a file is the first one's."""
        first: bool = self.rank == 0  # type: ignore[attr-defined]
        return first or not isinstance(path, str | Path)

    @classmethod
    def load(
        cls,
        path: str | Path | BinaryIO,
        env: Any = None,
        device: torch.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        *,
        max_bytes: int | None = None,
        **kwargs: Any,
    ) -> Self:
        """Read a model from a file of :meth:`save`, or of Stable-Baselines3's; nothing in the file is executed.

        ``custom_objects`` supplies values that have no safe form in a file (a lambda, a class of yours), and
        overrides others; ``kwargs`` override attributes. A checkpoint's training state takes effect in
        ``learn(…, reset_num_timesteps=False)`` or :meth:`resume`; ``custom_objects={"training_state": None}`` leaves
        it out. ``max_bytes`` is the largest file that is read, by default 4 GiB; a checkpoint of PPG may be larger.
        With an ``env``, processes that train together load together, and only the first needs the file.
        """
        if env is not None and kwargs.get("distributed", True) and (group := join()) is not None:
            path = _from_first(group, path)
        return model_files.load(
            cls,  # type: ignore[type-var]
            path,
            env,
            device,
            custom_objects,
            print_system_info=print_system_info,
            force_reset=force_reset,
            max_bytes=max_bytes,
            **kwargs,
        )

    def _own_tensors(self) -> dict[str, torch.Tensor]:
        """What an algorithm keeps in a model file beside the weights and their optimiser's state."""
        return stored_units(self.return_moments) if self.return_moments.count else {}

    def _load_own_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take over what :meth:`_own_tensors` gave."""
        self.return_moments = stored_moments(tensors)
        self._load_algorithm_tensors({name: tensor for name, tensor in tensors.items() if name != RETURN_MOMENTS})

    def _load_algorithm_tensors(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Those of them that a subclass added."""
        if tensors:
            raise ValueError(f"{type(self).__name__} keeps no tensors of its own, got {', '.join(tensors)}")

    # -- checkpoints

    def has_state(self) -> bool:
        """Whether the environments can tell their state, so that a training can go on exactly."""
        return self._required_collector().env.has_state()  # type: ignore[attr-defined]

    def training_state(self, boundary: bool = False, exact: bool = True) -> dict[str, Any]:
        """All that decides how the training goes on, besides the model itself; to be called between iterations.

        At a ``boundary`` the environments are seeded and reset instead of being asked for their state. Without
        ``exact`` they are not asked: a training that goes on from there resets them, and says so. Of processes that
        train together all must call this: each adds the state of its environments.
        """
        return training_state.take(self, self._callback, boundary, exact)  # type: ignore[arg-type]

    def save_checkpoint(self, path: str | Path | BinaryIO, state: Mapping[str, Any] | None = None) -> None:
        """Write a model file from which the training goes on exactly: with the state given, or that of this moment.

        Weights that hold NaN or infinity are refused with ``NonFiniteError``.
        """
        training_state.check_finite(self)  # type: ignore[arg-type]
        given = self.training_state() if state is None else state
        if self._writes(path):
            model_files.save(self, path, training_state=given)  # type: ignore[arg-type]

    def _restore_training(self, callback: BaseCallback) -> None:
        """Go on from the checkpoint that the model was loaded from, if it is to."""
        state, self._training_state = self._training_state, None
        if state is not None:
            training_state.restore(self, callback, state)  # type: ignore[arg-type]
