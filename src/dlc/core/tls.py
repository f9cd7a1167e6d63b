"""Which certificates dlc takes: those of every authority that this host trusts, as docker, apt, curl and uv do.

Python 3.13 began to refuse authorities that do not follow RFC 5280 to the letter (VERIFY_X509_STRICT), such as those
without a key usage extension. Many companies made theirs long ago so, for a registry or for a proxy that inspects TLS.
The person who named such an authority's file has decided to trust it. Refusing it makes nobody safer: docker pulls from
the same registry, and signature, dates and names are checked as before.
"""

from __future__ import annotations

import ssl
from pathlib import Path


def make_context(only: Path | None = None) -> ssl.SSLContext:
    """Return the context of a client that trusts the host's authorities, or only those of a file.

    Raises OSError for a file without certificates.
    """
    context = ssl.create_default_context(cafile=str(only) if only else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def relax_urllib3() -> None:
    """Let the clients of this process that are built on urllib3 take the same authorities.

    These are pip-audit and sigstore: neither lets a caller choose its TLS context.
    """
    from urllib3.util import ssl_

    # urllib3 2.4 and newer add this flag to each context on Python 3.13 and newer; a reset flag adds nothing.
    setattr(ssl_, "VERIFY_X509_STRICT", ssl.VerifyFlags(0))  # noqa: B010 (a name of its own that it does not export)
