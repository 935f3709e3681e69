#include "autograd/op_families.h"

#include <map>

namespace tcc {
namespace {

std::string text(const std::vector<int64_t>& values) { return to_string(std::span<const int64_t>(values)); }
std::string f32(const Shape& shape) { return "f32" + text(shape); }

/// A graph of one op over its inputs.
std::string graph_of(const std::string& inputs, const std::string& call) {
  return "graph @g(" + inputs + ") -> (%y: f32[*]) { %y: f32[*] = " + call + " }";
}
/// What has no float result of its own decides between floats, or scales one.
std::string with_nodes(const std::string& inputs, const std::string& nodes) {
  return "graph @g(" + inputs + ") -> (%y: f32[*]) { " + nodes + " }";
}
std::string attribute(const std::string& name, const std::vector<int64_t>& values) { return name + "=" + text(values); }
std::string flag(bool value) { return value ? "true" : "false"; }

Case unary(Draw& draw, const std::string& op) {
  static const std::map<std::string, std::pair<double, double>> domains = {
      {"sqrt", {0.2, 3}}, {"rsqrt", {0.2, 3}},   {"recip", {0.3, 2}},   {"log", {0.2, 3}},   {"log2", {0.2, 3}},    {"log1p", {-0.7, 2}},
      {"tan", {-1, 1}},   {"asin", {-0.9, 0.9}}, {"acos", {-0.9, 0.9}}, {"acosh", {1.2, 3}}, {"atanh", {-0.9, 0.9}}};
  const auto found = domains.find(op);
  const auto [low, high] = found == domains.end() ? std::pair(-2.0, 2.0) : found->second;
  return {graph_of("%x: " + f32(draw.shape(0, 4)), op + "(%x)"), low, high};
}

Case binary(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(0, 4);
  Shape a = draw.broadcast_from(shape), b = shape;
  if (draw.flip()) std::swap(a, b);
  const bool positive = op == "div" || op == "rem" || op == "mod" || op == "pow";
  return {graph_of("%a: " + f32(a) + ", %b: " + f32(b), op + "(%a, %b)"), positive ? 0.3 : -2, 2};
}

Case comparison(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(0, 3);
  const std::string inputs = "%a: " + f32(draw.broadcast_from(shape)) + ", %b: " + f32(shape);
  return {with_nodes(inputs, "%c: bool[*] = " + op + "(%a, %b)  %y: f32[*] = select(%c, %a, %b)")};
}

Case test(Draw& draw, const std::string& op) {
  return {with_nodes("%x: " + f32(draw.shape(0, 3)),
                     "%c: bool[*] = " + op + "(%x)  %s: f32[*] = mul(%x, %x)  %y: f32[*] = select(%c, %x, %s)")};
}

/// Through integers: nothing flows, but the factor beside it does.
Case bits(Draw& draw, const std::string& op) {
  const std::string operands = op == "not" ? "(%i)" : "(%i, %i)";
  return {with_nodes("%x: " + f32(draw.shape(0, 3)), "%i: i32[*] = cast(%x) {dtype=i32}  %j: i32[*] = " + op + operands +
                                                         "  %f: f32[*] = cast(%j) {dtype=f32}  %y: f32[*] = mul(%f, %x)"),
          0.2, 3};
}

Case reduction(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(0, 4);
  if (op == "reduce") {
    const std::string kind = draw.one_of({"sum", "prod", "max", "min", "mean", "l1", "l2", "log_sum", "log_sum_exp", "sum_square"});
    // Norms of nothing, and means of nothing, are no numbers.
    std::vector<int64_t> axes = draw.some_axes(shape);
    return {graph_of("%x: " + f32(shape),
                     "reduce(%x) {op=\"" + kind + "\", " + attribute("axes", axes) + ", keepdims=" + flag(draw.flip()) + "}"),
            0.2, 2};
  }
  return {graph_of("%x: " + f32(shape), op + "(%x) {" + attribute("axes", draw.some_axes(shape)) + "}")};
}

Case logical_reduction(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(1, 3);
  return {with_nodes("%x: " + f32(shape) + ", %s: f32[]", "%c: bool[*] = gt(%x, %s)  %d: bool[*] = " + op + "(%c) {" +
                                                              attribute("axes", draw.some_axes(shape)) +
                                                              "}  %t: f32[] = mul(%s, %s)  %y: f32[*] = select(%d, %s, %t)")};
}

Case arg_extreme(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(1, 3, false);
  const std::string axis = "axis=" + std::to_string(draw.axis(shape)) + ", last=" + flag(draw.flip());
  const std::string call = op == "arg_reduce"
                               ? "arg_reduce(%x) {op=\"" + draw.one_of<std::string>({"max", "min"}) + "\", keepdims=false, " + axis + "}"
                               : op + "(%x) {" + axis + "}";
  return {with_nodes("%x: " + f32(shape) + ", %s: f32[]",
                     "%i: i64[*] = " + call + "  %f: f32[*] = cast(%i) {dtype=f32}  %y: f32[*] = mul(%f, %s)")};
}

Case cumulative(Draw& draw, const std::string&) {
  const Shape shape = draw.shape(1, 3);
  const std::string op = draw.one_of({"sum", "prod", "max", "min"});
  // The identity of an exclusive maximum is infinite.
  const bool exclusive = (op == "sum" || op == "prod") && draw.flip();
  return {graph_of("%x: " + f32(shape), "cumulative(%x) {op=\"" + op + "\", axis=" + std::to_string(draw.axis(shape)) +
                                            ", reverse=" + flag(draw.flip()) + ", exclusive=" + flag(exclusive) + "}")};
}

Case create(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(1, 3);
  const std::string attributes = "dtype=f32, " + attribute("shape", shape);
  const std::string call = op == "full" ? "full() {value=1.5, " + attributes + "}"
                                        : "iota() {axis=" + std::to_string(draw.axis(shape)) + ", " + attributes + "}";
  return {with_nodes("%x: " + f32(draw.broadcast_from(shape)), "%c: f32[*] = " + call + "  %y: f32[*] = mul(%c, %x)")};
}

Case broadcast_in_dim(Draw& draw, const std::string&) {
  const Shape shape = draw.shape(1, 4);
  const std::vector<int64_t> dims = draw.some_axes(shape);
  Shape from;
  for (int64_t dim : dims) from.push_back(draw.flip() ? shape[static_cast<size_t>(dim)] : 1);
  return {graph_of("%x: " + f32(from), "broadcast_in_dim(%x) {" + attribute("shape", shape) + ", " + attribute("dims", dims) + "}")};
}

Case reshape(Draw& draw, const std::string&) {
  const Shape shape = draw.shape(1, 4);
  Shape to;
  for (int64_t i : draw.permutation(shape.size())) to.push_back(shape[static_cast<size_t>(i)]);
  if (to.size() > 1 && draw.flip()) {
    to[1] *= to[0];
    to.erase(to.begin());
  }
  if (draw.flip()) to.insert(to.begin() + draw.axis(to), 1);
  return {graph_of("%x: " + f32(shape), "reshape(%x) {" + attribute("shape", to) + "}")};
}

Case transpose(Draw& draw, const std::string&) {
  const Shape shape = draw.shape(1, 4);
  return {graph_of("%x: " + f32(shape), "transpose(%x) {" + attribute("permutation", draw.permutation(shape.size())) + "}")};
}

Case slice(Draw& draw, const std::string&) {
  const Shape shape = draw.shape(1, 4);
  std::vector<int64_t> starts, limits, steps;
  for (int64_t extent : shape) {
    starts.push_back(draw.integer(0, extent));
    limits.push_back(draw.integer(starts.back(), extent));
    steps.push_back(draw.integer(1, 3));
  }
  return {graph_of("%x: " + f32(shape), "slice(%x) {" + attribute("starts", starts) + ", " + attribute("limits", limits) + ", " +
                                            attribute("steps", steps) + "}")};
}

Case reverse(Draw& draw, const std::string&) {
  const Shape shape = draw.shape(1, 4);
  return {graph_of("%x: " + f32(shape), "reverse(%x) {" + attribute("axes", draw.some_axes(shape)) + "}")};
}

Case pad(Draw& draw, const std::string&) {
  const Shape shape = draw.shape(1, 3);
  return {graph_of("%x: " + f32(shape) + ", %v: f32[]", "pad(%x, %v) {" + attribute("low", draw.per_axis(shape.size(), 0, 2)) + ", " +
                                                            attribute("high", draw.per_axis(shape.size(), 0, 2)) + ", " +
                                                            attribute("interior", draw.per_axis(shape.size(), 0, 2)) + "}")};
}

Case concat(Draw& draw, const std::string&) {
  const Shape shape = draw.shape(1, 3);
  const int64_t axis = draw.axis(shape);
  std::string inputs, operands;
  for (int64_t i = 0, count = draw.integer(1, 3); i < count; ++i) {
    Shape one = shape;
    one[static_cast<size_t>(axis)] = draw.integer(0, 3);
    inputs += (i == 0 ? "%x" : ", %x") + std::to_string(i) + ": " + f32(one);
    operands += (i == 0 ? "%x" : ", %x") + std::to_string(i);
  }
  return {graph_of(inputs, "concat(" + operands + ", %x0) {axis=" + std::to_string(axis) + "}")};
}

Case reduce_window(Draw& draw, const std::string&) {
  const Shape shape = draw.shape(1, 3);
  std::vector<int64_t> window, strides, low, high, dilations;
  for (int64_t extent : shape) {
    window.push_back(draw.integer(1, 3));
    dilations.push_back(draw.integer(1, 2));
    strides.push_back(draw.integer(1, 3));
    const int64_t reach = (window.back() - 1) * dilations.back();
    low.push_back(draw.integer(0, reach));
    high.push_back(std::max(draw.integer(0, reach), reach + 1 - extent - low.back()));
  }
  // A maximum of padding alone is infinite: windows of sums only, where there is nothing else.
  const std::string op = draw.empty() ? "sum" : draw.one_of<std::string>({"sum", "max", "min"});
  if (op != "sum") {
    for (size_t i = 0; i < shape.size(); ++i) {
      low[i] = high[i] = 0;
      window[i] = std::min(window[i], shape[i]);
      dilations[i] = window[i] == 1 ? 1 : std::min(dilations[i], (shape[i] - 1) / (window[i] - 1));
    }
  }
  return {graph_of("%x: " + f32(shape), "reduce_window(%x) {op=\"" + op + "\", " + attribute("window", window) + ", " +
                                            attribute("strides", strides) + ", " + attribute("low", low) + ", " + attribute("high", high) +
                                            ", " + attribute("dilations", dilations) + "}")};
}

Case dot_general(Draw& draw, const std::string&) {
  const Shape batch = draw.shape(0, 1), contract = draw.shape(0, 2), left = draw.shape(0, 2), right = draw.shape(0, 1);
  const size_t ranks[] = {batch.size() + contract.size() + left.size(), batch.size() + contract.size() + right.size()};
  std::string inputs, attributes;
  for (int side = 0; side < 2; ++side) {
    const std::vector<int64_t> order = draw.permutation(ranks[side]);
    Shape shape(ranks[side]);
    std::vector<int64_t> batch_axes, contract_axes;
    size_t at = 0;
    for (int64_t extent : batch) {
      shape[static_cast<size_t>(order[at])] = extent;
      batch_axes.push_back(order[at++]);
    }
    for (int64_t extent : contract) {
      shape[static_cast<size_t>(order[at])] = extent;
      contract_axes.push_back(order[at++]);
    }
    for (int64_t extent : side == 0 ? left : right) shape[static_cast<size_t>(order[at++])] = extent;
    const std::string name = side == 0 ? "lhs" : "rhs";
    inputs += (side == 0 ? "%a: " : ", %b: ") + f32(shape);
    attributes += attribute(name + "_batch", batch_axes) + ", " + attribute(name + "_contract", contract_axes) + ", ";
  }
  return {graph_of(inputs, "dot_general(%a, %b) {" + attributes + "dtype=f32}")};
}

Case conv_general(Draw& draw, const std::string&) {
  const int64_t groups = draw.integer(1, 2), channels = draw.integer(1, 2), outputs = draw.integer(1, 2);
  const int64_t batch = draw.empty() ? draw.integer(0, 1) : draw.integer(1, 2);
  Shape x{batch, groups * channels}, w{groups * outputs, channels};
  std::vector<int64_t> strides, low, high, lhs, rhs;
  for (int64_t i = 0, rank = draw.integer(1, 2); i < rank; ++i) {
    x.push_back(draw.integer(2, 5));
    w.push_back(draw.integer(1, 3));
    strides.push_back(draw.integer(1, 3));
    lhs.push_back(draw.integer(1, 2));
    rhs.push_back(draw.integer(1, 2));
    low.push_back(draw.integer(-1, 3));
    const int64_t spread = (x.back() - 1) * lhs.back() + 1, reach = (w.back() - 1) * rhs.back() + 1;
    high.push_back(std::max<int64_t>(draw.integer(-1, 3), reach - spread - low.back()));
  }
  return {graph_of("%x: " + f32(x) + ", %w: " + f32(w), "conv_general(%x, %w) {" + attribute("strides", strides) + ", " +
                                                            attribute("low", low) + ", " + attribute("high", high) + ", " +
                                                            attribute("lhs_dilation", lhs) + ", " + attribute("rhs_dilation", rhs) +
                                                            ", groups=" + std::to_string(groups) + "}")};
}

Case gather(Draw& draw, const std::string& op) {
  const Shape data = draw.shape(1, 3, false);
  const int64_t axis = draw.axis(data);
  if (op == "gather") {
    const Shape indices = draw.shape(0, 2);
    const std::string inputs = "%x: " + f32(data), call = "gather(%x, %i) {axis=" + std::to_string(axis) + "}";
    // Some indices miss: they read 0.
    return {graph_of(inputs + ", %i: i64" + text(indices), call), -2, 2, data[static_cast<size_t>(axis)] + draw.integer(0, 1)};
  }
  if (op == "gather_elements") {
    Shape indices = data;
    for (int64_t& extent : indices) extent = draw.integer(draw.empty() ? 0 : 1, extent);
    indices[static_cast<size_t>(axis)] = draw.integer(1, 4);
    return {graph_of("%x: " + f32(data) + ", %i: i32" + text(indices), "gather_elements(%x, %i) {axis=" + std::to_string(axis) + "}"), -2,
            2, data[static_cast<size_t>(axis)]};
  }
  const int64_t batch = draw.integer(0, static_cast<int64_t>(data.size()) - 1);
  Shape indices(data.begin(), data.begin() + batch);
  indices.push_back(draw.integer(draw.empty() ? 0 : 1, 3));
  indices.push_back(draw.integer(1, static_cast<int64_t>(data.size()) - batch));
  return {graph_of("%x: " + f32(data) + ", %i: i64" + text(indices), "gather_nd(%x, %i) {batch_dims=" + std::to_string(batch) + "}")};
}

/// Assigning twice at one place has no one gradient: indices are then constants that differ.
Case scatter(Draw& draw, const std::string& op) {
  const Shape data = draw.shape(1, 3, false);
  const std::string combiner = draw.one_of({"assign", "add", "mul", "max", "min"});
  const bool assigns = combiner == "assign";
  const std::string suffix = "combiner=\"" + combiner + "\"}";
  if (op == "scatter_elements") {
    const int64_t axis = draw.axis(data);
    Shape indices = data;
    for (int64_t& extent : indices) extent = draw.integer(draw.empty() ? 0 : 1, extent);
    indices[static_cast<size_t>(axis)] = assigns ? 1 : draw.integer(1, 4);
    return {graph_of("%x: " + f32(data) + ", %i: i64" + text(indices) + ", %u: " + f32(indices),
                     "scatter_elements(%x, %i, %u) {axis=" + std::to_string(axis) + ", " + suffix),
            -2, 2, data[static_cast<size_t>(axis)]};
  }
  const int64_t depth = draw.integer(1, static_cast<int64_t>(data.size()));
  const int64_t count = assigns ? 1 : draw.integer(draw.empty() ? 0 : 1, 4);
  Shape updates{count};
  updates.insert(updates.end(), data.begin() + depth, data.end());
  return {graph_of("%x: " + f32(data) + ", %i: i64" + text({count, depth}) + ", %u: " + f32(updates), "scatter_nd(%x, %i, %u) {" + suffix),
          -2, 2, 1};
}

Case topk(Draw& draw, const std::string&) {
  Shape shape = draw.shape(1, 3);
  const int64_t axis = draw.axis(shape), k = draw.integer(0, shape[static_cast<size_t>(axis)]);
  return {"graph @g(%x: " + f32(shape) + ") -> (%y: f32[*], %i: i64[*]) { %y: f32[*], %i: i64[*] = topk(%x) {k=" + std::to_string(k) +
          ", axis=" + std::to_string(axis) + ", largest=" + flag(draw.flip()) + "} }"};
}

Case activation(Draw& draw, const std::string& op) {
  static const std::map<std::string, std::vector<std::string>> attributes = {
      {"leaky_relu", {"alpha"}}, {"hard_sigmoid", {"alpha", "beta"}}, {"elu", {"alpha"}},           {"selu", {"alpha", "gamma"}},
      {"celu", {"alpha"}},       {"thresholded_relu", {"alpha"}},     {"shrink", {"bias", "lambd"}}};
  const Shape shape = draw.shape(0, 3);
  std::string call = op + "(%x)";
  if (op == "gelu") call += std::string(" {approximate=\"") + (draw.flip() ? "none" : "tanh") + "\"}";
  if (const auto found = attributes.find(op); found != attributes.end()) {
    std::string list;
    for (const std::string& name : found->second) list += (list.empty() ? "" : ", ") + name + "=" + std::to_string(draw.real(0.2, 0.9));
    call += " {" + list + "}";
  }
  return {graph_of("%x: " + f32(shape), call), -4, 4};
}

Case prelu(Draw& draw, const std::string&) {
  const Shape shape = draw.shape(0, 3);
  return {graph_of("%x: " + f32(shape) + ", %s: " + f32(draw.broadcast_from(shape)), "prelu(%x, %s)")};
}

Case clip(Draw& draw, const std::string&) {
  const std::string inputs = "%x: " + f32(draw.shape(0, 3)) + ", %a: f32[], %b: f32[]";
  return {graph_of(inputs, draw.one_of<std::string>({"clip(%x, %a, %b)", "clip(%x, %a)", "clip(%x, none, %b)"}))};
}

Case softmax(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(1, 3);
  const std::string call = op + "(%x) {axis=" + std::to_string(draw.axis(shape)) + "}";
  if (op != "hardmax") return {graph_of("%x: " + f32(shape), call)};
  Shape some = draw.shape(1, 3, false);
  return {
      with_nodes("%x: " + f32(some), "%h: f32[*] = hardmax(%x) {axis=" + std::to_string(draw.axis(some)) + "}  %y: f32[*] = mul(%h, %x)")};
}

Case layer_norm(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(1, 3);
  const int64_t axis = draw.axis(shape);
  const Shape normal(shape.begin() + axis, shape.end());
  const std::string attributes = " {axis=" + std::to_string(axis) + ", epsilon=0.1}";
  const std::string inputs = "%x: " + f32(shape) + ", %s: " + f32(normal);
  if (op == "rms_norm" && draw.flip()) return {graph_of(inputs, "rms_norm(%x, %s)" + attributes)};
  if (op == "rms_norm")
    return {"graph @g(" + inputs + ") -> (%y: f32[*], %d: f32[*]) { %y: f32[*], %d: f32[*] = rms_norm(%x, %s)" + attributes + " }"};
  if (draw.flip()) return {graph_of(inputs, "layer_norm(%x, %s)" + attributes)};
  if (draw.flip()) return {graph_of(inputs + ", %b: " + f32(normal), "layer_norm(%x, %s, %b)" + attributes)};
  return {"graph @g(" + inputs + ", %b: " + f32(normal) +
          ") -> (%y: f32[*], %m: f32[*], %d: f32[*]) { %y: f32[*], %m: f32[*], %d: f32[*] = layer_norm(%x, %s, %b)" + attributes + " }"};
}

Case channel_norm(Draw& draw, const std::string& op) {
  Shape shape = draw.shape(2, 4);
  if (op == "group_norm") shape[1] = shape[1] == 0 ? 0 : 2 * draw.integer(1, 2);
  const std::string channels = f32({shape[1]}), scales = "%x: " + f32(shape) + ", %s: " + channels + ", %b: " + channels;
  if (op == "instance_norm") return {graph_of(scales, "instance_norm(%x, %s, %b) {epsilon=0.1}")};
  if (op == "group_norm" && (draw.flip() || num_elements(shape) == 0))
    return {graph_of(scales, "group_norm(%x, %s, %b) {epsilon=0.1, num_groups=2}")};
  if (op == "group_norm")
    return {"graph @g(" + scales +
            ") -> (%y: f32[*], %m: f32[*], %d: f32[*]) { %y: f32[*], %m: f32[*], %d: f32[*] = group_norm(%x, %s, %b) {epsilon=0.1, "
            "num_groups=2} }"};
  const std::string inputs = scales + ", %m: " + channels + ", %v: " + channels;
  if (op == "batch_norm") return {graph_of(inputs, "batch_norm(%x, %s, %b, %m, %v) {epsilon=0.1}"), 0.2, 2};
  // The statistics of nothing are no numbers.
  const bool with_own = num_elements(shape) > 0 && draw.flip();
  const std::string results = std::string("%y: f32[*], %rm: f32[*], %rv: f32[*]") + (with_own ? ", %bm: f32[*], %bd: f32[*]" : "");
  return {"graph @g(" + inputs + ") -> " + (num_elements(shape) == 0 ? "(%y: f32[*])" : "(" + results + ")") + " { " + results +
          " = batch_norm_train(%x, %s, %b, %m, %v) {epsilon=0.1, momentum=" + std::to_string(draw.real(0.1, 0.9)) + "} }"};
}

Case recurrent(Draw& draw, const std::string&) {
  const std::string order = draw.one_of<const char*>({"h", "zrh", "rzh", "iofc", "ifco"});
  const auto gates = static_cast<int64_t>(order.size());
  const int64_t activations = gates == 1 ? 1 : gates - 1;
  const int64_t length = draw.integer(1, 3), batch = draw.integer(1, 2), size = draw.integer(1, 3), hidden = draw.integer(1, 3);
  // Those at the end may be left out.
  const std::vector<std::pair<const char*, Shape>> all = {
      {"%wb", {gates * hidden}}, {"%rb", {gates * hidden}}, {"%h0", {batch, hidden}}, {"%c0", {batch, hidden}}};
  std::string inputs =
      "%x: " + f32({length, batch, size}) + ", %w: " + f32({gates * hidden, size}) + ", %r: " + f32({gates * hidden, hidden});
  std::string operands = "%x, %w, %r", functions = gates == 1 ? "tanh" : "sigmoid,tanh", zeros = "0";
  for (int64_t i = 0, count = draw.integer(0, gates == 4 ? 4 : 3); i < count; ++i) {
    inputs += std::string(", ") + all[static_cast<size_t>(i)].first + ": " + f32(all[static_cast<size_t>(i)].second);
    operands += std::string(", ") + all[static_cast<size_t>(i)].first;
  }
  if (gates == 4) functions += ",tanh";
  for (int64_t i = 1; i < activations; ++i) zeros += ", 0";
  const std::string results = gates == 4 ? "%y: f32[*], %h: f32[*], %c: f32[*]" : "%y: f32[*], %h: f32[*]";
  return {"graph @g(" + inputs + ") -> (" + results + ") { " + results + " = recurrent(" + operands + ") {activations=\"" + functions +
          "\", alpha=[" + zeros + "], beta=[" + zeros + "], couple_forget=" + flag(gates == 4 && draw.flip()) + ", gates=\"" + order +
          "\", reset_after=" + flag(gates == 3 && draw.flip()) + ", reverse=" + flag(draw.flip()) + "} }"};
}

Case lrn(Draw& draw, const std::string&) {
  return {graph_of("%x: " + f32(draw.shape(2, 4)),
                   "lrn(%x) {alpha=0.3, beta=0.75, bias=1.5, size=" + std::to_string(draw.integer(1, 4)) + "}")};
}

Case other_norm(Draw& draw, const std::string& op) {
  if (op == "lp_norm") {
    const Shape shape = draw.shape(1, 3);
    return {graph_of("%x: " + f32(shape),
                     "lp_norm(%x) {axis=" + std::to_string(draw.axis(shape)) + ", p=" + std::to_string(draw.integer(1, 2)) + "}")};
  }
  // A line of one element has no deviation, and no derivative of it.
  Shape shape{draw.empty() ? 0 : draw.integer(2, 3), draw.integer(2, 3), draw.integer(2, 3)};
  return {graph_of("%x: " + f32(shape), "mean_variance_norm(%x) {" + attribute("axes", draw.some_axes(shape, true)) + "}")};
}

Case matmul(Draw& draw, const std::string& op) {
  const int64_t m = draw.integer(1, 3), n = draw.integer(1, 3), k = draw.empty() ? 0 : draw.integer(1, 3);
  if (op == "gemm") {
    const bool ta = draw.flip(), tb = draw.flip();
    const Shape a = ta ? Shape{k, m} : Shape{m, k}, b = tb ? Shape{n, k} : Shape{k, n};
    return {graph_of("%a: " + f32(a) + ", %b: " + f32(b) + ", %c: " + f32(draw.broadcast_from({m, n})),
                     "gemm(%a, %b, %c) {alpha=0.5, beta=-1.5, transpose_a=" + flag(ta) + ", transpose_b=" + flag(tb) + "}")};
  }
  if (op == "einsum") {
    const Shape a{2, m, k}, b{k, n, 2};
    return {graph_of(
        "%a: " + f32(a) + ", %b: " + f32(b),
        "einsum(%a, %b) {equation=\"" + draw.one_of<std::string>({"bik,kjb->bij", "bik,kjb->ji", "bik,kjc->bc", "bik,kjb"}) + "\"}")};
  }
  Shape batch = draw.shape(0, 2), a = draw.broadcast_from(batch), b = batch;
  if (draw.flip()) std::swap(a, b);
  if (draw.integer(0, 4) > 0 || !a.empty()) a.push_back(m);
  a.push_back(k);
  b.push_back(k);
  if (draw.integer(0, 4) > 0 || b.size() > 1) b.push_back(n);
  return {graph_of("%a: " + f32(a) + ", %b: " + f32(b), "matmul(%a, %b)")};
}

/// Windows over the axes of an image.
struct Windows {
  std::vector<int64_t> kernel, strides, dilations, begins, ends;

