// Every vjp rule by examples: against finite differences in f64 away from kinks, and at kinks and ties against what frameworks give there.
// Shapes at random: random_rules_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/differences.h"
#include "autograd/vjp.h"
#include "tcc/rules/interpret.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(VjpRules, PointwiseUnary) {
  struct Domain {
    const char* op;
    double low, high;
  };
  for (const Domain& d : std::initializer_list<Domain>{
           {"neg", -2, 2},        {"abs", -2, 2},      {"sign", -2, 2},     {"ceil", -2, 2},      {"floor", -2, 2}, {"trunc", -2, 2},
           {"round_even", -2, 2}, {"sqrt", 0.2, 3},    {"rsqrt", 0.2, 3},   {"recip", 0.3, 2},    {"exp", -2, 2},   {"exp2", -2, 2},
           {"expm1", -2, 2},      {"log", 0.2, 3},     {"log2", 0.2, 3},    {"log1p", -0.7, 2},   {"sin", -3, 3},   {"cos", -3, 3},
           {"tan", -1, 1},        {"asin", -0.9, 0.9}, {"acos", -0.9, 0.9}, {"atan", -2, 2},      {"sinh", -2, 2},  {"cosh", -2, 2},
           {"tanh", -2, 2},       {"asinh", -2, 2},    {"acosh", 1.2, 3},   {"atanh", -0.9, 0.9}, {"erf", -2, 2}}) {
    const std::string text = "graph @g(%x: f32[2, 5]) -> (%y: f32[*]) { %y: f32[*] = " + std::string(d.op) + "(%x) }";
    check_all({{text.c_str(), d.low, d.high}});
    const std::string empty = "graph @g(%x: f32[2, 0]) -> (%y: f32[*]) { %y: f32[*] = " + std::string(d.op) + "(%x) }";
    check_all({{empty.c_str(), d.low, d.high}});
  }
}

TEST(VjpRules, PointwiseBinaryBroadcasts) {
  struct Domain {
    const char* op;
    double low, high;
  };
  for (const Domain& d : std::initializer_list<Domain>{{"add", -2, 2},
                                                       {"sub", -2, 2},
                                                       {"mul", -2, 2},
                                                       {"div", 0.3, 2},
                                                       {"rem", 0.3, 2},
                                                       {"mod", 0.3, 2},
                                                       {"pow", 0.3, 2},
                                                       {"atan2", -2, 2},
                                                       {"max", -2, 2},
                                                       {"min", -2, 2}}) {
    for (const char* shapes : {"%a: f32[2, 3], %b: f32[2, 3]", "%a: f32[2, 1, 3], %b: f32[4, 1]", "%a: f32[], %b: f32[5]",
                               "%a: f32[3, 2], %b: f32[1]", "%a: f32[0, 3], %b: f32[3]", "%a: f32[2, 1], %b: f32[2, 0]"}) {
      const std::string text = "graph @g(" + std::string(shapes) + ") -> (%y: f32[*]) { %y: f32[*] = " + std::string(d.op) + "(%a, %b) }";
      check_all({{text.c_str(), d.low, d.high}});
    }
  }
}

TEST(VjpRules, PointwiseTernaryAndCasts) {
  check_all({
      {"graph @g(%c: bool[2, 3], %a: f32[3], %b: f32[2, 1]) -> (%y: f32[*]) { %y: f32[*] = select(%c, %a, %b) }"},
      {"graph @g(%x: f32[3, 4], %a: f32[4], %b: f32[3, 1]) -> (%y: f32[*]) { %y: f32[*] = clamp(%x, %a, %b) }"},
      {"graph @g(%x: f32[3, 4], %a: f32[4], %b: f32[]) -> (%y: f32[*]) { %y: f32[*] = fma(%x, %a, %b) }"},
      {"graph @g(%x: f32[3, 4]) -> (%y: f32[*]) { %y: f32[*] = mul(%x, %x) }"},
      {"graph @g(%x: f32[3, 4]) -> (%y: f32[*]) { %m: bool[*] = gt(%x, %x); %i: i64[*] = cast(%x) {dtype=i64}; %j: f32[*] = cast(%i) "
       "{dtype=f32}; %y: f32[*] = mul(%j, %x) }"},
  });
  check_by_differences({"graph @g(%x: f32[3, 4]) -> (%y: f64[*]) { %y: f64[*] = cast(%x) {dtype=f64} }"});
}

