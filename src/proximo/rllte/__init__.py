"""For rllte's scripts: replace ``rllte`` by ``proximo.rllte`` in their imports."""

from proximo.rllte.paths import install

install()
