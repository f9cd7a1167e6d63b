"""Writes the channels of keras_fit.py: `python prepare_digits.py FOLDER`."""

import os
import sys

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
images = (digits["images"] / 16).astype(np.float32)[..., np.newaxis]
for name, part in {"training": slice(0, 1400), "evaluation": slice(1400, None)}.items():
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder)
    np.save(os.path.join(folder, "images.npy"), images[part])
    np.save(os.path.join(folder, "labels.npy"), digits["target"][part])
