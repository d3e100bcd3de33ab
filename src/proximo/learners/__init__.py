"""Learners update a policy from a rollout and return metrics; they neither log nor step environments."""
