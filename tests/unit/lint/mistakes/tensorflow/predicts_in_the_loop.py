"""A GAN and a small agent of Keras that call predict in each step, and a loop over folds that may."""

import numpy as np
from tensorflow import keras

generator = keras.Sequential([keras.layers.Dense(8)])
critic = keras.Sequential([keras.layers.Dense(1)])
critic.compile(optimizer="adam", loss="mse")

for epoch in range(1000):
    noise = np.random.normal(size=(32, 4))
    made = generator.predict(noise)  # mistake: DLC207
    critic.train_on_batch(made, np.zeros((32, 1)))
    if epoch % 100 == 0:
        print(generator.predict(noise))

for state, action, reward in [(np.zeros((1, 8)), 0, 1.0)]:
    target = critic.predict(state)  # mistake: DLC207
    target[0][action] = reward
    critic.fit(state, target, epochs=1, verbose=0)

for train, held_out in [(np.zeros((8, 8)), np.zeros((8, 8)))]:
    critic.fit(train, np.zeros((8, 1)))
    print(critic.predict(held_out))
