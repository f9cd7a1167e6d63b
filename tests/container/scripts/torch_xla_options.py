"""What torch_xla's registered GPU plug-in would start XLA's client with, as JSON; starts no client."""

import json

import torch_xla  # noqa: F401 - registers the plug-ins
from torch_xla.experimental import plugins

plugin = plugins.default()
plugin.configure_single_process()
print(json.dumps({**plugin.client_create_options(), "coordinator": plugin.requires_xla_coordinator()}))
