# SPDX-License-Identifier: Apache-2.0
"""Hints of the old style to Amazon's compiler. Nothing here depends on them."""


def _hint(function=None, **unused):
    return function if function is not None else (lambda f: f)


skip_middle_end_transformations = enable_stack_allocator = force_auto_alloc = _hint




class no_reorder:
    """Program order is kept anyway."""

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        return None


class _Memory(str):
    """nl.sbuf and nl.psum with the allocations of this module, which are not followed."""

    def alloc(self, *unused, **also_unused):
        return self

    auto_alloc = mod_alloc = alloc


sbuf, psum = _Memory("sbuf"), _Memory("psum")
