"""Give an environment action masks."""

from proximo.envs.wrappers.action_masker import ActionMasker as ActionMasker
