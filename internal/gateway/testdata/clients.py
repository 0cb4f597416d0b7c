"""What unmodified Python clients do with a dataset: boto3, s3fs and pandas.

Their settings come from the environment, as a user's would; every line that is not
as it should be ends the program.
"""

import io
import os
import urllib.error
import urllib.request

import boto3
import botocore.config
import botocore.exceptions
import pandas
import s3fs

endpoint = os.environ["AWS_ENDPOINT_URL"]
s3 = boto3.client("s3")


def refused(code, call, **arguments):
    try:
        call(**arguments)
    except botocore.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == code, error
        return error.response["Error"]["Message"]
    raise AssertionError("it was not refused")


assert [b["Name"] for b in s3.list_buckets()["Buckets"]] == ["digits"]
s3.head_bucket(Bucket="digits")

# Objects, with the checksums that boto3 sends by itself, and every one it can send.
put = s3.put_object(Bucket="digits", Key="main/boto/a.txt", Body=b"0123456789")
for algorithm in ("CRC32", "SHA1", "SHA256"):
    again = s3.put_object(Bucket="digits", Key="main/boto/b.txt", Body=b"0123456789", ChecksumAlgorithm=algorithm)
    assert again["ETag"] == put["ETag"], again
got = s3.get_object(Bucket="digits", Key="main/boto/a.txt")
assert got["Body"].read() == b"0123456789" and got["ETag"] == put["ETag"] and got["ContentType"] == "text/plain"
assert s3.get_object(Bucket="digits", Key="main/boto/a.txt", Range="bytes=2-4")["Body"].read() == b"234"
assert s3.head_object(Bucket="digits", Key="main/boto/a.txt")["ContentLength"] == 10
refused("304", s3.get_object, Bucket="digits", Key="main/boto/a.txt", IfNoneMatch=put["ETag"])
refused("PreconditionFailed", s3.put_object, Bucket="digits", Key="main/boto/a.txt", Body=b"x", IfNoneMatch="*")
refused("NoSuchKey", s3.get_object, Bucket="digits", Key="main/boto/none")
assert "has no branch nxt" in refused("InvalidRequest", s3.put_object, Bucket="digits", Key="nxt/a", Body=b"x")

# A transfer that boto3 makes in parts, and reads in parts.
long = os.urandom(20 << 20)
s3.upload_fileobj(io.BytesIO(long), "digits", "main/boto/long.bin")
back = io.BytesIO()
s3.download_fileobj("digits", "main/boto/long.bin", back)
assert back.getvalue() == long

# Names that have to be written with care.
for name in ("a b", "ä/ö", "a+b", "a%20b", "a&b=c;d", "(a)'!*"):
    s3.put_object(Bucket="digits", Key="main/names/" + name, Body=name.encode())
    assert s3.get_object(Bucket="digits", Key="main/names/" + name)["Body"].read() == name.encode()
pages = s3.get_paginator("list_objects_v2").paginate(Bucket="digits", Prefix="main/names/", PaginationConfig={"PageSize": 2})
names = [o["Key"][len("main/names/"):] for page in pages for o in page.get("Contents", [])]
assert names == sorted(names, key=str.encode) and len(names) == 6 and "a%20b" in names and "ä/ö" in names, names

s3.copy_object(Bucket="digits", Key="main/boto/copy", CopySource={"Bucket": "digits", "Key": "main/names/a b"})
assert s3.get_object(Bucket="digits", Key="main/boto/copy")["Body"].read() == b"a b"
gone = s3.delete_objects(Bucket="digits", Delete={"Objects": [{"Key": "main/names/" + n} for n in names]})
assert len(gone["Deleted"]) == 6 and "Contents" not in s3.list_objects_v2(Bucket="digits", Prefix="main/names/")
signed = boto3.client("s3", config=botocore.config.Config(signature_version="s3v4"))
url = signed.generate_presigned_url("get_object", Params={"Bucket": "digits", "Key": "main/boto/a.txt"})
assert pandas.read_csv(url, header=None).shape == (1, 1)

