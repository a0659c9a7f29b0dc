"""What pages of strangers make a browser send is refused; what programs send passes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from daemons.browsers import BrowserPolicy, CrossSiteRequest, origins_of

HOST = "192.0.2.1:9999"
OWN = f"https://{HOST}"
EVIL = "https://evil.example"
POLICY = BrowserPolicy(
    trusted_origins=frozenset({"https://tools.example.com"}),
    names=frozenset({"m1.example.com"}),
    pages=("/ui/",),
)


def passes(
    method: str = "POST",
    path: str = "/hosts/h1/drain",
    *,
    secure: bool = True,
    host: str = HOST,
    **headers: str,
) -> bool:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        POLICY.check(method, path, CIMultiDict({"Host": host, **named}), secure=secure)
    except CrossSiteRequest:
        return False
    return True


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("secure", [True, False])
def test_programs_send_neither_header_and_pass(method: str, *, secure: bool) -> None:
    assert passes(method, secure=secure)
    assert passes(method, secure=secure, host="any.example:9999", Content_Type="text/plain")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "https://192.0.2.1:99990"},
        {"Origin": "https://192.0.2.1"},
        {"Origin": f"{EVIL}/{HOST}"},
        {"Origin": f"https://{HOST}@evil.example"},
        {"Origin": "https://[::1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "what-comes-next"},
        {"Sec_Fetch_Site": "cross-site", "Origin": OWN},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "document"},
    ],
)
def test_a_strangers_page_is_refused(method: str, headers: dict[str, Any]) -> None:
    assert not passes(method, **headers)
    assert not passes(method, "/ui/", **headers)


def test_own_pages_pass() -> None:
    assert passes(Sec_Fetch_Site="same-origin", Origin=OWN)
    assert passes(Sec_Fetch_Site="none")
    assert passes(Origin=OWN)
    assert passes(Origin=OWN.upper())
    # A proxy in front that names the server's address in Host.
    assert passes(Sec_Fetch_Site="same-origin", Origin="https://contiv.example.com")


def test_a_link_leads_to_pages_alone() -> None:
    link: dict[str, Any] = {
        "Sec_Fetch_Site": "cross-site",
        "Sec_Fetch_Mode": "navigate",
        "Sec_Fetch_Dest": "document",
    }
    assert passes("GET", "/ui/", **link)
    assert not passes("GET", "/api/v2/diagnosis", **link)
    assert not passes("POST", "/ui/", **link)


def test_pages_that_the_administrator_trusts_pass() -> None:
    trusted = "https://tools.example.com"
    assert passes(Origin=trusted, Sec_Fetch_Site="cross-site")
    headers = CIMultiDict([("Host", HOST), ("Origin", trusted), ("Origin", EVIL)])
    with pytest.raises(CrossSiteRequest):
        POLICY.check("POST", "/hosts/h1/drain", headers, secure=True)


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("192.0.2.1:9999", True),
        ("[2001:db8::1]:9999", True),
        ("localhost:9999", True),
        ("netmaster:9999", True),
        ("m1.example.com:9999", True),
        ("evil.example:9999", False),
        ("evil.example.:9999", False),
        ("m1.example.com.evil.example:9999", False),
    ],
)
@pytest.mark.parametrize("site", [{}, {"Sec_Fetch_Site": "same-origin"}])
def test_without_tls_a_strangers_name_of_the_server_changes_nothing(
    host: str, accepted: bool, site: dict[str, Any]
) -> None:
    assert passes(secure=False, host=host, Origin=f"http://{host}", **site) == accepted
    assert passes(secure=True, host=host, Origin=f"https://{host}", **site)
    assert passes("GET", secure=False, host=host)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.sampled_from(["Origin", "Sec_Fetch_Site"]),
)
def test_whatever_the_header_only_own_pages_pass(text: str, name: str) -> None:
    headers: dict[str, Any] = {name: text}
    if passes(**headers):
        assert (text in {"same-origin", "none"}) if name == "Sec_Fetch_Site" else (HOST in text)


def test_origins_are_read() -> None:
    assert origins_of("") == frozenset()
    assert origins_of("https://A.example, http://b:1") == {"https://a.example", "http://b:1"}
    for wrong in ("a.example", "ftp://a", "https://", "https://a/b", "*"):
        with pytest.raises(ValueError, match="is no origin"):
            origins_of(wrong)
