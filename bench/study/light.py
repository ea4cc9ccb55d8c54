# SPDX-License-Identifier: MIT
"""light: a CNN of two convolutions and two dense layers on scikit-learn's digits, enlarged to
28x28: light.py EPOCHS IMAGES. IMAGES is the number that an epoch takes of the 1,797 digits, each as often."""
import sys

import torch
import training
from sklearn.datasets import load_digits

BATCH = 64


def model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Dropout(0.25), torch.nn.Flatten(), torch.nn.Linear(9216, 128), torch.nn.ReLU(), torch.nn.Dropout(0.5),
        torch.nn.Linear(128, 10))


def main():
    n_epochs, n_images = int(sys.argv[1]), int(sys.argv[2])
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    digits = load_digits()
    images = torch.nn.functional.interpolate(torch.tensor(digits.images / 16, dtype=torch.float32)[:, None], size=(28, 28),
                                             mode="bilinear").to(device)
    labels = torch.tensor(digits.target).to(device)
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
