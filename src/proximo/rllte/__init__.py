"""For rllte's scripts: replace ``rllte`` by ``proximo.rllte`` in their imports."""
