"""What TensorFlow's own reader of S3 does with a dataset: records, globs, long files.

The reader is that of tensorflow-io, which nobody has modified. Every line that is not as
it should be ends the program.
"""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["S3_ENDPOINT"] = os.environ["AWS_ENDPOINT_URL"]
os.environ["AWS_REGION"] = os.environ["AWS_DEFAULT_REGION"]

import tensorflow as tf
import tensorflow_io  # noqa: F401, which registers s3://

files = tf.io.gfile
root = "s3://digits/main/tensorflow"

# Records, in several files, as an input pipeline reads them: at once, and again.
names = [f"{root}/{i}.tfrecord" for i in range(4)]
for i, name in enumerate(names):
    with tf.io.TFRecordWriter(name) as writer:
        for k in range(100):
            writer.write(b"%d %d" % (i, k))
assert sorted(files.glob(f"{root}/*.tfrecord")) == names, files.glob(f"{root}/*.tfrecord")
dataset = tf.data.Dataset.from_tensor_slices(names).interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=4)
for _ in range(2):
    read = sorted(record.numpy() for record in dataset)
    assert read == sorted(b"%d %d" % (i, k) for i in range(4) for k in range(100)), len(read)

# A long file, in parts, and pieces of it.
long = os.urandom(1 << 20) * 12
with files.GFile(f"{root}/deep/long.bin", "wb") as f:
    f.write(long)
assert files.stat(f"{root}/deep/long.bin").length == len(long)
with files.GFile(f"{root}/deep/long.bin", "rb") as f:
    f.seek(5_000_001)
    assert f.read(1000) == long[5_000_001:5_001_001]
    f.seek(0)
    assert f.read() == long

# What is there, and what is not.
assert files.exists(names[0]) and not files.exists(f"{root}/none") and files.isdir(f"{root}/deep")
found = sorted(name.rstrip("/") for name in files.listdir(root))
assert found == ["0.tfrecord", "1.tfrecord", "2.tfrecord", "3.tfrecord", "deep"], found
files.copy(names[0], f"{root}/copy.tfrecord")
files.remove(names[3])
assert not files.exists(names[3])
assert [r.numpy() for r in tf.data.TFRecordDataset(f"{root}/copy.tfrecord").take(1)] == [b"0 0"]
try:
    files.GFile(f"{root}/none", "rb").read()
except tf.errors.NotFoundError:
    pass
else:
    raise AssertionError("nothing was read, without an error")

# Weights, as a model saves and loads them.
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(2)])
point = tf.train.Checkpoint(model=model)
path = point.write(f"{root}/weights/first")
weights = [w.copy() for w in model.get_weights()]
model.set_weights([w + 1 for w in weights])
point.read(path).assert_consumed()
assert all((a == b).all() for a, b in zip(weights, model.get_weights()))
print("read, written, copied and removed", flush=True)
# The reader's own threads are gone before it is, which ends Python by SIGABRT.
os._exit(0)
