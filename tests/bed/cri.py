"""A client of the Container Runtime Interface, as far as kubelet uses it for the network of pods.

In come calls; out go gRPC requests to a runtime's socket. The messages are built from `_MESSAGES`,
which has of the interface's version 1 (`k8s.io/cri-api/pkg/apis/runtime/v1/api.proto`) the messages
and fields that are used here: a peer ignores what it does not know, and sends what we ignore.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.bed.waiting import WITHIN

PACKAGE: Final = "runtime.v1"
_STRING: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_INT32: Final = descriptor_pb2.FieldDescriptorProto.TYPE_INT32
_UINT32: Final = descriptor_pb2.FieldDescriptorProto.TYPE_UINT32
_BOOL: Final = descriptor_pb2.FieldDescriptorProto.TYPE_BOOL
_MESSAGE: Final = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE

Fields = Mapping[str, tuple[int, int | str]]
"""Number, and type or message, of each field; what is in brackets is repeated."""
_STRINGS: Final = "[]"
"""A string that is repeated."""

_MESSAGES: Final[Mapping[str, Fields]] = {
    "Empty": {},
    "Id": {"pod_sandbox_id": (1, _STRING)},
    "PodSandboxMetadata": {
        "name": (1, _STRING),
        "uid": (2, _STRING),
        "namespace": (3, _STRING),
        "attempt": (4, _UINT32),
    },
    "PortMapping": {
        "protocol": (1, _INT32),  # an enumeration has the same form
        "container_port": (2, _INT32),
        "host_port": (3, _INT32),
        "host_ip": (4, _STRING),
    },
    "DNSConfig": {
        "servers": (1, _STRINGS),
        "searches": (2, _STRINGS),
        "options": (3, _STRINGS),
    },
    "Entry": {"key": (1, _STRING), "value": (2, _STRING)},  # a map has the same form
    "LinuxPodSandboxConfig": {"cgroup_parent": (1, _STRING)},
    "PodSandboxConfig": {
        "metadata": (1, "PodSandboxMetadata"),
        "hostname": (2, _STRING),
        "log_directory": (3, _STRING),
        "dns_config": (4, "DNSConfig"),
        "port_mappings": (5, "[PortMapping]"),
        "annotations": (7, "[Entry]"),
        "linux": (8, "LinuxPodSandboxConfig"),
    },
    "RunPodSandboxRequest": {"config": (1, "PodSandboxConfig")},
    "PodSandbox": {"id": (1, _STRING), "metadata": (2, "PodSandboxMetadata")},
    "ListPodSandboxResponse": {"items": (1, "[PodSandbox]")},
    "PodIP": {"ip": (1, _STRING)},
    "PodSandboxNetworkStatus": {"ip": (1, _STRING), "additional_ips": (2, "[PodIP]")},
    "PodSandboxStatus": {"id": (1, _STRING), "network": (5, "PodSandboxNetworkStatus")},
    "PodSandboxStatusResponse": {"status": (1, "PodSandboxStatus")},
    "RuntimeCondition": {"type": (1, _STRING), "status": (2, _BOOL)},
    "RuntimeStatus": {"conditions": (1, "[RuntimeCondition]")},
    "StatusRequest": {"verbose": (1, _BOOL)},
    "StatusResponse": {"status": (1, "RuntimeStatus"), "info": (2, "[Entry]")},
}


PROTOCOLS: Final = ("tcp", "udp", "sctp")
"""In the order of their numbers."""


class Mapped(NamedTuple):
    """A port of the host that is to lead to one of the pod."""

    host_port: int
    pod_port: int
    protocol: str = "tcp"
    host_ip: str = ""


class CriError(Exception):
    """A refusal of the runtime; its text has what the plugin said."""


class Cri:
    """A connection to a runtime; a context manager. Its calls may come from several threads."""

    def __init__(self, socket: Path, *, cgroup: str, within: float = WITHIN) -> None:
        self._cgroup = cgroup
        self._within = within
        self._channel = grpc.insecure_channel(f"unix://{socket}")

    def __enter__(self) -> "Cri":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def network_ready(self) -> bool:
        """Return whether the runtime has a network configuration to run pods with."""
        status = self._status().status
        return any(one.type == "NetworkReady" and one.status for one in status.conditions)

    def plugins(self) -> list[str]:
        """Return the plugins of the network configuration that the runtime has read."""
        info = {one.key: one.value for one in self._status().info}
        networks = json.loads(info["cniconfig"])["Networks"]
        own = [one for one in networks if one["IFName"] != "lo"]
        return [one["Network"]["type"] for one in own[0]["Config"]["Plugins"]] if own else []

    def run(
        self,
        name: str,
        uid: str,
        *,
        namespace: str = "default",
        ports: Sequence[Mapped] = (),
        annotations: Mapping[str, str] = MappingProxyType({}),
        dns: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> str:
        """Run a pod; return its id. `dns` has `servers`, `searches` and `options`."""
        metadata = {"name": name, "uid": uid, "namespace": namespace}
        config = {
            "metadata": metadata,
            "hostname": name,
            "dns_config": dict(dns),
            "port_mappings": [
                {
                    "protocol": PROTOCOLS.index(one.protocol),
                    "container_port": one.pod_port,
                    "host_port": one.host_port,
                    "host_ip": one.host_ip,
                }
                for one in ports
            ],
            "annotations": [{"key": key, "value": text} for key, text in annotations.items()],
            "linux": {"cgroup_parent": f"/{self._cgroup}"},
        }
        request = _message("RunPodSandboxRequest")(config=config)
        return str(self._call("RunPodSandbox", request, "Id").pod_sandbox_id)

    def stop(self, pod: str) -> None:
        """End a pod and its network."""
        self._call("StopPodSandbox", _message("Id")(pod_sandbox_id=pod), "Empty")

    def remove(self, pod: str) -> None:
        """Remove what is left of a pod."""
        self._call("RemovePodSandbox", _message("Id")(pod_sandbox_id=pod), "Empty")

    def pods(self) -> list[str]:
        """Return the ids of all pods, also of those that could not be started."""
        listed = self._call("ListPodSandbox", _message("Empty")(), "ListPodSandboxResponse")
        return [str(one.id) for one in listed.items]

    def addresses(self, pod: str) -> list[str]:
        """Return the addresses of a pod."""
        request = _message("Id")(pod_sandbox_id=pod)
        network = self._call("PodSandboxStatus", request, "PodSandboxStatusResponse").status.network
        return [str(network.ip), *(str(one.ip) for one in network.additional_ips)]

    def _status(self) -> Any:
        return self._call("Status", _message("StatusRequest")(verbose=True), "StatusResponse")

    def _call(self, method: str, request: Any, answer: str) -> Any:
        call = self._channel.unary_unary(
            f"/{PACKAGE}.RuntimeService/{method}",
            request_serializer=lambda message: bytes(message.SerializeToString()),
            response_deserializer=_message(answer).FromString,
        )
        try:
            return call(request, timeout=self._within)
        except grpc.RpcError as exc:
            raise CriError(f"{method}: {exc}") from exc


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="cri.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            made = message.field.add(name=field, number=number)
            repeated = isinstance(kind, str) and kind.startswith("[")
            made.label = made.LABEL_REPEATED if repeated else made.LABEL_OPTIONAL
            if kind == _STRINGS:
                made.type = made.TYPE_STRING
            elif isinstance(kind, str):
                made.type, made.type_name = _MESSAGE, f".{PACKAGE}.{kind.strip('[]')}"
            else:
                made.type = descriptor_pb2.FieldDescriptorProto.Type.ValueType(kind)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


@cache
def _message(name: str) -> Any:
    found = _pool().FindMessageTypeByName(f"{PACKAGE}.{name}")
    return message_factory.GetMessageClass(found)
