// The fixture of tests that give commands in a folder of their own.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cli/program.h"

namespace tcc::test {

class Commands : public testing::Test {
 protected:
  Result tcc(const std::string& arguments) const { return run_tcc(arguments, folder_.path()); }
  /// Standard output of a command that succeeds.
  std::string good(const std::string& arguments) const {
    const Result result = tcc(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments << "\n" << result.err;
    return result.out;
  }
  void refused(const std::string& arguments, int exit_code, const std::string& message) const {
    const Result result = tcc(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << arguments << "\n" << result.out << result.err;
    EXPECT_NE(result.err.find(message), std::string::npos) << arguments << "\n" << result.err;
  }

  Folder folder_;
};

}  // namespace tcc::test