TEST(VjpRules, Views) {
  check_all({
      {"graph @g(%x: f32[3, 1]) -> (%y: f32[*]) { %y: f32[*] = broadcast_in_dim(%x) {shape=[2, 3, 4], dims=[1, 2]} }"},
      {"graph @g(%x: f32[1]) -> (%y: f32[*]) { %y: f32[*] = broadcast_in_dim(%x) {shape=[0, 3], dims=[1]} }"},
      {"graph @g(%x: f32[1, 4]) -> (%y: f32[*]) { %y: f32[*] = broadcast_in_dim(%x) {shape=[1, 4, 2], dims=[0, 1]} }"},
      {"graph @g(%x: f32[2, 6]) -> (%y: f32[*]) { %y: f32[*] = reshape(%x) {shape=[3, 4]} }"},
      {"graph @g(%x: f32[2, 3, 4]) -> (%y: f32[*]) { %y: f32[*] = transpose(%x) {permutation=[2, 0, 1]} }"},
      {"graph @g(%x: f32[10, 3]) -> (%y: f32[*]) { %y: f32[*] = slice(%x) {starts=[1, 0], limits=[10, 2], steps=[4, 1]} }"},
      {"graph @g(%x: f32[5]) -> (%y: f32[*]) { %y: f32[*] = slice(%x) {starts=[2], limits=[2], steps=[3]} }"},
      {"graph @g(%x: f32[4, 3]) -> (%y: f32[*]) { %y: f32[*] = reverse(%x) {axes=[0]} }"},
      {"graph @g(%x: f32[3, 2], %v: f32[]) -> (%y: f32[*]) { %y: f32[*] = pad(%x, %v) {low=[1, 0], high=[2, 1], interior=[1, 2]} }"},
      {"graph @g(%x: f32[0, 2], %v: f32[]) -> (%y: f32[*]) { %y: f32[*] = pad(%x, %v) {low=[1, 0], high=[2, 1], interior=[1, 0]} }"},
      {"graph @g(%a: f32[2, 3], %b: f32[2, 0], %c: f32[2, 2]) -> (%y: f32[*]) { %y: f32[*] = concat(%a, %b, %c) {axis=1} }"},
      {"graph @g(%a: f32[2, 3]) -> (%y: f32[*]) { %y: f32[*] = concat(%a, %a) {axis=0} }"},
  });
}

TEST(VjpRules, ReductionsAndScans) {
  for (const char* op : {"sum", "prod", "max", "min", "mean", "l1", "l2", "log_sum", "log_sum_exp", "sum_square"}) {
    for (const char* rest :
         {"%x: f32[2, 3, 4]|[0, 2]|false", "%x: f32[2, 3, 4]|[1]|true", "%x: f32[2, 3]|[0, 1]|false", "%x: f32[0, 3]|[1]|false"}) {
      const std::string parts = rest;
      const size_t first = parts.find('|'), second = parts.rfind('|');
      const std::string text = "graph @g(" + parts.substr(0, first) + ") -> (%y: f32[*]) { %y: f32[*] = reduce(%x) {op=\"" + op +
                               "\", axes=" + parts.substr(first + 1, second - first - 1) + ", keepdims=" + parts.substr(second + 1) + "} }";
      check_all({{text.c_str(), 0.2, 2}});
      if (std::string(op) != "log_sum") check_all({{text.c_str(), -2, 2}});
    }
  }
  for (const char* op : {"sum", "prod"}) {
    for (const char* flags : {"reverse=false, exclusive=false", "reverse=true, exclusive=false", "reverse=false, exclusive=true",
                              "reverse=true, exclusive=true"}) {
      const std::string text = "graph @g(%x: f32[2, 4, 2]) -> (%y: f32[*]) { %y: f32[*] = cumulative(%x) {axis=1, op=\"" + std::string(op) +
                               "\", " + flags + "} }";
      check_all({{text.c_str()}});
    }
  }
}

TEST(VjpRules, Windows) {
  for (const char* op : {"max", "min", "sum"}) {
    for (const char* rest : {"%x: f32[1, 2, 7]|window=[1, 1, 3], strides=[1, 1, 2], low=[0, 0, 1], high=[0, 0, 1], dilations=[1, 1, 1]",
                             "%x: f32[2, 6, 5]|window=[1, 2, 3], strides=[1, 3, 1], low=[0, 0, 0], high=[0, 1, 2], dilations=[1, 2, 1]",
                             "%x: f32[5]|window=[2], strides=[3], low=[0], high=[0], dilations=[1]"}) {
      const std::string parts = rest;
      const size_t bar = parts.find('|');
      const std::string text = "graph @g(" + parts.substr(0, bar) + ") -> (%y: f32[*]) { %y: f32[*] = reduce_window(%x) {op=\"" + op +
                               "\", " + parts.substr(bar + 1) + "} }";
      check_all({{text.c_str()}});
    }
  }
  check_all({
      {"graph @g(%x: f32[1, 2, 5, 5]) -> (%y: f32[*], %i: i64[*]) { %y: f32[*], %i: i64[*] = max_pool(%x) {kernel=[3, 3], strides=[2, 2], "
       "dilations=[1, 1], pads=[1, 1, 1, 1], ceil_mode=false, auto_pad=\"NOTSET\", storage_order=0} }"},
      {"graph @g(%x: f32[1, 2, 5, 4]) -> (%y: f32[*]) { %y: f32[*] = average_pool(%x) {kernel=[3, 2], strides=[2, 1], dilations=[1, 1], "
       "pads=[1, 0, 1, 1], ceil_mode=true, auto_pad=\"NOTSET\", count_include_pad=false} }"},
      {"graph @g(%x: f32[2, 3, 2, 2]) -> (%y: f32[*]) { %y: f32[*] = global_average_pool(%x) }"},
      {"graph @g(%x: f32[2, 3, 2, 2]) -> (%y: f32[*]) { %y: f32[*] = global_max_pool(%x) }"},
      {"graph @g(%x: f32[2, 5, 2]) -> (%y: f32[*]) { %y: f32[*] = lrn(%x) {alpha=0.3, beta=0.75, bias=1.5, size=3} }"},
  });
}

