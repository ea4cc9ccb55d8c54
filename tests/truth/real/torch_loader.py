# SPDX-License-Identifier: MIT
"""A DataLoader with two workers, which pass batches by shared memory, and a model that trains on
them."""
import torch


class Pictures(torch.utils.data.Dataset):
    def __init__(self):
        self.pixels = torch.rand(2000, 3, 64, 64)

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        return self.pixels[index] * 2 - 1, index % 10


def main():
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 62 * 62, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for pixels, labels in torch.utils.data.DataLoader(Pictures(), batch_size=100, num_workers=2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(pixels), labels).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
