"""Prepares all images for training as prepare.py does, in one process, where there is no
Spark: mean and deviation of each pixel over all of them, and the images in those terms,
in a few files: part-N.npz and scale.npz.
"""

import os
import pathlib

import numpy as np

PARTS = 4
SMALLEST = 0.05  # a pixel that is the same in all images says nothing


def main():
    source, output = pathlib.Path(os.environ["MUSTER_INPUT_DECODE"]), pathlib.Path(os.environ["MUSTER_OUTPUT"])
    # In the order of their names: the same images make the same files.
    paths = sorted(source.glob("*/*.npy"))
    images = np.stack([np.load(path).ravel().astype("f8") for path in paths])
    labels = np.array([int(path.parent.name) for path in paths])
    mean = images.mean(0).round(6)
    deviation = np.maximum(images.std(0).round(6), SMALLEST)
    scaled = ((images - mean) / deviation).astype("f4")
    for part in range(PARTS):
        these = slice(len(paths) * part // PARTS, len(paths) * (part + 1) // PARTS)
        if len(labels[these]):  # few images make fewer files
            np.savez(output / f"part-{part}.npz", images=scaled[these], labels=labels[these])
    np.savez(output / "scale.npz", mean=mean.astype("f4"), deviation=deviation.astype("f4"))
    print(f"{len(paths)} images of {len(mean)} pixels, in {PARTS} files", flush=True)


main()
