"""Copies, pickles, saves and traces the model in the middle of training."""

import copy
import io
import pickle
import sys

import torch
from small_training import Net, data, finish, train


class Stateful(Net):
    """As Lightning's modules: its state is all of its attributes."""

    def __getstate__(self):
        return dict(self.__dict__)


model = Stateful()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
batches = data(10)
keys = list(model.state_dict())
losses = train(model, batches, optimizer)
x, _ = batches[0]

copied = copy.deepcopy(model)
pickled = pickle.loads(pickle.dumps(model))
stream = io.BytesIO()
torch.save(model, stream)
stream.seek(0)
loaded = torch.load(stream, weights_only=False)
model.eval()
with torch.no_grad():
    traced = torch.jit.trace(model, x)
    exported = torch.export.export(model, (x,)).module()
    symbolic = torch.fx.symbolic_trace(model)
    scripted = torch.jit.script(model)
    eager = (copied.eval(), pickled.eval(), loaded.eval())
    outputs = [each(x) for each in (model, *eager, traced, exported, symbolic, scripted)]
batched = torch.func.vmap(model)(x)
named = dict(model.named_parameters())
gradient = torch.func.grad(lambda p: torch.func.functional_call(model, p, (x,)).sum())(named)
finish(
    losses,
    model,
    same_keys=list(model.state_dict()) == keys,
    spread=max(float((output - outputs[0]).abs().max()) for output in [*outputs, batched]),
    compiled_copies=[each.__dict__.get("_compiled_call_impl") is not None for each in (copied, pickled, loaded)],
    compiled=model.__dict__.get("_compiled_call_impl") is not None,
    gradient=float(gradient["head.bias"].sum()),
    needs_runtime=b"dlc_runtime" in stream.getvalue(),
    python=sys.version_info[:2],
)
