"""Learners: how a network is updated from a storage."""

from proximo.hsuanwu import left_out
from proximo.hsuanwu.xploit.learner.base import BaseLearner as BaseLearner
from proximo.hsuanwu.xploit.learner.ppg import PPGLearner as PPGLearner
from proximo.hsuanwu.xploit.learner.ppo import DrACLearner as DrACLearner
from proximo.hsuanwu.xploit.learner.ppo import PPOLearner as PPOLearner

__getattr__ = left_out(__name__)
