"""The way by the S3 gateway: a bucket is a dataset, a key is VERSION/PATH."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Optional

import botocore.config
import botocore.exceptions
import botocore.session

from muster.data.address import Address
from muster.data.transport import DataError, Entry

# Files of more than this are sent in parts of this size: requests stay short, and
# one that fails is repeated alone. S3 takes up to 10,000 parts.
_PART = 64 << 20
_MAX_PARTS = 10_000

_MISSING = {"404", "NoSuchKey", "NoSuchBucket", "NoSuchUpload", "NotFound"}
_FORBIDDEN = {"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "Forbidden"}


class Gateway:
    """Reaches data by the S3 gateway at an endpoint such as http://127.0.0.1:6480.

    ``key`` and ``secret`` are an access key; without them botocore looks for one, in
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY first.
    """

    def __init__(self, endpoint: str, key: Optional[str] = None, secret: Optional[str] = None) -> None:
        self.endpoint = endpoint
        config = botocore.config.Config(
            region_name="us-east-1",
            s3={"addressing_style": "path"},
            retries={"mode": "standard", "max_attempts": 4},
            max_pool_connections=32,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        self._client: Any = botocore.session.Session().create_client(
            "s3", endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key=secret, config=config
        )

    def entry(self, address: Address) -> Entry:
        if not address.dataset:
            return Entry(address, file=False)
        with self._explained(address):
            if not address.path:
                return self._version(address)
            try:
                head = self._client.head_object(Bucket=address.dataset, Key=_key(address))
                return Entry(address, True, int(head["ContentLength"]), _hash(head))
            except botocore.exceptions.ClientError as error:
                if _code(error) not in _MISSING:
                    raise
            if self._holds(address):
                return Entry(address, file=False)
        raise _missing(address)

    def entries(self, address: Address, recursive: bool) -> Iterator[Entry]:
        with self._explained(address):
            if not address.dataset:
                for bucket in self._client.list_buckets()["Buckets"]:
                    yield Entry(Address(bucket["Name"]), file=False)
                return
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=address.dataset, Prefix=_key(address, folder=True), **({} if recursive else {"Delimiter": "/"})
            )
            for page in pages:
                for folder in page.get("CommonPrefixes", ()):
                    yield Entry(_address(address, folder["Prefix"]), file=False)
                for one in page.get("Contents", ()):
                    if not one["Key"].endswith("/"):
                        yield Entry(_address(address, one["Key"]), True, int(one["Size"]), _hash(one))

    def read(self, address: Address, start: int, end: Optional[int]) -> bytes:
        if end is not None and end <= start:
            return b""
        span = f"bytes={start}-{'' if end is None else end - 1}"
        with self._explained(address):
            try:
                answer = self._client.get_object(Bucket=address.dataset, Key=_key(address), Range=span)
            except botocore.exceptions.ClientError as error:
                if _code(error) in ("416", "InvalidRange"):
                    return b""  # nothing is left from there on
                raise
            data: bytes = answer["Body"].read()
            return data

    def write(self, address: Address, source: IO[bytes], size: int) -> None:
        with self._explained(address):
            if size <= _PART:
                self._client.put_object(Bucket=address.dataset, Key=_key(address), Body=source, ContentLength=size)
            else:
                self._parts(address, source, size)

    def remove(self, address: Address) -> None:
        with self._explained(address):
            self._client.delete_object(Bucket=address.dataset, Key=_key(address))

    def _parts(self, address: Address, source: IO[bytes], size: int) -> None:
        place = {"Bucket": address.dataset, "Key": _key(address)}
        part = max(_PART, -(-size // _MAX_PARTS))
        upload = {**place, "UploadId": self._client.create_multipart_upload(**place)["UploadId"]}
        try:
            done = []
            for number, _ in enumerate(range(0, size, part), start=1):
                answer = self._client.upload_part(**upload, PartNumber=number, Body=source.read(part))
                done.append({"PartNumber": number, "ETag": answer["ETag"]})
            self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": done})
        except BaseException:
            self._client.abort_multipart_upload(**upload)
            raise

    def _version(self, address: Address) -> Entry:
        """The root of a version, which has files or is among those that there are."""
        if not self._holds(address):
            self._client.head_bucket(Bucket=address.dataset)
            listed = self._client.list_objects_v2(Bucket=address.dataset, Delimiter="/")
            if address.version + "/" not in [one["Prefix"] for one in listed.get("CommonPrefixes", ())]:
                raise _missing(address)
        return Entry(address, file=False)

    def _holds(self, address: Address) -> bool:
        """Whether there is anything in a folder."""
        answer = self._client.list_objects_v2(Bucket=address.dataset, Prefix=_key(address, folder=True), MaxKeys=1)
        return bool(answer.get("KeyCount"))

    @contextmanager
    def _explained(self, address: Address) -> Iterator[None]:
        """Turn botocore's errors into Python's."""
        try:
            yield
        except botocore.exceptions.ClientError as error:
            code, text = _code(error), str(error.response.get("Error", {}).get("Message") or error)
            if code in _MISSING:
                raise _missing(address) from error
            if code in _FORBIDDEN:
                raise PermissionError(
                    f"{address}: the gateway at {self.endpoint} refused the access key or what it may do: {text}; "
                    f"`muster data key create` makes a key"
                ) from error
            raise DataError(f"{address}: {text} ({code})") from error
        except botocore.exceptions.NoCredentialsError as error:
            raise PermissionError(
                f"{address}: the gateway at {self.endpoint} asks for an access key: `muster data key create` makes one; "
                f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give key and secret"
            ) from error
        except botocore.exceptions.BotoCoreError as error:
            raise DataError(f"{address}: asking the gateway at {self.endpoint}: {error}") from error


def _key(address: Address, folder: bool = False) -> str:
    key = f"{address.version}/{address.path}"
    return key + "/" if folder and address.path else key


def _address(place: Address, key: str) -> Address:
    return Address(place.dataset, place.version, key.partition("/")[2].rstrip("/"))


def _hash(fields: dict[str, Any]) -> Optional[str]:
    tag = fields.get("ETag")
    return str(tag).strip('"') if tag else None


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _missing(address: Address) -> FileNotFoundError:
    return FileNotFoundError(f"{address}: there is no such dataset, version, file or folder")
