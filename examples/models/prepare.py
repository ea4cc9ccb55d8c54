# SPDX-License-Identifier: MIT
"""Makes the two data sets in the given folder, before the measured runs: digits expanded to every
product of up to three pixels (original: 47,905 features), and the same reduced to principal
components (compressed)."""
import pathlib
import sys

import numpy
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import PolynomialFeatures

COMPONENTS = 128
VERSION = "2"  # of the data sets; a folder with another version is replaced


def main():
    folder = pathlib.Path(sys.argv[1])
    stamp = folder / "version"
    if stamp.exists() and stamp.read_text() == VERSION:
        return
    folder.mkdir(parents=True, exist_ok=True)
    pixels, digits = load_digits(return_X_y=True)
    order = numpy.random.default_rng(0).permutation(len(digits))
    original = PolynomialFeatures(3).fit_transform(pixels[order].astype(numpy.float32) / 16)
    pca = PCA(COMPONENTS, svd_solver="randomized", random_state=0)
    compressed = pca.fit_transform(original)
    numpy.save(folder / "original.npy", original)
    numpy.save(folder / "compressed.npy", (compressed / compressed[:, 0].std()).astype(numpy.float32))
    numpy.save(folder / "labels.npy", digits[order].astype(numpy.int64))
    stamp.write_text(VERSION)
    print(f"prepared {original.shape[0]} rows of {original.shape[1]} features; {COMPONENTS} components keep "
          f"{pca.explained_variance_ratio_.sum():.1%} of their variance")


if __name__ == "__main__":
    main()