TEST(VjpRules, Contractions) {
  check_all({
      {"graph @g(%a: f32[2, 3, 4], %b: f32[4, 2, 5]) -> (%y: f32[*]) { %y: f32[*] = dot_general(%a, %b) {lhs_batch=[0], rhs_batch=[1], "
       "lhs_contract=[2], rhs_contract=[0], dtype=f32} }"},
      {"graph @g(%a: f32[2, 3, 4], %b: f32[4, 5, 2]) -> (%y: f32[*]) { %y: f32[*] = dot_general(%a, %b) {lhs_batch=[], rhs_batch=[], "
       "lhs_contract=[2, 0], rhs_contract=[0, 2], dtype=f32} }"},
      {"graph @g(%a: f32[2, 3, 4], %b: f32[4, 5, 2]) -> (%y: f32[*]) { %y: f32[*] = dot_general(%a, %b) {lhs_batch=[], rhs_batch=[], "
       "lhs_contract=[0, 2], rhs_contract=[2, 0], dtype=f32} }"},
      {"graph @g(%a: f32[2, 0], %b: f32[0, 3]) -> (%y: f32[*]) { %y: f32[*] = dot_general(%a, %b) {lhs_batch=[], rhs_batch=[], "
       "lhs_contract=[1], rhs_contract=[0], dtype=f32} }"},
      {"graph @g(%a: f32[2, 1, 3, 4], %b: f32[3, 4, 2]) -> (%y: f32[*]) { %y: f32[*] = matmul(%a, %b) }"},
      {"graph @g(%a: f32[4], %b: f32[3, 4, 2]) -> (%y: f32[*]) { %y: f32[*] = matmul(%a, %b) }"},
      {"graph @g(%a: f32[2, 3, 4], %b: f32[4]) -> (%y: f32[*]) { %y: f32[*] = matmul(%a, %b) }"},
      {"graph @g(%a: f32[3, 2], %b: f32[4, 3], %c: f32[4]) -> (%y: f32[*]) { %y: f32[*] = gemm(%a, %b, %c) {alpha=0.5, beta=2.0, "
       "transpose_a=true, transpose_b=true} }"},
      {"graph @g(%a: f32[2, 3, 4], %b: f32[2, 4, 3]) -> (%y: f32[*]) { %y: f32[*] = einsum(%a, %b) {equation=\"bij,bjk->kb\"} }"},
      {"graph @g(%x: f32[2, 4, 7], %w: f32[6, 2, 3]) -> (%y: f32[*]) { %y: f32[*] = conv_general(%x, %w) {strides=[2], low=[1], high=[1], "
       "lhs_dilation=[1], rhs_dilation=[2], groups=2} }"},
      {"graph @g(%x: f32[1, 2, 4], %w: f32[3, 2, 3]) -> (%y: f32[*]) { %y: f32[*] = conv_general(%x, %w) {strides=[3], low=[-1], high=[2], "
       "lhs_dilation=[2], rhs_dilation=[1], groups=1} }"},
      {"graph @g(%x: f32[1, 2, 6], %w: f32[2, 1, 2]) -> (%y: f32[*]) { %y: f32[*] = conv_general(%x, %w) {strides=[4], low=[0], high=[0], "
       "lhs_dilation=[1], rhs_dilation=[1], groups=2} }"},
      {"graph @g(%x: f32[0, 2, 6], %w: f32[2, 1, 2]) -> (%y: f32[*]) { %y: f32[*] = conv_general(%x, %w) {strides=[1], low=[0], high=[0], "
       "lhs_dilation=[1], rhs_dilation=[1], groups=2} }"},
      {"graph @g(%x: f32[1, 2, 4, 3], %w: f32[2, 2, 3, 2], %b: f32[2]) -> (%y: f32[*]) { %y: f32[*] = conv(%x, %w, %b) {strides=[2, 1], "
       "dilations=[1, 1], pads=[1, 0, 1, 1], groups=1, auto_pad=\"NOTSET\", kernel=[3, 2]} }"},
      {"graph @g(%x: f32[1, 2, 3, 2], %w: f32[2, 2, 3, 2], %b: f32[2]) -> (%y: f32[*]) { %y: f32[*] = conv_transpose(%x, %w, %b) "
       "{strides=[2, 1], dilations=[1, 1], pads=[1, 0, 0, 1], output_padding=[1, 0], output_shape=[], groups=1, auto_pad=\"NOTSET\", "
       "kernel=[3, 2]} }"},
      {"graph @g(%x: f32[1, 4, 3], %w: f32[4, 1, 2]) -> (%y: f32[*]) { %y: f32[*] = conv_transpose(%x, %w) {strides=[1], dilations=[2], "
       "pads=[0, 1], output_padding=[0], output_shape=[], groups=2, auto_pad=\"NOTSET\", kernel=[2]} }"},
  });
}

