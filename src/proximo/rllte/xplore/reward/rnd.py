"""rllte's module path of RND."""

from proximo.exploration import RND as RND
