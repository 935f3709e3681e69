// Each primitive: a form, a schedule, and what it must become; both are parsed and compared by structure, and run on small integers.
#include <gtest/gtest.h>

#include "tcc/loop/loop.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/tensor.h"

namespace tcc::schedule {
namespace {

struct Case {
  const char* name;
  const char* before;
  const char* schedule;
  const char* after;
};

const Case kCases[] = {
    {"SplitMasksTheRemainder", "unit (%a0: f32[20]) -> (%r0: f32[20]) { map %i in 20 { %x: f32 = load %a0[%i]\n store %x, %r0[%i] } }",
     "split(i, 8)",
     R"(unit (%a0: f32[20]) -> (%r0: f32[20]) {
          map %i_0 in 3 bind(serial), %i_1 in 8 bind(serial) where lt(index(%i_0 * 8 + %i_1), 20) {
            %x: f32 = load %a0[%i_0 * 8 + %i_1]
            store %x, %r0[%i_0 * 8 + %i_1]
          } })"},
    {"SplitExactlyNeedsNoMask", "unit (%a0: f32[16]) -> (%r0: f32[16]) { map %i in 16 { %x: f32 = load %a0[%i]\n store %x, %r0[%i] } }",
     "split(i, 8) vectorize(i_1)",
     R"(unit (%a0: f32[16]) -> (%r0: f32[16]) {
          map %i_0 in 2 bind(serial), %i_1 in 8 bind(vector) {
            %x: f32 = load %a0[%i_0 * 8 + %i_1]
            store %x, %r0[%i_0 * 8 + %i_1]
          } })"},
    {"PeelGivesAReduceASecondPart",
     R"(unit (%a0: f32[3, 20]) -> (%r0: f32[3]) { map %i in 3 {
          %s: f32 = reduce sum %j in 20 { %x: f32 = load %a0[%i, %j]
            yield %x }
          store %s, %r0[%i] } })",
     "split(j, 8, tail=peel) vectorize(j_1)",
     R"(unit (%a0: f32[3, 20]) -> (%r0: f32[3]) { map %i in 3 bind(serial) {
          %s.main: f32 = reduce sum %j_0 in 2 bind(serial), %j_1 in 8 bind(vector) { %x: f32 = load %a0[%i, %j_0 * 8 + %j_1]
            yield %x }
          %s: f32 = reduce sum init(%s.main) %j_1.tail in 4 bind(vector) { %x.tail: f32 = load %a0[%i, %j_1.tail + 16]
            yield %x.tail }
          store %s, %r0[%i] } })"},
    {"PeelChoosesWhereTheOuterPartRunsInParallel",
     "unit (%a0: f32[20]) -> (%r0: f32[20]) { map %i in 20 { %x: f32 = load %a0[%i]\n store %x, %r0[%i] } }",
     "split(i, 8) bind(i_0, threads) peel(i_1)",
     R"(unit (%a0: f32[20]) -> (%r0: f32[20]) {
          map %i_0 in 3 bind(threads) {
            if lt(index(%i_0 * 8), 13) {
              map %i_1 in 8 bind(serial) { %x: f32 = load %a0[%i_0 * 8 + %i_1]
                store %x, %r0[%i_0 * 8 + %i_1] }
            } else {
              map %i_1.tail in 4 bind(serial) { %x.tail: f32 = load %a0[%i_0 * 8 + %i_1.tail]
                store %x.tail, %r0[%i_0 * 8 + %i_1.tail] }
            } } })"},
    {"FuseMakesContiguousDimsOne",
     "unit (%a0: f32[4, 8]) -> (%r0: f32[32]) { map %i in 4, %j in 8 { %x: f32 = load %a0[%i, %j]\n store %x, %r0[%i * 8 + %j] } }",
     "fuse(i, j)",
     "unit (%a0: f32[4, 8]) -> (%r0: f32[32]) { map %i_j in 32 bind(serial) { %x: f32 = load %a0[%i_j / 8, %i_j mod 8]\n store %x, "
     "%r0[%i_j] } }"},
    {"ReorderMergesAPerfectNest",
     "unit (%a0: f32[4, 8]) -> (%r0: f32[8, 4]) { map %i in 4 { map %j in 8 { %x: f32 = load %a0[%i, %j]\n store %x, %r0[%j, %i] } } }",
     "reorder(j, i) bind(j, threads)",
     "unit (%a0: f32[4, 8]) -> (%r0: f32[8, 4]) { map %j in 8 bind(threads), %i in 4 bind(serial) { %x: f32 = load %a0[%i, %j]\n store %x, "
     "%r0[%j, %i] } }"},
    {"TileGuardsTheLastMapOnly",
     R"(unit (%a0: f32[5, 7]) -> (%r0: f32[7]) { map %j in 7 {
          %s: f32 = reduce sum %i in 5 { %x: f32 = load %a0[%i, %j]
            yield %x }
          store neg(%s), %r0[%j] } })",
     "split(j, 4) tile(s, j_1) vectorize(j_1)",
     R"(unit (%a0: f32[5, 7]) -> (%r0: f32[7]) { map %j_0 in 2 bind(serial) {
          alloc %s.tile: f32[4] registers
          map %j_1.init in 4 bind(vector) { store 0.0, %s.tile[%j_1.init] }
          for %i in 5 bind(serial) { map %j_1 in 4 bind(vector) {
            %x: f32 = load %a0[%i, %j_0 * 4 + %j_1] else 0.0
            %s.old: f32 = load %s.tile[%j_1]
            store add(%s.old, %x), %s.tile[%j_1] } }
          map %j_1.out in 4 bind(vector) where lt(index(%j_0 * 4 + %j_1.out), 7) {
            %s: f32 = load %s.tile[%j_1.out]
            store neg(%s), %r0[%j_0 * 4 + %j_1.out] } } })"},
    {"TileKeepsPartialSumsApart",
     R"(unit (%a0: f32[4, 16]) -> (%r0: f32[4]) { map %i in 4 {
          %s: f32 = reduce sum %k in 16 { %x: f32 = load %a0[%i, %k]
            yield %x }
          store %s, %r0[%i] } })",
     "split(k, 8) tile(s, i, k_1) unroll(i) vectorize(k_1)",
     R"(unit (%a0: f32[4, 16]) -> (%r0: f32[4]) {
          alloc %s.tile: f32[4, 8] registers
          map %i.init in 4 bind(unroll), %k_1.init in 8 bind(vector) { store 0.0, %s.tile[%i.init, %k_1.init] }
          for %k_0 in 2 bind(serial) { map %i in 4 bind(unroll), %k_1 in 8 bind(vector) {
            %x: f32 = load %a0[%i, %k_0 * 8 + %k_1]
            %s.old: f32 = load %s.tile[%i, %k_1]
            store add(%s.old, %x), %s.tile[%i, %k_1] } }
          map %i.out in 4 bind(unroll) {
            %s: f32 = reduce sum %k_1.sum in 8 bind(vector) { yield load %s.tile[%i.out, %k_1.sum] }
            store %s, %r0[%i.out] } })"},
    {"TileSumsShortStretchesApart",
     R"(unit (%a0: f32[4, 3, 9]) -> (%r0: f32[4]) { map %i in 4 {
          %s: f32 = reduce sum %m in 3, %n in 9 { %x: f32 = load %a0[%i, %m, %n]
            yield %x }
          store %s, %r0[%i] } })",
     "tile(s, i, apart=m) unroll(i)",
     R"(unit (%a0: f32[4, 3, 9]) -> (%r0: f32[4]) {
          alloc %s.tile: f32[4] registers
          map %i.init in 4 bind(unroll) { store 0.0, %s.tile[%i.init] }
          alloc %s.part: f32[4] registers
          for %m in 3 bind(serial) {
            map %i.zero in 4 bind(unroll) { store 0.0, %s.part[%i.zero] }
            for %n in 9 bind(serial) { map %i in 4 bind(unroll) {
              %x: f32 = load %a0[%i, %m, %n]
              %s.old: f32 = load %s.part[%i]
              store add(%s.old, %x), %s.part[%i] } }
            map %i.add in 4 bind(unroll) {
              %s.sum: f32 = load %s.tile[%i.add]
              store add(%s.sum, load %s.part[%i.add]), %s.tile[%i.add] } }
          map %i.out in 4 bind(unroll) {
            %s: f32 = load %s.tile[%i.out]
            store %s, %r0[%i.out] } })"},
    {"KeepReadsARowOnce",
     R"(unit (%a0: f32[3, 8]) -> (%r0: f32[3, 8]) { map %i in 3 {
          %m: f32 = reduce max %j in 8 { %x: f32 = load %a0[%i, %j]
            yield %x }
          map %k in 8 { %y: f32 = load %a0[%i, %k]
            store sub(%y, %m), %r0[%i, %k] } } })",
     "keep(x, registers)",
     R"(unit (%a0: f32[3, 8]) -> (%r0: f32[3, 8]) { map %i in 3 bind(serial) {
          alloc %x.kept: f32[8] registers
          map %j.keep in 8 bind(serial) { store load %a0[%i, %j.keep], %x.kept[%j.keep] }
          %m: f32 = reduce max %j in 8 bind(serial) { %x: f32 = load %x.kept[%j]
            yield %x }
          map %k in 8 bind(serial) { %y: f32 = load %x.kept[%k]
            store sub(%y, %m), %r0[%i, %k] } } })"},
    {"KeepIsReadWhereItWasFilledOnly",
     R"(unit (%a0: f32[3, 8]) -> (%r0: f32[3, 8]) { map %i in 3 {
          %s: f32 = reduce sum %j in 7 { %x: f32 = load %a0[%i, %j]
            yield %x }
          %t: f32 = reduce sum %l in 6 { %z: f32 = load %a0[%i, %l]
            yield mul(%z, %s) }
          map %k in 8 { %y: f32 = load %a0[%i, %k]
            store add(%y, %t), %r0[%i, %k] } } })",
     "split(j, 4) split(l, 4) split(k, 4) keep(x, registers)",
     R"(unit (%a0: f32[3, 8]) -> (%r0: f32[3, 8]) { map %i in 3 bind(serial) {
          alloc %x.kept: f32[2, 4] registers
          map %j_0.keep in 2 bind(serial), %j_1.keep in 4 bind(serial) where lt(index(%j_0.keep * 4 + %j_1.keep), 7) {
            store load %a0[%i, %j_0.keep * 4 + %j_1.keep], %x.kept[%j_0.keep, %j_1.keep] }
          %s: f32 = reduce sum %j_0 in 2 bind(serial), %j_1 in 4 bind(serial) where lt(index(%j_0 * 4 + %j_1), 7) {
            %x: f32 = load %x.kept[%j_0, %j_1]
            yield %x }
          %t: f32 = reduce sum %l_0 in 2 bind(serial), %l_1 in 4 bind(serial) where lt(index(%l_0 * 4 + %l_1), 6) {
            %z: f32 = load %x.kept[%l_0, %l_1]
            yield mul(%z, %s) }
          map %k_0 in 2 bind(serial), %k_1 in 4 bind(serial) { %y: f32 = load %a0[%i, %k_0 * 4 + %k_1]
            store add(%y, %t), %r0[%i, %k_0 * 4 + %k_1] } } })"},
    {"KeepEndsWhereItsSourceIsWritten",
     R"(unit (%a0: f32[8]) -> (%r0: f32[8]) { map %i in 1 {
          alloc %t: f32[8] local
          map %j in 8 { store load %a0[%j], %t[%j] }
          %s: f32 = reduce sum %k in 8 { %x: f32 = load %t[%k]
            yield %x }
          map %l in 8 { store %s, %t[%l] }
          map %m in 8 { %y: f32 = load %t[%m]
            store %y, %r0[%m] } } })",
     "keep(x, registers)",
     R"(unit (%a0: f32[8]) -> (%r0: f32[8]) { map %i in 1 bind(serial) {
          alloc %t: f32[8] registers
          map %j in 8 bind(serial) { store load %a0[%j], %t[%j] }
          alloc %x.kept: f32[8] registers
          map %k.keep in 8 bind(serial) { store load %t[%k.keep], %x.kept[%k.keep] }
          %s: f32 = reduce sum %k in 8 bind(serial) { %x: f32 = load %x.kept[%k]
            yield %x }
          map %l in 8 bind(serial) { store %s, %t[%l] }
          map %m in 8 bind(serial) { %y: f32 = load %t[%m]
            store %y, %r0[%m] } } })"},
    {"StageCopiesTheBoxThatIsRead",
     R"(unit (%a0: f32[16]) -> (%r0: f32[16]) { map %i in 16 {
          %x: f32 = load %a0[%i]
          %y: f32 = load %a0[%i + 1] else 0.0
          store add(%x, %y), %r0[%i] } })",
     "split(i, 8) stage(a0, scratch, at=i_0)",
     R"(unit (%a0: f32[16]) -> (%r0: f32[16]) { map %i_0 in 2 bind(serial) {
          alloc %a0.staged: f32[9] scratch
          map %a0_a in 9 bind(serial) { store load %a0[%i_0 * 8 + %a0_a] else 0.0, %a0.staged[%a0_a] }
          map %i_1 in 8 bind(serial) {
            %x: f32 = load %a0.staged[%i_1]
            %y: f32 = load %a0.staged[%i_1 + 1]
            store add(%x, %y), %r0[%i_0 * 8 + %i_1] } } })"},
    {"StageInPhasesMakesStridesContiguous",
     R"(unit (%a0: f32[16]) -> (%r0: f32[8]) { map %i in 8 {
          %s: f32 = reduce sum %k in 3 { %x: f32 = load %a0[%i * 2 + %k] else 0.0
            yield %x }
          store %s, %r0[%i] } })",
     "split(i, 4) stage(a0, scratch, at=i_0, phases=2)",
     R"(unit (%a0: f32[16]) -> (%r0: f32[8]) { map %i_0 in 2 bind(serial) {
          alloc %a0.staged: f32[2, 5] scratch
          map %p in 2 bind(serial), %q in 5 bind(serial) { store load %a0[%i_0 * 8 + %p + %q * 2] else 0.0, %a0.staged[%p, %q] }
          map %i_1 in 4 bind(serial) {
            %s: f32 = reduce sum %k in 3 bind(serial) { %x: f32 = load %a0.staged[%k mod 2, %i_1 + %k / 2]
              yield %x }
            store %s, %r0[%i_0 * 4 + %i_1] } } })"},
    {"ComputeAtSpreadsAWindow",
     R"(unit (%a0: f32[4]) -> (%r0: f32[4, 5]) { map %i in 4, %o in 5 {
          %s: f32 = reduce sum %k in 3 { %x: f32 = load %a0[%i + %k - 1] else 0.0
            yield mul(%x, %x) }
          store %s, %r0[%i, %o] } })",
     "compute_at(x, top)",
     R"(unit (%a0: f32[4]) -> (%r0: f32[4, 5]) {
          alloc %x.all: f32[4, 3] global
          map %i_at in 4 bind(serial), %k_at in 3 bind(serial) { store load %a0[%i_at + %k_at - 1] else 0.0, %x.all[%i_at, %k_at] }
          map %i in 4 bind(serial), %o in 5 bind(serial) {
            %s: f32 = reduce sum %k in 3 bind(serial) { %x: f32 = load %x.all[%i, %k]
              yield mul(%x, %x) }
            store %s, %r0[%i, %o] } })"},
    {"SplitReduceMakesTwoNests",
     R"(unit (%a0: f32[100]) -> (%r0: f32[1]) { map %i in 1 {
          %s: f32 = reduce sum %k in 100 { %x: f32 = load %a0[%k]
            yield %x }
          store %s, %r0[%i] } })",
     "split_reduce(s, 10)",
     R"(unit (%a0: f32[100]) -> (%r0: f32[1]) {
          alloc %s.parts: f32[10, 1] global
          map %k_0 in 10 bind(serial), %i.part in 1 bind(serial) {
            %s.part: f32 = reduce sum %k_1 in 10 bind(serial) { %x.part: f32 = load %a0[%k_0 * 10 + %k_1]
              yield %x.part }
            store %s.part, %s.parts[%k_0, %i.part] }
          map %i in 1 bind(serial) {
            %s: f32 = reduce sum %part in 10 bind(serial) { yield load %s.parts[%part, %i] }
            store %s, %r0[%i] } })"},
    {"SumApartNestsReducesAndLeavesLanesOutside",
     R"(unit (%a0: f32[100]) -> (%r0: f32[1]) { map %i in 1 {
          %s: f32 = reduce sum %k in 100 { %x: f32 = load %a0[%k]
            yield %x }
          store %s, %r0[%i] } })",
     "split(k, 4) vectorize(k_1) split(k_0, 10) peel(k_0_1) sum_apart(k_0_0)",
     R"(unit (%a0: f32[100]) -> (%r0: f32[1]) { map %i in 1 bind(serial) {
          %s.main: f32 = reduce sum %k_0_0 in 2 bind(serial), %k_1 in 4 bind(vector) {
            %s.apart: f32 = reduce sum %k_0_1 in 10 bind(serial) { %x: f32 = load %a0[%k_0_0 * 40 + %k_0_1 * 4 + %k_1]
              yield %x }
            yield %s.apart }
          %s: f32 = reduce sum init(%s.main) %k_0_1.tail in 5 bind(serial), %k_1.tail in 4 bind(vector) {
            %x.tail: f32 = load %a0[%k_0_1.tail * 4 + %k_1.tail + 80]
            yield %x.tail }
          store %s, %r0[%i] } })"},
    {"SkipZerosGuardsProducts",
     R"(unit (%a0: f32[2], %a1: f32[3, 4]) -> (%r0: f32[4]) { map %i in 4 {
          %s: f32 = reduce sum %k in 3 { %x: f32 = load %a0[(%i + %k) / 2] else 0.0
            %y: f32 = load %a1[%k, %i]
            yield mul(select(lt(index((%i + %k) mod 2), 1), %x, 0.0), %y) }
          store %s, %r0[%i] } })",
     "unroll(i) tile(s, i) skip_zeros(s)",
     R"(unit (%a0: f32[2], %a1: f32[3, 4]) -> (%r0: f32[4]) {
          alloc %s.tile: f32[4] registers
          map %i.init in 4 bind(unroll) { store 0.0, %s.tile[%i.init] }
          for %k in 3 bind(serial) {
            map %i in 4 bind(unroll) where lt(index((%i + %k) mod 2), 1) {
              %x: f32 = load %a0[(%i + %k) / 2] else 0.0
              %y: f32 = load %a1[%k, %i]
              %s.old: f32 = load %s.tile[%i]
              store add(%s.old, mul(%x, %y)), %s.tile[%i] } }
          map %i.out in 4 bind(unroll) {
            %s: f32 = load %s.tile[%i.out]
            store %s, %r0[%i.out] } })"},
    {"SplitReduceInMultiplesReadsZerosPastTheEnd",
     R"(unit (%a0: f32[22, 3], %a1: f32[22]) -> (%r0: f32[3]) { map %i in 3 {
          %s: f32 = reduce sum %k in 22 { %x: f32 = load %a0[%k, %i]
            yield mul(%x, load %a1[%k]) }
          store %s, %r0[%i] } })",
     "split_reduce(s, 3, multiple=4)",
     R"(unit (%a0: f32[22, 3], %a1: f32[22]) -> (%r0: f32[3]) {
          alloc %s.parts: f32[3, 3] global
          map %k_0 in 3 bind(serial), %i_part in 3 bind(serial) {
            %s_part: f32 = reduce sum %k_1 in 8 bind(serial) { %x_part: f32 = load %a0[%k_0 * 8 + %k_1, %i_part] else 0.0
              yield mul(%x_part, load %a1[%k_0 * 8 + %k_1] else 0.0) }
            store %s_part, %s.parts[%k_0, %i_part] }
          map %i in 3 bind(serial) {
            %s: f32 = reduce sum %part in 3 bind(serial) { yield load %s.parts[%part, %i] }
            store %s, %r0[%i] } })"},
};

