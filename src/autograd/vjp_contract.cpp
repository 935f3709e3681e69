// vjp rules of contractions: two more contractions.
//
// A product of a [B, M, K] and b [B, N, K] has da = g [B, M, N] . b over N and db = g . a over M; the axes are then put where the operand has them.
//
// A convolution y[i] = sum over k of x[(i * s + k * r - low) / l] * w[k] has as its gradients two more:
//   dx  g spread by s, correlated with the reversed weight, every l-th position
//   dw  x with batch and channels exchanged, correlated with g as the kernel, spread by s, at r apart
// so that each is one conv_general with its own padding. Where s > 1, most products of dx would be with the zeros between what is spread. The positions i * s + p
// of dx take the terms k = (p + low) mod s, s further, ...: for each p a convolution of g itself with those, whose results are then put between each other.

#include <algorithm>

#include "autograd/vjp.h"
#include "tcc/support/integer_math.h"

namespace tcc::autograd {
namespace {

/// dot_general of g and the other operand over the free axes of that one, then the axes of `target` in its order. Which of the two comes first: the last axis
/// of the target shall be the last of the product, so that whatever reads the result reads rows.
///   target: the operand to differentiate, with `batch`, `contract`.
Value* dot_vjp(Vjp& v, int target) {
  Builder& b = v.b;
  const Attrs& attrs = v.attrs();
  const char* batch_names[] = {"lhs_batch", "rhs_batch"};
  const char* contract_names[] = {"lhs_contract", "rhs_contract"};
  const int other = 1 - target;
  const std::vector<int64_t>&batch = attrs.get_ints(batch_names[target]), &contract = attrs.get_ints(contract_names[target]);
  const std::vector<int64_t>&other_batch = attrs.get_ints(batch_names[other]), &other_contract = attrs.get_ints(contract_names[other]);
  auto free_axes = [&](int operand, const std::vector<int64_t>& first, const std::vector<int64_t>& second) {
    std::vector<int64_t> used = first;
    used.insert(used.end(), second.begin(), second.end());
    return rules::other_axes(v.x(operand)->type.rank(), used);
  };
  const std::vector<int64_t> own_free = free_axes(target, batch, contract), other_free = free_axes(other, other_batch, other_contract);
  const int64_t lhs_free = static_cast<int64_t>(target == 0 ? own_free.size() : other_free.size());
  const int64_t num_batch = static_cast<int64_t>(batch.size());
  // In g: batch, free of the left, free of the right.
  std::vector<int64_t> g_contract;
  for (size_t i = 0; i < other_free.size(); ++i) g_contract.push_back(num_batch + (target == 0 ? lhs_free : 0) + static_cast<int64_t>(i));
  Value* g = v.g;
  Value* factor = v.x(other);
  if (g->type.dtype != factor->type.dtype) factor = b.cast(factor, g->type.dtype);
  const std::vector<int64_t> g_batch = rules::axes_from(0, static_cast<int>(num_batch));
  const bool own_last = !own_free.empty() && own_free.back() == v.x(target)->type.rank() - 1;
  Value* product = b.emit(Op::dot_general_, own_last ? std::vector<Value*>{factor, g} : std::vector<Value*>{g, factor},
                          {{"lhs_batch", own_last ? other_batch : g_batch},
                           {"rhs_batch", own_last ? g_batch : other_batch},
                           {"lhs_contract", own_last ? other_free : g_contract},
                           {"rhs_contract", own_last ? g_contract : other_free},
                           {"dtype", g->type.dtype}});
  // Now: batch, then own free axes and the other's contracted ones, in their order in it.
  const int64_t own_at = num_batch + static_cast<int64_t>(own_last ? contract.size() : 0);
  const int64_t other_at = num_batch + static_cast<int64_t>(own_last ? 0 : own_free.size());
  std::vector<int64_t> sorted = other_contract;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> permutation(v.x(target)->type.dims.size());
  for (size_t i = 0; i < batch.size(); ++i) permutation[static_cast<size_t>(batch[i])] = static_cast<int64_t>(i);
  for (size_t i = 0; i < own_free.size(); ++i) permutation[static_cast<size_t>(own_free[i])] = own_at + static_cast<int64_t>(i);
  for (size_t i = 0; i < contract.size(); ++i) {
    const int64_t at = std::find(sorted.begin(), sorted.end(), other_contract[i]) - sorted.begin();
    permutation[static_cast<size_t>(contract[i])] = other_at + at;
  }
  return b.cast(b.transpose(product, permutation), v.x(target)->type.dtype);
}

struct ConvAxis {
  int64_t input, kernel, output, stride, low, input_step, kernel_step;
  int64_t spread() const { return (input - 1) * input_step + 1; }   ///< of the input
  int64_t reach() const { return (kernel - 1) * kernel_step + 1; }  ///< of the kernel
  int64_t spread_output() const { return (output - 1) * stride + 1; }
};

std::vector<ConvAxis> conv_axes(const Vjp& v) {
  const Shape x = v.x(0)->type.shape(), w = v.x(1)->type.shape(), y = v.y()->type.shape();
  const Attrs& attrs = v.attrs();
  std::vector<ConvAxis> axes;
  for (size_t i = 0; i + 2 < x.size(); ++i) {
    axes.push_back({x[i + 2], w[i + 2], y[i + 2], attrs.get_ints("strides")[i], attrs.get_ints("low")[i], attrs.get_ints("lhs_dilation")[i],
                    attrs.get_ints("rhs_dilation")[i]});
  }
  return axes;
}

/// [a * split, b, rest...] -> [split, a', b...]: the leading axis in two, its first part exchanged with the second axis.
///   [g * O, C, k...] -> [g * C, O, k...]
Value* exchange_within_groups(Builder& b, Value* w, int64_t groups) {
  const Shape shape = w->type.shape();
  Shape split{groups, shape[0] / groups}, joined{groups * shape[1], shape[0] / groups};
  split.insert(split.end(), shape.begin() + 1, shape.end());
  joined.insert(joined.end(), shape.begin() + 2, shape.end());
  std::vector<int64_t> permutation{0, 2, 1};
  for (int64_t i = 3; i < static_cast<int64_t>(split.size()); ++i) permutation.push_back(i);
  return b.reshape(b.transpose(b.reshape(w, split), permutation), joined);
}

/// [N, g * C, rest...] -> [C, g * N, rest...]
Value* batch_as_channels(Builder& b, Value* x, int64_t groups) {
  const Shape shape = x->type.shape();
  Shape split{shape[0], groups, shape[1] / groups}, joined{shape[1] / groups, groups * shape[0]};
  split.insert(split.end(), shape.begin() + 2, shape.end());
  joined.insert(joined.end(), shape.begin() + 2, shape.end());
  std::vector<int64_t> permutation{2, 1, 0};
  for (int64_t i = 3; i < static_cast<int64_t>(split.size()); ++i) permutation.push_back(i);
  return b.reshape(b.transpose(b.reshape(x, split), permutation), joined);
}

Value* exchange_first_two(Builder& b, Value* x) {
  std::vector<int64_t> permutation = rules::axes_from(0, x->type.rank());
  std::swap(permutation[0], permutation[1]);
  return b.transpose(x, permutation);
}

struct ConvAttrs {
  std::vector<int64_t> strides, low, high, lhs_dilation, rhs_dilation;
  void add(int64_t stride, int64_t low_pad, int64_t high_pad, int64_t lhs_step, int64_t rhs_step) {
    strides.push_back(stride);
    low.push_back(low_pad);
    high.push_back(high_pad);
    lhs_dilation.push_back(lhs_step);
    rhs_dilation.push_back(rhs_step);
  }
  Value* emit(Builder& b, Value* x, Value* w, int64_t groups) const {
    return b.emit(Op::conv_general_, {x, w},
                  {{"strides", strides},
                   {"low", low},
                   {"high", high},
                   {"lhs_dilation", lhs_dilation},
                   {"rhs_dilation", rhs_dilation},
                   {"groups", groups}});
  }
};

/// Every so manyth position of an axis of dx, from `first` on, and which terms of the kernel it takes.
struct Phase {
  int64_t first, count;         ///< positions
  int64_t kernel_first, terms;  ///< of the kernel, `stride` apart
  int64_t low, high, after;     ///< padding of g, and positions behind the last
};

std::vector<Phase> phases_of(const ConvAxis& axis) {
  std::vector<Phase> phases;
  for (int64_t first = 0; first < std::min(axis.stride, axis.input); ++first) {
    Phase phase{};
    phase.first = first;
    phase.count = ceil_div(axis.input - first, axis.stride);
    phase.kernel_first = ((first + axis.low) % axis.stride + axis.stride) % axis.stride;  // the padding may be negative
    phase.terms = std::max<int64_t>(0, ceil_div(axis.kernel - phase.kernel_first, axis.stride));
    phase.low = phase.terms - 1 - (first + axis.low - phase.kernel_first) / axis.stride;
    phase.high = phase.count - axis.output - phase.low + phase.terms - 1;
    phase.after = axis.input - first - (phase.count - 1) * axis.stride - 1;
    if (phase.terms > 0) phases.push_back(phase);
  }
  return phases;
}

/// Whether dx is made of phases: few of them, of a convolution whose sums are long.
bool has_phases(const std::vector<ConvAxis>& axes, int64_t groups) {
  constexpr int64_t kMostPhases = 9;
  int64_t phases = 1;
  for (const ConvAxis& axis : axes) {
    if (axis.input_step != 1 || axis.kernel_step != 1) return false;
    phases *= axis.stride;
  }
  return groups == 1 && phases > 1 && phases <= kMostPhases;
}

/// dx of one phase of each axis, between zeros.
Value* phase_vjp(Vjp& v, const std::vector<ConvAxis>& axes, const std::vector<Phase>& phases) {
  Builder& b = v.b;
  const Shape kernel = v.x(1)->type.shape();
  std::vector<int64_t> starts{0, 0}, limits{kernel[0], kernel[1]}, steps{1, 1}, before{0, 0}, after{0, 0}, between{0, 0};
  ConvAttrs attrs;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Phase& phase = phases[i];
    starts.push_back(phase.kernel_first);
    limits.push_back(phase.kernel_first + (phase.terms - 1) * axes[i].stride + 1);
    steps.push_back(axes[i].stride);
    before.push_back(phase.first);
    after.push_back(phase.after);
    between.push_back(axes[i].stride - 1);
    attrs.add(1, phase.low, phase.high, 1, 1);
  }
  Value* terms = b.slice(v.x(1), starts, limits, steps);
  Value* reversed = b.emit(Op::reverse_, {terms}, {{"axes", rules::axes_from(2, terms->type.rank())}});
  Value* part = attrs.emit(b, v.g, exchange_within_groups(b, reversed, 1), 1);
  return b.pad(part, b.full(part->type.dtype, {}, 0), before, after, between);
}

Value* phases_vjp(Vjp& v, const std::vector<ConvAxis>& axes) {
  std::vector<std::vector<Phase>> all{{}};
  for (const ConvAxis& axis : axes) {
    std::vector<std::vector<Phase>> longer;
    for (const std::vector<Phase>& phases : all) {
      for (const Phase& phase : phases_of(axis)) {
        longer.push_back(phases);
        longer.back().push_back(phase);
      }
    }
    all = std::move(longer);
  }
  Value* sum = nullptr;
  for (const std::vector<Phase>& phases : all) {
    Value* part = phase_vjp(v, axes, phases);
    sum = sum == nullptr ? part : v.b.add(sum, part);
  }
  return sum == nullptr ? v.zeros(v.x(0)) : sum;
}

}  // namespace

