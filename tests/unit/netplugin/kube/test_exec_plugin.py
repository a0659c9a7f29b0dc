"""What programs print that issue credentials."""

import json
from typing import Any

import pytest

from netplugin.kube.api_access import Issued
from netplugin.kube.exec_plugin import read

V1 = "client.authentication.k8s.io/v1"
CERT, KEY = "-----BEGIN CERTIFICATE-----\n", "-----BEGIN PRIVATE KEY-----\n"


def answer(status: object, **other: object) -> bytes:
    said: dict[str, Any] = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
    return json.dumps(said | other).encode()


def test_an_exec_credential_is_a_token_or_a_certificate_with_an_end() -> None:
    assert read(answer({"token": "a.b-c"}), V1) == Issued(token="a.b-c")
    pair = {"clientCertificateData": CERT, "clientKeyData": KEY}
    end = {"expirationTimestamp": "1970-01-01T01:00:00+00:00"}
    assert read(answer(pair | end), V1) == Issued(cert=CERT, key=KEY, expires=3600.0)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"", "prints no JSON"),
        (b"secret", "prints no JSON"),
        (b"[" * 1000, "prints no JSON"),
        (b"[]", "prints no ExecCredential"),
        (answer({"token": "secret\nX-Header: a"}), "prints no ExecCredential: status.token"),
        (answer({"token": ["secret"]}), "status.token"),
        (answer({"clientCertificateData": "secret", "clientKeyData": KEY}), "clientCertificate"),
        (answer({"token": "secret", "expirationTimestamp": "today"}), "expirationTimestamp"),
        (answer({"token": "secret"}, kind="Secret"), "kind"),
        (answer({"clientKeyData": KEY}), "neither a token nor a certificate with its key"),
        (answer({}), "neither a token nor a certificate with its key"),
        (answer({"token": "secret"}, apiVersion=f"{V1}beta1"), "v1beta1', not of client"),
    ],
)
def test_what_is_no_exec_credential_is_named_without_what_it_holds(said: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        read(said, V1)
    assert "secret" not in str(caught.value)