# Names that XML cannot hold, by all listings and page by page.
odd = ["a\x01b", "a\x1f/c", "b +%\x02", "c\ufffe"]
for name in odd:
    s3.put_object(Bucket="digits", Key="main/odd/" + name, Body=b"1")
for listing in ("list_objects_v2", "list_objects"):
    for size in (1, 2, 1000):
        pages = s3.get_paginator(listing).paginate(Bucket="digits", Prefix="main/odd/", PaginationConfig={"PageSize": size})
        listed = [o["Key"][len("main/odd/"):] for page in pages for o in page.get("Contents", [])]
        assert listed == sorted(odd, key=str.encode), (listing, size, listed)
    folded = getattr(s3, listing)(Bucket="digits", Prefix="main/odd/a\x1f", Delimiter="/")
    assert [p["Prefix"] for p in folded["CommonPrefixes"]] == ["main/odd/a\x1f/"], folded
for name in odd:
    assert s3.get_object(Bucket="digits", Key="main/odd/" + name)["Body"].read() == b"1"
    s3.delete_object(Bucket="digits", Key="main/odd/" + name)
upload = s3.create_multipart_upload(Bucket="digits", Key="main/odd/u\x01")
listed = s3.list_multipart_uploads(Bucket="digits", Prefix="main/odd/", EncodingType="url")["Uploads"]
assert [u["Key"] for u in listed] == ["main/odd/u%01"], listed
s3.abort_multipart_upload(Bucket="digits", Key="main/odd/u\x01", UploadId=upload["UploadId"])

# Features that a dataset does not have, and the default signature of boto3.
refused("AccessControlListNotSupported", s3.put_object, Bucket="digits", Key="main/x", Body=b"x", ACL="public-read")
refused("NotImplemented", s3.put_object, Bucket="digits", Key="main/x", Body=b"x", ServerSideEncryption="AES256")
refused("NotImplemented", s3.put_object, Bucket="digits", Key="main/x", Body=b"x", SSECustomerAlgorithm="AES256", SSECustomerKey=b"k" * 32)
refused("NoSuchKey", s3.get_object, Bucket="digits", Key="main/x")
old = s3.generate_presigned_url("get_object", Params={"Bucket": "digits", "Key": "main/boto/a.txt"})
assert "AWSAccessKeyId=" in old, old
try:
    urllib.request.urlopen(old)
    raise AssertionError("signature version 2 was not refused")
except urllib.error.HTTPError as e:
    assert e.code == 400 and b'signature_version="s3v4"' in e.read().replace(b"&#34;", b'"')

# pandas and s3fs.
options = {"endpoint_url": endpoint}
frame = pandas.DataFrame({"label": [7, 2, 1], "pixels": [0.5, 0.25, 1.0]})
frame.to_parquet("s3://digits/main/frames/one.parquet", storage_options=options)
assert pandas.read_parquet("s3://digits/main/frames/one.parquet", storage_options=options).equals(frame)
frame.to_csv("s3://digits/main/frames/one.csv", index=False, storage_options=options)
assert pandas.read_csv("s3://digits/main/frames/one.csv", storage_options=options).equals(frame)
files = s3fs.S3FileSystem(**options)
assert files.ls("digits") == ["digits/main"], files.ls("digits")
assert sorted(files.ls("digits/main")) == ["digits/main/boto", "digits/main/frames"], files.ls("digits/main")
assert sorted(files.glob("digits/main/**/*.csv")) == ["digits/main/frames/one.csv"]
assert files.isdir("digits/main/frames") and files.isfile("digits/main/frames/one.csv")
with files.open("digits/main/boto/long.bin", "rb") as f:
    f.seek(10 << 20)
    assert f.read(1000) == long[10 << 20 : (10 << 20) + 1000]
files.rm("digits/main/frames", recursive=True)
assert not files.exists("digits/main/frames/one.csv")
