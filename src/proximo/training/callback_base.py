"""Callbacks: what a user's code is called with while a model trains, and how callbacks hold other callbacks.

A callback costs only what it uses. Before each rollout the training loop asks :meth:`BaseCallback.wants_steps`
(shall ``on_step`` be called after every step of the environments?) and :meth:`BaseCallback.wants_locals` (shall
``self.locals`` be filled for it?). A callback that only acts when a rollout or the training starts or ends is not
called in between, and one that only counts steps makes nobody build info dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, TypeAlias, TypeVar

from proximo.errors import ArgumentTypeError, ArgumentValueError
from proximo.other_libraries import stands_for
from proximo.training.loggers import Logger, announce

Method = TypeVar("Method", bound=Callable[..., bool])
FunctionCallback: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], bool]


def counters_only(method: Method) -> Method:
    """Mark an ``_on_step`` that reads no ``self.locals`` and no ``self.globals``, so that nobody fills them for it."""
    method.counters_only = True  # type: ignore[attr-defined]
    return method


@stands_for("stable_baselines3.common.callbacks", "BaseCallback")
class BaseCallback:
    """Base of all callbacks: override the methods whose names start with ``_on_`` or ``_init_``.

    ``model``, ``training_env`` and ``logger`` can be used from ``_init_callback`` on. ``n_calls`` counts calls of
    ``on_step``, ``num_timesteps`` the steps of all environments together; ``parent`` is the callback that triggers
    this one, if any. ``locals`` and ``globals`` hold the variables of the training loop (``infos``, ``dones``,
    ``rewards``, ``actions``, ``total_timesteps``, …).

    What a callback remembers goes into checkpoints if its attributes are named in ``state_names``, or if it has a
    ``get_state`` and ``set_state`` of its own.
    """

    state_names: ClassVar[tuple[str, ...]] = ("n_calls",)
    model: Any  # the agent; typed loosely, so that users' callbacks may use all of their model's own attributes

    def __init__(self, verbose: int = 0) -> None:
        """Arguments:
        verbose: 0 prints nothing, 1 what happens, 2 more.
        """
        self.n_calls = 0
        self.num_timesteps = 0
        self.verbose = verbose
        self.locals: dict[str, Any] = {}
        self.globals: dict[str, Any] = {}
        self.parent: Any = None

    @property
    def training_env(self) -> Any:
        """The vector environment that the model trains on."""
        env = self.model.get_env()
        if env is None:
            raise ArgumentValueError("the model has no environment; give it one with set_env() before using callbacks")
        return env

    @property
    def logger(self) -> Logger:
        """The model's logger."""
        logger: Logger = self.model.logger
        return logger

    @property
    def _is_writer(self) -> bool:
        """Whether this process writes files and prints: the first of those that train together, or one alone."""
        return getattr(getattr(self, "model", None), "rank", 0) == 0

    def _announce(self, message: str, level: int = 1) -> None:
        """Tell the person at the terminal, where ``verbose`` asks for it."""
        if self.verbose >= level and self._is_writer:
            announce(message)

    # ------------------------------------------------------------------ what the training loop asks and calls

    def wants_steps(self) -> bool:
        """Whether ``on_step`` has anything to do."""
        return not (_is(self._on_step, BaseCallback._on_step) and _is(self.on_step, BaseCallback.on_step))

    def wants_locals(self) -> bool:
        """Whether ``on_step`` may read ``self.locals``: assumed of every step method not marked `counters_only`."""
        if not _is(self.on_step, BaseCallback.on_step) or not _is(self.update_locals, BaseCallback.update_locals):
            return True
        return self.wants_steps() and not getattr(self._on_step, "counters_only", False)

    def init_callback(self, model: Any) -> None:
        """Take the model; the loop calls it before training."""
        self.model = model
        self._init_callback()

    def on_training_start(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        """What the loop calls before its first rollout."""
        self.locals = locals_
        self.globals = globals_
        self.num_timesteps = self.model.num_timesteps  # not 0 when an earlier training is continued
        self._on_training_start()

    def on_rollout_start(self) -> None:
        """What the loop calls before each rollout."""
        self.num_timesteps = self.model.num_timesteps
        self._on_rollout_start()

    def on_step(self) -> bool:
        """Called after each step of the environments, or by the parent at its event; False ends the training."""
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        return self._on_step()

    def on_rollout_end(self) -> None:
        """What the loop calls after each rollout, before the update."""
        self.num_timesteps = self.model.num_timesteps
        self._on_rollout_end()

    def between_iterations(self) -> bool:
        """Called before each rollout and after the last update, when nothing is under way; False ends the training.

        Here, and only here, the whole of a training can be saved: see ``proximo.training.checkpoints``.
        """
        self.num_timesteps = self.model.num_timesteps
        return self._between_iterations()

    def get_state(self) -> dict[str, Any]:
        """What must be remembered for a resumed training to go on exactly, as plain values and arrays."""
        return {name: deepcopy(getattr(self, name)) for name in self.state_names}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`get_state` gave; called after ``on_training_start``."""
        for name in self.state_names:
            if name in state:
                setattr(self, name, state[name])

    def on_training_end(self) -> None:
        """What the loop calls after the last update."""
        self._on_training_end()

    def close(self) -> None:
        """Called once the training is over, also when an exception ended it: free what the callback holds."""
        for callback in _own(self._children()):
            callback.close()

    def update_locals(self, locals_: dict[str, Any]) -> None:
        """Take over the training loop's current variables, and hand them to the callbacks that this one holds."""
        self.locals.update(locals_)
        self.update_child_locals(locals_)

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        """Hand the loop's variables on to the callbacks that this one calls."""
        for callback in self._children():
            callback.update_locals(locals_)

    # ------------------------------------------------------------------ what a subclass overrides

    def _init_callback(self) -> None:
        pass

    def _on_training_start(self) -> None:
        for callback in self._children():
            callback.on_training_start(self.locals, self.globals)

    def _on_rollout_start(self) -> None:
        pass

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        pass

    def _between_iterations(self) -> bool:
        proceed = True
        for callback in _own(self._children()):  # all of them, even after one has ended the training
            proceed = callback.between_iterations() and proceed
        return proceed

    def _children(self) -> Sequence[Any]:
        """The callbacks that this one calls."""
        return ()

    def _on_training_end(self) -> None:
        pass


class EventCallback(BaseCallback):
    """Base of callbacks that call another one, ``callback``, at events; subclasses call ``_on_event``."""

    def __init__(self, callback: BaseCallback | None = None, verbose: int = 0) -> None:
        """Arguments:
        callback: What is called at an event; None calls nothing.
        verbose: 0 prints nothing, 1 what happens, 2 more.
        """
        super().__init__(verbose)
        self.callback = callback
        if callback is not None:
            callback.parent = self

    def _children(self) -> list[BaseCallback]:
        return [] if self.callback is None else [self.callback]

    def wants_locals(self) -> bool:
        return super().wants_locals() or (self.wants_steps() and any(map(callback_wants_locals, self._children())))

    def init_callback(self, model: Any) -> None:
        super().init_callback(model)
        for child in self._children():
            child.init_callback(model)

    def _on_event(self) -> bool:
        return True if self.callback is None else self.callback.on_step()


class CallbackList(BaseCallback):
    """Calls callbacks one after the other; any of them can end the training."""

    def __init__(self, callbacks: Sequence[BaseCallback]) -> None:
        """Arguments:
        callbacks: In the order in which they are called.
        """
        super().__init__()
        if not isinstance(callbacks, list | tuple):
            raise ArgumentTypeError(f"CallbackList takes a list of callbacks, not {type(callbacks).__name__}")
        self.callbacks = list(callbacks)

    def _children(self) -> Sequence[Any]:
        return self.callbacks

    def wants_steps(self) -> bool:
        return any(map(callback_wants_steps, self.callbacks))

    def wants_locals(self) -> bool:
        return any(map(callback_wants_locals, self.callbacks))

    def _init_callback(self) -> None:
        for callback in self.callbacks:
            callback.init_callback(self.model)
            callback.parent = self.parent  # the members answer to whoever triggers the list

    def _on_rollout_start(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_start()

    def _on_step(self) -> bool:
        proceed = True
        for callback in self.callbacks:  # all of them, even after one has ended the training
            proceed = callback.on_step() and proceed
        return proceed

    def _on_rollout_end(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_end()

    def _on_training_end(self) -> None:
        for callback in self.callbacks:
            callback.on_training_end()


class ConvertCallback(BaseCallback):
    """Calls a function ``callback(locals, globals)`` at every step; what it returns says whether to go on."""

    def __init__(self, callback: FunctionCallback | None, verbose: int = 0) -> None:
        """Arguments:
        callback: A function of the loop's locals and globals; False ends the training.
        verbose: 0 prints nothing, 1 what happens, 2 more.
        """
        super().__init__(verbose)
        self.callback = callback

    def wants_steps(self) -> bool:
        return self.callback is not None

    def _on_step(self) -> bool:
        return True if self.callback is None else self.callback(self.locals, self.globals)


def callback_wants_steps(callback: Any) -> bool:
    """``callback.wants_steps()``; a callback of another library's class is taken to want everything."""
    return bool(callback.wants_steps()) if isinstance(callback, BaseCallback) else True


def callback_wants_locals(callback: Any) -> bool:
    """``callback.wants_locals()``; a callback of another library's class is taken to want everything."""
    return bool(callback.wants_locals()) if isinstance(callback, BaseCallback) else True


def callback_states(callback: BaseCallback) -> list[list[Any]]:
    """The class name and state of a callback and of all that it calls."""
    return [[type(each).__name__, each.get_state()] for each in _all_of(callback)]


def restore_callback_states(callback: BaseCallback, states: Sequence[Sequence[Any]]) -> None:
    """Give each callback the first state of its class that is left over; one that is new begins again."""
    left = list(states)
    for each in _all_of(callback):
        match = next((entry for entry in left if entry[0] == type(each).__name__), None)
        if match is not None:
            left.remove(match)
            each.set_state(match[1])


def _all_of(callback: BaseCallback) -> Iterator[BaseCallback]:
    """A callback and those that it calls, without the lists that hold them."""
    if not isinstance(callback, CallbackList):
        yield callback
    for child in _own(callback._children()):
        yield from _all_of(child)


def _own(callbacks: Sequence[Any]) -> list[BaseCallback]:
    """Those of the library: a callback of another library's class lacks its newer methods."""
    return [callback for callback in callbacks if isinstance(callback, BaseCallback)]


def as_callback(callback: Any) -> BaseCallback:
    """One callback from what ``learn(callback=…)`` takes: nothing, a callback, a list of them, or a function.

    Objects with the same methods but of another library (for example a callback derived from the class of
    Stable-Baselines3 itself) work too.
    """
    if callback is None:
        return CallbackList([])
    if isinstance(callback, BaseCallback):
        return callback
    if isinstance(callback, list | tuple):
        return CallbackList([as_callback(member) for member in callback])
    if not isinstance(callback, type):  # a class is a callback that somebody forgot to make
        if hasattr(callback, "init_callback") and hasattr(callback, "on_step"):
            return CallbackList([callback])
        if callable(callback):
            return ConvertCallback(callback)
    raise TypeError(
        f"callback is {callback!r}; expected a BaseCallback instance, a list of them, "
        "or a function of (locals, globals)"
    )


def _is(method: Any, function: Callable[..., Any]) -> bool:
    """Whether a bound method is ``function``, overridden neither by a subclass nor on the instance."""
    return getattr(method, "__func__", None) is function
