"""TLS of both ends, made of files, and what goes wrong with it in words."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from planrun.core.errors import Invalid

CA_VARIABLE = "PLANRUN_CA"
CERT_VARIABLE = "PLANRUN_CERT"
KEY_VARIABLE = "PLANRUN_KEY"


def server_context(cert: Path, key: Path, *, client_ca: Path | None = None) -> ssl.SSLContext:
    """What a server shows, TLS 1.2 or newer.

    Args:
        cert: Its certificate, and those that lead to its CA, as PEM.
        client_ca: Callers must show a certificate of this CA; None: they need none.

    Raises:
        Invalid: A file cannot be read, or they do not belong together; says which.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load(context, cert, key, "--tls-cert", "--tls-key")
    if client_ca is not None:
        _trust(context, client_ca, "--tls-client-ca")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Whom a client trusts: the CA of PLANRUN_CA alone; without it, those of this system.

    It shows the certificate of PLANRUN_CERT with the key of PLANRUN_KEY, where they are set.

    Raises:
        Invalid: A file cannot be read, or they do not belong together; says which.
    """
    ca, cert, key = (environment.get(name, "") for name in (CA_VARIABLE, CERT_VARIABLE, KEY_VARIABLE))
    context = _trusting(ca, system=not ca)
    if bool(cert) != bool(key):
        raise Invalid(f"set both {CERT_VARIABLE} and {KEY_VARIABLE}, or none of them")
    if cert:
        _load(context, Path(cert), Path(key), CERT_VARIABLE, KEY_VARIABLE)
    return context


def elsewhere_context(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Whom a client trusts where an orchestrator sends it, to a bucket say: the CAs of this system, and of PLANRUN_CA.

    It shows no certificate there.

    Raises:
        Invalid: The file cannot be read.
    """
    return _trusting(environment.get(CA_VARIABLE, ""), system=True)


def trouble(error: BaseException) -> str | None:
    """What is wrong between two ends that cannot agree, and what to do; None: it has nothing to do with TLS."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, ssl.SSLError):
        found = found.__cause__ or found.__context__
    match found:
        case None:
            return None
        case ssl.SSLCertVerificationError(verify_code=62 | 64):
            return f"its certificate is for other names ({found.verify_message}): use a name that is in it"
        case ssl.SSLCertVerificationError(verify_code=10):
            return "its certificate has expired: renew it there"
        case ssl.SSLCertVerificationError():
            return (
                f"its certificate is of no CA that is trusted here ({found.verify_message}): name that in {CA_VARIABLE}"
            )
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "HTTP_REQUEST" | "RECORD_LAYER_FAILURE"):
            return "it speaks plain HTTP there, not TLS: use http://, or start it with --tls-cert and --tls-key"
        case ssl.SSLError(reason=str() as reason) if "CERTIFICATE" in reason:
            return f"it wants a certificate of this caller: set {CERT_VARIABLE} and {KEY_VARIABLE}"
        case ssl.SSLError():
            return f"the two ends cannot agree on TLS ({found.reason or found})"
    raise AssertionError("unreachable")


def _trusting(ca: str, *, system: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca:
        _trust(context, Path(ca), CA_VARIABLE)
    if system:
        context.load_default_certs()
    return context


def _load(context: ssl.SSLContext, cert: Path, key: Path, of_cert: str, of_key: str) -> None:
    for option, file in ((of_cert, cert), (of_key, key)):
        _look(option, file)
    try:
        context.load_cert_chain(cert, key, password=lambda: "")
    except ssl.SSLError as error:
        why = (
            "they do not belong together"
            if error.reason == "KEY_VALUES_MISMATCH"
            else "they are no PEM files, or the key has a password"
        )
        raise Invalid(f"{of_cert} {cert}, {of_key} {key}: {why}") from None


def _trust(context: ssl.SSLContext, ca: Path, option: str) -> None:
    _look(option, ca)
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError:
        raise Invalid(f"{option} {ca}: there is no certificate in it; name a PEM file") from None


def _look(option: str, file: Path) -> None:
    try:
        file.read_bytes()
    except OSError as error:
        raise Invalid(f"{option} {file}: {error.strerror}; name a PEM file that this user can read") from None
