#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The picture of folders in README.md of driver/, runtime/, ccom/ and tools/ equals what the files include.

The picture is a fenced block of the language `layers`. It has a line for each folder below the README's that has sources: its name,
and behind `→` the folders that it includes. The arrows are the transitive reduction of the includes between these folders: each
arrow is an include, each include is an arrow or follows from a path of arrows, and no arrow follows from a path of others. An arrow
points from a line to one below it; apart from that the order of the lines is free.

`pictures.py` checks; `pictures.py --write` writes the blocks anew, above the first heading of second order where a README has none."""
import argparse
import re
import sys
import textwrap

import cycles
import includes
import tree

BLOCK = re.compile(r"^```layers\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^## ", re.MULTILINE)
LEAD = "Each line names a folder and, behind the arrow, the folders that it includes; an arrow that follows from others is left out:\n\n"
WIDTH = 110


def part(graph, top):
    """The arrows between folders below `top`, with the names that they have in its README."""
    below = {folder for folder in graph if folder.startswith(top + "/")}
    short = len(top) + 1
    return {folder[short:]: {there[short:]: graph[folder][there] for there in graph[folder].keys() & below} for folder in below}


def reachable(graph, start):
    """All nodes that a path of at least one arrow leads to."""
    seen, waiting = set(), list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += graph[node]
    return seen


def reduction(graph):
    """{node: the arrows that no path of others replaces}; the graph has no circle."""
    reach = {node: reachable(graph, node) for node in graph}
    return {node: {there for there in graph[node] if not any(there in reach[other] for other in graph[node])} for node in graph}


def downwards(graph):
    """The nodes in an order in which arrows point down, and otherwise by name."""
    includers = {node: {other for other in graph if node in graph[other]} for node in graph}
    order = []
    while includers:
        node = min(name for name, others in includers.items() if not others)
        order.append(node)
        del includers[node]
        for others in includers.values():
            others.discard(node)
    return order


def draw(graph):
    arrows = reduction(graph)
    width = max(map(len, graph), default=0)
    lines = []
    for node in downwards(graph):
        text = f"{node:{width}} → {' '.join(sorted(arrows[node]))}" if arrows[node] else node
        lines += textwrap.wrap(text, WIDTH, subsequent_indent=" " * (width + 3), break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def parse(block):
    """[(folder, [the folders that its arrows point to])] in the order of the lines."""
    rows = []
    for line in block.splitlines():
        if not line.strip():
            continue
        if line[0].isspace() and rows:
            rows[-1][1].extend(line.split())
        else:
            node, _, targets = line.partition("→")
            rows.append((node.strip(), targets.split()))
    return rows


def differences(readme, rows, graph):
    complaints = []
    drawn = dict(rows)
    order = {node: index for index, (node, _) in enumerate(rows)}
    arrows = reduction(graph)
    complaints += [f"{readme}: the picture lacks {node}" for node in sorted(graph.keys() - drawn.keys())]
    complaints += [f"{readme}: the picture has {node}, which has no sources" for node in sorted(drawn.keys() - graph.keys())]
    for node in sorted(graph.keys() & drawn.keys()):
        for there in sorted(arrows[node] - set(drawn[node])):
            complaints.append(f"{readme}: the picture lacks the arrow {node} → {there}: {graph[node][there]}")
        for there in sorted(set(drawn[node]) - arrows[node]):
            if there in graph[node]:
                complaints.append(f"{readme}: the arrow {node} → {there} follows from others; leave it out")
            else:
                complaints.append(f"{readme}: the picture has an arrow {node} → {there}, and no file includes that")
        for there in sorted(arrows[node] & set(drawn[node])):
            if order.get(there, len(order)) < order[node]:
                complaints.append(f"{readme}: the arrow {node} → {there} points upwards; {there} belongs below {node}")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the pictures as the includes are")
    arguments = parser.parse_args()
    graph = includes.arrows(includes.read())
    complaints = []
    for top in tree.PRODUCT:
        readme = top + "README.md"
        folders = part(graph, top.rstrip("/"))
        if cycles.circles(folders):
            complaints.append(f"{readme}: there is no picture of folders that include each other in a circle; see cycles.py")
            continue
        text = tree.text(readme)
        block = BLOCK.search(text)
        if arguments.write:
            picture = f"```layers\n{draw(folders)}```"
            if block:
                text = text[: block.start()] + picture + text[block.end() :]
            else:
                heading = HEADING.search(text)
                place = heading.start() if heading else len(text)
                text = f"{text[:place].rstrip()}\n\n{LEAD}{picture}\n\n{text[place:]}"
            with open(readme, "w", encoding="utf-8") as file:
                file.write(text)
        elif block is None:
            complaints.append(f"{readme}: there is no block ```layers with the picture of the folders; pictures.py --write makes one")
        else:
            complaints += differences(readme, parse(block.group(1)), folders)
    return tree.report(complaints)


if __name__ == "__main__":
    sys.exit(main())