  /// One axis more; the image gets an axis that the window fits in. `across_kernel`: the padding is narrower than the window, else narrower than its reach.
  void add_axis(Draw& draw, Shape& image, int64_t most_stride, bool across_kernel) {
    kernel.push_back(draw.integer(1, 3));
    dilations.push_back(draw.integer(1, 2));
    strides.push_back(draw.integer(1, most_stride));
    const int64_t reach = (kernel.back() - 1) * dilations.back() + 1, most_padding = (across_kernel ? kernel.back() : reach) - 1;
    image.push_back(draw.integer(reach, reach + 2));
    begins.push_back(draw.integer(0, most_padding));
    ends.push_back(draw.integer(0, most_padding));
  }
  std::vector<int64_t> pads() const {
    std::vector<int64_t> all = begins;
    all.insert(all.end(), ends.begin(), ends.end());
    return all;
  }
};

Case conv(Draw& draw, const std::string& op) {
  const bool transposed = op == "conv_transpose";
  const int64_t groups = draw.integer(1, 2), channels = draw.integer(1, 2), outputs = draw.integer(1, 2);
  Shape x{draw.empty() ? 0 : draw.integer(1, 2), groups * channels};
  Shape w = transposed ? Shape{groups * channels, outputs} : Shape{groups * outputs, channels};
  Windows windows;
  std::vector<int64_t> output_padding;
  for (int64_t i = 0, rank = draw.integer(1, 2); i < rank; ++i) {
    windows.add_axis(draw, x, 3, /*across_kernel=*/false);
    w.push_back(windows.kernel.back());
    output_padding.push_back(draw.integer(0, windows.strides.back() - 1));
  }
  std::string attributes = attribute("strides", windows.strides) + ", " + attribute("dilations", windows.dilations) + ", " +
                           attribute("kernel", windows.kernel) + ", groups=" + std::to_string(groups);
  if (draw.flip()) attributes += ", auto_pad=\"NOTSET\", " + attribute("pads", windows.pads());
  else attributes += ", auto_pad=\"" + draw.one_of<std::string>({"SAME_UPPER", "SAME_LOWER", "VALID"}) + "\", pads=[]";
  if (transposed) attributes += ", output_shape=[], " + attribute("output_padding", output_padding);
  return {graph_of("%x: " + f32(x) + ", %w: " + f32(w) + ", %b: " + f32({groups * outputs}), op + "(%x, %w, %b) {" + attributes + "}")};
}

Case pool(Draw& draw, const std::string& op) {
  Shape x{draw.empty() ? 0 : draw.integer(1, 2), draw.integer(1, 2)};
  Windows windows;
  for (int64_t i = 0, rank = draw.integer(1, 2); i < rank; ++i) windows.add_axis(draw, x, 2, /*across_kernel=*/true);
  if (op.starts_with("global")) return {graph_of("%x: " + f32(x), op + "(%x)")};
  const std::string attributes = attribute("kernel", windows.kernel) + ", " + attribute("strides", windows.strides) + ", " +
                                 attribute("dilations", windows.dilations) + ", " + attribute("pads", windows.pads()) +
                                 ", ceil_mode=" + flag(draw.flip()) + ", auto_pad=\"NOTSET\"";
  if (op == "average_pool") {
    // With the padding uncounted a window of padding alone would be a mean of nothing.
    return {graph_of("%x: " + f32(x), "average_pool(%x) {" + attributes + ", count_include_pad=true}")};
  }
  return {"graph @g(%x: " + f32(x) + ") -> (%y: f32[*], %i: i64[*]) { %y: f32[*], %i: i64[*] = max_pool(%x) {" + attributes +
          ", storage_order=0} }"};
}

Case structure(Draw& draw, const std::string& op) {
  if (op == "flatten") {
    const Shape shape = draw.shape(1, 4);
    return {graph_of("%x: " + f32(shape), "flatten(%x) {axis=" + std::to_string(draw.axis(shape)) + "}")};
  }
  if (op == "depth_to_space")
    return {graph_of("%x: " + f32({draw.empty() ? 0 : 1, 4, draw.integer(1, 3), draw.integer(1, 3)}),
                     "depth_to_space(%x) {blocksize=2, mode=\"" + draw.one_of<std::string>({"DCR", "CRD"}) + "\"}")};
  if (op == "space_to_depth")
    return {
        graph_of("%x: " + f32({draw.empty() ? 0 : 1, draw.integer(1, 2), 2 * draw.integer(1, 2), 4}), "space_to_depth(%x) {blocksize=2}")};
  if (op == "trilu")
    return {graph_of("%x: " + f32(draw.shape(2, 3)),
                     "trilu(%x) {upper=" + flag(draw.flip()) + ", k=" + std::to_string(draw.integer(-2, 2)) + "}")};
  if (op == "eye_like")
    return {with_nodes("%x: " + f32(draw.shape(2, 2)),
                       "%e: f32[*] = eye_like(%x) {dtype=f32, k=" + std::to_string(draw.integer(-1, 1)) + "}  %y: f32[*] = mul(%e, %x)")};
  if (op == "one_hot") return {graph_of("%i: i64" + text(draw.shape(0, 2)) + ", %v: f32[2]", "one_hot(%i, %v) {axis=-1, depth=3}")};
  if (op == "elementwise_mean") {
    const Shape shape = draw.shape(0, 3);
    return {graph_of("%a: " + f32(shape) + ", %b: " + f32(draw.broadcast_from(shape)) + ", %c: " + f32(draw.broadcast_from(shape)),
                     "elementwise_mean(%a, %b, %c)")};
  }
  if (op == "cast_like") return {graph_of("%x: " + f32(draw.shape(0, 3)) + ", %l: f32[]", "cast_like(%x, %l)")};
  const Shape shape = draw.shape(1, 3, false);  // pad_with_input
  const std::string mode = draw.one_of({"reflect", "edge", "wrap"});
  std::vector<int64_t> low, high;
  for (int64_t extent : shape) {
    const int64_t most = mode == "edge" ? 2 : mode == "wrap" ? extent : extent - 1;
    low.push_back(draw.integer(0, most));
    high.push_back(draw.integer(0, most));
  }
  return {graph_of("%x: " + f32(shape),
                   "pad_with_input(%x) {mode=\"" + mode + "\", " + attribute("low", low) + ", " + attribute("high", high) + "}")};
}

Case resize(Draw& draw, const std::string&) {
  const Shape from{draw.empty() ? 0 : 1, draw.integer(1, 2), draw.integer(2, 4), draw.integer(2, 4)};
  const Shape to{from[0], from[1], draw.integer(1, 7), draw.integer(1, 7)};
  std::string scales = "1, 1";
  for (size_t i = 2; i < 4; ++i) scales += ", " + std::to_string(static_cast<double>(to[i]) / static_cast<double>(from[i]));
  const std::string mode = draw.one_of({"nearest", "linear", "cubic"});
  const bool antialias = mode != "nearest" && draw.flip();
  return {graph_of(
      "%x: " + f32(from),
      "resize(%x) {" + attribute("sizes", to) + ", scales=[" + scales + "], mode=\"" + mode + "\", coordinate_transformation_mode=\"" +
          draw.one_of<std::string>({"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"}) +
          "\", nearest_mode=\"" + draw.one_of<std::string>({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) +
          "\", cubic_coeff_a=-0.5, exclude_outside=" + flag(mode == "cubic" && draw.flip()) +
          ", extrapolation_value=0.0, roi=[], antialias=" + flag(antialias) + "}")};
}

Case quantized(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(1, 3);
  if (op == "dequantize_linear") return {graph_of("%x: i8" + text(shape) + ", %s: f32[]", "dequantize_linear(%x, %s) {axis=0}"), 0.2, 2, 9};
  if (op == "quantize_linear")
    return {with_nodes("%x: " + f32(shape) + ", %s: f32[]",
                       "%q: i8[*] = quantize_linear(%x, %s) {axis=0, dtype=i8}  %f: f32[*] = cast(%q) "
                       "{dtype=f32}  %y: f32[*] = mul(%f, %x)"),
            0.7, 2};
  return {with_nodes("%x: " + f32(draw.shape(1, 3, false)),
                     "%q: u8[*], %s: f32[*], %z: u8[*] = dynamic_quantize_linear(%x)  %f: f32[*] = cast(%q) "
                     "{dtype=f32}  %t: f32[*] = mul(%f, %x)  %y: f32[*] = mul(%t, %s)")};
}

Case random(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(0, 3);
  const std::string seed = ", %seed: i64[]", stream = "stream=" + std::to_string(draw.integer(0, 9));
  if (op == "dropout")
    return {"graph @g(%x: " + f32(shape) + seed + ") -> (%y: f32[*], %k: bool[*]) { %y: f32[*], %k: bool[*] = dropout(%x, %seed) {ratio=" +
            std::to_string(draw.real(0, 1)) + ", " + stream + "} }"};
  if (op == "bernoulli")
    return {
        with_nodes("%x: " + f32(shape) + seed, "%b: f32[*] = bernoulli(%x, %seed) {dtype=f32, " + stream + "}  %y: f32[*] = mul(%b, %x)"),
        0, 1};
  if (op == "rng_bits")
    return {with_nodes("%x: " + f32(shape) + seed,
                       "%b: u32[*] = rng_bits(%seed) {dtype=u32, " + attribute("shape", shape) + ", " + stream +
                           "}  %f: f32[*] = cast(%b) {dtype=f32}  %l: f32[*] = log2(%f)  %y: f32[*] = mul(%l, %x)")};
  if (op == "multinomial") {
    const Shape logits{draw.empty() ? 0 : draw.integer(1, 3), draw.integer(1, 4)};
    return {with_nodes("%x: " + f32(logits) + ", %s: f32[]" + seed, "%m: i32[*] = multinomial(%x, %seed) {dtype=i32, sample_size=4, " +
                                                                        stream +
                                                                        "}  %f: f32[*] = cast(%m) {dtype=f32}  %y: f32[*] = mul(%f, %s)")};
  }
  const std::string range = op == "random_uniform" ? "low=-1, high=2, " : "mean=-1, scale=2, ";
  return {with_nodes("%x: " + f32(shape) + seed,
                     "%r: f32[*] = " + op + "(%seed, %x) {dtype=f32, shape=[], " + range + stream + "}  %y: f32[*] = mul(%r, %x)")};
}

Case ternary(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(0, 3);
  const std::string rest = "%a: " + f32(draw.broadcast_from(shape)) + ", %b: " + f32(draw.broadcast_from(shape));
  if (op == "select") return {graph_of("%c: bool" + text(shape) + ", " + rest, "select(%c, %a, %b)")};
  return {graph_of("%x: " + f32(shape) + ", " + rest, op + "(%x, %a, %b)")};
}

/// What is in range and what is not: the value is the same.
Case check_of_index(Draw& draw, const std::string& op) {
  const Shape shape = draw.shape(0, 3);
  if (op == "check_index") return {graph_of("%x: " + f32(shape) + ", %i: i64" + text(shape), "check_index(%x, %i) {extent=2}")};
  return {graph_of("%x: " + f32({4}) + ", %i: i64[4], %s: " + f32({4, 3}), "check_classes(%x, %i, %s) {axis=1}")};
}

Case cast(Draw& draw, const std::string&) {
  return {with_nodes("%x: " + f32(draw.shape(0, 3)),
                     "%w: f64[*] = cast(%x) {dtype=f64}  %s: f64[*] = mul(%w, %w)  %y: f32[*] = cast(%s) {dtype=f32}")};
}

}  // namespace

std::vector<OpFamily> op_families() {
  return {
      {{"neg",   "abs", "sign", "ceil", "floor", "trunc", "round_even", "sqrt", "rsqrt", "recip", "exp",   "exp2",  "expm1", "log", "log2",
        "log1p", "sin", "cos",  "tan",  "asin",  "acos",  "atan",       "sinh", "cosh",  "tanh",  "asinh", "acosh", "atanh", "erf"},
       unary},
      {{"isnan", "isinf", "isfinite"}, test},
      {{"not", "and", "or", "xor", "shl", "shr"}, bits},
      {{"add", "sub", "mul", "div", "rem", "mod", "pow", "atan2", "max", "min"}, binary},
      {{"eq", "ne", "lt", "le", "gt", "ge"}, comparison},
      {{"select", "clamp", "fma"}, ternary},
      {{"check_index", "check_classes"}, check_of_index},
      {{"cast"}, cast},
      {{"full", "iota"}, create},
      {{"broadcast_in_dim"}, broadcast_in_dim},
      {{"reshape"}, reshape},
      {{"transpose"}, transpose},
      {{"slice"}, slice},
      {{"reverse"}, reverse},
      {{"pad"}, pad},
      {{"concat"}, concat},
      {{"reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce"}, reduction},
      {{"reduce_and", "reduce_or"}, logical_reduction},
      {{"argmax", "argmin", "arg_reduce"}, arg_extreme},
      {{"cumulative"}, cumulative},
      {{"reduce_window"}, reduce_window},
      {{"dot_general"}, dot_general},
      {{"conv_general"}, conv_general},
      {{"gather", "gather_elements", "gather_nd"}, gather},
      {{"scatter_elements", "scatter_nd"}, scatter},
      {{"topk"}, topk},
      {{"identity", "relu", "leaky_relu", "sigmoid", "hard_sigmoid", "hard_swish", "silu", "gelu", "elu", "selu", "celu", "softplus",
        "softsign", "mish", "thresholded_relu", "shrink"},
       activation},
      {{"prelu"}, prelu},
      {{"clip"}, clip},
      {{"softmax", "log_softmax", "hardmax"}, softmax},
      {{"layer_norm", "rms_norm"}, layer_norm},
      {{"batch_norm", "batch_norm_train", "instance_norm", "group_norm"}, channel_norm},
      {{"lrn"}, lrn},
      {{"mean_variance_norm", "lp_norm"}, other_norm},
      {{"matmul", "gemm", "einsum"}, matmul},
      {{"recurrent"}, recurrent},
      {{"conv", "conv_transpose"}, conv},
      {{"max_pool", "average_pool", "global_average_pool", "global_max_pool"}, pool},
      {{"flatten", "depth_to_space", "space_to_depth", "eye_like", "trilu", "one_hot", "cast_like", "pad_with_input", "elementwise_mean"},
       structure},
      {{"resize"}, resize},
      {{"quantize_linear", "dequantize_linear", "dynamic_quantize_linear"}, quantized},
      {{"rng_bits", "random_uniform", "random_normal", "bernoulli", "multinomial", "dropout"}, random},
  };
}

}  // namespace tcc
