"""dlc builds Deep Learning Container training images."""
