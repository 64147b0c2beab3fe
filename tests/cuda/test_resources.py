"""What kernels take of a GPU, and how many of their blocks a multiprocessor holds."""

from __future__ import annotations

import pytest
from compiler_texts import LOG

from noeira.codegen.cuda.arch import ARCHS, arch, arch_of
from noeira.errors import CompilerError, DeviceError
from noeira.runtime.cuda.resources import (
    Resources,
    check_kernel,
    parse_resources,
    read_resources,
    resources_text,
)

SM_90 = arch("sm_90")


# As CUDA 11.8 prints it.
OLD_LOG = """\
ptxas info    : 0 bytes gmem, 16 bytes cmem[3]
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
    40 bytes stack frame, 24 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, 1024 bytes smem, 376 bytes cmem[0], 8 bytes cmem[2]
"""
PTX = """\
.visible .entry k01_gemm(
	.param .u64 k01_gemm_param_0
)
.maxntid 16, 16, 1
.minnctapersm 2
{
	ret;
}
.visible .entry k02_spills(
	.param .u64 k02_spills_param_0
)
{
	ret;
}
"""


def test_the_log_of_the_assembler():
    gemm, spills = parse_resources(LOG, PTX)
    assert gemm == Resources("k01_gemm", 128, static_shared=8448, barriers=1, block=256)
    assert spills == Resources("k02_spills", 32, 0, 736, 992, 1004, 0, None)
    assert (gemm.spills, spills.spills) == (0, 1996)
    assert parse_resources(OLD_LOG) == (Resources("k", 255, 1024, 40, 24, 20, 0, None),)
    assert parse_resources("") == ()
    assert read_resources(resources_text([gemm, spills])) == (gemm, spills)


# By hand, from the tables of the programming guide. 16 blocks of 256 threads would be the 2048 or
# fewer threads of a multiprocessor; what each kernel takes of the rest:
@pytest.mark.parametrize(
    ("name", "registers", "shared", "block", "blocks", "limit"),
    [
        # 32 × 32 = 1024 registers a warp, 64 of them; 8 warps a block: 8 blocks, as by threads.
        ("sm_90", 32, 0, 256, 8, "threads"),
        # 33 are 40: 1280 a warp, 51.2 warps, in fours 48; 6 blocks of 8.
        ("sm_90", 33, 0, 256, 6, "registers"),
        # 128 × 32 = 4096 a warp, 16 warps: 2 blocks.
        ("sm_80", 128, 0, 256, 2, "registers"),
        # 255 are 256: 8192 a warp, 8 warps: one block of 8, none of 16.
        ("sm_80", 255, 0, 256, 1, "registers"),
        ("sm_80", 255, 0, 512, 0, "registers"),
        # 16384 and the system's 1024 of 167936: 9.6 blocks; of 102400, 5.9; of 233472, 13.4.
        ("sm_80", 16, 16384, 128, 9, "shared memory"),
        ("sm_86", 16, 16384, 128, 5, "shared memory"),
        ("sm_90", 16, 16384, 128, 13, "shared memory"),
        # Turing reserves nothing: 65536 / 16384.
        ("sm_75", 16, 16384, 128, 4, "shared memory"),
        ("sm_75", 16, 65536, 128, 1, "shared memory"),
        ("sm_75", 16, 65537, 128, 0, "shared memory"),
        # Small blocks: 32, 16, 24 and again 16 of them, whatever they take.
        ("sm_100", 16, 0, 32, 32, "blocks"),
        ("sm_86", 16, 0, 32, 16, "blocks"),
        ("sm_89", 16, 0, 32, 24, "blocks"),
        ("sm_75", 16, 0, 32, 16, "blocks"),
        # 1024 threads: two on the large ones, one on those with 1536 and 1024.
        ("sm_90", 32, 0, 1024, 2, "threads"),
        ("sm_89", 32, 0, 1024, 1, "threads"),
        ("sm_75", 64, 0, 1024, 1, "threads"),
        ("sm_90", 32, 0, 1025, 0, "threads"),
        # 33 threads are two warps: 32 blocks, as many as there can be.
        ("sm_90", 16, 0, 33, 32, "threads"),
        ("sm_90", 0, 0, 64, 32, "threads"),
    ],
)
def test_occupancy(name: str, registers: int, shared: int, block: int, blocks: int, limit: str):
    found = arch(name).occupancy(registers, shared, block)
    warps = blocks * -(-block // 32)
    assert (found.blocks, found.warps, found.limit) == (blocks, warps, limit)
    assert found.fraction == warps / arch(name).warps
    taken = Resources("k", registers, static_shared=shared // 2)
    assert taken.occupancy(arch(name), block, shared - shared // 2) == found


def test_architectures():
    assert list(ARCHS) == ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100"]
    assert [one.capability for one in ARCHS.values()] == sorted(
        a.capability for a in ARCHS.values()
    )
    for name, one in ARCHS.items():
        major, minor = one.capability
        assert name == f"sm_{major}{minor}" == arch(name).name
        assert arch_of(one.capability) == one
        assert one.most_shared + one.reserved_shared == one.shared
    with pytest.raises(DeviceError) as caught:
        arch("sm_91")
    assert str(caught.value) == (
        "there is no architecture 'sm_91': it is one of sm_75, sm_80, sm_86, sm_89, sm_90, sm_100"
    )


def test_a_device_between_the_architectures_and_beyond():
    assert arch_of((8, 7)) == arch("sm_86")
    assert arch_of((12, 0)) == arch("sm_100")
    assert arch("sm_86").runs_on((8, 7))
    assert not arch("sm_86").runs_on((8, 0))
    assert not arch("sm_100").runs_on((12, 0)), "machine code does not, but PTX does"
    with pytest.raises(DeviceError) as caught:
        arch_of((7, 0))
    assert str(caught.value) == ("the device is sm_70: CUDA is generated for sm_75 and newer")


@pytest.mark.parametrize(
    ("taken", "block", "shared", "said"),
    [
        (
            Resources("k", 255),
            512,
            0,
            "kernel k: 255 registers for each of 512 threads are 130,560; a block of sm_90 has at "
            "most 65,536. Launch at most 256 threads a block, or say __launch_bounds__(512), which "
            "holds the compiler to 128 registers a thread",
        ),
        (
            Resources("k", 32, static_shared=40_000),
            256,
            200_000,
            "kernel k: it takes 240,000 bytes of shared memory (40,000 in __shared__ arrays, "
            "200,000 at launch); a block of sm_90 has at most 232,448. Use smaller tiles or fewer "
            "stages",
        ),
        (
            Resources("k", 32),
            2048,
            0,
            "kernel k: it is launched with 2,048 threads a block; sm_90 has at most 1,024. Use "
            "smaller blocks, and more of them",
        ),
        (
            Resources("k", 32, block=128),
            256,
            0,
            "kernel k: it is launched with 256 threads a block, but __launch_bounds__ says at most "
            "128. Make the two agree",
        ),
    ],
)
def test_a_launch_that_there_is_no_room_for(taken: Resources, block: int, shared: int, said: str):
    with pytest.raises(CompilerError) as caught:
        check_kernel(taken, SM_90, block, shared)
    assert str(caught.value) == said


def test_a_launch_that_just_fits():
    check_kernel(Resources("k", 255, static_shared=49_152), SM_90, 256, 232_448 - 49_152)
    check_kernel(Resources("k", 64, block=1024), SM_90)
    check_kernel(Resources("k", 255), SM_90)
