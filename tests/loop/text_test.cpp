// The text of both forms: what is printed reads back as the same, prints the same again, and equality looks through names and order. What is refused is in fail_syntax.loop.
#include <gtest/gtest.h>

#include "loop/units.h"
#include "tcc/loop/loop.h"
#include "tcc/loop/rewrite.h"
#include "tcc/support/diagnostics.h"

namespace tcc::loop {
namespace {

TEST(Text, UnitsReadBack) {
  for (std::string_view text : {examples::kSoftmax, examples::kLayerNorm, examples::kMatmul, examples::kArgmax, examples::kOnlineSoftmax,
                                examples::kScan, examples::kScatter, examples::kPadAndGather}) {
    const Unit unit = parse_unit(text, "test");
    const std::string printed = print(unit);
    const Unit again = parse_unit(printed, "printed");
    std::string why;
    EXPECT_TRUE(equal(unit, again, &why)) << why << "\n" << printed;
    EXPECT_EQ(print(again), printed);
  }
}

TEST(Text, KernelsReadBack) {
  for (std::string_view text :
       {examples::kRowKernel, examples::kWarpKernel, examples::kTransposeKernel, examples::kCpuKernel, examples::kMmaKernel}) {
    std::string name;
    const Kernel kernel = parse_kernel(text, "test", &name);
    const std::string printed = print(kernel, name);
    const Kernel again = parse_kernel(printed, "printed");
    std::string why;
    EXPECT_TRUE(equal(kernel, again, &why)) << why << "\n" << printed;
    EXPECT_EQ(print(again, name), printed);
  }
}

TEST(Text, PrintsAsDocumented) {
  EXPECT_EQ(print(parse_unit(examples::kScan, "test")), R"(unit (%a: i32[2, 5]) -> (%b: i32[2, 5], %total: i32[2]) {
  map %i in 2 {
    %s: i32 = scan sum exclusive %j in 5 { yield load %a[%i, -%j + 4] } after {
      store %s, %b[%i, %j]
    }
    store %s, %total[%i]
  }
}
)");
}

TEST(Text, ConstantsOfEveryDtype) {
  const std::string text = R"(unit () -> (%a: f32[1], %b: f64[1], %c: f16[1], %d: u64[1], %e: i8[1], %f: bool[1], %g: i64[1], %h: bf16[1]) {
  store -nan, %a[0]
  store f32(0x7fc00001), %a[0]
  store 1e+30, %a[0]
  store f64(0.1), %b[0]
  store f16(-inf), %c[0]
  store u64(18446744073709551615), %d[0]
  store i8(-128), %e[0]
  store true, %f[0]
  store -5, %g[0]
  store bf16(1.0), %h[0]
}
)";
  EXPECT_EQ(print(parse_unit(text, "test")), text);
}

TEST(Text, EqualityLooksThroughNames) {
  const Unit unit = parse_unit(examples::kSoftmax, "test");
  std::string text = print(unit), why;
  for (size_t at; (at = text.find("%x1")) != std::string::npos;) text.replace(at, 3, "%y");
  EXPECT_TRUE(equal(unit, parse_unit(text, "renamed"), &why)) << why;
  text.replace(text.find("reduce max"), 10, "reduce min");
  EXPECT_FALSE(equal(unit, parse_unit(text, "changed"), &why));
  EXPECT_NE(why.find("reduce min"), std::string::npos) << why;
}

// Terms are printed in the order of the loops, not in that of the creation of their variables.
TEST(Text, IsCanonical) {
  const BufferRef buffer = make_buffer("b", DType::f32, {8, 8}, Space::global);
  auto make = [&](bool inner_first) {
    VarRef i, j;
    if (inner_first) j = make_var("j", 8), i = make_var("i", 8);
    else i = make_var("i", 8), j = make_var("j", 8);
    Unit unit;
    unit.params = {{buffer, true}};
    Loop loop;
    loop.dims = {{i, Bind::none}, {j, Bind::none}};
    loop.body = {Stmt{Store{buffer, {mod(Index(i) + j, 8), floor_div(Index(i) * 3 + j, 5)}, constant_float(DType::f32, 1)}}};
    unit.body = {Stmt{loop}};
    return unit;
  };
  EXPECT_EQ(print(make(false)), print(make(true)));
}

