# SPDX-License-Identifier: MIT
"""light: a CNN of two convolutions and two dense layers on scikit-learn's digits, enlarged to
28x28: light.py EPOCHS IMAGES. IMAGES is the number that an epoch takes of the 1,797 digits, each as often."""
import importlib.util
import pathlib
import sys

import numpy
import torch
import training

BATCH = 64


def digits():
    """The 8x8 images, 0 to 16, and their labels: from the file in the package, whose import would take longer than an epoch."""
    folder = pathlib.Path(importlib.util.find_spec("sklearn").origin).parent
    rows = torch.from_numpy(numpy.loadtxt(folder / "datasets" / "data" / "digits.csv.gz", dtype=numpy.float32, delimiter=","))
    return rows[:, :-1].reshape(-1, 1, 8, 8), rows[:, -1].long()


def model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Dropout(0.25), torch.nn.Flatten(), torch.nn.Linear(9216, 128), torch.nn.ReLU(), torch.nn.Dropout(0.5),
        torch.nn.Linear(128, 10))


def main():
    n_epochs, n_images = int(sys.argv[1]), int(sys.argv[2])
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    small, labels = digits()
    images = torch.nn.functional.interpolate(small / 16, size=(28, 28), mode="bilinear").to(device)
    labels = labels.to(device)
    net = model().to(device)
    optimizer = torch.optim.Adadelta(net.parameters())
    with training.tool() as step:
        for _ in training.epochs(n_epochs):
            for rows in (torch.randperm(n_images, device=device) % len(labels)).split(BATCH):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(net(images[rows]), labels[rows])
                loss.backward()
                optimizer.step()
                step(loss.item())


if __name__ == "__main__":
    main()
