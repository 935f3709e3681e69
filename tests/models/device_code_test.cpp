// Device code of every first form that the schedule tests know: it assembles for the oldest and the newest chip in use, and what ptxas says of it names no
// spill, no frame in local memory, and none of its performance warnings (C75xx). Skipped where ptxas is not found. Models: tests/cli/ptx_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "tcc/codegen/codegen.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/files.h"
#include "tcc/support/parallel.h"

namespace tcc {
namespace {

/// Kernel text -> where it comes from: a body that several forms share is assembled once.
using Bodies = std::map<std::string, std::string>;

Bodies bodies_of_forms() {
  Bodies bodies;
  for (const char* folder : {"forms", "small"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(TCC_SOURCE_DIR "/tests/schedule/") + folder)) {
      const std::string path = entry.path().string();
      const loop::Unit unit = loop::parse_unit(read_text_file(path), path);
      const schedule::Target target = schedule::Target::cuda_sm80();
      std::vector<loop::BufferRef> temporaries;
      const std::vector<loop::Kernel> kernels =
          schedule::split_kernels(schedule::apply(unit, schedule::choose(unit, target), target), target, &temporaries);
      for (size_t k = 0; k < kernels.size(); ++k) bodies.emplace(loop::print(kernels[k], "k"), path + " k" + std::to_string(k));
    }
  }
  return bodies;
}

void expect_clean(const std::string& arch, const std::string& report) {
  // One "Function properties" paragraph per kernel: its second line has the frame and the spills.
  size_t kernels = 0;
  for (size_t at = report.find(" bytes stack frame"); at != std::string::npos; at = report.find(" bytes stack frame", at + 1)) {
    ++kernels;
    const size_t start = report.rfind('\n', at) + 1, end = report.find('\n', at);
    const std::string line = report.substr(start, end - start);
    EXPECT_NE(line.find(" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads"), std::string::npos)
        << arch << ": " << report.substr(report.rfind('\n', start - 2) + 1, end - report.rfind('\n', start - 2)) << report.substr(end, 200);
  }
  EXPECT_GT(kernels, 0U) << report;
  EXPECT_EQ(report.find("(C75"), std::string::npos) << arch << "\n" << report;
}

void expect_all_assemble(const Bodies& bodies) {
  std::vector<std::pair<std::string, std::string>> list(bodies.begin(), bodies.end());
  std::mutex reports;
  // One kernel a time, so that a fault is about one; its name in the report says which.
  parallel_for(static_cast<int64_t>(list.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto& [text, source] = list[static_cast<size_t>(i)];
      const loop::Kernel kernel = loop::parse_kernel(text, source);
      const std::string ptx = codegen::emit_nvptx({{"kernel", &kernel}}, {.target = "sm_80"}).assembly;
      for (const char* arch : {"sm_80", "sm_90a"}) {
        std::string report;
        try {
          codegen::assemble_ptx(ptx, arch, &report);
        } catch (const Error& error) {
          const std::lock_guard lock(reports);
          ADD_FAILURE() << source << ": " << error.what();
          continue;
        }
        const std::lock_guard lock(reports);
        SCOPED_TRACE(source);
        expect_clean(arch, report);
      }
    }
  });
  std::printf("%zu kernels assemble for sm_80 and sm_90a\n", list.size());
}

class DeviceCode : public testing::Test {
 protected:
  void SetUp() override {
    if (codegen::find_ptxas().empty()) GTEST_SKIP() << "ptxas is not found: set TCC_PTXAS to its path";
  }
};

TEST_F(DeviceCode, OfEveryFormAssemblesWithoutSpills) { expect_all_assemble(bodies_of_forms()); }

}  // namespace
}  // namespace tcc
