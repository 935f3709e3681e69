// A folder for one test, removed at its end, and the check that an Error is the expected one.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tcc/support/diagnostics.h"

namespace tcc::testing {

class ScratchFolder {
 public:
  ScratchFolder() : path_(::testing::TempDir() + "tcc-unit-XXXXXX") { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.push_back(entry.path().filename());
    return names;
  }

 private:
  std::string path_;
};

/// Runs f, which must throw an Error with that exit code, and returns what it prints.
template <class F> std::string error_of(ExitCode code, F f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace tcc::testing
