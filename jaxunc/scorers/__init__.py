"""One leaf's counts → what that leaf says: plain functions, any leading axes, differentiable."""

from ._plausibility import Support, class_one, log_support_degrees, plausibility, support
from ._probability import probability
from ._scale import score_width

__all__ = ["Support", "class_one", "log_support_degrees", "plausibility", "probability", "score_width", "support"]