class Primitives : public testing::TestWithParam<Case> {};

Tensor counted(const loop::Buffer& buffer) {
  Tensor tensor(buffer.dtype, buffer.extents);
  for (int64_t i = 0; i < tensor.count(); i++) tensor.set_int64(i, (i * 7 + 3) % 11 - 5);
  return tensor;
}

std::vector<Tensor> params_of(const loop::Unit& unit) {
  std::vector<Tensor> params;
  for (const loop::Param& param : unit.params)
    params.push_back(param.written ? Tensor(param.buffer->dtype, param.buffer->extents) : counted(*param.buffer));
  return params;
}

TEST_P(Primitives, Becomes) {
  const Case& c = GetParam();
  const loop::Unit before = loop::parse_unit(c.before, "before"), expected = loop::parse_unit(c.after, "after");
  const loop::Unit after = apply(before, parse_schedule(c.schedule, "schedule"), Target::cpu_v3());
  std::string why;
  EXPECT_TRUE(loop::equal(after, expected, &why)) << why << "\n" << loop::print(after);
  std::vector<Tensor> first = params_of(before), second = params_of(before);
  loop::interpret(before, first);
  loop::interpret(after, second);
  for (size_t i = 0; i < first.size(); i++) EXPECT_TRUE(first[i].same_bytes(second[i]));
}

