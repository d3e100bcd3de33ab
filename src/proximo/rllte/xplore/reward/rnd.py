"""rllte's module path of RND."""

from proximo.rllte.xplore.reward import RND as RND
