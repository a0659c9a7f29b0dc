"""Malformed calls of the plugin, and replies that are none, of each kind that its parser tells."""

from typing import Any, Final

from contivk8s.main import MAX_BYTES, MAX_DEPTH
from tests.integration.cni.calls import environment

OK: Final = b'HTTP/1.1 200 OK\r\n\r\n{"cni":"{}"}'


def http(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n".encode() + body


def versioned(value: bytes, more: bytes = b"") -> bytes:
    return b'{"cniVersion":' + value + more + b"}"


CONFIGURATIONS: Final = (
    *(
        b"",
        b" \t\r\n\f\v",
        b"\0",
        b"{}",
        b"[]",
        b"null",
        b'"x"',
        b"5",
        b"not json",
        b"\xff",
        b"\xef\xbb\xbf{}",
    ),
    *(
        b"{",
        b'{"a"',
        b'{"a":',
        b'{"a":1',
        b'{"a":1,',
        b'{"a":1,}',
        b'{"a":1 "b":2}',
        b"{1:2}",
        b"{,}",
        b'{"a" 1}',
    ),
    *(
        b"[",
        b"[1",
        b"[1,",
        b"[1,]",
        b"[,]",
        b"[1 2]",
        b'{"a":1} x',
        b'{"a":1}\0',
        b'{"a":"\0"}',
        b'{"a\n":1}',
    ),
    *(
        versioned(number)
        for number in (
            b"0",
            b"-0",
            b"01",
            b"-",
            b"1.",
            b".5",
            b"1.5e",
            b"1e+",
            b"1E-05",
            b"-1.25e7",
        )
    ),
    *(
        versioned(number)
        for number in (
            b"1" * 5000,
            b"1e999",
            b"+1",
            b"0x1",
            b"1_0",
            b"NaN",
            b"Infinity",
            b"-Infinity",
        )
    ),
    *(
        versioned(word)
        for word in (b"true", b"false", b"null", b"nul", b"True", b"nulll", b"{}", b"[[]]", b'""')
    ),
    *(
        versioned(b'"%s"' % text)
        for text in (b"0.1.0", b"7.7", b"0.4.0 ", b"0.4.0\\u0000", b"\\u0030.4.0", b"a'b\\\"c")
    ),
    *(
        versioned(b'"%s"' % text)
        for text in (b"\\/\\b\\f\\n\\r\\t\\\\", b"\\x", b"\\u12", b"\\u12G4", b"\\", b"\t", b"\x7f")
    ),
    *(
        versioned(b'"%s"' % text)
        for text in (
            b"\\ud83d\\ude00",
            b"\\ud83d",
            b"\\ude00\\ud83d",
            b"\\ud83d\\u0041",
            b"\\ud83dx",
        )
    ),
    *(
        versioned(b'"%s"' % text)
        for text in (
            "\u00e4\u20ac\U0001f600".encode(),
            b"\xc0\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
        )
    ),
    *(
        versioned(b'"%s"' % text)
        for text in (
            b"\xc3",
            b"\xe2\x82",
            b"\xe2\x28\xa1",
            b"\xf0\x9f\x98",
            b"\x80",
            b"\xf5\x80\x80\x80",
        )
    ),
    *(
        b'{"CNIVERSION":"0.4.0"}',
        '{"cniVer\u017fion":"0.4.0"}'.encode(),
        '{"cn\u0130Version":"0.4.0"}'.encode(),
    ),
    *(
        b'{"cniVersion":"0.4.0","cniVersion":null}',
        b'{"cniVersion":"0.4.0","CniVersion":"1.0.0","cniVersion":"1.1.0"}',
    ),
    *(
        b'{"cniVersio":"0.4.0"}',
        b'{"cniVersions":"0.4.0"}',
        b'{"\\u0063niVersion":"0.4.0"}',
        b' { "cniVersion" : "0.4.0" } ',
    ),
    *(b"[" * depth + b"]" * depth for depth in (1, MAX_DEPTH, MAX_DEPTH + 1, 100_000)),
    *(
        versioned(b'"0.4.0"', b',"a":' + b"[" * depth + b"]" * depth)
        for depth in (MAX_DEPTH - 1, MAX_DEPTH)
    ),
    versioned(b'"0.4.0"', b',"a":[' + b'{"b\\\\":"[[\\"["},' * 300 + b"0]"),
    *(
        b"[" * 300,
        b'{"a":' * 300,
        b'"' * 301,
        b"\\" * 300,
        b" " * (MAX_BYTES - 2) + b"{}",
        b" " * (MAX_BYTES - 1) + b"{}",
    ),
    versioned(b'"1.0.0"', b',"name":"' + b"\x01" * 500 + b'"'),
    versioned(b'"1.0.0"', b',"name":"' + "\u00e4".encode() * 500_000 + b'"'),
)


ENVIRONMENTS: Final[tuple[dict[Any, Any], ...]] = (
    {},
    *({"CNI_COMMAND": verb} for verb in ("ADD", "DEL", "CHECK")),
    *(environment("ADD") | {name: ""} for name in ("CNI_NETNS", "CNI_IFNAME", "CNI_CONTAINERID")),
    *(
        environment("ADD", CNI_ARGS=text)
        for text in (
            *("", ";", "a", "=", "=x", "a=b=c;;", "K8S_POD_NAME", "K8S_POD_NAME=a;b", ";;a=1;"),
            *(
                "K8S_POD_NAME=a;K8S_POD_NAME=b",
                "K8S_POD_NAME=a;K8S_POD_NAME=",
                "K8S_POD_NAMESPACE=\u00e4;\n=1",
            ),
        )
    ),
    environment("ADD", CNI_ARGS="K8S_POD_NAME=" + "\u20ac" * 40_000),
    *(
        {b"CNI_COMMAND": b"ADD", b"CNI_CONTAINERID": raw, b"CNI_NETNS": b"/n", b"CNI_IFNAME": b"e"}
        for raw in (
            b"\xff",
            b"a\xc3",
            b"\xe2\x82(",
            b"\xed\xa0\x80",
            b'"\\\x7f\x01',
            b"\xf0\x9f\x98\x80",
        )
    ),
    {b"CNI_COMMAND": b"\xe2\x82x\xff"},
    *(
        environment("ADD", CONTIV_CNI_SOCKET=path)
        for path in ("", "/", "/tmp", "x" * 107, "x" * 108, "/\u00e4" * 60)
    ),
)


REPLIES: Final = (
    *(
        None,
        b"",
        b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1\r\n\r\n{}",
        b"\xff\r\n\r\n\xff",
        b"a b\rc\n\r\n\r\n",
    ),
    *(
        http(status, b"no\n")
        for status in ("403 Forbidden", "404 Not Found", "408 A", "502 B", "503 C", "504 D", "418")
    ),
    *(
        http("\u00e4 200", b"{}"),
        http("20", b'{"cni":"x"}'),
        http("2000", b'{"cni":"x"}'),
        http("200", b"5"),
    ),
    *(
        http("200 OK", body)
        for body in (b"", b"{", b"[]", b"{}", b"\0", b'{"cni":5}', b'{"cni":null}', b'{"cni":""}')
    ),
    *(
        http("500 X", body)
        for body in (
            b'{"cni":"x"}',
            b'{"errmsg":"a"}',
            b'{"errinfo":"b"}',
            b'{"errmsg":1,"errinfo":[]}',
        )
    ),
    *(
        http("500 X", b'{"errmsg":"%s","errinfo":"%s"}' % (text, text))
        for text in (b"", b"\\u0000", b"\\ud800", b"\xc3\xa4")
    ),
    *(
        http("200 OK", b'{"cni":"%s"}' % text)
        for text in (b"100%d \\u00fc\\n$", b"\\ud83d\\ude00", b"\\ude00", b"\\u0000x")
    ),
    *(
        http("200 OK", b'{"cni":"a","cni":"b"}'),
        http("200 OK", b'{"cni":"a","CNI":null} '),
        http("200 OK", b'{"cni":"a"}x'),
    ),
    *(
        http("404 X", b" \t\v\f\0 %s \n" % (text * 120))
        for text in (b"a", b"\xc3\xa4", b"\xe2\x82\xac", b"\xff", b" ")
    ),
    http("200 OK", b'{"cni":"' + b"x" * (MAX_BYTES - 100) + b'"}'),
    http("200 OK", b'{"cni":"' + b"x" * MAX_BYTES + b'"}'),
    http("200 OK", b"[" * 500_000),
)