void vjp_dot_general(Vjp& v) {
  if (v.wants(0)) v.give(0, dot_vjp(v, 0));
  if (v.wants(1)) v.give(1, dot_vjp(v, 1));
}

void vjp_conv_general(Vjp& v) {
  Builder& b = v.b;
  const std::vector<ConvAxis> axes = conv_axes(v);
  const int64_t groups = v.attrs().get_int("groups");
  if (v.g->type.count() == 0 || v.x(0)->type.count() == 0 || v.x(1)->type.count() == 0) {
    for (int i = 0; i < 2; ++i) v.give(i, v.zeros(v.x(i)));
    return;
  }
  if (v.wants(0) && has_phases(axes, groups)) {
    v.give(0, phases_vjp(v, axes));
  } else if (v.wants(0)) {
    ConvAttrs attrs;
    for (const ConvAxis& a : axes) {
      const int64_t low = a.reach() - 1 - a.low;
      attrs.add(a.input_step, low, a.spread() - 1 + a.reach() - a.spread_output() - low, a.stride, a.kernel_step);
    }
    Value* reversed = b.emit(Op::reverse_, {v.x(1)}, {{"axes", rules::axes_from(2, v.x(1)->type.rank())}});
    v.give(0, attrs.emit(b, v.g, exchange_within_groups(b, reversed, groups), groups));
  }
  if (v.wants(1)) {
    ConvAttrs attrs;
    for (const ConvAxis& a : axes) {
      attrs.add(a.kernel_step, a.low, (a.kernel - 1) * a.kernel_step + a.spread_output() - a.spread() - a.low, a.input_step, a.stride);
    }
    Value* product = attrs.emit(b, batch_as_channels(b, v.x(0), groups), exchange_first_two(b, v.g), groups);  // [C / g, O, k...]
    v.give(1, exchange_first_two(b, product));
  }
}

}  // namespace tcc::autograd