INSTANTIATE_TEST_SUITE_P(All, Primitives, testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.name); });

TEST(Schedule, TextReadsBack) {
  const std::string text = "split(i, 4) bind(i_0, threads) tile(s, i_1, j_1, space=registers) stage(a0, scratch, at=k, order=ba)";
  EXPECT_EQ(print(parse_schedule(text, "test")), text);
}

/// A schedule that is given is the user's to mend: what was found, and what would fit, without a word of our files.
TEST(Schedule, WhatDoesNotFitIsNamed) {
  const loop::Unit unit = loop::parse_unit(R"(unit (%a0: f32[4, 8]) -> (%r0: f32[4]) { map %i in 4 {
      %s: f32 = reduce sum %k in 8 { %x: f32 = load %a0[%i, %k]
        yield %x }
      store %s, %r0[%i] } })",
                                           "unit");
  const std::pair<const char*, const char*> cases[] = {
      {"split(j, 4)", "`split(j, 4)` does not fit: there is no loop `j`\nloops of the unit are `i`, `k`"},
      {"splitt(i, 4)", "there is no primitive `splitt`\ndid you mean `split`?"},
      {"no_such(i)", "there is no primitive `no_such`\nprimitives are `bind`, `compute_at`"},
      {"split(i, 0)", "the factor is 0, expected 1 or more"},
      {"split(i, 999999999999999)", "the factor is 999999999999999, expected 1 or more"},
      {"split(i)", "argument 2 must be the factor\nit is written `split(LOOP, FACTOR, tail=mask|peel|pad)`"},
      {"split(4, i)", "argument 1 must name a loop"},
      {"split(i, 4, 5)", "it has an argument too many"},
      {"split(i, 4, tail=cut)", "`tail` is `cut`\nit is written"},
      {"bind(i, thread_s)", "`thread_s` is not one of the places for a loop to run\ndid you mean `threads`?"},
      {"bind(k, block)", "`k` is reduced"},
      {"fuse(i, k)", "`k` does not follow `i` in its loop"},
      {"reorder(i, i)", "`i` is named twice"},
      {"tile(ss, i)", "there is no reduce `ss`\ndid you mean `s`?"},
      {"tile(s, j)", "`j` is neither a dim of the map around `s` nor of its reduce"},
      {"keep(y, registers)", "there is no value `y`\nvalues of the unit are `s`, `x`"},
      {"keep(x, rregisters)", "did you mean `registers`?"},
      {"stage(a1, shared, at=i)", "there is no buffer `a1`\ndid you mean `a0`?"},
      {"stage(a0, shared)", "`at` says inside which loop"},
      {"online(s, t)", "there is no reduce `t`"},
      {"split_reduce(s, 0)", "the number of parts is 0"},
      {"tensorize(s, m16n8k16, 0, 4)", "the number of warps along the rows is 0"},
  };
  for (const auto& [text, expected] : cases) {
    try {
      apply(unit, parse_schedule(text, "schedule"), Target::cpu_v3());
      ADD_FAILURE() << text << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage) << text;
      std::string said;
      for (const Diagnostic& diagnostic : error.diagnostics()) said += (said.empty() ? "" : "\n") + diagnostic.message;
      EXPECT_NE(said.find(expected), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find(".cpp"), std::string::npos) << error.what();
    }
  }
}

