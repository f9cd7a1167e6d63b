"""Keras's own loop: argv[1] is the Keras; argv[2:] what is done otherwise."""

import os
import sys

from models import collector, data, finish, keras_of, small_model

keras, how = keras_of(sys.argv[1]), sys.argv[2:]
model, losses = small_model(keras), []
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="mse")
if "prepared" in how:
    from dlc_runtime import compiler

    compiler.prepare(model)
if "resumed" in how:
    model.set_weights([weight.copy() for weight in model.get_weights()])
x, y = data(4 * 12)
model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0, callbacks=[collector(keras, losses)])
if "reloaded" in how:  # what it was compiled with is saved too: the loaded one trains on
    saved = f"{os.environ['RESULTS']}/model.keras"
    model.save(saved)
    model = keras.models.load_model(saved)
    model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0, callbacks=[collector(keras, losses)])
finish(losses, model.get_weights(), jit=str(model.jit_compile) if hasattr(model, "jit_compile") else "")
