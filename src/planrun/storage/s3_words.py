"""What an S3 server's errors mean, and what to do about them. No text of the server or of its client goes on.

Two kinds matter to who stores: no answer, or "later", passes by itself (`StorageError.is_away`); a
refusal does not. The client's words hold the address of each request, and so the names of files: those say nothing.
"""

from __future__ import annotations

import re

from planrun.core.errors import StorageError

_ADDRESS = re.compile(r"https?://\S+")
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,80})</Code>")
_LATER = ("408", "409", "425", "429", "500", "502", "503", "504")
_NO_BUCKET = "NoSuchBucket"
_REFUSALS = {
    _NO_BUCKET: "there is no such bucket; create it, or correct the address of the store",
    "InvalidAccessKeyId": "the server does not know this access key; correct AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "the secret does not fit the access key; correct AWS_SECRET_ACCESS_KEY",
    "RequestTimeTooSkewed": "the clocks of this box and of the server differ too much; set this one right",
    "ExpiredToken": "the credentials have expired; renew them (AWS_SESSION_TOKEN)",
    "InvalidToken": "the session token is not accepted; renew the credentials (AWS_SESSION_TOKEN)",
    "AccessDenied": "these credentials may not do that; give them s3:GetObject, PutObject, DeleteObject and ListBucket",
    "AuthorizationHeaderMalformed": "the bucket is in another region; set AWS_REGION",
    "PermanentRedirect": "the bucket is in another region; set AWS_REGION",
    "KeyTooLongError": "the name is too long for the server; shorten it",
    "EntityTooLarge": "the object is larger than the server takes",
    "NotImplemented": "the server does not know this request; use another S3 server",
}
_OF_THE_MACHINE = "://169.254.169.254/"  # where the client asks for credentials if it was given none
_NO_CREDENTIALS = "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_SAID = (  # the client's own words, where no answer has come
    ("redirect", "the bucket is in another region; set AWS_REGION", False),
    (
        "InvalidCertificate",
        "its certificate is not trusted here; add its authority, or correct AWS_ENDPOINT_URL",
        False,
    ),
    ("TimedOut", "no answer in time; is it overloaded, or is something between?", True),
)
_UNREACHABLE = "no connection; is it running, and is AWS_ENDPOINT_URL right?"


def storage_error(what: str, where: str, error: Exception) -> StorageError:
    """The error to raise instead.

    Args:
        what: What could not be done.
        where: The bucket and the server, as people know them.
    """
    why, is_away = _why(str(error))
    return StorageError(f"{what}: {where}: {why}", is_away=is_away)


def is_no_bucket(error: Exception) -> bool:
    """Is the whole bucket missing, where a missing object would be none?"""
    code = _CODE.search(str(error))
    return code is not None and code[1] == _NO_BUCKET


def _why(text: str) -> tuple[str, bool]:
    if _OF_THE_MACHINE in text:
        return _NO_CREDENTIALS, False
    code, status = _CODE.search(text), _STATUS.search(text)
    if code is not None and code[1] in _REFUSALS:
        return _REFUSALS[code[1]], False
    if status is None:
        said = _ADDRESS.sub("", text)
        return next(((why, is_away) for mark, why, is_away in _SAID if mark in said), (_UNREACHABLE, True))
    if status[1] in _LATER:
        return f"it answered {status[1]}{f' {code[1]}' if code else ''}; it is overloaded or out of order", True
    if status[1] == "403":  # a HEAD has no body that could say more
        return "it refused (403); check the credentials and what they may do, and the clock of this box", False
    if status[1] == "404":
        return "there is no such object, or no such bucket", False
    return f"it answered {status[1]}{f' {code[1]}' if code else ''}", False
