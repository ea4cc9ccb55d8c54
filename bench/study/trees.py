# SPDX-License-Identifier: MIT
"""trees: XGBoost on the demo's expanded digits, reduced (examples/models/prepare.py):
trees.py FOLDER EPOCHS ROUNDS. An epoch is ROUNDS boosting rounds."""
import pathlib
import sys

import numpy
import training
import xgboost


def main():
    folder, n_epochs, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    data = xgboost.DMatrix(numpy.load(folder / "compressed.npy"), numpy.load(folder / "labels.npy"))
    options = {"objective": "multi:softprob", "num_class": 10, "max_depth": 4, "tree_method": "hist", "seed": 0}
    model = None
    with training.tool() as step:
        for _ in training.epochs(n_epochs):
            model = xgboost.train(options, data, rounds, xgb_model=model)
            step(0.0)


if __name__ == "__main__":
    main()
