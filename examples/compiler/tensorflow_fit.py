"""Trains a small BERT or GPT with Keras `fit`. The job says whether it is compiled: nothing here does."""

from __future__ import annotations

import settings
import tensorflow as tf
import tensorflow_models


def main() -> None:
    arguments = settings.parse_arguments(__doc__)
    tf.keras.utils.set_random_seed(arguments.seed)
    tokenizer, training, tests = tensorflow_models.datasets(arguments)
    model = tensorflow_models.build(arguments.model, len(tokenizer), arguments.length)
    model.compile(optimizer=tf.keras.optimizers.Adam(arguments.learning_rate))  # the loss is the model's own
    losses = model.fit(training, epochs=arguments.epochs, verbose=2).history["loss"]
    test_loss = model.evaluate(tests, verbose=0)
    model.save_pretrained(arguments.model_dir)
    tokenizer.save_pretrained(arguments.model_dir)
    settings.write_metrics(arguments, 0, losses, test_loss)


if __name__ == "__main__":
    main()
