"""Prepares all images for training, with Spark: mean and deviation of each pixel over
all of them, and the images in those terms, in a few files: part-N.npz and scale.npz.
"""

import os
import pathlib

import numpy as np
from pyspark.sql import SparkSession

PARTS = 4
SMALLEST = 0.05  # a pixel that is the same in all images says nothing


def read(path):
    """An image as a row of numbers, with its label."""
    return int(path.parent.name), np.load(path).ravel().astype("f8")


def main():
    source, output = pathlib.Path(os.environ["MUSTER_INPUT_DECODE"]), pathlib.Path(os.environ["MUSTER_OUTPUT"])
    spark = SparkSession.builder.appName("prepare").getOrCreate()
    # In the order of their names: the same images make the same files.
    paths = sorted(source.glob("*/*.npy"))
    images = spark.sparkContext.parallelize(paths, PARTS).map(read).cache()

    count, total, squares = images.map(lambda i: (1, i[1], i[1] ** 2)).reduce(lambda a, b: tuple(map(sum, zip(a, b))))
    mean = (total / count).round(6)  # sums differ in the last digits with their order
    deviation = np.maximum(np.sqrt(np.maximum(squares / count - mean**2, 0)).round(6), SMALLEST)

    def write(part, rows):
        rows = list(rows)
        if not rows:
            return  # of few images
        labels, values = zip(*rows)
        scaled = (np.stack(values) - mean) / deviation
        np.savez(output / f"part-{part}.npz", images=scaled.astype("f4"), labels=np.array(labels))
        yield len(labels)

    written = images.mapPartitionsWithIndex(write).sum()
    np.savez(output / "scale.npz", mean=mean.astype("f4"), deviation=deviation.astype("f4"))
    print(f"{written} images of {len(mean)} pixels, in {PARTS} files", flush=True)


main()
