// Products of f32 by those of their parts in bf16: what the strategies that do so need to know of it.
#pragma once

#include <string>

#include "schedule/chooser.h"
#include "schedule/contraction.h"

namespace tcc::schedule::cuda {

/// Pairs of parts whose products make one of f32.
inline constexpr int64_t kPairsOfParts = 6;
/// Terms that tensor cores add up before ordinary arithmetic adds them to the rest. They cut off what they add, so that the error grows with the number:
/// docs/math.md.
inline constexpr int64_t kSummedApart = 128;

/// The sum of a contraction, by names. Where factors are split `products` are summed apart from `whole`, over part `k` of the sum.
struct Sum {
  std::string whole, products, k, a, b;
};

/// Splits the factors, and schedules the nests that do it.
Sum split_factors(Chooser& chooser, const Contraction& c, int64_t apart);

/// Time that the parts of the factor take.
double split_ns(const Factor& factor, const Target& target);

/// Time of the contraction by multiply-adds, at least.
double fma_ns(const Contraction& c, const Target& target);

}  // namespace tcc::schedule::cuda
