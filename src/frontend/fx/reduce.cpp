// Reductions, running sums, largest elements.
#include <array>
#include <cmath>

#include "frontend/fx/arguments.h"
#include "frontend/fx/handlers.h"
#include "frontend/fx/rebuilt.h"

namespace tcc::fx {

namespace {

Value* reduce(Call& call, const char* op, Value* x, const std::vector<int64_t>& axes, bool keep) {
  return call.emit(Op::reduce_, {x}, {{"op", op}, {"axes", axes}, {"keepdims", keep}});
}

std::vector<int64_t> all_axes(const Value* x) {
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < x->type.rank(); ++axis) axes.push_back(axis);
  return axes;
}

/// Sums and products of integers and truth values are i64.
Value* to_sum(Call& call, Value* x) {
  if (const auto dtype = call.maybe_dtype("dtype")) return call.build().cast(x, *dtype);
  return is_float(x->type.dtype) ? x : call.build().cast(x, DType::i64);
}

enum class What { sum, mean, prod };
constexpr const char* text_of(What what) { return what == What::sum ? "sum" : what == What::mean ? "mean" : "prod"; }

template <What what> void import_sum_all(Call& call) {
  Value* x = to_sum(call, call.in("self"));
  call.result(reduce(call, text_of(what), x, all_axes(x), false));
}

template <What what> void import_sum(Call& call) {
  Value* x = to_sum(call, call.in("self"));
  call.result(reduce(call, text_of(what), x, call.axes("dim", x), call.flag("keepdim")));
}

template <bool is_max> void import_extreme_all(Call& call) {
  Value* x = call.in("self");
  call.result(reduce(call, is_max ? "max" : "min", x, all_axes(x), false));
}

template <bool is_max> void import_extreme(Call& call) {
  Value* x = call.in("self");
  call.result(reduce(call, is_max ? "max" : "min", x, call.axes("dim", x), call.flag("keepdim")));
}

/// Of what is not NaN.
template <bool mean> void import_sum_of_numbers(Call& call) {
  Builder& b = call.build();
  Value* x = to_sum(call, call.in("self"));
  const std::vector<int64_t> axes = call.axes("dim", x);
  if (!is_float(x->type.dtype)) return call.result(reduce(call, text_of(mean ? What::mean : What::sum), x, axes, call.flag("keepdim")));
  Value* missing = call.emit(Op::isnan_, {x});
  Value* sum = reduce(call, "sum", b.select(missing, call.constant(x->type.dtype, 0.0), x), axes, call.flag("keepdim"));
  if (!mean) return call.result(sum);
  Value* present = b.cast(call.emit(Op::not_, {missing}), x->type.dtype);
  call.result(b.div(sum, reduce(call, "sum", present, axes, call.flag("keepdim"))));
}

void import_count_nonzero(Call& call) {
  Builder& b = call.build();
  Value* x = call.in("self");
  if (x->type.dtype != DType::boolean) x = b.binary(Op::ne_, x, call.constant(x->type.dtype, int64_t{0}));
  call.result(reduce(call, "sum", b.cast(x, DType::i64), call.axes("dim", x), false));
}

void import_extremes(Call& call) {
  Value* x = call.in("self");
  const bool keep = call.flag("keepdim");
  const std::vector<int64_t> axes = call.axes("dim", x);
  call.results({reduce(call, "min", x, axes, keep), reduce(call, "max", x, axes, keep)});
}

/// The position of the extreme; of all elements when no axis is given.
Value* position(Call& call, Value* x, bool is_max, std::optional<int64_t> axis, bool keep) {
  if (!axis) {
    x = call.build().reshape(x, {x->type.count()});
    axis = 0;
  }
  if (x->type.rank() == 0) return call.build().full_int(DType::i64, {}, 0);
  return call.emit(Op::arg_reduce_, {x}, {{"op", is_max ? "max" : "min"}, {"axis", *axis}, {"keepdims", keep}, {"last", false}});
}

template <bool is_max> void import_position(Call& call) {
  Value* x = call.in("self");
  const auto given = call.maybe_integer("dim");
  const auto axis = given ? std::optional(Call::axis_of(*given, x->type.rank())) : std::nullopt;
  Value* index = position(call, x, is_max, axis, axis && call.flag("keepdim"));
  if (!axis && call.flag("keepdim")) index = call.build().reshape(index, Shape(at(x->type.rank()), 1));
  call.result(index);
}

/// The extreme along an axis, read where its position says: so its gradient goes there alone.
template <bool is_max> void import_extreme_with_position(Call& call) {
  Value* x = call.in("self");
  if (x->type.rank() == 0) return call.results({x, call.build().full_int(DType::i64, {}, 0)});
  const int64_t axis = call.axis("dim", x);
  Value* index = position(call, x, is_max, axis, true);
  Value* value = call.emit(Op::gather_elements_, {x, index}, {{"axis", axis}});
  if (!call.flag("keepdim")) {
    Shape shape = shape_of(x);
    shape.erase(shape.begin() + axis);
    value = call.build().reshape(value, shape);
    index = call.build().reshape(index, shape);
  }
  call.results({value, index});
}

template <bool is_any> Value* truth(Call& call, const std::vector<int64_t>& axes, bool keep) {
  Value* x = call.build().cast(call.in("self"), DType::boolean);
  const Op op = is_any ? Op::reduce_or_ : Op::reduce_and_;
  return keep ? call.build().reduce_keep(op, x, axes) : call.build().reduce(op, x, axes);
}

template <bool is_any> void import_truth_all(Call& call) { call.result(truth<is_any>(call, all_axes(call.in("self")), false)); }
template <bool is_any> void import_truth(Call& call) {
  call.result(truth<is_any>(call, call.axes("dim", call.in("self")), call.flag("keepdim")));
}

// ---- spread

struct Moments {
  Value *mean, *variance;
};

/// sum((x - mean)^2) / (n - correction)
Moments moments(Call& call, const std::vector<int64_t>& axes, double correction, bool keep) {
  Value* x = call.in("self");
  Builder& b = call.build();
  int64_t count = 1;
  for (const int64_t axis : axes) count *= x->type.dims[at(axis)].bound;
  Value* mean = reduce(call, "mean", x, axes, true);
  Value* centred = b.sub(x, mean);
  Value* sum = reduce(call, "sum", b.mul(centred, centred), axes, keep);
  Value* variance = b.binary(Op::div_, sum, std::max(0.0, static_cast<double>(count) - correction));
  return {keep ? mean : b.reshape(mean, shape_of(variance)), variance};
}

double correction_of(Call& call) { return call.has("correction") ? call.number("correction") : 1; }

template <bool root> void import_spread(Call& call) {
  Value* variance = moments(call, call.axes("dim", call.in("self")), correction_of(call), call.flag("keepdim")).variance;
  call.result(root ? call.emit(Op::sqrt_, {variance}) : variance);
}

template <bool root> void import_spread_unbiased(Call& call) {
  Value* variance = moments(call, call.axes("dim", call.in("self")), call.flag("unbiased") ? 1 : 0, call.flag("keepdim")).variance;
  call.result(root ? call.emit(Op::sqrt_, {variance}) : variance);
}

template <bool root> void import_spread_all(Call& call) {
  Value* variance = moments(call, all_axes(call.in("self")), call.flag("unbiased") ? 1 : 0, false).variance;
  call.result(root ? call.emit(Op::sqrt_, {variance}) : variance);
}

template <bool root, bool unbiased_flag> void import_spread_and_mean(Call& call) {
  const double correction = unbiased_flag ? (call.flag("unbiased") ? 1 : 0) : correction_of(call);
  const Moments found = moments(call, call.axes("dim", call.in("self")), correction, call.flag("keepdim"));
  call.results({root ? call.emit(Op::sqrt_, {found.variance}) : found.variance, found.mean});
}

template <bool root> void import_spread_and_mean_all(Call& call) {
  const Moments found = moments(call, all_axes(call.in("self")), call.flag("unbiased") ? 1 : 0, false);
  call.results({root ? call.emit(Op::sqrt_, {found.variance}) : found.variance, found.mean});
}

void import_logsumexp(Call& call) {
  Value* x = call.in("self");
  call.result(reduce(call, "log_sum_exp", x, call.axes("dim", x), call.flag("keepdim")));
}

/// (sum |x|^p)^(1/p)
void norm(Call& call, Value* x, double p, const std::vector<int64_t>& axes, bool keep) {
  Builder& b = call.build();
  if (p == 2) return call.result(reduce(call, "l2", x, axes, keep));
  if (p == 1) return call.result(reduce(call, "l1", x, axes, keep));
  Value* magnitude = call.emit(Op::abs_, {x});
  if (std::isinf(p)) return call.result(reduce(call, p > 0 ? "max" : "min", magnitude, axes, keep));
  if (p == 0) {
    Value* present = b.cast(b.binary(Op::ne_, x, call.constant(x->type.dtype, 0.0)), x->type.dtype);
    return call.result(reduce(call, "sum", present, axes, keep));
  }
  Value* sum = reduce(call, "sum", b.binary(Op::pow_, magnitude, p), axes, keep);
  call.result(b.binary(Op::pow_, sum, 1 / p));
}

void import_vector_norm(Call& call) {
  Value* x = call.to_dtype(call.in("self"), call.maybe_dtype("dtype"));
  norm(call, x, call.number("ord"), call.axes("dim", x), call.flag("keepdim"));
}

void import_norm(Call& call) {
  Value* x = call.in("self");
  norm(call, x, call.maybe_number("p").value_or(2), call.axes("dim", x), call.flag("keepdim"));
}

void import_norm_all(Call& call) {
  Value* x = call.in("self");
  norm(call, x, call.number("p"), all_axes(x), false);
}

/// Of vectors; matrices have norms of their own.
void import_linalg_norm(Call& call) {
  Value* x = call.to_dtype(call.in("self"), call.maybe_dtype("dtype"));
  const std::vector<int64_t> axes = call.axes("dim", x);
  if (call.has("ord") && axes.size() != 1) Call::refuse("unsupported-attribute", "`ord` is given for a matrix");
  norm(call, x, call.maybe_number("ord").value_or(2), axes, call.flag("keepdim"));
}

void import_dist(Call& call) {
  Value* difference = call.build().sub(call.in("self"), call.in("other"));
  norm(call, difference, call.number("p"), all_axes(difference), false);
}

/// |a - b + eps|, along the last axis.
Value* row_distance(Call& call, Value* a, Value* b, bool keep) {
  Value* difference = call.build().binary(Op::add_, call.build().sub(a, b), call.number("eps"));
  norm(call, difference, call.number("p"), {Call::axis_of(-1, difference->type.rank())}, keep);
  return call.result_at(0);
}

void import_pairwise_distance(Call& call) { row_distance(call, call.in("x1"), call.in("x2"), call.flag("keepdim")); }

/// max(0, margin + |anchor - positive| - |anchor - negative|); `swap` takes the negative's distance from the nearer of the two.
void import_triplet_loss(Call& call) {
  Builder& b = call.build();
  Value *anchor = call.in("anchor"), *positive = call.in("positive"), *negative = call.in("negative");
  Value *to_positive = row_distance(call, anchor, positive, false), *to_negative = row_distance(call, anchor, negative, false);
  if (call.flag("swap")) to_negative = b.min(to_negative, row_distance(call, positive, negative, false));
  Value* loss = b.binary(Op::add_, b.sub(to_positive, to_negative), call.number("margin"));
  call.result(reduced_loss(call, b.binary(Op::max_, loss, 0.0)));
}

// ---- distances between rows

/// [..., P, M] and [..., R, M] -> [..., P, R]
Value* distances(Call& call, Value* a, Value* b, double p) {
  Builder& build = call.build();
  Shape left = shape_of(a), right = shape_of(b);
  if (left.size() < 2 || right.size() < 2) Call::refuse("type-error", "distances between rows of " + to_string(a->type));
  left.insert(left.end() - 1, 1);
  right.insert(right.end() - 2, 1);
  Value* difference = build.sub(build.reshape(a, left), build.reshape(b, right));
  norm(call, difference, p, {difference->type.rank() - 1}, false);
  return call.result_at(0);
}

void import_cdist(Call& call) { call.result(distances(call, call.in("x1"), call.in("x2"), call.number("p"))); }

void import_cdist_backward(Call& call) {
  Rebuilt forward(call, "_cdist_forward.default");
  forward.set("compute_mode", Argument());
  call.results(forward.gradients({{0, call.in("grad")}}, {"x1"}));
}

/// Of each pair of rows, the first below the second.
void import_pdist(Call& call) {
  Value* x = call.in("self");
  if (x->type.rank() != 2) Call::refuse("type-error", "distances between rows of " + to_string(x->type));
  const int64_t rows = x->type.dims[0].bound;
  check_count(times(rows, rows), 1 << 24, "pairs of rows");
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = i + 1; k < rows; ++k) {
      first.push_back(i);
      second.push_back(k);
    }
  }
  Builder& b = call.build();
  const auto rows_at = [&](const std::vector<int64_t>& at) {
    return call.emit(Op::gather_, {x, b.constant(Tensor::from_ints(at), "rows")}, {{"axis", int64_t{0}}});
  };
  norm(call, b.sub(rows_at(first), rows_at(second)), call.number("p"), {1}, false);
}

