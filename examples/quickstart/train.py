"""Distributed TensorFlow on real images: between-graph replication.

Every member runs this same file. Muster tells each one who it is through
TF_CONFIG; parameter servers hold the variables, workers compute gradients on
their own batches and apply them asynchronously. Worker 0 is the chief: it
initialises, saves checkpoints to MUSTER_CHECKPOINT_DIR and restores the last
one after a restart.

The data is Fashion-MNIST (70,000 images of 28 x 28) where Debian's package
dataset-fashion-mnist is installed, else scikit-learn's digits (1,797 images of
8 x 8).
"""

import argparse
import gzip
import json
import os
import pathlib
import sys
import time

# Before TensorFlow is imported: only its errors are of interest here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read_idx(path):
    """Returns the array in a gzipped IDX file (http://yann.lecun.com/exdb/mnist)."""
    with gzip.open(path, "rb") as f:
        data = f.read()
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def load_images():
    """Returns (train images, train labels, test images, test labels, name).

    Images are float32 rows in [0, 1]; labels are int64.
    """
    try:
        split = [
            read_idx(next(FASHION.glob(pattern)))
            for pattern in ("train-images*", "train-labels*", "t10k-images*", "t10k-labels*")
        ]
        name, scale = "Fashion-MNIST", 255.0
    except StopIteration:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        images, labels = load_digits(return_X_y=True)
        a, b, c, d = train_test_split(images, labels, test_size=0.25, random_state=0)
        split = [a, c, b, d]
        name, scale = "scikit-learn digits", 16.0
    x, y, xt, yt = split
    rows = lambda a: (a.reshape(len(a), -1) / scale).astype(np.float32)
    return rows(x), y.astype(np.int64), rows(xt), yt.astype(np.int64), name


def build(features, hidden):
    """Adds a two-layer classifier to the graph; returns its ends."""
    x = tf1.placeholder(tf.float32, [None, features], "images")
    y = tf1.placeholder(tf.int64, [None], "labels")
    w1 = tf1.get_variable("w1", [features, hidden], initializer=tf1.glorot_uniform_initializer(seed=1))
    b1 = tf1.get_variable("b1", [hidden], initializer=tf1.zeros_initializer())
    w2 = tf1.get_variable("w2", [hidden, 10], initializer=tf1.glorot_uniform_initializer(seed=2))
    b2 = tf1.get_variable("b2", [10], initializer=tf1.zeros_initializer())
    logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    correct = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.AdamOptimizer(1e-3).minimize(loss, global_step=step)
    return x, y, loss, correct, step, train


class WorkerSessionCreator(tf1.train.WorkerSessionCreator):
    """Waits for the chief like its parent, but looks each second, not each 30."""

    def create_session(self):
        self._scaffold.finalize()
        manager = tf1.train.SessionManager(
            local_init_op=self._scaffold.local_init_op,
            ready_op=self._scaffold.ready_op,
            ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
            graph=tf1.get_default_graph(),
            recovery_wait_secs=1,
        )
        return manager.wait_for_session(self._master, config=self._config, max_wait_secs=1800)


def open_session(server, index, args):
    """Returns a session that recovers from the loss of a parameter server.

    The chief restores the last checkpoint and saves new ones. Each worker needs the
    parameter servers alone: one that starts late, or again, does not wait for one that
    is done already.
    """
    alone = tf1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
    scaffold = tf1.train.Scaffold()
    hooks = [tf1.train.StopAtStepHook(last_step=args.steps)]
    folder = os.environ.get("MUSTER_CHECKPOINT_DIR")
    if index != 0:
        return tf1.train.MonitoredSession(WorkerSessionCreator(scaffold, server.target, config=alone), hooks)
    if folder:
        hooks.append(tf1.train.CheckpointSaverHook(folder, save_steps=args.save_every, scaffold=scaffold))
    return tf1.train.MonitoredSession(
        tf1.train.ChiefSessionCreator(scaffold, server.target, config=alone, checkpoint_dir=folder), hooks)


def work(server, cluster, index, args):
    """Trains until the shared step reaches args.steps; returns the accuracy."""
    x_train, y_train, x_test, y_test, name = load_images()
    if index == 0:
        print(f"data: {name}, {len(x_train):,} images to learn, {len(x_test):,} to test", flush=True)
    device = tf1.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)
    with tf1.device(device):
        x, y, loss, correct, step, train = build(x_train.shape[1], args.hidden)
    order = np.random.default_rng(index)
    reported, now, accuracy = None, 0, 0.0
    with open_session(server, index, args) as run:
        while not run.should_stop():
            batch = order.integers(0, len(x_train), args.batch)
            _, value, now = run.run([train, loss, step], {x: x_train[batch], y: y_train[batch]})
            if reported is None:
                print(f"first step: {now}", flush=True)
            if reported is None or now >= min(reported + args.report_every, args.steps):
                evaluate = lambda step_context: step_context.session.run(correct, {x: x_test, y: y_test})
                reported, accuracy = now, run.run_step_fn(evaluate)
                print(f"step {now}/{args.steps}  loss {value:.3f}  accuracy {accuracy:.3f}", flush=True)
            if args.step_seconds:
                time.sleep(args.step_seconds)
    print(f"worker {index} done at step {now}: accuracy {accuracy:.3f}", flush=True)
    return accuracy


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000, help="optimizer steps of all workers together")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--save-every", type=int, default=500, help="steps between checkpoints")
    parser.add_argument("--report-every", type=int, default=500)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="pause after each step, to train slowly")
    args = parser.parse_args()

    config = json.loads(os.environ["TF_CONFIG"])
    task, index = config["task"]["type"], config["task"]["index"]
    tf1.disable_eager_execution()
    tf.get_logger().setLevel("ERROR")
    cluster = tf.train.ClusterSpec(config["cluster"])
    threads = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=2)
    server = tf1.train.Server(cluster, job_name=task, task_index=index, config=threads)
    if task == "ps":
        print(f"parameter server {index} of {len(config['cluster']['ps'])} is up", flush=True)
        server.join()
        return
    if work(server, cluster, index, args) < 0.5 and index == 0:
        sys.exit("the model has learned nothing: accuracy below 0.5")


if __name__ == "__main__":
    main()
