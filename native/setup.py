"""What is compiled; the rest is in pyproject.toml. One wheel serves every Python from 3.10 on (PEP 384)."""

from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent

setup(
    packages=[],
    py_modules=[],
    ext_modules=[
        Extension(
            "mesos_gpu_codec",
            sources=sorted(str(path.relative_to(HERE)) for path in (HERE / "src").glob("*.c")),
            depends=["src/codec.h", "flags.txt"],
            extra_compile_args=(HERE / "flags.txt").read_text().split(),
            extra_link_args=["-Wl,-z,relro,-z,now"],
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
