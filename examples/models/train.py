# SPDX-License-Identifier: MIT
"""Trains one model on one data set: train.py FOLDER mlp|xgboost original|compressed ITERATIONS.

Uses a GPU if PyTorch or xgboost can. Prints the accuracy on rows that were not used for the
training."""
import pathlib
import shutil
import sys
import time

import numpy

HIDDEN = 128
BATCH = 256


def load(folder, data):
    """Training and test rows: four to one."""
    features = numpy.load(folder / f"{data}.npy")
    labels = numpy.load(folder / "labels.npy")
    split = len(labels) * 4 // 5
    return features[:split], labels[:split], features[split:], labels[split:]


def mlp(x, y, x_test, y_test, iterations):
    try:
        import torch
    except ImportError:
        return mlp_without_torch(x, y, x_test, y_test, iterations)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
    model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 10))
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(iterations):
        for rows in torch.randperm(len(y)).to(device).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        guess = model(torch.from_numpy(x_test).to(device)).argmax(1).cpu().numpy()
    return (guess == y_test).mean()


def mlp_without_torch(x, y, x_test, y_test, iterations):
    import warnings

    from sklearn.neural_network import MLPClassifier

    warnings.simplefilter("ignore")  # about a lack of convergence, which is expected after few iterations
    model = MLPClassifier((HIDDEN,), batch_size=BATCH, max_iter=iterations, random_state=0)
    return model.fit(x, y).score(x_test, y_test)


def xgboost(x, y, x_test, y_test, iterations):
    import xgboost

    device = "cuda" if shutil.which("nvidia-smi") else "cpu"
    model = xgboost.XGBClassifier(n_estimators=iterations, max_depth=4, tree_method="hist", max_bin=16, device=device,
                                  random_state=0)
    return model.fit(x, y).score(x_test, y_test)


def main():
    folder, model, data, iterations = sys.argv[1:]
    train = {"mlp": mlp, "xgboost": xgboost}[model]
    start = time.monotonic()
    accuracy = train(*load(pathlib.Path(folder), data), int(iterations))
    print(f"{model} on {data}: {accuracy:.1%} right after {iterations} iterations, {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
