"""Links named after containers come and go, and harm nothing that is no link."""

from pathlib import Path

from netplugin.mesos.namespace_links import NamespaceLinks


def test_a_link_leads_to_the_namespace_until_it_is_removed(tmp_path: Path) -> None:
    links = NamespaceLinks(tmp_path / "netns")
    links.put("c1", "/proc/1/ns/net")
    links.put("c1", "/proc/2/ns/net")
    assert (tmp_path / "netns" / "c1").readlink() == Path("/proc/2/ns/net")
    links.remove("c1")
    links.remove("c1")
    assert list((tmp_path / "netns").iterdir()) == []


def test_what_is_no_link_stays(tmp_path: Path) -> None:
    (tmp_path / "c1").write_text("of somebody else")
    links = NamespaceLinks(tmp_path)
    links.put("c1", "/proc/1/ns/net")
    links.remove("c1")
    assert (tmp_path / "c1").read_text() == "of somebody else"
