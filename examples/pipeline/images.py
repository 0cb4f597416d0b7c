"""Writes images of digits: python images.py FROM TO FOLDER [--flat].

They are scikit-learn's (1,797 of 8 x 8), as portable gray maps: FOLDER/LABEL/NUMBER.pgm,
or FOLDER/NUMBER.pgm with --flat, for those whose label nobody knows.
"""

import pathlib
import sys

from sklearn.datasets import load_digits


def main(first, last, folder, flat=""):
    images, labels = load_digits(return_X_y=True)
    for number in range(int(first), min(int(last), len(images))):
        path = pathlib.Path(folder, *([] if flat else [str(labels[number])]), f"{number:04}.pgm")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"P5 8 8 16\n" + images[number].astype("u1").tobytes())


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
