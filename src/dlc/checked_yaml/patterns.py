"""The patterns of texts in files that users write, each with its words in an error."""

# Pattern -> its words in an error. Package names may not start with a dash: they end up in argument lists.
MEANINGS = {
    r"^[a-z0-9][a-z0-9+.\-]*$": "a Debian package name",
    r"^[A-Za-z0-9][A-Za-z0-9._\-]*(\[[A-Za-z0-9,._\-]+\])?(==[A-Za-z0-9][A-Za-z0-9.+!]*)?$": "NAME or NAME==VERSION",
    r"^[A-Za-z0-9][A-Za-z0-9._\-]*(\[[A-Za-z0-9,._\- ]+\])?( *[<>=!~][^;@#]*| *@ *[^\s;]+)?$": (
        "NAME, a version such as NAME==1.2 or NAME>=1.2,<2, or NAME @ ADDRESS"
    ),
    r"^3\.[0-9]+$": "a Python version such as 3.11",
    r"^(cpu|cu[1-9][0-9]{1,3})$": "cpu, or CUDA such as cu128",
    r"^[a-z]+$": "lower-case letters",
    r"^[0-9]+(\.[0-9]+)+$": "a version series such as 2.13",
    r"^(\*|[A-Za-z0-9][A-Za-z0-9.+!]*)$": "an exact version, or * for the newest that fits",
    r"^[a-z0-9]+([._/:\-]+[a-z0-9]+)*$": "a repository name in lower case",
    # As docker reads it: REGISTRY:PORT/PATH:TAG@sha256:DIGEST.
    r"^(([A-Za-z0-9][A-Za-z0-9.\-]*(:[0-9]{1,5})?/)?[a-z0-9]+((\.|_|__|-+|/)[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127})?"
    r"(@sha256:[0-9a-f]{64})?)?$": "an image reference such as debian:12 or r.example/debian@sha256:..., or nothing",
    r"^[^\s]+$": "text without spaces",
    r"^[0-9]{1,9}(\.[0-9]{1,9})?$": "a number such as 1.6",
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$": "a date such as 2026-11-20, or nothing",
    r"^(none|distro|installer)$": "none, distro or installer",
    r"^([0-9]+(\.[0-9]+)+)?$": "a version such as 1.17.3, or nothing",
    r"^((https?|file)://[^\s]+)?$": "an address (http, https, file), or nothing",
    r"^(https?|file)://[^\s@]+$": "an address (http, https, file) without credentials",
    r"^[a-z0-9]+(-[a-z0-9]+)*$": "a name in lower case, digits and dashes",
    r"^([0-9a-f]{64})?$": "64 hexadecimal digits, or nothing",
    r"^linux/(amd64|arm64)$": "linux/amd64 or linux/arm64",
    r"^([a-z0-9]+(-[a-z0-9]+)*)?$": "a name in lower case, digits and dashes, or nothing",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "the name of an environment variable",
    r"^[^\x00-\x1f\x7f]*$": "text of one line",
    r"^<=[0-9]{4}-[0-9]{2}-[0-9]{2}$": "a last day such as <=2027-10-31",
    r"^[0-9]{1,9}$": "a whole number such as 96",
    r"^(up to )?[0-9]{1,9}(\.[0-9]{1,9})?$": "Gbit/s such as 25, or `up to 10`",
    r"^(yes|no)$": "yes or no",
    r"^(unknown|[0-9]{1,9}(\.[0-9]{1,9})?)$": "US dollars for an hour such as 3.825, or unknown",
    r"^[a-z0-9]+(-[a-z0-9]+)*\.[a-z0-9\-]+$": "a machine's type such as c5.18xlarge, without `ml.`",
    r"^[a-z][a-z0-9_\-]{0,31}$": "a user's name: at most 32 of a-z, 0-9, _ and -, a letter first",
    r"^(dlc ?>= ?[0-9]+(\.[0-9]+){0,3})?$": "dlc >= VERSION, such as dlc >= 1.0, or nothing",
    # Neither a query nor a fragment: the first may be a password, the second would be a hash of its own.
    r"^(https://[^\s@?#\\]+/|([A-Za-z0-9_][A-Za-z0-9._\-]*/)*)dlc-[0-9][A-Za-z0-9.+!%]*-py3-none-any\.whl$": (
        "a path below this folder, or an https address without credentials, that ends with dlc-VERSION-py3-none-any.whl"
    ),
    r"^[0-9a-f]{64}$": "64 hexadecimal digits",
}
(
    DEBIAN_NAME, REQUIREMENT, OWN_REQUIREMENT, PYTHON, DEVICE, LETTERS, SERIES, VERSION, REPOSITORY, IMAGE_REF,
    NO_SPACES, NUMBER, DATE, EFA_SOURCE, RELEASE, OPTIONAL_ADDRESS, ADDRESS, INDEX, SHA256,
    PLATFORM_NAME, FLAVOR, VARIABLE, LINE, DAY_LIMIT, WHOLE, NETWORK, YES_NO, PRICE, MACHINE, USER, REQUIRES, WHEEL,
    DIGEST,
) = MEANINGS  # fmt: skip
