#include <gtest/gtest.h>

#include "tcc/target/target.h"

namespace tcc {
namespace {

TEST(Target, RowsAreFoundByTheirNames) {
  for (const std::string& name : Target::names()) {
    const Target* target = Target::named(name);
    ASSERT_NE(target, nullptr) << name;
    EXPECT_EQ(target->name, name);
    EXPECT_EQ(target->is_cuda(), name.starts_with("sm_")) << name;
    EXPECT_NE(target->is_cuda(), target->is_cpu()) << name;
  }
  for (const char* name : {"", "sm_", "sm_8", "sm_80a", "x86-64", "x86-64-v", "cpu"}) EXPECT_EQ(Target::named(name), nullptr) << name;
}

// What the numbers of one row say of each other.
TEST(Target, LimitsFitEachOther) {
  for (const std::string& name : Target::names()) {
    const Target& target = Target::of(name);
    EXPECT_GT(target.cores, 0) << name;
    EXPECT_GT(target.bytes_per_ns, 0) << name;
    EXPECT_GT(target.flops_per_ns, 0) << name;
    EXPECT_GT(target.launch_ns, 0) << name;
    EXPECT_GT(target.l2_bytes, target.l1_bytes) << name;
    if (target.is_cpu()) {
      EXPECT_EQ(name, "x86-64-v" + std::to_string(target.cpu_level));
      EXPECT_GT(target.stack_bytes, 0) << name;
      EXPECT_TRUE(target.tensor_cores.empty()) << name;
      continue;
    }
    EXPECT_EQ(target.shared_bytes + target.block_reserved_bytes, target.multiprocessor_shared_bytes) << name;
    EXPECT_EQ(target.block_threads % target.warp_threads, 0) << name;
    EXPECT_EQ(target.multiprocessor_threads % target.block_threads, 0) << name;
    EXPECT_GT(target.shared_bytes_per_ns, target.cache_bytes_per_ns) << name;
    EXPECT_GT(target.cache_bytes_per_ns, target.bytes_per_ns) << name;
    EXPECT_TRUE(parse_cuda_arch(target.tuned_for)) << name;
    for (const TensorCore& core : target.tensor_cores) {
      EXPECT_EQ(core.name,
                "m" + std::to_string(core.m) + "n" + (core.warpgroup ? "N" : std::to_string(core.n)) + "k" + std::to_string(core.k));
      EXPECT_GT(core.flops_per_ns, target.flops_per_ns) << core.name;
      for (const DType dtype : core.dtypes)
        EXPECT_EQ((core.warpgroup ? target.warpgroup_core(dtype) : target.tensor_core(dtype)), &core) << core.name;
    }
  }
}

// The limits of compute capabilities 8.0 and 9.0, as the programming guide has them.
TEST(Target, SharedMemoryIsThatOfTheArchitecture) {
  EXPECT_EQ(Target::of("sm_80").shared_bytes, 166912);
  EXPECT_EQ(Target::of("sm_90").shared_bytes, 232448);
  EXPECT_EQ(Target::of("sm_90a").shared_bytes, 232448);
}

TEST(Target, ArchitecturesAreRead) {
  const auto read = [](std::string_view name) {
    const std::optional<CudaArch> arch = parse_cuda_arch(name);
    return arch ? std::to_string(arch->number) + (arch->specific ? "!" : "") : "none";
  };
  EXPECT_EQ(read("sm_80"), "80");
  EXPECT_EQ(read("sm_90a"), "90!");
  EXPECT_EQ(read("sm_120"), "120");
  for (const char* name : {"", "sm_", "sm_a", "sm_90aa", "sm_1000", "sm_9x", "90", "SM_90"}) EXPECT_EQ(read(name), "none") << name;
}

}  // namespace
}  // namespace tcc
