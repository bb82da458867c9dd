"""The graph of a region's blocks: orders, dominators."""

from __future__ import annotations

from xdsl.ir import Block, Region


def successors(block: Block) -> tuple[Block, ...]:
    """The blocks that may run next."""
    last = block.last_op
    return () if last is None else tuple(last.successors)


def reverse_postorder(region: Region) -> list[Block]:
    """The reachable blocks, each before its successors except along edges that close a cycle."""
    entry = region.first_block
    if entry is None:
        return []
    seen, order = {entry}, list[Block]()
    stack = [(entry, iter(successors(entry)))]
    while stack:
        block, rest = stack[-1]
        following = next(rest, None)
        if following is None:
            order.append(block)
            stack.pop()
        elif following not in seen:
            seen.add(following)
            stack.append((following, iter(successors(following))))
    return order[::-1]


def has_cycle(order: list[Block]) -> bool:
    """True if an edge goes backwards in a reverse postorder."""
    position = {block: i for i, block in enumerate(order)}
    return any(position[s] <= position[b] for b in order for s in successors(b))


def immediate_dominators(
    order: list[Block], before: dict[Block, list[Block]]
) -> dict[Block, Block]:
    """Each block's immediate dominator, given a reverse postorder and the predecessors.

    The algorithm is that of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".
    """
    position = {block: i for i, block in enumerate(order)}
    above: dict[Block, Block] = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [p for p in before[block] if p in above]
            best = known[0]
            for other in known[1:]:
                a, b = best, other
                while a is not b:
                    while position[a] > position[b]:
                        a = above[a]
                    while position[b] > position[a]:
                        b = above[b]
                best = a
            if above.get(block) is not best:
                above[block] = best
                changed = True
    return above


def dominator_tree(region: Region) -> dict[Block, list[Block]]:
    """For each reachable block, those that it immediately dominates."""
    order = reverse_postorder(region)
    before: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for following in successors(block):
            before[following].append(block)
    above = immediate_dominators(order, before)
    children: dict[Block, list[Block]] = {}
    for block in order[1:]:
        children.setdefault(above[block], []).append(block)
    return children


def immediate_postdominators(order: list[Block]) -> dict[Block, Block | None]:
    """For each block of an acyclic graph, the nearest block that every path from it to an exit
    goes through; None where paths leave the region separately."""
    position = {block: i for i, block in enumerate(order)}
    below: dict[Block, Block | None] = {}
    for block in reversed(order):
        common: Block | None = None
        for index, following in enumerate(successors(block)):
            common = following if index == 0 else _common(common, following, below, position)
        below[block] = common
    return below


def _common(
    a: Block | None, b: Block | None, below: dict[Block, Block | None], position: dict[Block, int]
) -> Block | None:
    while a is not b:
        if a is None or b is None:
            return None
        if position[a] < position[b]:
            a = below[a]
        else:
            b = below[b]
    return a
