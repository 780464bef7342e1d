"""Collects all cases from the files that define them."""

import case
import cases_compilers  # noqa: F401
import cases_data  # noqa: F401
import cases_databases  # noqa: F401
import cases_languages  # noqa: F401
import cases_network  # noqa: F401
import cases_swift  # noqa: F401
import cases_swift_programs  # noqa: F401
import cases_system  # noqa: F401
import cases_tools  # noqa: F401
import cases_unusual  # noqa: F401
import cases_web  # noqa: F401


def all_cases():
    found, queue = [], [case.Case]
    while queue:
        for subclass in queue.pop().__subclasses__():
            queue.append(subclass)
            if subclass.name:
                found.append(subclass())
    names = [one.name for one in found]
    assert len(names) == len(set(names)), "two cases share a name"
    return sorted(found, key=lambda one: one.name)
