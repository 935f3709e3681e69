// The ops that a graph is made of, as ops.def lists them: what every stage may know of an op without a graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tcc {

enum class Op : uint16_t {
#define TCC_POINTWISE(name, ...) name##_,
#define TCC_PRIM(name, ...) name##_,
#define TCC_COMPOSITE(name, ...) name##_,
#define TCC_DYNAMIC(name, ...) name##_,
#include "tcc/ops/ops.def"
  // Enumerators carry a trailing underscore because `and`, `or`, `not` and `xor` are C++ words.
};

/// The pointwise prims alone, for a `switch` that the compiler finds incomplete when one is added.
enum class PointwiseOp : uint16_t {
#define TCC_POINTWISE(name, ...) name##_ = static_cast<uint16_t>(Op::name##_),
#include "tcc/ops/ops.def"
};

enum class OpKind : uint8_t { prim, composite, dynamic };

/// How grouping and loop lowering treat a prim; composites and dynamic ops have `none`.
enum class Lowering : uint8_t { none, pointwise, create, view, concat, reduce, scan, window, contract, indexed, scatter, sort };

/// Which dtypes a pointwise prim takes and returns; `none` for other ops.
enum class ScalarClass : uint8_t {
  none,
#define TCC_SCALAR_CLASS(name, ...) name,
#include "tcc/ops/ops.def"
};

/// What computing one element takes: nothing that matters, about an instruction, a division or root, a polynomial of some dozen instructions, or a loop
/// whose length depends on the values.
enum class ScalarCost : uint8_t { free, instruction, division, function, loop };

/// How a backward pass differentiates an op (ops.def says what each means).
enum class Gradient : uint8_t { none, zero, decompose, conditional, rule };

/// What an op computes in where a model runs in a lower precision (ops.def says what each means).
enum class Precision : uint8_t { low, f32, widest, keep, by_op, written };

struct OpInfo {
  std::string_view name;
  OpKind kind;
  int min_operands, max_operands;  ///< max -1: any
  int results;                     ///< -1: as the node says
  Lowering lowering;
  ScalarClass scalar_class;
  ScalarCost cost;              ///< of pointwise prims
  Gradient gradient;            ///< of dynamic ops none: what they become has one
  Precision precision;          ///< of dynamic ops nothing: what they become has one
  std::string_view attributes;  ///< the schema column of ops.def
};
const OpInfo& info(Op op);
inline std::string_view name_of(Op op) { return info(op).name; }
std::optional<Op> parse_op(std::string_view name);
int num_ops();

/// Nothing for ops that are not pointwise prims.
std::optional<PointwiseOp> pointwise(Op op);
/// A function computed by a polynomial or a loop (exp, log, sin, pow, fmod, ...), not by an instruction or two.
bool is_transcendental(Op op);
/// Instructions for one element of a pointwise prim, roughly: 1; 4 for a division or root; 16 for a transcendental function.
int arithmetic_cost(Op op);

/// What is wrong with the number of operands, "" when it is within the bounds of ops.def.
std::string operand_count_fault(Op op, int operands);

}  // namespace tcc
