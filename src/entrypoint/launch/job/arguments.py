"""Hyperparameters as command-line arguments, in one of four dialects, because scripts read them in different ways."""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


# The platform's toolkit, the drivers of SDK 3.x, argparse's store_true, and absl or whoever wants --key=value.
TOOLKIT, SDK3, FLAGS, EQUALS = "toolkit", "sdk3", "flags", "equals"
DIALECTS = (TOOLKIT, SDK3, FLAGS, EQUALS)

# A value that the script's parser does not take; argparse's, absl's and click's words.
_BAD_VALUE = (
    r"error: argument (?P<argparse>\S+): invalid .*?: ?'(?P<argparse_value>.*?)'"
    r"|flag --(?P<absl>[\w-]+)=(?P<absl_value>.*?): "
    r"|Error: Invalid value for '?(?P<click>-[\w-]+)'?.*?: '(?P<click_value>.*?)'"
)
# Values that are so because of the dialect: true and false, none at all, Python's list or dict.
_OF_THE_DIALECT = re.compile(r"(true|false|)|[\[{].*", re.IGNORECASE)
# What argparse, absl and click say of arguments that they do not take.
_REFUSED = (  # compiled only when a script has failed
    r"error: (unrecognized arguments|argument .*(expected|ignored|invalid))"
    r"|Unknown command line flag|FATAL Flags parsing error"
    r"|Error: (No such option|Got unexpected extra argument|Option )"
)
# The option that they do not know. Where their first word is a value such as True, its option is known.
_UNKNOWN = r"(?:unrecognized arguments: (?=-)|Unknown command line flag '|[Nn]o such option:? '?)(-{0,2}[A-Za-z][\w-]*)"
# Parsers that are not the script's: a hyperparameter never reaches them.
_NOT_THE_SCRIPT = r"^(torchrun|accelerate|deepspeed|horovodrun)\b"


def arguments(hyperparameters: Mapping[str, Any], dialect: str) -> tuple[str, ...]:
    """The hyperparameters, none of them the platform's, as arguments. `dialect` is one of DIALECTS."""
    if dialect == SDK3:
        return tuple(word for key, value in hyperparameters.items() for word in (f"--{key}", _sdk3_value(value)))
    return tuple(word for key in sorted(hyperparameters) for word in _words(key, hyperparameters[key], dialect))


def refused(lines: Iterable[str], dialect: str) -> str:
    """The advice where a script's last lines say that it cannot read its arguments, "" for any other words."""
    own = [line for line in lines if not re.search(_NOT_THE_SCRIPT, line)]
    if bad_value := _bad_value(own):
        return bad_value
    said = [line for line in own if re.search(_REFUSED, line)]
    if not said:
        return ""
    if any(re.search(r"--model_dir\b", line) for line in said):
        return "the SDK's TensorFlow estimator sends model_dir; with model_dir=False there it does not"
    if unknown := re.search(_UNKNOWN, said[0]):
        return (
            f"the script has no option {unknown[1]}; a hyperparameter's key is passed as it is written:"
            " log-interval and log_interval are two"
        )
    others = {
        TOOLKIT: "--key value; a true or false is a value",
        FLAGS: "true is the bare flag --key, false leaves it out",
        EQUALS: "--key=value",
        SDK3: "--key value in the file's order, values as JSON",
    }
    ways = "; ".join(f"{name}: {how}" for name, how in others.items() if name != dialect)
    return f"the script does not take its arguments in the dialect {dialect}; try DLC_ARGV_DIALECT ({ways})"


def _bad_value(lines: Iterable[str]) -> str:
    """Advice about a value that no dialect would make another one; empty for none."""
    for match in filter(None, (re.search(_BAD_VALUE, line) for line in lines)):
        found = match.groupdict()
        key = found["argparse"] or found["absl"] or found["click"]
        value = found["argparse_value"] or found["absl_value"] or found["click_value"] or ""
        if not _OF_THE_DIALECT.fullmatch(value):
            return (
                f"the script takes no such value for {key}; correct the hyperparameter {key.lstrip('-')}, now {value!r}"
            )
    return ""


def _words(key: str, value: object, dialect: str) -> tuple[str, ...]:
    """`--key value`, `-k value` for a key of one character, "" for none (contract, section 2.2)."""
    option = f"--{key}" if len(key) > 1 else f"-{key}" if key else ""
    if dialect == FLAGS and (isinstance(value, bool) or value in ("True", "False")):
        return (option,) if value in (True, "True") else ()
    if dialect == EQUALS and option:
        return (f"{option}={_toolkit_value(value)}",)
    return (option, _toolkit_value(value))


def _toolkit_value(value: object) -> str:
    """Booleans are True and False, objects `k=v,k=v`, lists Python's repr."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    return str(value)


def _sdk3_value(value: object) -> str:
    """Strings as they are, everything else as JSON text."""
    return value if isinstance(value, str) else json.dumps(value)
