"""rllte's ``xploit``: encoders, policies and storages."""
