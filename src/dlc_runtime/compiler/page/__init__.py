"""The report as one HTML file that needs nothing else; may import the standard library only."""
