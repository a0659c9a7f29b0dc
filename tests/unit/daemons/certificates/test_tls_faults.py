"""Failed handshakes in words; the texts of real ones are in `test_tls`."""

import ssl

import pytest

from daemons.certificates.tls_faults import cause, explain


def alert(reason: str) -> ssl.SSLError:
    exc = ssl.SSLError(1, f"[SSL: {reason}] text of OpenSSL")
    exc.reason = reason
    return exc


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", "requires a certificate"),
        ("TLSV1_ALERT_UNKNOWN_CA", "does not know the authority of this certificate"),
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", "the own certificate has expired"),
        ("WRONG_VERSION_NUMBER", "does not speak TLS"),
        ("HTTP_REQUEST", "does not speak TLS"),
    ],
)
def test_alerts_name_the_certificate_and_the_remedy(reason: str, said: str) -> None:
    assert said in explain(alert(reason))


def test_anything_else_keeps_its_own_text() -> None:
    assert "text of OpenSSL" in explain(alert("SOMETHING_NEW"))
    assert explain(ConnectionResetError("reset by peer")) == "reset by peer"
    assert explain(TimeoutError()) == "TimeoutError"


def test_the_cause_of_an_error_is_the_handshake_that_failed() -> None:
    inner = alert("TLSV1_ALERT_UNKNOWN_CA")
    outer = OSError("cannot connect")
    outer.__cause__ = inner
    assert cause(outer) == f"cannot connect: {explain(inner)}"
    assert cause(inner) == explain(inner)


def test_an_error_without_a_handshake_keeps_its_text() -> None:
    assert cause(ConnectionResetError("reset by peer")) == "reset by peer"
    assert cause(TimeoutError()) == "TimeoutError"
