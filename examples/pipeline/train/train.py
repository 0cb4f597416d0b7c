"""Trains a classifier with parameter servers, and writes it as model.npz.

Every member runs this file; TF_CONFIG says who it is. Parameter servers hold the
variables, workers compute gradients on batches of their own; worker 0 writes the model.
"""

import json
import os
import pathlib
import sys

# Before TensorFlow is imported: only its errors are of interest here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
STEPS = 600
HIDDEN = 64


def load(folder):
    """Returns images as rows of numbers around 0, and their labels."""
    parts = [np.load(path) for path in sorted(pathlib.Path(folder).glob("part-*.npz"))]
    return np.concatenate([p["images"] for p in parts]), np.concatenate([p["labels"] for p in parts])


def unscaled(model, folder):
    """Returns the model for images as they are, of one for images that are scaled."""
    scale = np.load(pathlib.Path(folder, "scale.npz"))
    w1 = model["w1"] / scale["deviation"][:, None]
    return dict(model, w1=w1, b1=model["b1"] - scale["mean"] @ w1)


def build(features):
    """Adds the classifier to the graph; returns its ends and its variables."""
    x = tf1.placeholder(tf.float32, [None, features])
    y = tf1.placeholder(tf.int64, [None])
    w1 = tf1.get_variable("w1", [features, HIDDEN])
    b1 = tf1.get_variable("b1", [HIDDEN], initializer=tf1.zeros_initializer())
    w2 = tf1.get_variable("w2", [HIDDEN, 10])
    b2 = tf1.get_variable("b2", [10], initializer=tf1.zeros_initializer())
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.AdamOptimizer(3e-3).minimize(loss, global_step=step)
    return x, y, loss, step, train, {"w1": w1, "b1": b1, "w2": w2, "b2": b2}


class WorkerSessionCreator(tf1.train.WorkerSessionCreator):
    """Waits for the chief like its parent, but looks each second, not each 30."""

    def create_session(self):
        scaffold = self._scaffold.finalize()
        manager = tf1.train.SessionManager(
            local_init_op=scaffold.local_init_op,
            ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op,
            recovery_wait_secs=1,
        )
        return manager.wait_for_session(self._master, config=self._config, max_wait_secs=1800)


def open_session(server, index):
    """Returns a session. Each worker needs the parameter servers alone: one that starts
    late does not wait for one that is done already.
    """
    alone = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
    if index == 0:
        return tf1.train.MonitoredTrainingSession(server.target, config=alone)
    return tf1.train.MonitoredSession(WorkerSessionCreator(master=server.target, config=alone))


def work(server, cluster, index):
    images, labels = load(os.environ["MUSTER_INPUT_PREPARE"])
    with tf1.device(tf1.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)):
        x, y, loss, step, train, variables = build(images.shape[1])
    order, model, now = np.random.default_rng(index), None, 0
    with open_session(server, index) as run:
        while now < STEPS:
            batch = order.integers(0, len(images), 64)
            _, value, now = run.run([train, loss, step], {x: images[batch], y: labels[batch]})
        if index == 0:
            model = run.run(variables)
    print(f"worker {index}: step {now}, loss {value:.3f}, {len(images)} images", flush=True)
    if model:
        np.savez(pathlib.Path(os.environ["MUSTER_OUTPUT"], "model.npz"), **unscaled(model, os.environ["MUSTER_INPUT_PREPARE"]))


def main():
    config = json.loads(os.environ["TF_CONFIG"])
    task, index = config["task"]["type"], config["task"]["index"]
    tf1.disable_eager_execution()
    cluster = tf.train.ClusterSpec(config["cluster"])
    threads = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    server = tf1.train.Server(cluster, job_name=task, task_index=index, config=threads)
    if task == "ps":
        server.join()
    else:
        work(server, cluster, index)


if __name__ == "__main__":
    sys.exit(main())
