"""An LSTM between parts that can be compiled."""

from small_training import Net, data, finish, train
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.recurrent = nn.LSTM(8, 8, batch_first=True)
        self.back = Net()

    def forward(self, x):
        hidden, _ = self.recurrent(self.front(x).unsqueeze(1))
        return self.back(hidden[:, -1])


model = Tagger()
finish(train(model, data(10)), model)
