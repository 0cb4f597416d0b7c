"""Compares the model with the one in use, on images that neither has learned from."""

import json
import os
import pathlib

import numpy as np


def accuracy(model, folder):
    right = total = 0
    for path in pathlib.Path(folder).glob("*/*.pgm"):
        head, pixels = path.read_bytes().split(b"\n", 1)
        values = np.frombuffer(pixels, "u1").astype("f4") / int(head.split()[3])
        said = int(np.argmax(np.maximum(values @ model["w1"] + model["b1"], 0) @ model["w2"] + model["b2"]))
        right, total = right + (said == int(path.parent.name)), total + 1
    return right / total


held_out = os.environ["MUSTER_INPUT_DIGITS_HELD_OUT"]
new = accuracy(np.load(pathlib.Path(os.environ["MUSTER_INPUT_TRAIN"], "model.npz")), held_out)
in_use = pathlib.Path(os.environ["MUSTER_INPUT_DIGITS_IN_USE"], "model.npz")
old = accuracy(np.load(in_use), held_out) if in_use.exists() else None  # none is in use yet
report = {"accuracy": new, "inUse": old, "better": old is None or new > old}
print(json.dumps(report))
pathlib.Path(os.environ["MUSTER_OUTPUT"], "report.json").write_text(json.dumps(report) + "\n")