/// `i_1` of a split `i` is what later primitives mean: where the unit has another loop of that name, they would change that one.
TEST(Schedule, NamesThatPrimitivesMakeAreFree) {
  const loop::Unit unit = loop::parse_unit(R"(unit (%a0: f32[8, 6]) -> (%r0: f32[8, 6], %r1: f32[6]) {
      map %i in 8, %j in 6 { store load %a0[%i, %j], %r0[%i, %j] }
      map %i_1 in 6 { store load %a0[0, %i_1], %r1[%i_1] }
      map %i_j in 6 { store load %a0[0, %i_j], %r1[%i_j] } })",
                                           "unit");
  for (const char* text : {"split(i, 4)", "fuse(i, j)"}) {
    try {
      apply(unit, parse_schedule(text, "schedule"), Target::cpu_v3());
      ADD_FAILURE() << text << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      EXPECT_NE(std::string(error.what()).find("and something else has that name"), std::string::npos) << error.what();
    }
  }
  EXPECT_NO_THROW(apply(unit, parse_schedule("split(j, 4)", "schedule"), Target::cpu_v3()));
}

TEST(Schedule, OnlineSoftmaxIsOnePass) {
  const loop::Unit unit = loop::parse_unit(R"(unit (%a0: f32[2, 9]) -> (%r0: f32[2]) { map %i in 2 {
      %m: f32 = reduce max %j in 9 { %x: f32 = load %a0[%i, %j]
        yield %x }
      %s: f32 = reduce sum %k in 9 { %y: f32 = load %a0[%i, %k]
        yield exp(sub(%y, %m)) }
      store add(%m, log(%s)), %r0[%i] } })",
                                           "unit");
  const loop::Unit merged = apply(unit, parse_schedule("online(m, s)", "schedule"), Target::cpu_v3());
  int reduces = 0;
  loop::walk(merged.body, [&](const loop::Stmt& stmt) { reduces += std::holds_alternative<loop::Reduce>(stmt.node); });
  EXPECT_EQ(reduces, 1);
  std::vector<Tensor> first = params_of(unit), second = params_of(unit);
  loop::interpret(unit, first);
  loop::interpret(merged, second);
  for (int64_t i = 0; i < 2; i++) EXPECT_NEAR(first[1].as_double(i), second[1].as_double(i), 1e-5);
}

}  // namespace
}  // namespace tcc::schedule