// ---- running, largest

template <bool is_sum> void import_cumulative(Call& call) {
  Value* x = to_sum(call, call.in("self"));
  if (x->type.rank() == 0) return call.result(x);
  call.result(call.emit(Op::cumulative_, {x},
                        {{"op", is_sum ? "sum" : "prod"}, {"axis", call.axis("dim", x)}, {"reverse", false}, {"exclusive", false}}));
}

void topk(Call& call, Value* x, int64_t k, int64_t axis, bool largest) {
  if (x->type.rank() == 0) return call.results({x, call.build().full_int(DType::i64, {}, 0)});
  const Node* node = call.build().emit_node(Op::topk_, {x}, {{"k", k}, {"axis", axis}, {"largest", largest}});
  call.results({node->result(0), node->result(1)});
}

void import_topk(Call& call) {
  Value* x = call.in("self");
  topk(call, x, call.integer("k"), call.axis("dim", x), call.flag("largest"));
}

/// All elements by size, equal ones in their order.
void import_sort(Call& call) {
  Value* x = call.in("self");
  const int64_t axis = call.axis("dim", x);
  topk(call, x, x->type.rank() == 0 ? 1 : x->type.dims[at(axis)].bound, axis, call.flag("descending"));
}

void import_argsort(Call& call) {
  import_sort(call);
  call.keep_result(1);
}

