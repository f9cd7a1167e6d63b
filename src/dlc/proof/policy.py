"""The file of a policy: who may sign, what has to be attached to an image, and how old it may be."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from dlc.checked_yaml.problems import raise_report
from dlc.checked_yaml.validation import Model, validate_node
from dlc.checked_yaml.yaml_layers import parse_yaml
from dlc.core.errors import SpecError

Proof = Literal["signature", "provenance", "bill", "scan", "tests", "vex"]
ALWAYS: tuple[Proof, ...] = ("signature", "provenance", "bill", "scan")


class Signer(Model):
    """Who may sign: a key, or an identity that an issuer of OpenID Connect tokens vouches for."""

    key: str = Field(default="", description="file of a public key in PEM, from the folder of the policy")
    identity: str = Field(default="", description="of a keyless signature: an e-mail address or a workflow")
    issuer: str = Field(default="", description="who vouches for the identity")

    @model_validator(mode="after")
    def require_one_kind(self) -> Signer:
        """Raise ValueError unless it is a key, or an identity with its issuer."""
        if bool(self.key) == bool(self.identity) or bool(self.identity) != bool(self.issuer):
            raise ValueError("key, or identity and issuer")
        return self


class Policy(Model):
    """What `dlc verify` asks of an image. Every default is what it asks without a policy, in a checkout."""

    signers: tuple[Signer, ...] = Field(default=(), description="any one of them; --key adds one")
    require: tuple[Proof, ...] = Field(
        default=ALWAYS, description="what has to be attached, signed; by default also tests if no checkout is there"
    )
    image_days: int = Field(default=0, ge=0, description="most days since the image's commit; 0: any")
    scan_days: int = Field(default=30, ge=0, description="most days since the scan, and its data; 0: any")
    builders: tuple[str, ...] = Field(default=(), description="globs of builders in provenances; none: any")
    sources: Literal["checkout", "clean", "any"] = Field(
        default="checkout",
        description="checkout: the image is what this checkout builds; clean: it is of a commit without changed files",
    )

    @property
    def demands_sources(self) -> bool:
        """Tell whether the file itself says `sources: checkout`."""
        return self.sources == "checkout" and "sources" in self.model_fields_set

    def fill_outside_checkout(self) -> Policy:
        """Return the policy of a place without a checkout: tests count there, unless the file says what counts."""
        return self if "require" in self.model_fields_set else self.model_copy(update={"require": (*ALWAYS, "tests")})


def read_policy(path: Path) -> Policy:
    """Read a policy. Raises SpecError with file:line:col of every mistake."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: expected a policy in YAML, found: {error}", "dlc help proof shows one") from None
    node, problems = parse_yaml(text, str(path))
    raise_report(problems)
    if node is None:
        raise SpecError(f"{path}: expected YAML", "dlc help proof shows a policy")
    found, problems = validate_node(Policy, node)
    raise_report(problems)
    return found or Policy()
