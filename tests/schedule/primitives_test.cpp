// Each primitive: a first form, the primitive, and what it must become.
#include <gtest/gtest.h>

#include "tcc/loop/loop.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/diagnostics.h"

namespace tcc::schedule {
namespace {

TEST(Schedule, TextReadsBack) {
  const std::string text = "split(i, 4) bind(i_0, threads) tile(s, i_1, j_1, space=registers) stage(a0, scratch, at=k, order=ba)";
  EXPECT_EQ(print(parse_schedule(text, "test")), text);
}

}  // namespace
}  // namespace tcc::schedule
