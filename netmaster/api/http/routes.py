"""Routes as data, and how a request finds its route. Pure.

A `Route` says what answers a method and a path pattern, and what the OpenAPI document tells of it.
The one table of routes is `netmaster.api.route_table`; `RouteFinder` dispatches from it and
`netmaster.api.http.openapi` documents it, so neither can know a route that the other does not.

Paths, the mandatory trailing slash and the missing 405 are the original's
(docs/original/netmaster-rest.md §1): what no route matches is 404.
"""

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from contivmodel.schema import Schema
from contivmodel.wire import WireModel

H = TypeVar("H")

JSON: Final = "application/json"
TEXT: Final = "text/plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDoc:
    """What the OpenAPI document says of a route.

    `answer` is what a successful answer is built as (`contivmodel.answers`), or its schema, and
    `media` its content type; `answers` are those with another status than 200, without content if
    None. `body` is the model of the request's body, None for a request without one; `content` is
    instead the schema by content type, and `example` such a body. `query` and `headers` say what
    each parameter asks for.
    """

    summary: str
    tag: str
    answer: Schema | type[Any] = field(default_factory=dict)
    media: str = JSON
    body: type[WireModel] | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[int, Schema | None] = field(default_factory=dict)
    content: Mapping[str, Schema] = field(default_factory=dict)
    example: Any = None


@dataclass(frozen=True, slots=True)
class Route(Generic[H]):
    """What answers requests of a method for paths of a pattern.

    A segment `{name}` of the pattern matches any segment that is not empty.
    """

    method: str
    pattern: str
    handler: H
    operation: OperationDoc

    @property
    def parameters(self) -> list[str]:
        """Return the names of the pattern's parameters, in order."""
        return [segment[1:-1] for segment in self.pattern.split("/") if _is_parameter(segment)]


class RouteMatch(NamedTuple, Generic[H]):
    """The route of a request, and the path segments its parameters stand for, by name."""

    route: Route[H]
    parameters: Mapping[str, str]


class RouteFinder(Generic[H]):
    """Finds the route of a request; ValueError for two routes with one method and pattern."""

    def __init__(self, routes: Iterable[Route[H]]) -> None:
        self._methods: set[str] = set()
        self._exact: dict[tuple[str, str], Route[H]] = {}
        # A pattern's shape is the set of positions of its parameters. There are few shapes, so
        # blanking those positions of a path and looking the rest up costs the same for any
        # number of routes.
        self._by_shape: dict[tuple[str, _Segments], Route[H]] = {}
        self._shapes: dict[int, set[frozenset[int]]] = {}
        for route in routes:
            self._add(route)

    def find(self, method: str, path: str) -> RouteMatch[H] | None:
        """Return the route of a request; None if there is none. The path is percent-decoded."""
        exact = self._exact.get((method, path))
        if exact is not None:
            return RouteMatch(exact, {})
        segments = path.split("/")
        for shape in self._shapes.get(len(segments), ()):
            values = [segments[at] for at in sorted(shape)]
            route = self._by_shape.get((method, _blanked(segments, shape)))
            if route is not None and all(values):
                return RouteMatch(route, dict(zip(route.parameters, values, strict=True)))
        return None

    def methods(self, path: str) -> list[str]:
        """Return the methods that a path has, in alphabetical order."""
        return sorted(method for method in self._methods if self.find(method, path))

    def _add(self, route: Route[H]) -> None:
        segments = route.pattern.split("/")
        shape = frozenset(at for at, segment in enumerate(segments) if _is_parameter(segment))
        self._methods.add(route.method)
        key = route.method, _blanked(segments, shape)
        if key in self._by_shape or (route.method, route.pattern) in self._exact:
            raise ValueError(f"{route.method} {route.pattern} is in the table twice")
        if shape:
            self._by_shape[key] = route
            self._shapes.setdefault(len(segments), set()).add(shape)
        else:
            self._exact[route.method, route.pattern] = route


_Segments = tuple[str | None, ...]
"""The segments of a path, None where the pattern has a parameter."""


def _blanked(segments: list[str], shape: frozenset[int]) -> _Segments:
    return tuple(None if at in shape else segment for at, segment in enumerate(segments))


def _is_parameter(segment: str) -> bool:
    return segment.startswith("{") and segment.endswith("}")


def cleaned(path: str) -> str:
    """Return the path without empty, `.` and `..` segments, as Go's mux redirects to it."""
    clean = posixpath.normpath("/" + path.lstrip("/"))
    return clean + "/" if path.endswith("/") and clean != "/" else clean
