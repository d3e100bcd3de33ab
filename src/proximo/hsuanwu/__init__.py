"""Hsuanwu's module paths: replace ``hsuanwu`` by ``proximo.hsuanwu`` in imports and configurations.

The objects behind them are the library's: one PPG, one rollout memory, one collector.
"""
