// The built-in losses as nodes of the graph: their gradients come from the rules of what they are made of.
//
// The class of a target is picked by comparing it with an iota, and not by a gather: the comparison fuses with the log-softmax, and its gradient is
// the same comparison, where that of a gather is a scatter.
//   cross_entropy   log_probability = log_softmax(logits);  loss = -(1 - s) * log_probability[target] - s / classes * sum(log_probability)
//   nll             the same without the log_softmax and with s = 0
//   mean            over the targets that count (those that are not ignore_index); otherwise over all elements
//   class weights   each log_probability times the weight of its class; the mean divides by the weights of the targets that count
// 16-bit floats are widened first; the loss has the wide dtype.

#include "autograd/losses.h"

#include "autograd/option_text.h"
#include "tcc/rules/rules_common.h"

namespace tcc {
namespace autograd {
namespace {

Value* sum_all(Builder& b, Value* x) { return b.reduce(Op::reduce_sum_, x, rules::axes_from(0, x->type.rank())); }

[[noreturn]] void does_not_fit(const std::string& message) { throw Error(ExitCode::usage, "invalid-argument", "", "--loss: " + message); }

Value* reduced(Builder& b, Value* loss, Value* count, const LossOptions& options) {
  Value* sum = sum_all(b, loss);
  return options.reduction == "sum" ? sum : b.div(sum, count);
}

Value* class_loss(Builder& b, Value* output, const LossOptions& options) {
  const Shape shape = output->type.shape();
  const int64_t rank = static_cast<int64_t>(shape.size());
  if (options.axis < -rank || options.axis >= rank) {
    does_not_fit("the axis of the classes is " + std::to_string(options.axis) + ", the output `" + output->name + "` is " +
                 to_string(output->type));
  }
  const int64_t axis = options.axis < 0 ? options.axis + rank : options.axis;
  Shape target_shape = shape;
  target_shape.erase(target_shape.begin() + axis);
  Value* target = b.graph().add_input("target", Type(DType::i64, target_shape));

  Value* log_probability = rules::widen(b, output);
  const DType dtype = log_probability->type.dtype;
  const bool entropy = options.kind == LossOptions::Kind::cross_entropy;
  if (entropy) log_probability = b.emit(Op::log_softmax_, {log_probability}, {{"axis", axis}});
  Value* weights = nullptr;  // as log_probability
  if (options.class_weights) {
    Value* of_classes = b.graph().add_input("class_weights", Type(dtype, {shape[static_cast<size_t>(axis)]}));
    weights = b.broadcast_in_dim(of_classes, shape, {axis});
    log_probability = b.mul(log_probability, weights);
  }
  Value* hot = b.binary(Op::eq_, b.iota(DType::i64, shape, axis), rules::spread(b, target, shape, {axis}));
  Value* picked = b.select(hot, log_probability, b.full_like(log_probability, 0));
  Value* loss = b.unary(Op::neg_, b.reduce(Op::reduce_sum_, picked, {axis}));
  if (entropy && options.label_smoothing != 0) {
    Value* all = b.reduce(Op::reduce_sum_, log_probability, {axis});
    const double share = options.label_smoothing / static_cast<double>(shape[static_cast<size_t>(axis)]);
    loss = b.sub(b.binary(Op::mul_, loss, 1 - options.label_smoothing), b.binary(Op::mul_, all, share));
  }
  Value* counts = b.emit(Op::ne_, {target, b.full_int(DType::i64, target_shape, options.ignore_index)});
  if (const int64_t classes = shape[static_cast<size_t>(axis)]; classes > 0) {
    Value* counted = b.select(counts, target, b.full_int(DType::i64, target_shape, 0));
    loss = b.emit(Op::check_index_, {loss, counted}, {{"extent", classes}});
  }
  Value* nothing = b.full_like(loss, 0);
  loss = b.select(counts, loss, nothing);
  if (weights == nullptr) return reduced(b, loss, sum_all(b, b.cast(counts, dtype)), options);
  Value* of_targets = b.reduce(Op::reduce_sum_, b.select(hot, weights, b.full_like(weights, 0)), {axis});
  return reduced(b, loss, sum_all(b, b.select(counts, of_targets, nothing)), options);
}

/// log(x), not below -100, and flat there: x = 0 gives no infinities.
Value* clamped_log(Builder& b, Value* x) {
  Value* tiny = b.binary(Op::le_, x, 0.0);
  Value* log = b.unary(Op::log_, b.select(tiny, b.full_like(x, 1), x));
  return b.select(tiny, b.full_like(x, -100), b.binary(Op::max_, log, -100.0));
}

Value* element_loss(Builder& b, Value* output, const LossOptions& options) {
  Value* target = rules::widen(b, b.graph().add_input("target", output->type));
  Value* x = rules::widen(b, output);
  Value* difference = b.sub(x, target);
  Value* loss;
  switch (options.kind) {
    case LossOptions::Kind::mse: loss = b.mul(difference, difference); break;
    case LossOptions::Kind::l1: loss = b.unary(Op::abs_, difference); break;
    case LossOptions::Kind::huber: {
      Value* distance = b.unary(Op::abs_, difference);
      Value* square = b.binary(Op::mul_, b.mul(difference, difference), 0.5);
      Value* line = b.binary(Op::mul_, b.binary(Op::add_, distance, -0.5 * options.delta), options.delta);
      loss = b.select(b.binary(Op::le_, distance, options.delta), square, line);
      break;
    }
    default: {
      Value* complement = b.binary(Op::add_, b.unary(Op::neg_, target), 1.0);
      if (options.logits) {
        loss = b.add(b.mul(complement, x), b.emit(Op::softplus_, {b.unary(Op::neg_, x)}));
      } else {
        Value* other = clamped_log(b, b.binary(Op::add_, b.unary(Op::neg_, x), 1.0));
        loss = b.unary(Op::neg_, b.add(b.mul(target, clamped_log(b, x)), b.mul(complement, other)));
      }
    }
  }
  return reduced(b, loss, b.full(x->type.dtype, {}, static_cast<double>(x->type.count())), options);
}

}  // namespace

Value* append_loss(Builder& b, Value* output, const LossOptions& options) {
  if (!is_float(output->type.dtype))
    does_not_fit("the output `" + output->name + "` is " + to_string(output->type) + ", a float is needed");
  const bool classes = options.kind == LossOptions::Kind::cross_entropy || options.kind == LossOptions::Kind::nll;
  return classes ? class_loss(b, output, options) : element_loss(b, output, options);
}

}  // namespace autograd

LossOptions parse_loss(std::string_view text) {
  using Kind = LossOptions::Kind;
  constexpr std::pair<std::string_view, Kind> kinds[] = {{"cross_entropy", Kind::cross_entropy},
                                                         {"nll", Kind::nll},
                                                         {"mse", Kind::mse},
                                                         {"l1", Kind::l1},
                                                         {"huber", Kind::huber},
                                                         {"bce", Kind::bce},
                                                         {"output", Kind::output}};
  const autograd::OptionText parsed("loss", text);
  LossOptions options;
  for (const auto& [known, kind] : kinds) {
    if (known == parsed.name()) options.kind = kind;
  }
  if (options.kind == Kind::none) parsed.refuse("known are cross_entropy, nll, mse, l1, huber, bce and output:NAME");
  if (options.kind == Kind::output) {  // names hold any character
    if (parsed.rest().empty()) parsed.refuse("the name of an output is missing");
    options.output = std::string(parsed.rest());
    return options;
  }
  const bool classes = options.kind == Kind::cross_entropy || options.kind == Kind::nll;
  for (const auto& [key, value] : parsed.items()) {
    if (key == "reduction") {
      if (value != "mean" && value != "sum") parsed.refuse("`reduction` is `" + std::string(value) + "`, known are mean and sum");
      options.reduction = std::string(value);
    } else if (key == "of") {
      options.output = std::string(value);
    } else if (key == "axis" && classes) {
      options.axis = parsed.integer(value);
    } else if (key == "ignore_index" && classes) {
      options.ignore_index = parsed.integer(value);
    } else if (key == "weights" && classes) {
      options.class_weights = parsed.truth(value);
    } else if (key == "label_smoothing" && options.kind == Kind::cross_entropy) {
      options.label_smoothing = parsed.number(value);
    } else if (key == "delta" && options.kind == Kind::huber) {
      options.delta = parsed.number(value);
    } else if (key == "logits" && options.kind == Kind::bce) {
      options.logits = parsed.truth(value);
    } else {
      std::string known = "reduction and of (the output)";
      if (options.kind == Kind::cross_entropy) known = "axis, ignore_index, weights, label_smoothing, " + known;
      if (options.kind == Kind::nll) known = "axis, ignore_index, weights, " + known;
      if (options.kind == Kind::huber) known = "delta, " + known;
      if (options.kind == Kind::bce) known = "logits, " + known;
      parsed.refuse("`" + std::string(key) + "` is not an option of it, known are " + known);
    }
  }
  return options;
}

}  // namespace tcc
