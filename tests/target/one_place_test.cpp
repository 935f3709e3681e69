// Everything about a chip is in src/target: no other source compares names of chips, or has a size of one as a number.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tcc/target/target.h"

namespace tcc {
namespace {

namespace fs = std::filesystem;

/// Sources of the compiler outside of src/target. The launcher is not among them: it takes what the driver says of the chip that it finds.
std::vector<fs::path> sources() {
  std::vector<fs::path> result;
  for (const char* folder : {"/src", "/include"}) {
    for (const auto& entry : fs::recursive_directory_iterator(std::string(TCC_SOURCE_DIR) + folder)) {
      const std::string path = entry.path().lexically_relative(TCC_SOURCE_DIR).string();
      const bool code = path.ends_with(".cpp") || path.ends_with(".h");
      if (code && path.find("/target/") == std::string::npos && path.find("/runtime/") == std::string::npos) result.push_back(entry.path());
    }
  }
  return result;
}

/// What is left of a line without its comment.
std::string code_of(const std::string& line) { return line.substr(0, line.find("//")); }

/// Lines of the code that the expression is found in, as `file:line: text`.
std::string lines_with(const std::regex& expression, const std::set<std::string>& folders = {}) {
  std::string found;
  for (const fs::path& path : sources()) {
    const std::string relative = path.lexically_relative(TCC_SOURCE_DIR).string();
    const bool looked_at = folders.empty() || std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
                             return relative.find("/" + folder + "/") != std::string::npos;
                           });
    if (!looked_at) continue;
    std::ifstream file(path);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (std::regex_search(code_of(line), expression)) found += relative + ":" + std::to_string(number) + ": " + line + "\n";
    }
  }
  return found;
}

TEST(OnePlace, NoNameOfAChipIsCompared) {
  EXPECT_EQ(lines_with(std::regex(R"((==|!=|starts_with\(|ends_with\(|find\(|compare\()\s*"(sm_|x86-64|cuda_))")), "");
  EXPECT_EQ(lines_with(std::regex(R"(= *\{?"(sm_[0-9]|x86-64-v4))")), "");
}

// Numbers that only a chip explains, and multiples of them that fill it; in the folders that choose, verify, plan and emit.
TEST(OnePlace, NoSizeOfAChipIsANumber) {
  std::set<int64_t> numbers;
  for (const std::string& name : Target::names()) {
    const Target& target = Target::of(name);
    if (target.is_cpu()) continue;
    for (const int64_t times : {1, 2, 4, 8}) numbers.insert(times * target.cores);
    for (const int64_t bytes : {target.shared_bytes, target.multiprocessor_shared_bytes}) numbers.insert(bytes);
    numbers.insert({target.multiprocessor_registers, target.grid_blocks, int64_t{target.multiprocessor_threads}});
  }
  std::string either;
  for (const int64_t number : numbers) either += (either.empty() ? "" : "|") + std::to_string(number);
  EXPECT_EQ(lines_with(std::regex("(^|[^0-9A-Za-z_.'])(" + either + ")([^0-9.'x]|$)"),
                       {"loop", "schedule", "plan", "codegen", "residuals", "driver"}),
            "");
  EXPECT_EQ(lines_with(std::regex(R"((160|163|164|227|228) << 10)"), {"loop", "schedule", "plan", "codegen", "residuals", "driver"}), "");
}

// The two tests above would pass on a tree that they don't find.
TEST(OnePlace, LooksAtTheSources) {
  EXPECT_GT(sources().size(), 300U);
  EXPECT_NE(lines_with(std::regex("Target::named\\("), {"loop"}), "");
}

}  // namespace
}  // namespace tcc
