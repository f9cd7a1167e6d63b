"""What one script is and does: names, training steps, models, tensors; may import findings."""
