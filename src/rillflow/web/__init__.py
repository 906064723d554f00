"""A live view of a run in the browser, read from the files of its directory."""

from rillflow.web.server import View as View
from rillflow.web.server import serve as serve
