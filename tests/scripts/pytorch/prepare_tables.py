"""Writes the channels of train_on_tables.py: `python prepare_tables.py FOLDER`."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

folder = Path(sys.argv[1])
dice = np.random.default_rng(5)
for name, rows in {"train": 600, "validation": 200}.items():
    table = pd.DataFrame(dice.normal(size=(rows, 4)).round(4), columns=["age", "income", "visits", "distance"])
    table["city"] = dice.choice(["Oslo", "São Paulo", "Nairobi, KE"], rows)
    table["bought"] = (table["age"] + table["income"] > table["visits"]).astype(int)
    (folder / name).mkdir(parents=True)
    if name == "train":
        table[:300].to_csv(folder / name / "part-0.csv", index=False)
        table[300:].to_csv(folder / name / "part-1.csv", index=False)
    else:
        table.to_parquet(folder / name / "part-0.parquet", index=False)
