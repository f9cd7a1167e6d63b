"""How findings are shown: text, JSON, SARIF; may import base and rules."""
