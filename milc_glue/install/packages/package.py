# A package of Spack 1.0 or newer: docs/install.md, Spack.
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Milcgpu(MakefilePackage, CudaPackage):
    """GPU acceleration for the lattice QCD code MILC."""

    homepage = "https://example.org/milcgpu"
    git = "https://example.org/milcgpu.git"  # README.md, Where it lives

    license("MIT")

    version("main", branch="main")

    variant("mpi", default=True, description="Ranks in the example programs; the library has no MPI")

    depends_on("cxx", type="build")
    depends_on("cli11@2:", type="build")
    depends_on("mpi", when="+mpi")

    conflicts("cuda_arch=none", when="+cuda", msg="say cuda_arch=90 or another one")

    def words(self):
        # The compiler wrapper says -march.
        found = ["PREFIX=" + self.prefix, "HOST_ARCH="]
        found.append("MPI=" + (self.spec["mpi"].mpicc if self.spec.satisfies("+mpi") else "0"))
        if self.spec.satisfies("+cuda"):
            found += ["CUDA=1", "NVCC=" + join_path(self.spec["cuda"].prefix.bin, "nvcc")]
            found.append("ARCH=" + ",".join("sm_" + a for a in self.spec.variants["cuda_arch"].value))
        else:
            found.append("CUDA=0")
        return found

    def build(self, spec, prefix):
        make("all", *self.words())

    def install(self, spec, prefix):
        make("install", *self.words())
