"""Learners."""

from proximo.hsuanwu.xploit.learner.ppg import PPGLearner as PPGLearner
