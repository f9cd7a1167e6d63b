"""The same mistakes under other names: aliases, a name bound again, classes on top of classes."""

from lightning.pytorch import LightningModule
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import compile as fast
from torch import nn, where
from torch.autograd import grad as gradient

say = print


class Base(nn.Module):
    pass


class Net(Base):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        say("in forward", x.shape)  # mistake: DLC113
        (found,) = where(x > 0)  # mistake: DLC103
        return self.layer(x), found


class Lit(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.seen = 0

    def forward(self, x):
        self.seen += len(x)  # mistake: DLC131
        return self.net(x)

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self(x)[0], y)
        (slope,) = gradient(loss, x, create_graph=True)  # mistake: DLC133
        return loss + slope.mean()


def penalty_of_an_earlier_version(critic, x):
    (slope,) = gradient(critic(x).sum(), x, create_graph=True)
    return slope.norm()


checkpoint = ModelCheckpoint("out", every_n_train_steps=1)  # mistake: DLC116
trained = Lit()
net = Net()
fast(net)  # mistake: DLC135
