"""A data set that calls a model in the DataLoader's workers, forked and spawned, and the trained model itself."""

import sys

import torch
from small_training import Net, data, finish, train


class Scores(torch.utils.data.Dataset):
    def __init__(self, scorer):
        self.scorer = scorer
        self.rows = data(8, size=1)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        x, y = self.rows[index]
        with torch.no_grad():
            score = self.scorer(x)
        inductor = "torch._inductor.compile_fx" in sys.modules
        return x[0], y[0] + 0 * score[0], torch.tensor(float(inductor))


def main():
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses, compiling = train(model, data(8), optimizer), 0.0
    for start in ("fork", "spawn"):
        loader = torch.utils.data.DataLoader(Scores(model), batch_size=4, num_workers=1, multiprocessing_context=start)
        rows = list(loader)
        losses += train(model, [(x, y) for x, y, _ in rows], optimizer)
        if start == "spawn":  # a forked one has its parent's modules
            compiling += sum(float(inductor.sum()) for _, _, inductor in rows)
    finish(losses, model, compiling=compiling)


if __name__ == "__main__":
    main()
