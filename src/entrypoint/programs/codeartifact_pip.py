"""Runs pip against a CodeArtifact repository; started with the image's Python, never imported.

The token goes to pip in a variable: an argument could be read by every process of the machine.
Usage: codeartifact_pip.py ARN PIP-ARGUMENT...
"""

import importlib
import os
import re
import sys

ARN = re.compile(r"arn:[^:]+:codeartifact:([^:]+):([^:]+):repository/([^/]+)/(.+)")


def index_url(arn: "re.Match[str]") -> str:
    """Return the repository's address with a fresh token in it. Raises what boto3 raises."""
    region, owner, domain, repository = arn.groups()
    client = importlib.import_module("boto3").client("codeartifact", region_name=region)
    token = client.get_authorization_token(domain=domain, domainOwner=owner)["authorizationToken"]
    endpoint = client.get_repository_endpoint(domain=domain, domainOwner=owner, repository=repository, format="pypi")[
        "repositoryEndpoint"
    ]
    return str(endpoint).replace("https://", f"https://aws:{token}@", 1).rstrip("/") + "/simple/"


def main() -> int:
    """Become pip; one line on stderr if the repository cannot be asked."""
    arn = ARN.fullmatch(sys.argv[1])
    if arn is None:
        print(f"dlc: CA_REPOSITORY_ARN: {sys.argv[1]} is not the ARN of a CodeArtifact repository", file=sys.stderr)
        return os.EX_CONFIG
    try:
        os.environ["PIP_INDEX_URL"] = index_url(arn)
    except Exception as error:  # no boto3, no credentials, no network, no such repository: nothing in common
        print(f"dlc: CA_REPOSITORY_ARN: {sys.argv[1]}: {type(error).__name__}: {error}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    pip = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pip_install.py")
    return os.execv(sys.executable, [sys.executable, pip, *sys.argv[2:]])


if __name__ == "__main__":
    sys.exit(main())
