"""Fits y = 2x + 1 with parameters that live on the job's parameter servers, as TensorFlow 1 scripts do it.

TF_CONFIG names a master, workers and parameter servers; the servers run beside this script on every host.
"""

import json
import os
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

STEPS = 200
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
cluster = tf.train.ClusterSpec(config["cluster"])
is_chief = task["type"] in ("master", "chief")

tf.disable_eager_execution()
server = tf.distribute.Server(cluster, job_name=task["type"], task_index=task["index"])
own_device = f"/job:{task['type']}/task:{task['index']}"
with tf.device(tf.train.replica_device_setter(worker_device=own_device, cluster=cluster)):
    slope = tf.get_variable("slope", initializer=0.0)
    offset = tf.get_variable("offset", initializer=0.0)
    x = tf.placeholder(tf.float32, [None])
    loss = tf.reduce_mean((slope * x + offset - (2 * x + 1)) ** 2)
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)

print(f"{own_device}: slope on {slope.device}, offset on {offset.device}", flush=True)
data = np.random.default_rng(task["index"]).uniform(-1, 1, [STEPS, 64])
# A worker talks to the servers only, so that one which has finished keeps no other from starting.
filters = tf.ConfigProto(device_filters=["/job:ps", own_device])
with tf.train.MonitoredTrainingSession(server.target, is_chief=is_chief, config=filters) as session:
    losses = [session.run([loss, train], {x: batch})[0] for batch in data]
    values = [float(value) for value in session.run([slope, offset])]

folder = Path(os.environ["SM_OUTPUT_DATA_DIR"])
(folder / "fit.json").write_text(json.dumps({"first": float(losses[0]), "last": float(losses[-1]), "values": values}))
print("fitted", values, flush=True)
