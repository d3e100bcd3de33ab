"""Encoders, learners and storages."""
