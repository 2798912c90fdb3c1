"""Whether a value is of a JSON schema, for the words that the schemas of this package use.

Sources     JSON Schema, draft 2020-12: validation of types, enumerations, bounds, objects, arrays and local references.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def is_valid(value: object, schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> bool:
    """Whether a value is of a schema.

    Args:
        value: As ``json.loads`` reads it.
        schema: Of the value.
        root: Of the document, for references; the schema itself if left out.

    Example:
        >>> is_valid({"a": 1}, {"type": "object", "properties": {"a": {"minimum": 2}}})
        False
    """
    root = schema if root is None else root
    if "$ref" in schema:
        found: Any = root
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return is_valid(value, found, root)
    types = schema.get("type", [])
    if types and not any(_is_a(value, each) for each in ([types] if isinstance(types, str) else types)):
        return False
    if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
        return False
    if "const" in schema and not _same(value, schema["const"]):
        return False
    if "oneOf" in schema and sum(is_valid(value, each, root) for each in schema["oneOf"]) != 1:
        return False
    if isinstance(value, dict):
        return _is_object(value, schema, root)
    if isinstance(value, list):
        return all(is_valid(each, schema.get("items", {}), root) for each in value)
    return not _is_a(value, "number") or _is_within(value, schema)


def _is_object(value: Mapping[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    own, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    if not all(name in value for name in schema.get("required", ())):
        return False
    if others is False and not all(name in own for name in value):
        return False
    more = {} if isinstance(others, bool) else others
    return all(is_valid(each, own.get(name, more), root) for name, each in value.items())


def _is_within(value: Any, schema: Mapping[str, Any]) -> bool:
    return bool(
        value >= schema.get("minimum", -math.inf)
        and value <= schema.get("maximum", math.inf)
        and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
    )


def _is_a(value: object, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _same(value: object, other: object) -> bool:
    return type(value) is type(other) and value == other
