"""A trained policy that answers observations over HTTP, for environments that live elsewhere."""

from rillflow.serving.server import Served as Served
from rillflow.serving.server import serve as serve
