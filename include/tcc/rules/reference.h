// What a compiled graph is held against by `tcc verify`: its meaning, with as little rounding as its types leave.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tcc/graph/graph.h"
#include "tcc/support/tensor.h"

namespace tcc {

/// Runs a graph of prims as interpret() in f64 does, and rounds where the model does:
///   f16, bf16 and the f8 kinds   every result has a value of its dtype: arithmetic is in f64, its result is rounded once
///   f32                          f64's precision in f32's range: beyond it an infinity, below it a subnormal number or zero. What the model *says* in f32
///                                (a constant, a Cast from a wider dtype or an integer) is rounded
///   f64                          as it is
/// So a Cast to f16 and back has the f16 value, and a compiled program in f32 differs by nothing but its own rounding. Float outputs are f64 tensors.
///
/// With `noise` (a seed) every value that is computed, not only moved, is off by a random part of a unit in the last place of its dtype before it is rounded.
/// How far outputs move is what rounding can explain: much, where a softmax of large numbers in 16 bits magnifies the last digit.
/// Source: Parker, "Monte Carlo arithmetic: exploiting randomness in floating-point arithmetic", 1997.
std::vector<Tensor> interpret_reference(const Graph& prims, std::span<const Tensor> inputs, std::optional<uint64_t> noise = std::nullopt);

/// Which rounding values went through, by value id: for each the float dtype with the fewest digits in which something that it depends on was
/// computed, not only stored or moved. Null: none, the output is exact (integers, and copies of inputs and constants). An integer that was rounded from
/// such a float, and went on as a float, counts like bf16: next to a tie the least rounding moves it by one step.
std::vector<std::optional<DType>> rounding_of_values(const Graph& prims);
/// The same of each output; null for those that are not floats.
std::vector<std::optional<DType>> rounding_of_outputs(const Graph& prims);

}  // namespace tcc
