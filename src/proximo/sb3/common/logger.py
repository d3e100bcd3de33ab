"""The logger and its formats."""

from proximo.training.loggers import DEBUG as DEBUG
from proximo.training.loggers import DISABLED as DISABLED
from proximo.training.loggers import ERROR as ERROR
from proximo.training.loggers import INFO as INFO
from proximo.training.loggers import WARN as WARN
from proximo.training.loggers import CSVOutputFormat as CSVOutputFormat
from proximo.training.loggers import Figure as Figure
from proximo.training.loggers import FormatUnsupportedError as FormatUnsupportedError
from proximo.training.loggers import HParam as HParam
from proximo.training.loggers import HumanOutputFormat as HumanOutputFormat
from proximo.training.loggers import Image as Image
from proximo.training.loggers import JSONOutputFormat as JSONOutputFormat
from proximo.training.loggers import KVWriter as KVWriter
from proximo.training.loggers import Logger as Logger
from proximo.training.loggers import SeqWriter as SeqWriter
from proximo.training.loggers import TensorBoardOutputFormat as TensorBoardOutputFormat
from proximo.training.loggers import Video as Video
from proximo.training.loggers import configure as configure
from proximo.training.loggers import filter_excluded_keys as filter_excluded_keys
from proximo.training.loggers import make_output_format as make_output_format
from proximo.training.loggers import read_csv as read_csv
from proximo.training.loggers import read_json as read_json
