"""Features extractors and perceptrons."""

from proximo.networks.encoders import BaseFeaturesExtractor as BaseFeaturesExtractor
from proximo.networks.encoders import CombinedExtractor as CombinedExtractor
from proximo.networks.encoders import FlattenExtractor as FlattenExtractor
from proximo.networks.encoders import MlpExtractor as MlpExtractor
from proximo.networks.encoders import NatureCNN as NatureCNN
from proximo.networks.encoders import create_mlp as create_mlp
from proximo.networks.encoders import get_actor_critic_arch as get_actor_critic_arch
from proximo.sb3.common.type_aliases import TensorDict as TensorDict
