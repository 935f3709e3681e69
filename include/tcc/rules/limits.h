// How large a model may be, and arithmetic on sizes that doesn't wrap.
//
// Every type that a shape rule returns passes check_size(), and every node that has one passes check_attributes() and check_work(). So what comes after (passes,
// grouping, schedules, plans, code) may add and multiply extents, counts, bytes and costs as 64-bit numbers. What is refused is refused where the node is known.
// docs/diagnostics.md (too-large, too-complex) lists the limits for users.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tcc/graph/graph.h"

namespace tcc {

/// Bytes of one tensor, and of the memory that a library plans: a process on x86-64 can address 2^47.
inline constexpr int64_t kMaxTensorBytes = int64_t{1} << 46;
/// Pads, strides, dilations, windows: what any framework can say, and so small that products of two of them fit.
inline constexpr int64_t kMaxWindowNumber = (int64_t{1} << 31) - 1;
/// Multiplications of one contraction or window: some years of the fastest machine. Costs are multiples of it that must fit.
inline constexpr int64_t kMaxWork = int64_t{1} << 56;
/// Elements of a table that is made while compiling: which source each position of a resized or padded axis reads, with which weight.
inline constexpr int64_t kMaxTableElements = int64_t{1} << 24;
/// Bytes that evaluating one node while compiling may take, and elements that it may go through.
inline constexpr int64_t kMaxFoldedBytes = int64_t{1} << 31, kMaxFoldedWork = int64_t{1} << 30;
/// Nodes that one node becomes, where a number in it says how many.
inline constexpr int64_t kMaxMadeNodes = 4096;
/// Pieces of one split of which the model says how many there are, but not how long each is.
inline constexpr int64_t kMaxPieces = int64_t{1} << 16;

/// RuleError{"too-large", message}.
[[noreturn]] void too_large(const std::string& message);

/// Sums and products of sizes; too_large() with `what` where they don't fit 64 bits.
int64_t checked_add(int64_t a, int64_t b, const char* what);
int64_t checked_multiply(int64_t a, int64_t b, const char* what);
/// A size computed in floating point, rounded down; too_large() for what isn't between 0 and kMaxTensorBytes, NaN too.
int64_t checked_extent(double extent, const char* what);
/// Of the extents above 1, so that strides of an empty tensor fit as well; -1 where it is beyond kMaxTensorBytes.
int64_t bounded_product(std::span<const int64_t> extents);

/// The most axes of a tensor: more than any framework has.
inline constexpr int kMaxRank = 64;

/// Refuses negative extents, ranks beyond kMaxRank and tensors that are larger than kMaxTensorBytes; of a symbolic extent only 1 is counted.
void check_size(const Type& type);
/// Refuses pads, strides, dilations and window extents beyond kMaxWindowNumber.
void check_attributes(const Attrs& attrs);
/// Refuses tables of more than kMaxTableElements; `what` says what it is for.
void check_table(double elements, const std::string& what);
/// Refuses contractions and windows beyond kMaxWork.
void check_work(Op op, std::span<const Type* const> operands, const Attrs& attrs, std::span<const Type> results);
/// Elements that evaluating the node goes through; at most kMaxWork for a node that was checked.
int64_t work_of(Op op, std::span<const Type* const> operands, const Attrs& attrs, std::span<const Type> results);

/// "3 TiB", "1.5 MiB", "24 bytes".
std::string size_text(int64_t bytes);

}  // namespace tcc
