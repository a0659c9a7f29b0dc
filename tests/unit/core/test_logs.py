"""Log lines: the original's text form and JSON, with the fields of the call."""

import io
import json
import logging
import logging.handlers
import os
import re
from pathlib import Path

import pytest

from core.errors import UsageError
from core.log_lines.extra import extra_of
from core.logs import JsonFormatter, TextFormatter, error_mark, fields, setup

pytestmark = pytest.mark.usefixtures("root_logger")


def record(
    message: str = "pod added", level: int = logging.INFO, *args: object, **extra: object
) -> logging.LogRecord:
    logger = logging.getLogger("netplugin.pods.handler")
    made = logger.makeRecord(logger.name, level, "f", 1, message, args, None, extra=extra)
    made.created = 1763628000.25
    return made


def test_fields_without_a_value_are_left_out() -> None:
    assert fields(host="h1", error=None, count=0) == {"host": "h1", "count": 0}


def test_a_record_knows_the_fields_of_its_call_in_order() -> None:
    assert extra_of(record(port="vvport1", address="10.1.0.1")) == {
        "port": "vvport1",
        "address": "10.1.0.1",
    }


def test_a_line_of_text_is_the_originals() -> None:
    line = TextFormatter().format(record(port="vvport1", error='a "quoted" text', peer=""))
    assert re.fullmatch(
        r'time="2025-11-20T\d\d:\d\d:\d\d\.250000[+-]\d\d:\d\d" level=info msg="pod added" '
        r'port=vvport1 error="a \\"quoted\\" text" peer=""',
        line,
    )


@pytest.mark.parametrize(
    ("level", "word"),
    [
        (logging.DEBUG, "debug"),
        (logging.INFO, "info"),
        (logging.WARNING, "warning"),
        (logging.ERROR, "error"),
        (logging.CRITICAL, "fatal"),
    ],
)
def test_levels_have_the_originals_words(level: int, word: str) -> None:
    assert f" level={word} " in TextFormatter().format(record(level=level))
    assert json.loads(JsonFormatter().format(record(level=level)))["level"] == word


@pytest.mark.parametrize("text", ["two\nlines", 'a"b', "back\\slash", "wäb"])
def test_a_message_stays_on_its_line(text: str) -> None:
    line = TextFormatter().format(record("%s", logging.INFO, text, error=text))
    assert "\n" not in line
    assert f"msg={json.dumps(text, ensure_ascii=False)}" in line


def test_a_line_of_json_is_an_object() -> None:
    said = json.loads(JsonFormatter().format(record(count=3, error=ValueError("bad"))))
    assert said.pop("time").startswith("2025-11-20T")
    assert said == {
        "level": "info",
        "msg": "pod added",
        "logger": "netplugin.pods.handler",
        "count": 3,
        "error": "bad",
    }


def test_a_traceback_follows_its_line() -> None:
    made = record()
    failure = KeyError("x")
    made.exc_info = (KeyError, failure, None)
    assert TextFormatter().format(made).splitlines()[1:] == ["KeyError: 'x'"]
    assert "KeyError" in json.loads(JsonFormatter().format(made))["trace"]


def test_a_line_is_made_once_for_all_handlers() -> None:
    formatter, made = TextFormatter(), []

    class Value:
        def __str__(self) -> str:
            made.append("text")
            return "v"

    record = logging.makeLogRecord({"levelno": logging.INFO, "msg": "said", "object": Value()})
    other = logging.makeLogRecord({"levelno": logging.INFO, "msg": "other"})
    assert formatter.format(record) == formatter.format(record)
    assert made == ["text"]
    assert 'msg="other"' in formatter.format(other)
    assert 'msg="said"' in formatter.format(record)


def test_lines_for_the_journal_have_their_priority(tmp_path: Path) -> None:
    with (tmp_path / "stream").open("w+") as stream:
        found = os.fstat(stream.fileno())
        setup(stream=stream, journal=f"{found.st_dev}:{found.st_ino}")
        log = logging.getLogger("x")
        log.info("kept")
        log.warning("amiss", exc_info=KeyError("x"))
        log.critical("ended")
        stream.seek(0)
        lines = stream.read().splitlines()
    assert [line[:3] for line in lines] == ["<6>", "<4>", "<4>", "<2>"]
    assert "KeyError" in lines[2]


@pytest.mark.parametrize("told", ["", "1:2", "nothing"])
def test_lines_that_do_not_go_to_the_journal_have_none(tmp_path: Path, told: str) -> None:
    with (tmp_path / "stream").open("w+") as stream:
        setup(stream=stream, journal=told)
        logging.getLogger("x").warning("amiss")
        stream.seek(0)
        assert stream.read().startswith('time="')
        assert error_mark(stream, told) == ""


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("debug", logging.DEBUG),
        ("INFO", logging.INFO),
        ("Warn", logging.WARNING),
        ("warning", logging.WARNING),
        ("error", logging.ERROR),
        ("fatal", logging.CRITICAL),
        ("panic", logging.CRITICAL),
    ],
)
def test_the_level_is_set_by_name(root_logger: logging.Logger, name: str, level: int) -> None:
    setup(level=name)
    assert root_logger.level == level


def test_lines_go_to_the_stream_once_however_often_it_is_set_up() -> None:
    stream = io.StringIO()
    setup(stream=stream)
    setup(stream=stream, as_json=True)
    logging.getLogger("x").info("hello")
    assert json.loads(stream.getvalue())["msg"] == "hello"


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(UsageError, match='not a valid logrus Level: "loud"'):
        setup(level="loud")


@pytest.mark.parametrize("url", ["", "nowhere", "http://h:1", "udp://", "udp://h:port", "udp://:1"])
def test_a_syslog_that_cannot_be_named_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="syslog"):
        setup(syslog_url=url)


def test_syslog_is_asked_for_by_protocol_and_place(
    root_logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    class Syslog(logging.Handler):
        def __init__(self, address: tuple[str, int], socktype: int) -> None:
            super().__init__()
            assert socktype
            asked.append(address)
            if address[0] == "dead":
                raise ConnectionRefusedError("refused")

    monkeypatch.setattr(logging.handlers, "SysLogHandler", Syslog)
    setup(syslog_url="udp://127.0.0.1")
    setup(syslog_url="tcp://127.0.0.1:601")
    assert asked == [("127.0.0.1", 514), ("127.0.0.1", 601)]
    assert isinstance(root_logger.handlers[0], Syslog)
    with pytest.raises(UsageError, match="refused"):
        setup(syslog_url="tcp://dead:1")


def test_callers_that_speak_no_http_cannot_fill_the_log(root_logger: logging.Logger) -> None:
    stream = io.StringIO()
    setup(level="DEBUG", stream=stream)
    logging.getLogger("aiohttp.server").error("Error handling request", exc_info=ValueError("x"))
    assert stream.getvalue() == ""
    root_logger.error("ours")
    assert "ours" in stream.getvalue()
