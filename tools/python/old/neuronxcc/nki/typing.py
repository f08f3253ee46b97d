# SPDX-License-Identifier: Apache-2.0
"""Annotations of kernels."""
from nki.typing import *
from nki.typing import scalar, tensor

mutable_tensor = tensor
