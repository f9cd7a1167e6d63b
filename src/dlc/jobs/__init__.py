"""Training jobs on this host (`run`) and on paper (`advice`). Imports nothing itself."""
