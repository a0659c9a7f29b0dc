"""How both daemons read their command line and environment."""

import logging

import pytest

from core.errors import UsageError
from daemons import flags
from daemons.flags import COMMON, Flag, Generation, Values, network_options, read, set_up_logs

MORE = Flag(names=("more", "other-name"), env="MORE", help="100 % more", default="some")
FLAGS = (*COMMON, MORE)


def values_of(*arguments: str, **environ: str) -> Values:
    values = read("netplugin", FLAGS, arguments, environ, "1.2.3")
    assert values is not None
    return values


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.names[0])
@pytest.mark.parametrize("dashes", ["-", "--"])
def test_every_name_is_a_flag_with_one_dash_or_two(flag: Flag, dashes: str) -> None:
    for name in flag.names:
        assert values_of(f"{dashes}{name}=true")[flag.names[0]] == "true"
        if not flag.switch:
            assert values_of(f"{dashes}{name}", "true")[flag.names[0]] == "true"


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.names[0])
def test_every_flag_has_a_variable_and_loses_to_none(flag: Flag) -> None:
    variable, name = f"CONTIV_NETPLUGIN_{flag.env}", flag.names[0]
    assert values_of()[name] == flag.default
    assert values_of(**{variable: "env"})[name] == "env"
    assert values_of(**{variable: ""})[name] == flag.default
    assert values_of(**{variable.replace("NETPLUGIN", "NETMASTER"): "env"})[name] == flag.default
    assert values_of(f"--{name}=line", **{variable: "env"})[name] == "line"
    assert values_of(f"--{name}=", **{variable: "env"})[name] == ""


def test_the_names_of_the_common_flags_are_the_originals() -> None:
    originals = [flag for flag in COMMON if flag.generation is not Generation.OURS]
    assert {name for flag in originals for name in flag.names} == {
        "mode",
        "plugin-mode",
        "cluster-mode",
        "netmode",
        "network-mode",
        "fwdmode",
        "forward-mode",
        "etcd-endpoints",
        "etcd",
        "consul-endpoints",
        "consul",
        "log-level",
        "use-json-log",
        "json-log",
        "use-syslog",
        "syslog",
        "syslog-url",
        "cluster-store",
        "debug",
    }


@pytest.mark.parametrize(
    ("arguments", "on"),
    [
        ([], False),
        (["--json-log"], True),
        (["-use-json-log"], True),
        (["--json-log=true"], True),
        (["--json-log=T"], True),
        (["--json-log=1"], True),
        (["--json-log=false"], False),
        (["--json-log=0"], False),
        (["--json-log", "--mode", "docker"], True),
    ],
)
def test_a_switch_is_on_or_off(arguments: list[str], *, on: bool) -> None:
    assert values_of(*arguments).on("use-json-log") is on


@pytest.mark.parametrize(("text", "on"), [("true", True), ("1", True), ("false", False)])
def test_a_switch_may_be_set_by_its_variable(text: str, *, on: bool) -> None:
    assert values_of(CONTIV_NETPLUGIN_USE_JSON_LOG=text).on("use-json-log") is on


def test_a_switch_is_neither_yes_nor_no() -> None:
    with pytest.raises(UsageError, match='invalid boolean value "yes" for flag --use-syslog'):
        values_of("--syslog=yes").on("use-syslog")


@pytest.mark.parametrize(
    "arguments",
    [["--bogus"], ["--mod=docker"], ["--more"], ["stray"], ["--mode", "docker", "stray"]],
)
def test_a_command_line_that_cannot_be_read_is_refused(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^Incorrect Usage\. ") as refusal:
        values_of(*arguments)
    assert refusal.value.exit_code == 22


@pytest.mark.parametrize("argument", ["--version", "-version", "-v"])
def test_the_version_block_is_printed(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert read("netplugin", FLAGS, ["--mode", "x", argument], {}, "1.2.3") is None
    assert capsys.readouterr().out == (
        "netplugin version \nVersion: 1.2.3\nGitCommit: \nBuildTime: \n\n"
    )


@pytest.mark.parametrize("argument", ["--help", "-help", "-h"])
def test_help_names_every_flag_variable_and_default(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert read("netplugin", FLAGS, [argument], {}, "1") is None
    said = capsys.readouterr().out
    for flag in FLAGS:
        assert f"CONTIV_NETPLUGIN_{flag.env}]" in said
        assert all(f"--{name}" in said for name in flag.names)
    assert "100 % more (default: some)" in " ".join(said.split())


@pytest.mark.parametrize("text", ["0", "9", "9" * 3])
def test_a_number_is_within_its_limits(text: str) -> None:
    values = Values("netplugin", {"port": text})
    assert values.number("port", 0, 999) == int(text)


@pytest.mark.parametrize("text", ["", "-1", "1000", "abc", "1.0", "٣", " 1", "1_0", "0x1"])
def test_anything_else_is_no_number(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Values("netplugin", {"port": text}).number("port", 0, 999)
    assert str(refusal.value) == f"netplugin port is an integer between 0-999, got {text!r}"


# -- modes -------------------------------------------------------------------------------------


def modes(mode: str, net: str, fwd: str) -> Values:
    given = {"mode": mode, "netmode": net, "fwdmode": fwd, "cluster-store": ""}
    return Values("netplugin", given)


@pytest.mark.parametrize("mode", flags.MODES)
@pytest.mark.parametrize(
    ("net", "fwd"), [("vlan", "bridge"), ("vlan", "routing"), ("vxlan", "routing")]
)
def test_modes_that_go_together_are_taken(mode: str, net: str, fwd: str) -> None:
    found = network_options(modes(mode.upper(), net.title(), fwd.upper()))
    assert (found.mode, found.net_mode, found.fwd_mode) == (mode, net, fwd)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("", "", ""), "netplugin mode is not set"),
        (("bad", "", ""), "unknown netplugin mode: bad"),
        (("test", "", ""), "netplugin network mode is not set"),
        (("test", "bad", ""), "unknown netplugin network mode: bad"),
        (("test", "vlan", ""), "netplugin forwarding mode is not set"),
        (("test", "vlan", "bad"), "unknown netplugin forwarding mode: bad"),
        (
            ("test", "vxlan", "bridge"),
            'invalid netplugin forwarding mode: "bridge" (network mode: "vxlan")',
        ),
    ],
)
def test_modes_are_checked_in_the_originals_order(given: tuple[str, str, str], says: str) -> None:
    with pytest.raises(UsageError) as refusal:
        network_options(modes(*given))
    assert str(refusal.value) == says


# -- logs --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("root_logger")
def test_logs_go_where_the_flags_say(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(values_of("--log-level", "debug", "--json-log"))
    logging.getLogger("x").debug("hello")
    assert '"msg": "hello"' in capsys.readouterr().err
    set_up_logs(values_of("--log-level=warn"))
    logging.getLogger("x").info("hello")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("root_logger")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--log-level=loud"], 'not a valid logrus Level: "loud"'),
        (["--json-log=maybe"], "invalid boolean value"),
        (["--syslog", "--syslog-url=http://x"], "Failed parsing syslog spec"),
    ],
)
def test_logs_that_cannot_be_had_are_an_error(arguments: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        set_up_logs(values_of(*arguments))
