"""float32 or bfloat16: the arithmetic that a config asks for, and what this machine is fast at."""

from functools import lru_cache
from typing import Literal

from factlearn.progress import say

Precision = Literal["auto", "float32", "bfloat16"]
"""`auto` is bfloat16 on a device with instructions for it, and float32 on all others."""
_INSTRUCTIONS = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")


def uses_bfloat16(precision: Precision, device: str = "cpu") -> bool:
    """Whether to compute in bfloat16 on a type of device, such as `cpu` or `cuda`."""
    if precision == "bfloat16" and not has_bfloat16(device):
        _warn_of_emulation(device)
    return precision == "bfloat16" or (precision == "auto" and has_bfloat16(device))


@lru_cache(maxsize=8)
def has_bfloat16(device: str) -> bool:
    """Whether a type of device has instructions for bfloat16; without them it is tens of times slower than float32."""
    import torch

    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device == "cpu" and any(getattr(torch.cpu, name, bool)() for name in _INSTRUCTIONS)


@lru_cache(maxsize=8)
def _warn_of_emulation(device: str) -> None:
    say(f"This {device} has no instructions for bfloat16 and will be very slow; precision: auto would use float32.")