/// Differences of neighbours, n times, with `prepend` and `append` joined to the ends first.
void import_diff(Call& call) {
  Value* x = call.in("self");
  const int64_t axis = call.axis("dim", x);
  std::vector<Value*> pieces;
  if (call.has("prepend")) pieces.push_back(call.in("prepend"));
  pieces.push_back(x);
  if (call.has("append")) pieces.push_back(call.in("append"));
  if (pieces.size() > 1) x = call.build().concat(pieces, axis);
  check_count(call.integer("n"), 1000, "differences of differences");
  for (int64_t i = 0; i < call.integer("n"); ++i) {
    Shape shape = shape_of(x);
    if (shape[at(axis)] == 0) break;
    std::vector<int64_t> zeros(shape.size(), 0), starts = zeros, limits = shape;
    starts[at(axis)] = 1;
    limits[at(axis)] -= 1;
    Value *later = call.build().slice(x, starts, shape), *earlier = call.build().slice(x, zeros, limits);
    x = call.build().binary(x->type.dtype == DType::boolean ? Op::xor_ : Op::sub_, later, earlier);
  }
  call.result(x);
}

constexpr auto kHandlers = std::to_array<Handler>({
    {"sum.default(self, dtype=None)", import_sum_all<What::sum>},
    {"sum.dim_IntList(self, dim, keepdim=False, dtype=None)", import_sum<What::sum>},
    {"mean.default(self, dtype=None)", import_sum_all<What::mean>},
    {"mean.dim(self, dim, keepdim=False, dtype=None)", import_sum<What::mean>},
    {"prod.default(self, dtype=None)", import_sum_all<What::prod>},
    {"prod.dim_int(self, dim, keepdim=False, dtype=None)", import_sum<What::prod>},
    {"nansum.default(self, dim=None, keepdim=False, dtype=None)", import_sum_of_numbers<false>},
    {"nanmean.default(self, dim=None, keepdim=False, dtype=None)", import_sum_of_numbers<true>},
    {"count_nonzero.default(self, dim=None)", import_count_nonzero},
    {"count_nonzero.dim_IntList(self, dim)", import_count_nonzero},
    {"aminmax.default(self, dim=None, keepdim=False)", import_extremes},
    {"dist.default(self, other, p=2)", import_dist},
    {"pairwise_distance.default(x1, x2, p=2, eps=1e-6, keepdim=False)", import_pairwise_distance},
    {"triplet_margin_loss.default(anchor, positive, negative, margin=1, p=2, eps=1e-6, swap=False, reduction=1)", import_triplet_loss},
    {"linalg_norm.default(self, ord=None, dim=None, keepdim=False, dtype=None)", import_linalg_norm},
    {"amax.default(self, dim=[], keepdim=False)", import_extreme<true>},
    {"amin.default(self, dim=[], keepdim=False)", import_extreme<false>},
    {"max.default(self)", import_extreme_all<true>},
    {"min.default(self)", import_extreme_all<false>},
    {"max.dim(self, dim, keepdim=False)", import_extreme_with_position<true>},
    {"min.dim(self, dim, keepdim=False)", import_extreme_with_position<false>},
    {"argmax.default(self, dim=None, keepdim=False)", import_position<true>},
    {"argmin.default(self, dim=None, keepdim=False)", import_position<false>},
    {"any.default(self)", import_truth_all<true>},
    {"any.dim(self, dim, keepdim=False)", import_truth<true>},
    {"any.dims(self, dim=None, keepdim=False)", import_truth<true>},
    {"all.default(self)", import_truth_all<false>},
    {"all.dim(self, dim, keepdim=False)", import_truth<false>},
    {"all.dims(self, dim=None, keepdim=False)", import_truth<false>},
    {"var.default(self, unbiased=True)", import_spread_all<false>},
    {"var.dim(self, dim, unbiased=True, keepdim=False)", import_spread_unbiased<false>},
    {"var.correction(self, dim=None, correction=None, keepdim=False)", import_spread<false>},
    {"std.default(self, unbiased=True)", import_spread_all<true>},
    {"std.dim(self, dim, unbiased=True, keepdim=False)", import_spread_unbiased<true>},
    {"std.correction(self, dim=None, correction=None, keepdim=False)", import_spread<true>},
    {"var_mean.correction(self, dim=None, correction=None, keepdim=False)", import_spread_and_mean<false, false>},
    {"std_mean.correction(self, dim=None, correction=None, keepdim=False)", import_spread_and_mean<true, false>},
    {"var_mean.default(self, unbiased=True)", import_spread_and_mean_all<false>},
    {"std_mean.default(self, unbiased=True)", import_spread_and_mean_all<true>},
    {"var_mean.dim(self, dim, unbiased=True, keepdim=False)", import_spread_and_mean<false, true>},
    {"std_mean.dim(self, dim, unbiased=True, keepdim=False)", import_spread_and_mean<true, true>},
    {"logsumexp.default(self, dim, keepdim=False)", import_logsumexp},
    {"linalg_vector_norm.default(self, ord=2, dim=None, keepdim=False, dtype=None)", import_vector_norm},
    {"norm.ScalarOpt_dim(self, p, dim, keepdim=False)", import_norm},
    {"norm.Scalar(self, p=2)", import_norm_all},
    {"_cdist_forward.default(x1, x2, p, compute_mode)", import_cdist},
    {"cdist.default(x1, x2, p=2, compute_mode=None)", import_cdist},
    {"_cdist_backward.default(grad, x1, x2, p, cdist)", import_cdist_backward},
    {"_pdist_forward.default(self, p=2)", import_pdist},
    {"cumsum.default(self, dim, dtype=None)", import_cumulative<true>},
    {"cumprod.default(self, dim, dtype=None)", import_cumulative<false>},
    {"topk.default(self, k, dim=-1, largest=True, sorted=True)", import_topk},
    {"sort.default(self, dim=-1, descending=False)", import_sort},
    {"sort.stable(self, stable, dim=-1, descending=False)", import_sort},
    {"argsort.default(self, dim=-1, descending=False)", import_argsort},
    {"argsort.stable(self, stable, dim=-1, descending=False)", import_argsort},
    {"diff.default(self, n=1, dim=-1, prepend=None, append=None)", import_diff},
});

}  // namespace

std::span<const Handler> reduce_handlers() { return kHandlers; }

}  // namespace tcc::fx
