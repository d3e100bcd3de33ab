"""Policies with memory."""
