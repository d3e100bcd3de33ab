"""rllte's module path of A2C."""

from proximo.rllte.agent.a2c import A2C as A2C
