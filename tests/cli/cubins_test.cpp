// Which kernels ptxas assembles, and for which chips: told by a stand-in that writes down what it is given.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cli/program.h"

namespace tcc::test {
namespace {

class Cubins : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("ptxas",
                  "#!/bin/sh\n"
                  "for word in \"$@\"; do\n"
                  "  case $word in -arch=*) chip=${word#-arch=} ;; *.ptx) input=$word ;; *.cubin) output=$word ;; esac\n"
                  "done\n"
                  "sed -n \"s/^\\.visible \\.entry \\([a-z0-9_]*\\)(.*/\\1 for $chip/p\" \"$input\" >> assembled\n"
                  "echo > \"$output\"\n");
    ASSERT_EQ(::chmod((folder_ / "ptxas").c_str(), 0700), 0);
    // The first kernel is the same for all chips; warpgroups of sm_90a compute the second one in their way.
    folder_.write("two.graph",
                  "graph @two(%x: f32[64, 64], %a: bf16[512, 512], %b: bf16[512, 512]) -> (%y: f32[64, 64], %z: bf16[512, 512]) {\n"
                  "  %y: f32[64, 64] = relu(%x)\n"
                  "  %z: bf16[512, 512] = matmul(%a, %b)\n"
                  "}\n");
  }
  std::string assembled(const std::string& flags) const {
    folder_.write("assembled", "");
    const Result result = run_shell(
        "TCC_PTXAS=./ptxas \"$TCC\" --from=graph two.graph --target=cuda " + flags + " -o two.so && sort assembled", folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  Folder folder_;
};

TEST_F(Cubins, AreForTheChipsThatLaunchTheKernel) {
  EXPECT_EQ(assembled(""), "k0 for sm_90a\nk1_sm_90a for sm_90a\n");
  EXPECT_EQ(assembled("-march=sm_86"), "k0 for sm_86\nk1 for sm_86\n");
  EXPECT_EQ(assembled("-march=sm_80,sm_90a"), "k0 for sm_80\nk0 for sm_90a\nk1 for sm_80\nk1_sm_90a for sm_90a\n");
  EXPECT_EQ(assembled("-march=ptx"), "");
}

}  // namespace
}  // namespace tcc::test
