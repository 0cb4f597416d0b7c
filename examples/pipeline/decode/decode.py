"""Reads an image: LABEL/NUMBER.pgm becomes LABEL/NUMBER.npy."""

import json
import os
import pathlib
import subprocess

import numpy as np


def decode(image, to):
    head, pixels = image.read_bytes().split(b"\n", 1)
    width, height, most = map(int, head.split()[1:])
    values = np.frombuffer(pixels, "u1").astype("f4").reshape(height, width) / most
    to.parent.mkdir(parents=True)
    np.save(to, values)


while line := subprocess.check_output(os.environ["MUSTER_NEXT"]):
    datum = json.loads(line)
    source = pathlib.Path(datum["inputs"]["digits"])
    for image in source.glob("*/*.pgm"):
        decode(image, pathlib.Path(datum["output"], image.relative_to(source)).with_suffix(".npy"))
