// Random numbers as prims, so that they fuse with what reads them, and cost no memory.
//
// Philox-2x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3): a keyed permutation of 64-bit counters.
//   counter  low half: the number of the element, counted from the key; high half: the upper word of seed + stream * gamma
//   key      the lower word of seed + stream * gamma, gamma being that of Weyl sequences, 2^64 over the golden ratio
// So elements never share a counter and key, nor do streams and seeds, unless seeds are gamma apart. One word is the result where 32 bits are asked
// for, both where 64 are. An element costs ten wide multiplications, which is about what reading eight bytes costs a GPU.
//
// All of it is per element, and reads seed and stream first:
// - what depends on no input is computed at compile time, and stored: so the element's number is no node before it is added to the key
// - what two ops have in common is computed once, and stored: so they have nothing in common
// - scalars would be a unit, and a launch, of their own: a thread computes them once for all its elements instead
//
// A round: (left, right) becomes (high(M * left) ^ key ^ right, low(M * left)); the key grows by W from round to round.

#include <cmath>

#include "tcc/rules/random.h"

namespace tcc {

namespace rules {
namespace {

constexpr int kRounds = 10;
constexpr int64_t kMultiplier = 0xD256D193, kKeyStep = 0x9E3779B9;
constexpr int64_t kMixIndex = 0xC2B2AE35;  // odd: multiplication by it is one to one
constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;

Value* constant(Builder& b, Value* like, int64_t value) { return b.full_int(dtype_of(like), {}, value); }

/// 2^-bits * the uppermost `bits` of a word, exactly.
Value* fraction(Builder& b, Value* word, int bits, DType dtype) {
  if (bits < 32) word = b.binary(Op::shr_, word, constant(b, word, 32 - bits));
  return b.binary(Op::mul_, b.cast(word, dtype), std::ldexp(1, -bits));
}

/// Random bits of a fraction: what a value below 1 can hold without rounding.
int fraction_bits(DType dtype) {
  switch (dtype) {
    case DType::f16: return 11;
    case DType::bf16: return 8;
    case DType::f64: return 32;
    default: return 24;
  }
}

}  // namespace

Value* random_bits(Builder& b, Value* seed, const Shape& shape, int64_t stream, DType dtype) {
  return b.emit(Op::rng_bits_, {seed}, {{"shape", shape}, {"dtype", dtype}, {"stream", stream}});
}

Value* random_unit(Builder& b, Value* seed, const Shape& shape, int64_t stream, DType dtype) {
  Value* unit = fraction(b, random_bits(b, seed, shape, stream), fraction_bits(dtype), compute_dtype(dtype));
  return b.cast(unit, dtype);
}

Value* dropout_kept(Builder& b, Value* seed, const Shape& shape, double ratio, int64_t stream) {
  const double threshold = std::nearbyint(std::ldexp(ratio, 32));
  if (threshold <= 0 || threshold >= std::ldexp(1, 32)) return b.full_int(DType::boolean, shape, threshold <= 0);
  Value* bits = random_bits(b, seed, shape, stream);
  return b.binary(Op::ge_, bits, constant(b, bits, static_cast<int64_t>(threshold)));
}

Value* drop(Builder& b, Value* x, Value* kept, double ratio) {
  if (ratio >= 1) return b.full(dtype_of(x), shape_of(x), 0);
  if (ratio <= 0) return x;
  Value* scaled = b.cast(b.binary(Op::mul_, widen(b, x), 1 / (1 - ratio)), dtype_of(x));
  return b.select(kept, scaled, b.full(dtype_of(x), shape_of(x), 0));
}

}  // namespace rules

namespace {

using Results = std::vector<Value*>;
using rules::constant;

}  // namespace

Results decompose_rng_bits(Builder& b, const Node& node) {
  const Shape& shape = node.attrs.get_ints("shape");
  const DType dtype = node.attrs.get_dtype("dtype");
  const int64_t count = num_elements(shape);
  if (count == 0) return {b.full_int(dtype, shape, 0)};
  const auto offset = static_cast<int64_t>(static_cast<uint64_t>(node.attrs.get_int("stream")) * rules::kGamma);
  auto seed_of_stream = [&](const Shape& over) {
    Value* seed = b.broadcast_to(node.operand(0), over);
    return b.emit(Op::bitcast_, {b.add(seed, constant(b, seed, offset))}, {{"dtype", DType::u64}});
  };
  Value* seed = seed_of_stream(shape);
  Value* key = b.cast(seed, DType::u32);
  Value* right = b.cast(b.binary(Op::shr_, seed, constant(b, seed, 32)), DType::u32);

  const bool is_large = count > (int64_t{1} << 32);
  Value* number = b.iota(is_large ? DType::u64 : DType::u32, {count}, 0);
  Value* left = b.reshape(b.add(b.cast(number, DType::u32), b.cast(seed_of_stream({count}), DType::u32)), shape);
  if (is_large) {
    Value* beyond = b.cast(b.binary(Op::shr_, number, constant(b, number, 32)), DType::u32);
    right = b.add(b.reshape(b.mul(beyond, constant(b, beyond, rules::kMixIndex)), shape), right);
  }
  for (int round = 0; round < rules::kRounds; ++round) {
    Value* wide = b.cast(left, DType::u64);
    Value* product = b.mul(wide, constant(b, wide, rules::kMultiplier));
    Value* upper_half = b.cast(b.binary(Op::shr_, product, constant(b, product, 32)), DType::u32);
    Value* lower_half =
        b.mul(left, constant(b, left, rules::kMultiplier));  // rather than of the product, which then is the upper half alone
    Value* round_key = round == 0 ? key : b.add(key, constant(b, key, (rules::kKeyStep * round) & 0xFFFFFFFF));
    left = b.binary(Op::xor_, b.binary(Op::xor_, upper_half, right), round_key);
    right = lower_half;
  }
  if (dtype == DType::u32) return {left};
  Value* above = b.cast(right, DType::u64);
  return {b.binary(Op::or_, b.cast(left, DType::u64), b.binary(Op::shl_, above, constant(b, above, 32)))};
}

Results decompose_random_uniform(Builder& b, const Node& node) {
  const DType dtype = node.result()->type.dtype;
  const double low = node.attrs.get_float("low"), high = node.attrs.get_float("high");
  const Shape shape = node.operand(1) == nullptr ? node.attrs.get_ints("shape") : rules::shape_of(node.operand(1));
  Value* unit = rules::random_unit(b, node.operand(0), shape, node.attrs.get_int("stream"), dtype);
  if (low == 0 && high == 1) return {unit};
  Value* wide = rules::widen(b, unit);
  Value* value = b.cast(b.binary(Op::add_, b.binary(Op::mul_, wide, high - low), low), dtype);
  if (!(low < high)) return {value};
  return {b.select(b.binary(Op::lt_, value, high), value, b.full(dtype, shape, low))};  // what was rounded up to `high` is `low`
}

/// Box and Muller: sqrt(-2 ln u) cos(2 pi v), u in (0, 1], v in [0, 1). From both words of an element, each exact in the dtype of the arithmetic.
Results decompose_random_normal(Builder& b, const Node& node) {
  const DType dtype = node.result()->type.dtype, wide = compute_dtype(dtype);
  const Shape shape = node.operand(1) == nullptr ? node.attrs.get_ints("shape") : rules::shape_of(node.operand(1));
  const int bits = rules::fraction_bits(wide);
  Value* words = rules::random_bits(b, node.operand(0), shape, node.attrs.get_int("stream"), DType::u64);
  Value* first = b.cast(b.binary(Op::shr_, words, constant(b, words, 32)), DType::u32);
  Value* u = b.binary(Op::add_, rules::fraction(b, first, bits, wide), std::ldexp(1, -bits));
  Value* v = rules::fraction(b, b.cast(words, DType::u32), bits, wide);
  Value* radius = b.unary(Op::sqrt_, b.binary(Op::mul_, b.unary(Op::log_, u), -2.0));
  Value* normal = b.mul(radius, b.unary(Op::cos_, b.binary(Op::mul_, v, 2 * M_PI)));
  if (const double scale = node.attrs.get_float("scale"); scale != 1) normal = b.binary(Op::mul_, normal, scale);
  if (const double mean = node.attrs.get_float("mean"); mean != 0) normal = b.binary(Op::add_, normal, mean);
  return {b.cast(normal, dtype)};
}

Results decompose_bernoulli(Builder& b, const Node& node) {
  Value* probability = rules::widen(b, node.operand(0));
  Value* unit =
      rules::random_unit(b, node.operand(1), rules::shape_of(probability), node.attrs.get_int("stream"), rules::dtype_of(probability));
  return {b.cast(b.binary(Op::lt_, unit, probability), node.attrs.get_dtype("dtype"))};
}

/// The classes whose cumulative weight is at most u times that of all: so many come before the sample.
Results decompose_multinomial(Builder& b, const Node& node) {
  Value* logits = rules::widen(b, node.operand(0));
  const int64_t rows = rules::extent_of(logits, 0), classes = rules::extent_of(logits, 1), samples = node.attrs.get_int("sample_size");
  const DType wide = rules::dtype_of(logits), dtype = node.attrs.get_dtype("dtype");
  Value* largest = b.reduce(Op::reduce_max_, logits, {1});
  Value* weights = b.unary(Op::exp_, b.sub(logits, rules::spread(b, largest, {rows, classes}, {1})));
  Value* cumulative = b.emit(Op::cumulative_, {weights}, {{"op", "sum"}, {"axis", int64_t{1}}, {"reverse", false}, {"exclusive", false}});
  Value* total = b.slice(cumulative, {0, classes - 1}, {rows, classes});
  Value* unit = rules::random_unit(b, node.operand(1), {rows, samples}, node.attrs.get_int("stream"), wide);
  Value* point = b.mul(unit, b.broadcast_to(total, {rows, samples}));
  const Shape all{rows, samples, classes};
  Value* passed = b.binary(Op::le_, b.broadcast_in_dim(cumulative, all, {0, 2}), b.broadcast_in_dim(point, all, {0, 1}));
  Value* before = b.reduce(Op::reduce_sum_, b.cast(passed, dtype), {2});
  // A product that was rounded up to the total would count them all.
  return {b.min(before, b.full_int(dtype, {rows, samples}, classes - 1))};
}

Results decompose_dropout(Builder& b, const Node& node) {
  Value* x = node.operand(0);
  const double ratio = node.attrs.get_float("ratio");
  Value* kept = rules::dropout_kept(b, node.operand(1), rules::shape_of(x), ratio, node.attrs.get_int("stream"));
  return {rules::drop(b, x, kept, ratio), kept};
}

}  // namespace tcc
