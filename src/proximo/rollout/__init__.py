"""From environments to rollouts: collecting, storing, cutting into minibatches."""
