"""Action masks: a forbidden choice loses its probability before a distribution is used."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from proximo.backends.fused.elementary import ZERO, F
from proximo.backends.fused.layers import last_layer, padded, transpose
from proximo.backends.fused.simd import floats, integers, integers_8, plan_at, shift
from proximo.backends.fused.structures import Head
from proximo.compilation import linked
from proximo.networks.distributions.base import MASKED_LOGIT

BERNOULLI = int(Head.BERNOULLI)
FORBIDDEN = F(MASKED_LOGIT)


@linked("void(int64, int64, int64, int64, int64)")
def apply_masks(plan_address, masks, order, rows, stride):
    """Forbidden logits of the last layer become −10⁸; a switch has two entries, may it be off and may it be on.

    ``masks`` are bytes [sample, entry], of the samples listed at ``order``, or of the first ones where that is 0.
    The probability of what is forbidden is then exactly 0, and so are its gradient and its part of the entropy.
    A network that has gone astray must not be hidden: NaN stays NaN behind a mask (0 · NaN).
    """
    plan = plan_at(plan_address)
    logits, allowed, size = floats(last_layer(plan).output), floats(plan.allowed), padded(plan.mask_width)
    for row in range(rows):
        sample = integers(order)[row] if order != 0 else row
        source, target = integers_8(masks + sample * plan.mask_width), shift(floats(plan.mask_rows), row * size)
        for entry in range(plan.mask_width):
            target[entry] = F(source[entry])
    transpose(floats(plan.mask_rows), size, allowed, stride, stride, plan.mask_width)
    if plan.head == BERNOULLI:
        for index in range(plan.action_size):
            first, off, on = index * stride, 2 * index * stride, (2 * index + 1) * stride
            for lane in range(stride):
                z = logits[first + lane]
                z = z if allowed[on + lane] > ZERO else z * ZERO + FORBIDDEN
                logits[first + lane] = z if allowed[off + lane] > ZERO else z * ZERO - FORBIDDEN
    else:
        for place in range(plan.mask_width * stride):
            z = logits[place]
            logits[place] = z if allowed[place] > ZERO else z * ZERO + FORBIDDEN
