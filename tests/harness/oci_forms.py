"""What the image specification of OCI asks of manifests, indexes and configurations, as JSON Schemas.

Written from its text, https://github.com/opencontainers/image-spec/tree/v1.1.1: descriptor.md, manifest.md,
image-index.md, config.md. For lists of referrers: https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md.
Where the text says SHOULD and dlc does so, it is asked for too.
"""

from __future__ import annotations

from typing import Any

import jsonschema

Form = dict[str, Any]
# A media type is that of RFC 6838, 4.2.
NAME = r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}"
ANNOTATIONS: Form = {"type": "object", "additionalProperties": {"type": "string"}}
TEXTS: Form = {"type": "array", "items": {"type": "string"}}
MEDIA_TYPE: Form = {"type": "string", "pattern": f"^{NAME}/{NAME}$"}
DIGEST: Form = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
TIME: Form = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"}
PLATFORM: Form = {
    "type": "object",
    "required": ["architecture", "os"],
    "properties": {"architecture": {"type": "string"}, "os": {"type": "string"}, "variant": {"type": "string"}},
}
DESCRIPTOR: Form = {
    "type": "object",
    "required": ["mediaType", "digest", "size"],
    "properties": {
        "mediaType": MEDIA_TYPE, "digest": DIGEST, "size": {"type": "integer", "minimum": 0}, "urls": TEXTS,
        "annotations": ANNOTATIONS, "artifactType": MEDIA_TYPE, "data": {"type": "string"}, "platform": PLATFORM,
    },
}  # fmt: skip
EMPTY = "application/vnd.oci.empty.v1+json"
MANIFEST: Form = {
    "type": "object",
    "required": ["schemaVersion", "mediaType", "config", "layers"],
    "properties": {
        "schemaVersion": {"const": 2},
        "mediaType": {"const": "application/vnd.oci.image.manifest.v1+json"},
        "artifactType": MEDIA_TYPE,
        "config": DESCRIPTOR,
        "layers": {"type": "array", "minItems": 1, "items": DESCRIPTOR},
        "subject": DESCRIPTOR,
        "annotations": ANNOTATIONS,
    },
    # An artifact whose configuration is the empty one has to say what it is.
    "if": {"properties": {"config": {"properties": {"mediaType": {"const": EMPTY}}}}},
    "then": {"required": ["artifactType"]},
}
INDEX: Form = {
    "type": "object",
    "required": ["schemaVersion", "mediaType", "manifests"],
    "properties": {
        "schemaVersion": {"const": 2},
        "mediaType": {"const": "application/vnd.oci.image.index.v1+json"},
        "artifactType": MEDIA_TYPE,
        "manifests": {"type": "array", "items": DESCRIPTOR},
        "subject": DESCRIPTOR,
        "annotations": ANNOTATIONS,
    },
}
# A list of referrers says of each document what it is.
REFERRERS: Form = {
    **INDEX,
    "properties": {
        **INDEX["properties"],
        "manifests": {
            "type": "array", "items": {**DESCRIPTOR, "required": [*DESCRIPTOR["required"], "artifactType"]},
        },
    },
}  # fmt: skip
CONFIG: Form = {
    "type": "object",
    "required": ["architecture", "os", "rootfs"],
    "properties": {
        "created": TIME,
        "architecture": {"type": "string"},
        "os": {"type": "string"},
        "config": {
            "type": "object",
            "properties": {
                "User": {"type": "string"}, "Env": {**TEXTS, "items": {"type": "string", "pattern": "^[^=]+=.*"}},
                "Entrypoint": {"anyOf": [TEXTS, {"type": "null"}]}, "Cmd": {"anyOf": [TEXTS, {"type": "null"}]},
                "WorkingDir": {"type": "string"}, "Labels": {"anyOf": [ANNOTATIONS, {"type": "null"}]},
            },
        },
        "rootfs": {
            "type": "object",
            "required": ["type", "diff_ids"],
            "properties": {"type": {"const": "layers"}, "diff_ids": {"type": "array", "items": DIGEST}},
        },
        "history": {
            "type": "array",
            "items": {"type": "object", "properties": {"created": TIME, "empty_layer": {"type": "boolean"}}},
        },
    },
}  # fmt: skip


def find_faults(value: object, form: Form) -> list[str]:
    """Return what is wrong with a value by one of these forms, each with its place."""
    found = jsonschema.Draft202012Validator(form).iter_errors(value)
    return sorted(f"{error.json_path}: {error.message}" for error in found)
