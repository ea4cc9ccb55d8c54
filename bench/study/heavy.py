# SPDX-License-Identifier: MIT
"""heavy: ResNet-50 on JPEG crops of 224x224 from the photographs of scikit-learn and scikit-image,
decoded by two workers at each step: heavy.py EPOCHS STEPS."""
import importlib.util
import io
import pathlib
import sys

import numpy
import torch
import training

BATCH, WORKERS, SIDE, CROPS, CLASSES = 8, 2, 224, 256, 10


def conv(into, out, size, stride=1):
    return torch.nn.Sequential(torch.nn.Conv2d(into, out, size, stride, size // 2, bias=False), torch.nn.BatchNorm2d(out))


class Bottleneck(torch.nn.Module):
    def __init__(self, into, width, stride):
        super().__init__()
        self.path = torch.nn.Sequential(conv(into, width, 1), torch.nn.ReLU(), conv(width, width, 3, stride), torch.nn.ReLU(),
                                        conv(width, width * 4, 1))
        self.shortcut = conv(into, width * 4, 1, stride) if stride > 1 or into != width * 4 else torch.nn.Identity()

    def forward(self, x):
        return torch.relu(self.path(x) + self.shortcut(x))


def resnet50():
    layers, into = [conv(3, 64, 7, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1)], 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(into, width, stride if i == 0 else 1))
            into = width * 4
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(into, CLASSES))


def photographs():
    """Those that are in the packages; scikit-image would download the others."""
    import sklearn.datasets
    from PIL import Image

    yield from sklearn.datasets.load_sample_images().images
    folder = pathlib.Path(importlib.util.find_spec("skimage").origin).parent / "data"
    for name in ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg"):
        if (folder / name).exists():
            yield numpy.asarray(Image.open(folder / name).convert("RGB"))


def crops(count):
    """JPEG files of SIDE x SIDE, cut from the photographs at fixed random places."""
    from PIL import Image

    chance = numpy.random.default_rng(0)
    pictures = [p for p in photographs() if min(p.shape[:2]) > SIDE]
    for i in range(count):
        picture = pictures[i % len(pictures)]
        y, x = (chance.integers(0, size - SIDE) for size in picture.shape[:2])
        file = io.BytesIO()
        Image.fromarray(picture[y:y + SIDE, x:x + SIDE]).save(file, "JPEG", quality=90)
        yield file.getvalue(), i % len(pictures)


class Crops(torch.utils.data.Dataset):
    def __init__(self, steps):
        self.files, self.n = list(crops(CROPS)), steps * BATCH

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        from PIL import Image

        file, label = self.files[i % len(self.files)]
        pixels = numpy.asarray(Image.open(io.BytesIO(file)).convert("RGB"), dtype=numpy.float32) / 255
        return torch.from_numpy(pixels).permute(2, 0, 1), label


def main():
    n_epochs, steps = int(sys.argv[1]), int(sys.argv[2])
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = torch.utils.data.DataLoader(Crops(steps), BATCH, shuffle=True, num_workers=WORKERS)
    net = resnet50().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    with training.tool() as step:
        for _ in training.epochs(n_epochs):
            for images, labels in loader:
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(net(images.to(device)), labels.to(device))
                loss.backward()
                optimizer.step()
                step(loss.item())


if __name__ == "__main__":
    main()
