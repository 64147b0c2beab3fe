"""The languages that kernels are written in, and the endings of their files."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """name: as in plans, `cuda sm_90`; title: for people; ending: of source texts; binary: the
    ending of what a compiler makes of them; option: that says which machine code is written for.
    """

    name: str
    title: str
    ending: str
    binary: str
    option: str


C = Language("c", "C", "c", "so", "isa")
CUDA = Language("cuda", "CUDA", "cu", "cubin", "arch")

LANGUAGES = {language.name: language for language in (C, CUDA)}


def language_of(plan_target: str) -> Language:
    """The language of a target as plans name it: CUDA for `cuda sm_90`.

    Raises KeyError for one that there is not.
    """
    return LANGUAGES[plan_target.partition(" ")[0]]
