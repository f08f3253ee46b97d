# SPDX-License-Identifier: Apache-2.0
"""The old name of NKI, in which kernels for trn1 and inf2 are written. See nki/__init__.py."""
