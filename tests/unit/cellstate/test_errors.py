"""The tree of errors is the one its module draws."""

import inspect

from omega.cellstate import errors


def test_the_drawing_is_the_tree() -> None:
    drawing = errors.__doc__ or ""
    classes = {name: each for name, each in vars(errors).items() if inspect.isclass(each)}
    parents: list[tuple[int, str]] = []
    drawn: dict[str, str] = {}
    for line in drawing.splitlines():
        name = next((word for word in line.replace("├──", " ").replace("└──", " ").replace("│", " ").split()), "")
        if name in classes:
            depth = line.index(name)
            parents = [(at, each) for at, each in parents if at < depth]
            drawn[name] = parents[-1][1] if parents else "Exception"
            parents.append((depth, name))
    assert drawn == {name: each.__mro__[1].__name__ for name, each in classes.items()}
