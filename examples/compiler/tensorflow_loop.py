"""Trains a small BERT or GPT in a loop of TensorFlow. The job says whether it is compiled: nothing here does."""

from __future__ import annotations

import settings
import tensorflow as tf
import tensorflow_models


def main() -> None:
    arguments = settings.parse_arguments(__doc__)
    tf.keras.utils.set_random_seed(arguments.seed)
    tokenizer, training, tests = tensorflow_models.datasets(arguments)
    model = tensorflow_models.build(arguments.model, len(tokenizer), arguments.length)
    optimizer = tf.keras.optimizers.Adam(arguments.learning_rate)

    @tf.function
    def step(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(batch, training=True).loss)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    losses = []
    for epoch in range(arguments.epochs):
        losses += [step(batch) for batch in training]
        print(f"epoch={epoch} loss={float(losses[-1]):.3f}")
    test_loss = [tf.reduce_mean(model(batch).loss) for batch in tests]
    model.save_pretrained(arguments.model_dir)
    tokenizer.save_pretrained(arguments.model_dir)
    settings.write_metrics(arguments, 0, [float(loss) for loss in losses], float(tf.reduce_mean(test_loss)))


if __name__ == "__main__":
    main()