/// All small ones of one axis: steps longer than the image or the kernel, padding of either sign, positions that no result reads.
TEST(VjpRules, ConvolutionsWithSteps) {
  for (int input = 1; input <= 6; ++input) {
    for (int kernel = 1; kernel <= 4; ++kernel) {
      for (int step = 2; step <= 4; ++step) {
        for (int low = -1; low <= 2; ++low) {
          for (int high = -1; high <= 2; ++high) {
            if (input + low + high < kernel || input + low <= 0 || input + high <= 0) continue;
            const std::string text = "graph @g(%x: f32[1, 2, " + std::to_string(input) + "], %w: f32[1, 2, " + std::to_string(kernel) +
                                     "]) -> (%y: f32[*]) { %y: f32[*] = conv_general(%x, %w) {strides=[" + std::to_string(step) +
                                     "], low=[" + std::to_string(low) + "], high=[" + std::to_string(high) +
                                     "], lhs_dilation=[1], rhs_dilation=[1], groups=1} }";
            check_by_differences({text.c_str()});
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(VjpRules, GathersAndScatters) {
  check_all({
      {"graph @g(%x: f32[4, 3], %i: i64[2, 3]) -> (%y: f32[*]) { %y: f32[*] = gather(%x, %i) {axis=0} }", -2, 2, 4},
      {"graph @g(%x: f32[2, 4, 3], %i: i64[5]) -> (%y: f32[*]) { %y: f32[*] = gather(%x, %i) {axis=1} }", -2, 2, 4},
      {"graph @g(%x: f32[2, 4], %i: i32[]) -> (%y: f32[*]) { %y: f32[*] = gather(%x, %i) {axis=1} }", -2, 2, 4},
      {"graph @g(%x: f32[2, 4], %i: i64[0]) -> (%y: f32[*]) { %y: f32[*] = gather(%x, %i) {axis=0} }"},
      {"graph @g(%x: f32[4, 3]) -> (%y: f32[*]) { weight @i: i64[6] = [2, 1, 0, 1, -1, -4]  %y: f32[*] = gather(%x, @i) {axis=0} }"},
      {"graph @g(%x: f32[4, 3]) -> (%y: f32[*]) { weight @i: i64[2, 2] = [2, 1, 1, 1]  %y: f32[*] = gather(%x, @i) {axis=1} }"},
      {"graph @g(%x: f32[3, 3], %i: i64[2, 4]) -> (%y: f32[*]) { %y: f32[*] = gather_elements(%x, %i) {axis=1} }", -2, 2, 3},
      {"graph @g(%x: f32[3, 2, 2], %i: i64[4, 2]) -> (%y: f32[*]) { %y: f32[*] = gather_nd(%x, %i) {batch_dims=0} }"},
      {"graph @g(%x: f32[2, 3, 2], %i: i64[2, 4, 1]) -> (%y: f32[*]) { %y: f32[*] = gather_nd(%x, %i) {batch_dims=1} }", -2, 2, 3},
      {"graph @g(%x: f32[4, 6]) -> (%y: f32[*]) { %y: f32[*] = pad_with_input(%x) {mode=\"reflect\", low=[1, 2], high=[2, 0]} }"},
      {"graph @g(%x: f32[4, 2]) -> (%y: f32[*]) { %y: f32[*] = pad_with_input(%x) {mode=\"edge\", low=[1, 0], high=[2, 0]} }"},
  });
  for (const char* combiner : {"add", "mul", "max", "min"}) {
    const std::string elements =
        "graph @g(%x: f32[3, 4], %i: i64[2, 4], %u: f32[2, 4]) -> (%y: f32[*]) { %y: f32[*] = scatter_elements(%x, %i, %u) {axis=0, "
        "combiner=\"" +
        std::string(combiner) + "\"} }";
    const std::string tuples =
        "graph @g(%x: f32[4, 2], %i: i64[5, 1], %u: f32[5, 2]) -> (%y: f32[*]) { %y: f32[*] = scatter_nd(%x, %i, %u) {combiner=\"" +
        std::string(combiner) + "\"} }";
    check_all({{elements.c_str()}, {tuples.c_str()}});
  }
  check_all({
      {"graph @g(%x: f32[4, 2], %u: f32[2, 2]) -> (%y: f32[*]) { weight @i: i64[2, 1] = [3, 0]  %y: f32[*] = scatter_nd(%x, @i, %u) "
       "{combiner=\"assign\"} }"},
      {"graph @g(%x: f32[4, 2], %u: f32[1, 2]) -> (%y: f32[*]) { weight @i: i64[1, 2] = [3, 0]  %y: f32[*] = scatter_elements(%x, @i, %u) "
       "{axis=0, combiner=\"assign\"} }"},
      {"graph @g(%x: f32[3, 5]) -> (%y: f32[*], %i: i64[*]) { %y: f32[*], %i: i64[*] = topk(%x) {k=3, axis=1, largest=true} }"},
      {"graph @g(%x: f32[5, 2]) -> (%y: f32[*], %i: i64[*]) { %y: f32[*], %i: i64[*] = topk(%x) {k=5, axis=0, largest=false} }"},
  });
}

TEST(VjpRules, Activations) {
  for (const char* call : {"relu(%x)",
                           "leaky_relu(%x) {alpha=0.1}",
                           "leaky_relu(%x) {alpha=-0.1}",
                           "sigmoid(%x)",
                           "hard_sigmoid(%x) {alpha=0.2, beta=0.5}",
                           "hard_swish(%x)",
                           "silu(%x)",
                           "gelu(%x) {approximate=\"none\"}",
                           "gelu(%x) {approximate=\"tanh\"}",
                           "elu(%x) {alpha=0.7}",
                           "elu(%x) {alpha=-0.7}",
                           "selu(%x) {alpha=1.67, gamma=1.05}",
                           "celu(%x) {alpha=0.6}",
                           "celu(%x) {alpha=-0.6}",
                           "softplus(%x)",
                           "softsign(%x)",
                           "mish(%x)",
                           "thresholded_relu(%x) {alpha=0.5}",
                           "shrink(%x) {bias=0.3, lambd=0.4}",
                           "identity(%x)",
                           "trilu(%x) {upper=true, k=0}"}) {
    const std::string text = "graph @g(%x: f32[2, 3, 4]) -> (%y: f32[*]) { %y: f32[*] = " + std::string(call) + " }";
    check_all({{text.c_str(), -4, 4}});
  }
  check_all({
      {"graph @g(%x: f32[2, 3, 4], %s: f32[3, 1]) -> (%y: f32[*]) { %y: f32[*] = prelu(%x, %s) }"},
      {"graph @g(%x: f32[2, 8], %a: f32[], %b: f32[1]) -> (%y: f32[*]) { %y: f32[*] = clip(%x, %a, %b) }"},
      {"graph @g(%x: f32[2, 8], %a: f32[]) -> (%y: f32[*]) { %y: f32[*] = clip(%x, %a) }"},
      {"graph @g(%x: f32[2, 8], %b: f32[]) -> (%y: f32[*]) { %y: f32[*] = clip(%x, none, %b) }"},
  });
}

TEST(VjpRules, NormsAndSoftmax) {
  check_all({
      {"graph @g(%x: f32[2, 3, 4]) -> (%y: f32[*]) { %y: f32[*] = softmax(%x) {axis=1} }"},
      {"graph @g(%x: f32[2, 3, 4]) -> (%y: f32[*]) { %y: f32[*] = log_softmax(%x) {axis=-1} }"},
      {"graph @g(%x: f32[0, 3]) -> (%y: f32[*]) { %y: f32[*] = softmax(%x) {axis=1} }"},
      {"graph @g(%x: f32[2, 3, 4], %s: f32[4], %b: f32[4]) -> (%y: f32[*]) { %y: f32[*] = layer_norm(%x, %s, %b) {axis=-1, epsilon=0.01} "
       "}"},
      {"graph @g(%x: f32[2, 3, 4], %s: f32[3, 4]) -> (%y: f32[*]) { %y: f32[*] = layer_norm(%x, %s) {axis=1, epsilon=0.01} }"},
      {"graph @g(%x: f32[2, 3, 4], %s: f32[3, 4]) -> (%y: f32[*]) { %y: f32[*] = rms_norm(%x, %s) {axis=1, epsilon=0.01} }"},
      {"graph @g(%x: f32[2, 3, 4], %s: f32[3], %b: f32[3], %m: f32[3], %v: f32[3]) -> (%y: f32[*]) { %y: f32[*] = batch_norm(%x, %s, %b, "
       "%m, %v) {epsilon=0.01} }",
       0.2, 2},
      {"graph @g(%x: f32[2, 3, 4], %s: f32[3], %b: f32[3]) -> (%y: f32[*]) { %y: f32[*] = instance_norm(%x, %s, %b) {epsilon=0.01} }"},
      {"graph @g(%x: f32[2, 4, 3], %s: f32[4], %b: f32[4]) -> (%y: f32[*]) { %y: f32[*] = group_norm(%x, %s, %b) {epsilon=0.01, "
       "num_groups=2} }"},
      {"graph @g(%x: f32[2, 4, 3], %s: f32[2], %b: f32[2]) -> (%y: f32[*]) { %y: f32[*] = group_norm(%x, %s, %b) {epsilon=0.01, "
       "num_groups=2} }"},
      {"graph @g(%x: f32[2, 4, 3]) -> (%y: f32[*]) { %y: f32[*] = mean_variance_norm(%x) {axes=[0, 2]} }"},
      {"graph @g(%x: f32[2, 4]) -> (%y: f32[*]) { %y: f32[*] = lp_norm(%x) {axis=1, p=2} }"},
      {"graph @g(%x: f32[2, 4]) -> (%y: f32[*]) { %y: f32[*] = lp_norm(%x) {axis=0, p=1} }"},
  });
  check_by_differences(
      {"graph @g(%x: f32[2, 6], %s: f32[6]) -> (%y: f32[*], %m: f32[*], %d: f32[*]) { %y: f32[*], %m: f32[*], %d: f32[*] = layer_norm(%x, "
       "%s) {axis=1, epsilon=0.01} }"});
  check_by_differences(
      {"graph @g(%x: f32[3, 2, 2], %s: f32[2], %b: f32[2]) -> (%y: f32[*]) { weight @m: f32[2] = [0, 0]  weight @v: f32[2] = [1, 1] "
       "%y: f32[*], %rm: f32[*], %rv: f32[*] = batch_norm_train(%x, %s, %b, @m, @v) {epsilon=0.01, momentum=0.9} }"});
}

TEST(VjpRules, Resize) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* sizes : {"sizes=[1, 1, 6, 9], scales=[1, 1, 2, 1.8]", "sizes=[1, 1, 2, 3], scales=[1, 1, 0.66, 0.6]"}) {
      const std::string text = "graph @g(%x: f32[1, 1, 3, 5]) -> (%y: f32[*]) { %y: f32[*] = resize(%x) {" + std::string(sizes) +
                               ", mode=\"" + mode +
                               "\", coordinate_transformation_mode=\"half_pixel\", nearest_mode=\"round_prefer_floor\", "
                               "cubic_coeff_a=-0.75, exclude_outside=false, "
                               "extrapolation_value=0.0, roi=[], antialias=false} }";
      check_all({{text.c_str()}});
    }
  }
}

/// A row per loss: the same formula in plain f64.
TEST(VjpRules, Losses) {
  const auto graph = parse("graph @g(%x: f32[4, 3, 2]) -> (%y: f32[*]) { %y: f32[*] = mul(%x, %x) }");
  for (const char* text : {"cross_entropy", "cross_entropy:label_smoothing=0.1", "cross_entropy:ignore_index=1,reduction=sum",
                           "cross_entropy:axis=-1", "nll", "mse", "l1:reduction=sum", "huber:delta=0.4", "bce", "bce:logits=true"}) {
    SCOPED_TRACE(text);
    GradOptions options;
    options.loss = parse_loss(text);
    options.wrt = {"x"};
    Diagnostics diagnostics;
    const auto joint = build_joint(*graph, options, diagnostics);
    ASSERT_EQ(verify(*joint, GraphStage::resolved), std::vector<std::string>());
    const Value* target = joint->body.args[1];
    const bool classes = !is_float(target->type.dtype);
    std::vector<Tensor> inputs{
        spaced_values({4, 3, 2}, 0.15, 0.95, 3),
        classes ? random_integers(DType::i64, target->type.shape(), {5, 0, 0}, 0, 2) : spaced_values(target->type.shape(), 0.1, 0.9, 2)};
    const Tensor gradient = interpret(*joint, inputs, true)[1];
    for (int64_t k = 0; k < gradient.count(); ++k) {
      double losses[2];
      for (int side = 0; side < 2; ++side) {
        std::vector<Tensor> moved = inputs;
        moved[0] = Tensor(DType::f64, {4, 3, 2});
        for (int64_t j = 0; j < gradient.count(); ++j)
          moved[0].set_double(j, inputs[0].as_double(j) + (j == k ? (side == 0 ? -1e-5 : 1e-5) : 0));
        losses[side] = interpret(*joint, moved, true)[0].as_double(0);
      }
      ASSERT_NEAR(gradient.as_double(k), (losses[1] - losses[0]) / 2e-5, 2e-6) << k;
    }
  }
}

/// Values by hand: logits 0, 1, 2 and the classes 2 and (ignored) 0.
TEST(Losses, CrossEntropyIsTheFormula) {
  const auto graph = parse("graph @g(%x: f32[2, 3]) -> (%y: f32[*]) { %y: f32[*] = identity(%x) }");
  GradOptions options;
  options.loss = parse_loss("cross_entropy:ignore_index=0");
  options.wrt = {"x"};
  Diagnostics diagnostics;
  const auto joint = build_joint(*graph, options, diagnostics);
  Tensor x(DType::f64, {2, 3});
  for (int64_t i = 0; i < 6; ++i) x.set_double(i, static_cast<double>(i % 3));
  const auto outputs = interpret(*joint, std::vector<Tensor>{x, Tensor::from_ints({2, 0})}, true);
  const double sum = 1 + std::exp(1) + std::exp(2);
  EXPECT_NEAR(outputs[0].as_double(0), std::log(sum) - 2, 1e-12);
  const double expected[] = {1 / sum, std::exp(1) / sum, std::exp(2) / sum - 1, 0, 0, 0};
  for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(outputs[1].as_double(i), expected[i], 1e-12);
}

struct Convention {
  const char* graph;
  std::vector<std::vector<double>> inputs;     ///< float inputs, in order
  std::vector<std::vector<double>> gradients;  ///< with ones as the cotangent
};

TEST(VjpRules, AtKinksAndTies) {
  const Convention conventions[] = {
      {"graph @g(%x: f32[4]) -> (%y: f32[*]) { %y: f32[*] = relu(%x) }", {{-1, 0, 2, kNaN}}, {{0, 0, 1, 1}}},
      {"graph @g(%x: f32[3]) -> (%y: f32[*]) { %y: f32[*] = abs(%x) }", {{-1, 0, 2}}, {{-1, 0, 1}}},
      {"graph @g(%x: f32[3]) -> (%y: f32[*]) { %y: f32[*] = leaky_relu(%x) {alpha=0.25} }", {{-1, 0, 2}}, {{0.25, 0.25, 1}}},
      {"graph @g(%x: f32[2], %s: f32[2]) -> (%y: f32[*]) { %y: f32[*] = prelu(%x, %s) }", {{0, -2}, {0.5, 0.5}}, {{0.5, 0.5}, {0, -2}}},
      {"graph @g(%x: f32[4], %a: f32[], %b: f32[]) -> (%y: f32[*]) { %y: f32[*] = clip(%x, %a, %b) }",
       {{-1, 1, 0, 3}, {-1}, {1}},
       {{1, 1, 1, 0}, {0}, {1}}},
      {"graph @g(%x: f32[2], %a: f32[]) -> (%y: f32[*]) { %y: f32[*] = clip(%x, %a) }", {{0, -1}, {0}}, {{1, 0}, {1}}},
      {"graph @g(%a: f32[3], %b: f32[3]) -> (%y: f32[*]) { %y: f32[*] = max(%a, %b) }", {{1, 2, 3}, {1, 3, 2}}, {{0.5, 0, 1}, {0.5, 1, 0}}},
      {"graph @g(%a: f32[3], %b: f32[3]) -> (%y: f32[*]) { %y: f32[*] = min(%a, %b) }", {{1, 2, 3}, {1, 3, 2}}, {{0.5, 1, 0}, {0.5, 0, 1}}},
      {"graph @g(%x: f32[4]) -> (%y: f32[*]) { %y: f32[*] = reduce_max(%x) {axes=[0]} }", {{3, 1, 3, 2}}, {{0.5, 0, 0.5, 0}}},
      {"graph @g(%x: f32[1, 1, 4]) -> (%y: f32[*]) { %y: f32[*] = global_max_pool(%x) }", {{1, 3, 3, 2}}, {{0, 1, 0, 0}}},
      {"graph @g(%x: f32[1, 1, 4]) -> (%y: f32[*]) { %y: f32[*] = max_pool(%x) {kernel=[2], strides=[2], dilations=[1], pads=[0, 0], "
       "ceil_mode=false, auto_pad=\"NOTSET\", storage_order=0} }",
       {{3, 3, 2, kNaN}},
       {{1, 0, 0, 1}}},
      {"graph @g(%x: f32[4]) -> (%y: f32[*]) { %y: f32[*] = reduce_prod(%x) {axes=[0]} }", {{2, 0, 3, 4}}, {{0, 24, 0, 0}}},
      {"graph @g(%x: f32[4]) -> (%y: f32[*]) { %y: f32[*] = reduce_prod(%x) {axes=[0]} }", {{2, 0, 0, 4}}, {{0, 0, 0, 0}}},
      {"graph @g(%x: f32[3]) -> (%y: f32[*]) { %y: f32[*] = cumulative(%x) {axis=0, op=\"prod\", reverse=false, exclusive=false} }",
       {{2, 0, 3}},
       {{1, 8, 0}}},
      {"graph @g(%x: f32[4]) -> (%y: f32[*]) { %y: f32[*] = cumulative(%x) {axis=0, op=\"max\", reverse=false, exclusive=false} }",
       {{1, 3, 3, 2}},
       {{1, 1, 2, 0}}},
      {"graph @g(%x: f32[4]) -> (%y: f32[*]) { %y: f32[*] = cumulative(%x) {axis=0, op=\"min\", reverse=true, exclusive=true} }",
       {{1, 3, kNaN, 2}},
       {{0, 0, 2, 1}}},
      {"graph @g(%a: f32[2], %b: f32[2]) -> (%y: f32[*]) { %y: f32[*] = pow(%a, %b) }", {{0, 2}, {1, 1}}, {{1, 1}, {0, 2 * std::log(2)}}},
      {"graph @g(%a: f32[2], %b: f32[2]) -> (%y: f32[*]) { %y: f32[*] = pow(%a, %b) }", {{0, -2}, {0, 3}}, {{0, 12}, {0, kNaN}}},
      {"graph @g(%x: f32[2, 2]) -> (%y: f32[*]) { %y: f32[*] = reduce(%x) {op=\"l2\", axes=[1], keepdims=false} }",
       {{0, 0, 3, 4}},
       {{0, 0, 0.6, 0.8}}},
      {"graph @g(%x: f32[2]) -> (%y: f32[*]) { %y: f32[*] = reduce(%x) {op=\"log_sum_exp\", axes=[0], keepdims=false} }",
       {{-kInf, -kInf}},
       {{0, 0}}},
      {"graph @g(%x: f32[2]) -> (%y: f32[*]) { %y: f32[*] = lp_norm(%x) {axis=0, p=2} }", {{0, 0}}, {{1, 1}}},
      {"graph @g(%a: f32[2], %b: f32[2]) -> (%y: f32[*]) { weight @c: bool[2] = [1, 0]  %y: f32[*] = select(@c, %a, %b) }",
       {{kInf, kNaN}, {kNaN, 1}},
       {{1, 0}, {0, 1}}},
      {"graph @g(%a: f32[1], %b: f32[1]) -> (%y: f32[*]) { %y: f32[*] = atan2(%a, %b) }", {{0}, {0}}, {{0}, {0}}},
      {"graph @g(%x: f32[4]) -> (%y: f32[*]) { %y: f32[*] = hard_sigmoid(%x) {alpha=0.25, beta=0.5} }", {{-2, 2, 0, 5}}, {{0, 0, 0.25, 0}}},
      {"graph @g(%x: f32[3]) -> (%y: f32[*]) { %y: f32[*] = hard_swish(%x) }", {{-3, 3, 0}}, {{0, 1, 0.5}}},
      {"graph @g(%x: f32[2]) -> (%y: f32[*]) { %y: f32[*] = elu(%x) {alpha=0.5} }", {{0, 1}}, {{0.5, 1}}},
      {"graph @g(%x: f32[2]) -> (%y: f32[*]) { %y: f32[*] = floor(%x) }", {{0.5, 1}}, {{0, 0}}},
      {"graph @g(%x: f32[2], %u: f32[2]) -> (%y: f32[*]) { weight @i: i64[2] = [1, 1]  %y: f32[*] = scatter_elements(%x, @i, %u) {axis=0, "
       "combiner=\"mul\"} }",
       {{1, 5}, {0, 3}},
       {{1, 0}, {15, 0}}},
      {"graph @g(%x: f32[2], %u: f32[2]) -> (%y: f32[*]) { weight @i: i64[2] = [1, 1]  %y: f32[*] = scatter_elements(%x, @i, %u) {axis=0, "
       "combiner=\"max\"} }",
       {{1, 3}, {3, 2}},
       {{1, 0.5}, {0.5, 0}}},
  };
  for (const Convention& c : conventions) {
    SCOPED_TRACE(c.graph);
    const auto graph = parse(c.graph);
    const auto joint = joint_of(*graph);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < joint->body.args.size(); ++i) {
      Tensor tensor(DType::f64, joint->body.args[i]->type.shape());
      for (int64_t k = 0; k < tensor.count(); ++k) tensor.set_double(k, i < c.inputs.size() ? c.inputs[i][static_cast<size_t>(k)] : 1);
      inputs.push_back(tensor);
    }
    const auto outputs = interpret(*joint, inputs, true);
    ASSERT_EQ(outputs.size(), 1 + c.gradients.size());
    for (size_t i = 0; i < c.gradients.size(); ++i) {
      for (size_t k = 0; k < c.gradients[i].size(); ++k) {
        const double found = outputs[i + 1].as_double(static_cast<int64_t>(k)), expected = c.gradients[i][k];
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(found) : std::abs(found - expected) < 1e-12)
            << "input " << i << " at " << k << ": " << found << ", expected " << expected;
      }
    }
  }
}

/// Every prim that works on floats has a rule or says that it has no gradient; the others are known.
TEST(VjpRules, CoverThePrims) {
  std::vector<std::string> missing;
  Graph graph("g");
  for (int i = 0; i < num_ops(); ++i) {
    const Op op = static_cast<Op>(i);
    if (info(op).kind != OpKind::prim) continue;
    const Node* node = graph.make_node(op, {}, {}, {}, {});
    if (autograd::find_vjp(*node).kind == Gradient::none) missing.emplace_back(name_of(op));
  }
  EXPECT_EQ(missing, (std::vector<std::string>{"bitcast"}));
}

}  // namespace
}  // namespace tcc
