"""Learning small networks in NumPy, with gradients written out by hand.

The twin of `policies` and `learning.losses` for an mlp on the processor: nothing to import that
takes a second, and a third of torch's time per optimiser step, most of which is spent between its
operations and not in them. Every function here equals one over there; the tests compare them.

Arrays inside a network are [features, N], one column per row of experience: weights multiply from
the left as they are stored, and sums over a few actions run along whole vectors.
"""

from rillflow.learning.analytic.losses import approximate_kl as approximate_kl
from rillflow.learning.analytic.losses import clipped_surrogate_loss as clipped_surrogate_loss
from rillflow.learning.analytic.losses import huber_loss as huber_loss
from rillflow.learning.analytic.losses import policy_gradient_loss as policy_gradient_loss
from rillflow.learning.analytic.losses import shares as shares
from rillflow.learning.analytic.losses import td_errors as td_errors
from rillflow.learning.analytic.losses import value_loss as value_loss
from rillflow.learning.analytic.network import Network as Network
from rillflow.learning.analytic.rows import Rows as Rows
from rillflow.learning.analytic.rows import actor_critic_rows as actor_critic_rows
from rillflow.learning.analytic.rows import evaluate_fragments as evaluate_fragments
from rillflow.learning.analytic.rows import flattened as flattened
from rillflow.learning.analytic.rows import standardized as standardized
from rillflow.learning.analytic.vtrace import vtrace as vtrace
