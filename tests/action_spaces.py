"""Random nested action spaces, for Hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st

BOX_TYPES = (np.float32, np.float64, np.float16, np.int32, np.uint8)


@st.composite
def boxes(draw: Any) -> spaces.Box:
    dtype = draw(st.sampled_from(BOX_TYPES))
    shape = draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    low, width = draw(st.integers(0, 3)), draw(st.integers(1, 4))
    if np.issubdtype(dtype, np.floating):
        return spaces.Box(dtype(low - 1.3), dtype(low - 1.3 + 0.7 * width), shape, dtype)
    return spaces.Box(dtype(low), dtype(low + width), shape, dtype)


discretes = st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 5), st.integers(-3, 3))
multidiscretes = st.lists(st.tuples(st.integers(1, 4), st.integers(-2, 2)), min_size=1, max_size=3).map(
    lambda pairs: spaces.MultiDiscrete([n for n, _ in pairs], start=[start for _, start in pairs])
)
multibinaries = st.integers(1, 3).map(spaces.MultiBinary)


def nested(*plain: Any) -> Any:
    """Dicts and Tuples, within each other, of plain spaces."""
    parts = st.recursive(
        st.one_of(*plain),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
            st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=3).map(spaces.Dict),
        ),
        max_leaves=5,
    )
    return parts.map(lambda space: space if isinstance(space, spaces.Dict | spaces.Tuple) else spaces.Tuple([space]))


hybrid_spaces = nested(boxes(), discretes, multidiscretes, multibinaries)
discrete_spaces = nested(discretes, multidiscretes, multibinaries)
