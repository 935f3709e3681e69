// The text of schedules. What each primitive does is in primitives/*.loop.
#include <gtest/gtest.h>

#include "tcc/schedule/schedule.h"

namespace tcc::schedule {
namespace {

TEST(Schedule, TextReadsBack) {
  const std::string text = "split(i, 4) bind(i_0, parallel) tile(s, i_1, j_1, space=registers) stage(a0, scratch, at=k, order=ba)";
  EXPECT_EQ(print(parse_schedule(text, "test")), text);
}

}  // namespace
}  // namespace tcc::schedule
