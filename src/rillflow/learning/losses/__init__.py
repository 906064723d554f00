"""Losses and returns as pure functions, checked at the door, each with its paper.

Each is called by one name with tensors or with arrays: torch differentiates by autograd, NumPy over
a `learning.tape`. So a loss that is made of these, and of arithmetic, is written once. torch is
imported when the first tensor comes.
"""

from rillflow.learning.losses.categorical import categorical_error as categorical_error
from rillflow.learning.losses.categorical import categorical_target as categorical_target
from rillflow.learning.losses.categorical import expected_values as expected_values
from rillflow.learning.losses.offline import advantage_weights as advantage_weights
from rillflow.learning.losses.offline import conservative_loss as conservative_loss
from rillflow.learning.losses.offline import expectile_loss as expectile_loss
from rillflow.learning.losses.offline import joined as joined
from rillflow.learning.losses.offline import repeated as repeated
from rillflow.learning.losses.policy import approximate_kl as approximate_kl
from rillflow.learning.losses.policy import clip_fraction as clip_fraction
from rillflow.learning.losses.policy import clipped_surrogate_loss as clipped_surrogate_loss
from rillflow.learning.losses.policy import entropy_bonus as entropy_bonus
from rillflow.learning.losses.policy import entropy_categorical as entropy_categorical
from rillflow.learning.losses.policy import entropy_gaussian as entropy_gaussian
from rillflow.learning.losses.policy import kl_categorical as kl_categorical
from rillflow.learning.losses.policy import kl_gaussian as kl_gaussian
from rillflow.learning.losses.policy import policy_gradient_loss as policy_gradient_loss
from rillflow.learning.losses.policy import soft_value as soft_value
from rillflow.learning.losses.policy import uniform_entropy as uniform_entropy
from rillflow.learning.losses.reduce import lowest as lowest
from rillflow.learning.losses.reduce import masked_mean as masked_mean
from rillflow.learning.losses.reduce import mean as mean
from rillflow.learning.losses.reduce import minimum as minimum
from rillflow.learning.losses.reduce import standardized as standardized
from rillflow.learning.losses.rescaling import rescaled as rescaled
from rillflow.learning.losses.rescaling import unscaled as unscaled
from rillflow.learning.losses.returns import discounted_returns as discounted_returns
from rillflow.learning.losses.returns import gae as gae
from rillflow.learning.losses.returns import lambda_returns as lambda_returns
from rillflow.learning.losses.returns import n_step_returns as n_step_returns
from rillflow.learning.losses.returns import vtrace as vtrace
from rillflow.learning.losses.value import clipped_value_loss as clipped_value_loss
from rillflow.learning.losses.value import double_q_td_error as double_q_td_error
from rillflow.learning.losses.value import dueling as dueling
from rillflow.learning.losses.value import huber as huber
from rillflow.learning.losses.value import huber_loss as huber_loss
from rillflow.learning.losses.value import n_step_td_target as n_step_td_target
from rillflow.learning.losses.value import q_learning_td_error as q_learning_td_error
from rillflow.learning.losses.value import q_of_taken as q_of_taken
from rillflow.learning.losses.value import td_loss as td_loss
from rillflow.learning.losses.value import td_target as td_target
from rillflow.learning.losses.value import value_loss as value_loss
