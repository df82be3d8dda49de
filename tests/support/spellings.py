"""Ways to write the path of an endpoint that a router might read otherwise than who guards it."""

from __future__ import annotations


def spellings(name: str, process: str) -> list[str]:
    """Ways to write the path of an endpoint that a router might read otherwise than who guards it."""
    first = f"%{ord(name[0]):02x}{name[1:]}"
    around = [f"{name}/", f"/{name}", f"./{name}", f"x/../{name}", f"{name}/..", f"{name}/../health", f"{name}//"]
    also = [f"{name}/health", f"{name}?a=/health", f"{name}%2f", f"{name}%00", f"{name};x", f"{name}.json", first]
    other = [
        name.upper(),
        f"{process}/{name}",
        f"{process}//{name}",
        f"/{process}/{name}",
        f"{process}/{process}/{name}",
    ]
    return [*around, *also, *other, name.replace("/", "%2F"), name.replace("/", "//")]
