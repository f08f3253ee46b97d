#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No folder may reach itself by includes: neither folders with the files that lie in them, nor, at any level, neighbours with all that
is below them (driver/emulator and driver/ndl). Prints the shortest way round for each folder of a circle, with an include for each step."""
import os
import sys

import includes
import tree


def shortest_way_round(graph, start):
    """[start, ..., start], the shortest path of arrows that comes back, or None."""
    came_from = {start: None}
    level = [start]
    while level:
        following = []
        for node in level:
            for target in sorted(graph.get(node, ())):
                if target == start:
                    path = [start]
                    while node is not None:
                        path.append(node)
                        node = came_from[node]
                    return path[::-1]
                if target not in came_from:
                    came_from[target] = node
                    following.append(target)
        level = following
    return None


def circles(graph):
    """The shortest way round for each node that is in a circle; each circle once."""
    known = {}
    for node in sorted(graph):
        path = shortest_way_round(graph, node)
        if path:
            known.setdefault(frozenset(path), path)
    return list(known.values())


def neighbours(graph):
    """For each folder that has folders: the graph of these, each with all that is below it, and of the folder's own files."""
    levels = {}
    for here, targets in graph.items():
        for there, include in targets.items():
            parent = os.path.commonpath([here, there])
            depth = parent.count("/") + 1 if parent else 0
            left, right = ("/".join(path.split("/")[: depth + 1]) for path in (here, there))
            levels.setdefault(parent, {}).setdefault(left, {}).setdefault(right, include)
    return levels


def complaints(graph):
    found = []
    told = set()
    for level in [graph, *neighbours(graph).values()]:
        for path in circles(level):
            steps = [level[here][there] for here, there in zip(path, path[1:])]
            if frozenset(steps) in told:
                continue
            told.add(frozenset(steps))
            text = f"circle: {' -> '.join(path)}"
            for here, there, include in zip(path, path[1:], steps):
                text += f"\n    {here} -> {there}: {include}"
            found.append(text)
    return found


def main():
    return tree.report(complaints(includes.arrows(includes.read())))


if __name__ == "__main__":
    sys.exit(main())
