"""What the report says and when it is written, whatever compiles; may import the standard library, settings, hooks."""