// Sibling blocks may use a name twice; the parser and the printer make it unique.
TEST(Text, NamesBecomeUnique) {
  const Unit unit =
      parse_unit("unit () -> (%a: f32[4]) { map %i in 2 { store 0.0, %a[%i] } map %i in 2 { store 0.0, %a[%i + 2] } }", "test");
  EXPECT_NE(print(unit).find("map %i1 in 2"), std::string::npos) << print(unit);
}

TEST(Text, CloneIsFreshAndEqual) {
  const Unit unit = parse_unit(examples::kArgmax, "test");
  Unit copy = unit;
  NameTable names(unit);
  copy.body = clone_fresh(unit.body, [&](const std::string& name) { return names.fresh(name); });
  std::string why;
  EXPECT_TRUE(equal(unit, copy, &why)) << why;
  EXPECT_EQ(print(copy).find("%lv:"), std::string::npos);
  EXPECT_TRUE(find_dim(copy.body, "j1"));
  EXPECT_FALSE(find_dim(copy.body, "j"));
}

/// Texts of any depth and any number end in a message.
TEST(Text, LimitsOfDepthAndSize) {
  const auto message = [](const std::string& body) {
    try {
      parse_unit("unit (%x: f32[4]) -> (%y: f32[4]) { " + body + " }", "test");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::model);
      return std::string(error.what());
    }
    return std::string();
  };
  const auto repeated = [](const char* text, int times) {
    std::string result;
    for (int i = 0; i < times; ++i) result += text;
    return result;
  };
  for (const int deep : {100, 20000}) {
    const std::string expected = deep > 1000 ? "nested more than 1000 deep" : "";
    for (const std::string& body :
         {"store " + repeated("neg(", deep) + "0.0" + repeated(")", deep) + ", %y[0]",
          "store 0.0, %y[" + repeated("(", deep) + "0" + repeated(")", deep) + "]", repeated("if true { ", deep) + repeated("}", deep),
          "store " + repeated("load %x[0] else ", deep) + "0.0, %y[0]"}) {
      if (expected.empty()) EXPECT_EQ(message(body), "");
      else EXPECT_NE(message(body).find(expected), std::string::npos) << message(body).substr(0, 200);
    }
  }
  EXPECT_NE(message("pipe %p stages 4611686018427387905 ()").find("expected a number"), std::string::npos);
}

TEST(Text, MarksOfApproximateMath) {
  const std::string text = "unit (%a: f32[4]) -> (%r: bf16[4]) { map %i in 4 { store cast<bf16>(OP(load %a[%i])), %r[%i] } }";
  const auto unit = [&](std::string_view op) { return parse_unit(std::string(text).replace(text.find("OP"), 2, op), "test"); };
  for (const std::string op : {"exp", "exp2", "tanh", "erf", "rsqrt"}) {
    const Unit exact = unit(op), marked = unit("approx." + op);
    EXPECT_NE(print(marked).find("approx." + op), std::string::npos);
    EXPECT_TRUE(equal(parse_unit(print(marked), "printed"), marked));
    EXPECT_FALSE(equal(exact, marked));
    EXPECT_EQ(verify_first_form(marked), std::vector<std::string>());
    Unit copy = marked;  // a copy of the operand keeps the mark
    rewrite_exprs(copy.body, [](const ExprPtr& e) { return e->kind == Expr::Kind::load ? apply(Op::neg_, {e}) : e; });
    EXPECT_NE(print(copy).find("approx." + op + "(neg("), std::string::npos) << print(copy);
  }
}

}  // namespace
}  // namespace tcc::loop
