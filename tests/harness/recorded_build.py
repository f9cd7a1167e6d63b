"""BuildKit's plain output of a real build: two steps at once, one of which it comes back to."""

from __future__ import annotations

RECORDED = """\
#44 [pt compilers 1/2] RUN --mount=type=bind,from=scripts /scripts/os-packages/install.sh g++
#44 0.931 Reading package lists...
#44 ...

#45 [pt system 1/2] RUN /scripts/os-packages/install.sh openssh-server
#45 ...

#44 [pt compilers 1/2] RUN --mount=type=bind,from=scripts /scripts/os-packages/install.sh g++
#44 22.41 Processing triggers for libc-bin (2.36-9+deb12u14) ...
#44 DONE 22.6s
"""
