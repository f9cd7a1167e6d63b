"""A hook of the script on every module's backward: Dynamo compiles no call that runs it."""

from small_training import Net, data, finish, train
from torch.nn.modules.module import register_module_full_backward_hook

called = []


def note_gradient(module, given, found):
    called.append(type(module).__name__)


register_module_full_backward_hook(note_gradient)
model = Net()
finish(train(model, data(40)), model, called=len(called))
