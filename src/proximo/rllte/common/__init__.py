"""rllte's ``common``: the bases of agents, policies, encoders and storages."""
