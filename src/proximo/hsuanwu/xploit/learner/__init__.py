"""Learners."""

from __future__ import annotations

from proximo.hsuanwu.xploit.learner.ppg import PPGLearner as PPGLearner
