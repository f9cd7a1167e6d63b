"""Downloads one object from S3 with the image's own boto3; started with the image's Python, never imported.

Usage: s3_download.py s3://BUCKET/KEY FILE
"""

import importlib
import os
import sys


def main() -> int:
    """Download; one line on stderr and EX_UNAVAILABLE if that does not work."""
    url, path = sys.argv[1:]
    bucket, _, key = url[len("s3://") :].partition("/")
    try:
        boto3 = importlib.import_module("boto3")
    except ImportError:
        print(f"dlc: {url}: this image has no boto3; give the code as a folder or a tar file", file=sys.stderr)
        return os.EX_UNAVAILABLE
    try:
        region = os.environ.get("AWS_REGION") or os.environ.get("SAGEMAKER_REGION") or None
        client = boto3.client("s3", region_name=region, endpoint_url=os.environ.get("S3_ENDPOINT_URL"))
        client.download_file(bucket, key, path)
    except Exception as error:  # boto3 has no common base class for "no credentials", "no such key", "no network"
        print(f"dlc: {url}: not downloaded: {type(error).__name__}: {error}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
