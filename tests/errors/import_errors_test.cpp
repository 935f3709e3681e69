// Models that must be refused while they are read. Whole messages are compared: what is wrong, where in the model, what to do.
#include "import_errors.h"
#include "tcc/rules/verify.h"

namespace tcc {
namespace {

TEST_F(ImportErrors, EmptyFile) {
  write("net.onnx", "");
  expect_error("net.onnx", ExitCode::model, "DIR/net.onnx: error: the file is empty, a model was expected [malformed-file]");
}

TEST_F(ImportErrors, Directory) {
  fs::create_directory(path("net.onnx"));
  expect_unreadable({path()});
}

const char* const kNoModel =
    "DIR/net.onnx: error: the bytes are not an ONNX model: the protobuf message is truncated or malformed [malformed-file]\n"
    "DIR/net.onnx: help: pass an .onnx file; if it was downloaded, check that it is complete";

TEST_F(ImportErrors, Truncated) {
  const std::string bytes = relu_model().bytes();
  write("net.onnx", bytes.substr(0, bytes.size() / 2));
  expect_error("net.onnx", ExitCode::model, kNoModel);
}

// The file has a hole: it takes no place on the disk.
TEST_F(ImportErrors, MoreThanProtobufHolds) {
  write("net.onnx", relu_model().bytes());
  fs::resize_file(path(), (uintmax_t{1} << 31) + 5);
  expect_error(
      "net.onnx", ExitCode::model,
      "DIR/net.onnx: error: the file has 2147483653 bytes, an ONNX file has less than 2 GiB: protobuf holds no more [malformed-file]\n"
      "DIR/net.onnx: help: save the weights as external data, in files beside it: onnx.save(model, path, save_as_external_data=True), or "
      "torch.onnx.export with external_data=True");
}

TEST_F(ImportErrors, RandomBytes) {
  std::string bytes;
  uint32_t state = 12345;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
  write("net.onnx", bytes);
  expect_error("net.onnx", ExitCode::model, kNoModel);
}

// No prefix of a model may crash the importer or be taken for a model (but for the prefix that ends at a field after the graph).
TEST_F(ImportErrors, EveryPrefix) {
  const std::string bytes = relu_model().bytes();
  for (size_t size = 1; size + 1 < bytes.size(); ++size) {
    write("net.onnx", bytes.substr(0, size));
    Diagnostics diagnostics;
    try {
      import_model(path(), {}, diagnostics);
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ExitCode::model)) << size << ": " << error.what();
    }
  }
}

// A model with a bit of everything, damaged a thousand times: it is refused, or read as another well-formed graph; nothing else may happen.
TEST_F(ImportErrors, DamagedModels) {
  ModelBuilder model(17);
  model.import_domain("local", 1);
  auto& function = *model.proto.add_functions();
  function.set_domain("local");
  function.set_name("Scaled");
  function.add_input("a");
  function.add_output("b");
  function.add_attribute("alpha");
  *function.add_node() =
      onnx::make_node("Elu", {"a"}, {"b"}, {onnx::attribute_of_call("alpha", "alpha", pb::AttributeProto::FLOAT)}, "elu");
  pb::GraphProto branch;
  *branch.add_node() = onnx::make_node("Neg", {"x"}, {"inner"});
  branch.add_output()->set_name("inner");
  model.input("x", kFloat, {1, 4, 6, 6});
  model.floats("w", {2, 4, 3, 3}, std::vector<float>(72, 0.5F));
  model.int64s("shape", {2}, {2, -1});
  model.external("bias", {2}, "w.bin", "0", "8");
  write("w.bin", std::string(8, '\0'));
  auto& flag = *model.graph().add_initializer();
  flag.set_name("flag");
  flag.set_data_type(pb::TensorProto::BOOL);
  flag.set_raw_data(std::string(1, '\1'));
  model.node("If", {"flag"}, {"i"}, {onnx::graph_attribute("then_branch", branch), onnx::graph_attribute("else_branch", branch)}, "if");
  model.node("Conv", {"i", "w", "bias"}, {"c"}, {onnx::ints_attribute("pads", {1, 1, 1, 1}), onnx::ints_attribute("strides", {2, 2})},
             "conv");
  model.node("Scaled", {"c"}, {"s"}, {onnx::float_attribute("alpha", 0.5F)}, "scaled", "local");
  model.node("MaxPool", {"s"}, {"p", "at"}, {onnx::ints_attribute("kernel_shape", {2, 2})}, "pool");
  model.node("Reshape", {"p", "shape"}, {"r"}, {}, "reshape");
  model.node("Softmax", {"r"}, {"y"}, {onnx::int_attribute("axis", -1)}, "softmax");
  model.output("y", kFloat);
  model.output("at", kInt64);
  const std::string bytes = model.bytes();

  uint32_t state = 1;
  const auto random = [&](size_t below) { return static_cast<size_t>((state = state * 1664525U + 1013904223U) >> 8) % below; };
  for (int round = 0; round < 1000; ++round) {
    std::string damaged = bytes;
    for (size_t change = 0, changes = 1 + random(4); change < changes; ++change)
      damaged[random(damaged.size())] = static_cast<char>(random(256));
    write("net.onnx", damaged);
    Diagnostics diagnostics;
    try {
      const auto graph = import_model(path(), {}, diagnostics);
      EXPECT_EQ(verify(*graph, GraphStage::imported), std::vector<std::string>()) << "round " << round;
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ExitCode::model || error.code() == ExitCode::environment) << "round " << round << ": " << error.what();
    }
  }
}

// What is not ONNX model is called what it is, and the way to one is named.
TEST_F(ImportErrors, OtherKinds) {
  const auto zip_of = [](const std::string& name) { return std::string("PK\x03\x04") + std::string(26, '\0') + name + "rest"; };
  const std::string torch = "export the model: torch.onnx.export(model, args, 'net.onnx', dynamo=True)";
  struct Case {
    std::string bytes, what, remedy;
    bool is_model;
  };
  const std::vector<Case> cases = {
      {zip_of("net/data.pkl"), "what torch.save wrote (.pt, .pth): weights or a pickled module, not a program",
       "load it into the Python model, then " + torch, true},
      {zip_of("net/data.pkl net/constants.pkl"), "a TorchScript archive", "load the Python model and " + torch, true},
      {zip_of("weights.npy"), "an archive of arrays (.npz)", "pass the model here, arrays with --bind or --input", false},
      {zip_of("notes.txt"), "a zip archive", "unpack it and pass the .onnx file in it", false},
      {std::string("\x1c\0\0\0TFL3", 8), "a TensorFlow Lite model (.tflite)",
       "convert it with tf2onnx: python -m tf2onnx.convert --tflite net.tflite --output net.onnx", true},
      {"GGUF....", "a GGUF file, weights for llama.cpp", "export the model that it was made from to ONNX", true},
      {"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras saves models",
       "convert it with tf2onnx: python -m tf2onnx.convert --keras net.h5 --output net.onnx", true},
      {"\x1f\x8b\b", "a gzip archive", "unpack it and pass the .onnx file in it", false},
      {std::string("\xfd") + std::string("7zXZ\0", 5) + "..", "an xz archive", "unpack it and pass the .onnx file in it", false},
      {std::string("\x02\0\0\0\0\0\0\0{}", 10), "a safetensors file: weights, not a program",
       "load it into the Python model, then " + torch, false},
      {"\x80\x02}q\x01.", "a pickle, as torch.save wrote it: weights or a module, not a program",
       "load it into the Python model, then " + torch, true},
      {"\x7f"
       "ELF\x02\x01",
       "an ELF file: a compiled library or program", "a library that tcc made is run with `tcc run`, timed with `tcc bench`", false},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a git-lfs pointer, not the model itself", "run `git lfs pull`",
       false},
      {"<!DOCTYPE html><html>", "a web page", "the download brought a page in place of the model: check its address", false},
      {"// printed\ngraph @g() {}", "a graph that tcc printed", "name its form: --from=graph or --from=prims", false},
      {"unit (%a: f32[2]) -> () {", "loops that tcc printed", "name their form: --from=loop", false},
      {"kernel #k0 target sm_80", "kernels that tcc printed", "name their form: --from=kernel", false},
      {"ir_version: 8\ngraph {", "an ONNX model as text", "write it as bytes: onnx.save(onnx.load('net.txt'), 'net.onnx')", true},
      {"module @jit {\n", "MLIR text", "pass the .onnx file that it was made from", true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    write("net.bin", c.bytes);
    expect_error("net.bin", ExitCode::model,
                 "DIR/net.bin: error: " + std::string(c.is_model ? "not supported yet: " : "") + "this is " + c.what +
                     (c.is_model ? " [unsupported-format]" : " [malformed-file]") + "\nDIR/net.bin: help: " + c.remedy);
  }
}

TEST_F(ImportErrors, UnknownOpsAllAtOnce) {
  ModelBuilder model = relu_model();
  model.import_domain("com.acme", 3);
  model.node("Sparkle", {"y"}, {"a"}, {}, "head/sparkle", "com.acme");
  model.node("NoSuchOp", {"a"}, {"b"});
  model.node("SofMax", {"b"}, {"c"});
  model.node("StringConcat", {"c", "c"}, {"d"}, {}, "steps/0");
  model.node("StringConcat", {"d", "d"}, {"e"}, {}, "steps/1");
  model.node("StringConcat", {"e", "e"}, {"f"}, {}, "steps/2");
  model.node("NonZero", {"f"}, {"g"}, {}, "where");
  expect_error(
      model, ExitCode::model,
      "DIR/net.onnx:head/sparkle: error: not supported yet: op `Sparkle` of domain `com.acme`, opset 3 [unsupported-op]\n"
      "DIR/net.onnx:head/sparkle: help: give the model a function of that name made of ONNX's ops (torch.onnx.export writes "
      "them), or export "
      "without the op\n"
      "DIR/net.onnx:NoSuchOp(b): error: not supported yet: op `NoSuchOp` of domain `ai.onnx`, opset 18 [unsupported-op]\n"
      "DIR/net.onnx:NoSuchOp(b): help: `tcc check --ops` lists what is known; export the model without the op, or as a function "
      "of known ops\n"
      "DIR/net.onnx:SofMax(c): error: not supported yet: op `SofMax` of domain `ai.onnx`, opset 18 [unsupported-op]\n"
      "DIR/net.onnx:SofMax(c): help: ONNX has no such op, did you mean `Softmax`?\n"
      "DIR/net.onnx:steps/0: error: not supported yet: op `StringConcat` of domain `ai.onnx`, opset 18, 3 nodes: `steps/0`, `steps/1`, "
      "`steps/2` [unsupported-op]\n"
      "DIR/net.onnx:steps/0: help: tensors are numbers here: let the program around the model do this step\n"
      "DIR/net.onnx:where: error: not supported yet: op `NonZero` of domain `ai.onnx`, opset 18 [data-dependent-size]\n"
      "DIR/net.onnx:where: help: how many elements come out depends on data: compute on all of them with a mask (torch.where), or "
      "leave this "
      "to the program around the model");
}

// The example of docs/diagnostics.md.
TEST_F(ImportErrors, AttributesThatAreNotLowered) {
  ModelBuilder model(28);
  model.import_domain("com.microsoft", 1);
  model.input("x", kFloat, {1, 4, 8, 8});
  model.node("FusedMatMul", {"x", "x"}, {"y"}, {onnx::int_attribute("transBatchA", 1)}, "head/FusedMatMul", "com.microsoft");
  model.output("y", kFloat);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:head/FusedMatMul: error: not supported yet: `transBatchA` is 1, lowered is 0 [unsupported-attribute]\n"
               "  %y = FusedMatMul(%x: f32[1, 4, 8, 8], %x: f32[1, 4, 8, 8])\n"
               "DIR/net.onnx:head/FusedMatMul: help: export the model without the attribute, or with a value that the message names");
}

// On the type that carries a 2-bit integer a sum would not wrap.
TEST_F(ImportErrors, NarrowTypesInOtherOps) {
  ModelBuilder model(28);
  model.input("x", pb::TensorProto::INT2, {4});
  model.node("Transpose", {"x"}, {"t"});
  model.node("Add", {"t", "t"}, {"y"}, {}, "sum");
  model.output("y", pb::TensorProto::INT2);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:sum: error: not supported yet: operand `t` of Add is int2, only ops that convert or move it can have it "
               "[unsupported-dtype]\n"
               "  %y = Add(%t: i4[4], %t: i4[4])");
}

TEST_F(ImportErrors, ConversionsToTypesThatAreNotThere) {
  const auto cast = [&](const char* op, int to, const std::string& mode) {
    ModelBuilder model(28);
    model.input("x", kFloat, {4});
    std::vector<pb::AttributeProto> attributes{onnx::int_attribute("to", to)};
    if (!mode.empty()) attributes.push_back(onnx::text_attribute("round_mode", mode));
    model.node(op, {"x"}, {"y"}, attributes, "convert");
    model.output("y", to);
    return model;
  };
  expect_error(
      cast("Cast", pb::TensorProto::FLOAT8E8M0, "even"), ExitCode::model,
      "DIR/net.onnx:convert: error: not supported yet: `round_mode` is `even`, up, down and nearest are known [unsupported-attribute]\n"
      "  %y = Cast(%x: f32[4])\n"
      "DIR/net.onnx:convert: help: export the model without the attribute, or with a value that the message names");
  expect_error(cast("Cast", 99, ""), ExitCode::model,
               "DIR/net.onnx:convert: error: not supported yet: elements of type number 99 [unsupported-dtype]\n"
               "  %y = Cast(%x: f32[4])");
  expect_error(cast("Cast", pb::TensorProto::STRING, ""), ExitCode::model,
               "DIR/net.onnx:convert: error: not supported yet: elements of type string [unsupported-dtype]\n"
               "  %y = Cast(%x: f32[4])\n"
               "DIR/net.onnx:convert: help: tensors are numbers here: let the program around the model do the steps that work on text");
  expect_error(cast("BitCast", pb::TensorProto::UINT2, ""), ExitCode::model,
               "DIR/net.onnx:convert: error: a f32 is read as a uint2, expected equal widths [type-error]\n"
               "  %y = BitCast(%x: f32[4])");
}

TEST_F(ImportErrors, ScalesOfQuantisedOps) {
  const auto model = [](std::vector<int64_t> scale, int zero_point) {
    ModelBuilder sigmoid;
    sigmoid.import_domain("com.microsoft", 1);
    sigmoid.input("x", pb::TensorProto::UINT8, {2, 3});
    sigmoid.floats("s", scale, std::vector<float>(scale.empty() ? 1 : 3, 0.5F));
    auto& zero = *sigmoid.graph().add_initializer();
    zero.set_name("z");
    zero.set_data_type(zero_point);
    zero.add_int32_data(0);
    sigmoid.node("QLinearSigmoid", {"x", "s", "z", "s", "z"}, {"y"}, {}, "gate", "com.microsoft");
    sigmoid.output("y", pb::TensorProto::UINT8);
    return sigmoid;
  };
  expect_error(model({3}, pb::TensorProto::UINT8), ExitCode::model,
               "DIR/net.onnx:gate: error: operand 1 is f32[3], one number for all elements was expected [type-error]\n"
               "  %y = QLinearSigmoid(%x: u8[2, 3], @s: f32[3], @z: u8[], @s: f32[3], @z: u8[])");
  expect_error(model({}, pb::TensorProto::INT8), ExitCode::model,
               "DIR/net.onnx:gate: error: the zero point is i8, u8 was expected [type-error]\n"
               "  %y = QLinearSigmoid(%x: u8[2, 3], @s: f32[], @z: i8[], @s: f32[], @z: i8[])\n"
               "DIR/net.onnx:gate: help: ONNX converts nothing by itself: add a Cast where the types differ, or export the model anew");
}

// A name can't begin a line or move the cursor.
TEST_F(ImportErrors, NamesOfTheModelAreEscaped) {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.node("Relu", {"\x1b[2Jnet.onnx: error: forged\r\nline"}, {"y\u202e"}, {}, "a\nb");
  model.output("y\u202e", kFloat);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:a\\nb: error: operand `\\x1b[2Jnet.onnx: error: forged\\r\\nline` is made by no node, input or initializer "
               "[malformed-file]\n"
               "  %y\\u202e = Relu(%\\x1b[2Jnet.onnx: error: forged\\r\\nline)");
}

/// A model whose twelve nodes `n0` to `n11` are of one unknown op; `n3` reads what `n2` makes, and a Relu reads `n11`.
ModelBuilder model_of_one_unknown_op() {
  ModelBuilder model = relu_model();
  for (int i = 0; i < 12; ++i) {
    const std::string input = i == 3 ? "m2" : "y";
    model.node("NoSuchOp", {input}, {"m" + std::to_string(i)}, {}, "n" + std::to_string(i));
  }
  model.node("Relu", {"m11"}, {"z"});
  return model;
}

TEST_F(ImportErrors, AnUnknownOpIsSaidOnce) {
  expect_error(
      model_of_one_unknown_op(), ExitCode::model,
      "DIR/net.onnx:n0: error: not supported yet: op `NoSuchOp` of domain `ai.onnx`, opset 18, 12 nodes: `n0`, `n1`, `n2` and 9 more "
      "[unsupported-op]\n"
      "DIR/net.onnx:n0: help: `tcc check --ops` lists what is known; export the model without the op, or as a function of known ops");
}

TEST_F(ImportErrors, ProgramsGetEveryNodeOfAnUnknownOp) {
  model_of_one_unknown_op().save(path());
  Diagnostics diagnostics;
  ImportOptions options;
  options.report_every_node = true;
  try {
    import_model(path(), options, diagnostics);
    FAIL();
  } catch (const Error& error) {
    ASSERT_EQ(error.diagnostics().size(), 13U);  // the remedy stands behind the first
    EXPECT_EQ(error.diagnostics()[12].where, path() + ":n11");
    EXPECT_EQ(error.diagnostics()[12].message, "op `NoSuchOp` of domain `ai.onnx`, opset 18");
  }
}

/// An If whose condition is known and whose branch is `nodes`; it makes `made` of the branch's value `t`, and a Relu behind it reads that.
ModelBuilder branch_of(const std::vector<pb::NodeProto>& nodes) {
  pb::GraphProto branch;
  for (const pb::NodeProto& node : nodes) *branch.add_node() = node;
  branch.add_output()->set_name("t");
  ModelBuilder model;
  model.input("x", kFloat, {2, 3});
  auto& yes = *model.graph().add_initializer();
  yes.set_name("yes");
  yes.set_data_type(pb::TensorProto::BOOL);
  yes.add_int32_data(1);
  model.node("If", {"yes"}, {"made"}, {onnx::graph_attribute("then_branch", branch), onnx::graph_attribute("else_branch", branch)}, "if");
  model.node("Relu", {"made"}, {"y"}, {}, "after");
  model.output("y", kFloat);
  return model;
}

// What depends on a fault brings no message of its own, neither inside the branch nor behind it.
TEST_F(ImportErrors, FaultsInABranchBringNoOthers) {
  expect_error(
      branch_of({onnx::make_node("NoSuchOp", {"x"}, {"a"}, {}, "first"), onnx::make_node("NoSuchOp", {"a"}, {"b"}, {}, "second"),
                 onnx::make_node("NoSuchOp", {"x"}, {"c"}, {}, "third"), onnx::make_node("Add", {"b", "c"}, {"t"}, {}, "sum")}),
      ExitCode::model,
      "DIR/net.onnx:first: error: not supported yet: op `NoSuchOp` of domain `ai.onnx`, opset 18, 2 nodes: `first`, `third` "
      "[unsupported-op]\n"
      "DIR/net.onnx:first: help: `tcc check --ops` lists what is known; export the model without the op, or as a function of known ops");
  expect_error(
      branch_of({onnx::make_node("Softmax", {"x"}, {"a"}, {onnx::int_attribute("sharpness", 1)}, "first"),
                 onnx::make_node("Relu", {"a"}, {"t"}, {}, "second")}),
      ExitCode::model,
      "DIR/net.onnx:first: error: not supported yet: `sharpness` is not an attribute of Softmax in opset 18 [unsupported-attribute]\n"
      "  %a = Softmax(%x: f32[2, 3])\n"
      "DIR/net.onnx:first: help: export the model without the attribute, or with a value that the message names");
  expect_error(branch_of({onnx::make_node("Relu", {"x"}, {"a"}, {}, "first")}), ExitCode::model,
               "DIR/net.onnx:if: error: output `t` of a subgraph is made by no node, input or initializer [malformed-file]\n"
               "  %made = If(@yes: bool[])");
}

TEST_F(ImportErrors, Opset) {
  ModelBuilder model(99);
  model.input("x", kFloat, {1});
  model.node("Relu", {"x"}, {"y"});
  model.output("y", kFloat);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx: error: not supported yet: the model is of opset 99, 6 to 28 are read [unsupported-opset]\n"
               "DIR/net.onnx: help: export the model with an opset in that range, or convert it with onnx.version_converter");
}

TEST_F(ImportErrors, TypeErrorsAllAtOnce) {
  ModelBuilder model;
  model.input("x", kFloat, {2, 3});
  model.input("n", kInt64, {2, 3});
  model.node("Add", {"x", "n"}, {"s"}, {}, "layer1/add");
  model.node("Relu", {"s"}, {"r"}, {}, "after");  // reads a faulty value: no message of its own
  model.node("Mul", {"n", "x"}, {"p"}, {}, "layer2/mul");
  model.output("r", kFloat);
  model.output("p", kFloat);
  expect_error(
      model, ExitCode::model,
      "DIR/net.onnx:layer1/add: error: operand 1 of `add` is i64, expected f32 as operand 0 [type-error]\n"
      "  %s = Add(%x: f32[2, 3], %n: i64[2, 3])\n"
      "DIR/net.onnx:layer1/add: help: ONNX converts nothing by itself: add a Cast where the types differ, or export the model anew\n"
      "DIR/net.onnx:layer2/mul: error: operand 1 of `mul` is f32, expected i64 as operand 0 [type-error]\n"
      "  %p = Mul(%n: i64[2, 3], %x: f32[2, 3])\n"
      "DIR/net.onnx:layer2/mul: help: ONNX converts nothing by itself: add a Cast where the types differ, or export the model anew");
}

TEST_F(ImportErrors, OutputOfAnotherType) {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.node("Relu", {"x"}, {"y"});
  model.output("y", kInt64);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:y: error: output `y` is f32[2], declared is i64[*] [type-error]\n"
               "DIR/net.onnx:y: help: ONNX converts nothing by itself: add a Cast where the types differ, or export the model anew");
}

TEST_F(ImportErrors, Cycle) {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.node("Relu", {"x"}, {"r"}, {}, "first");
  model.node("Add", {"r", "c"}, {"a"}, {}, "sum");
  model.node("Neg", {"a"}, {"b"}, {}, "neg");
  model.node("Exp", {"b"}, {"c"}, {}, "exp");
  model.output("b", kFloat);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx: error: the nodes form a cycle: `sum` -> `neg` -> `exp` -> `sum` [cyclic-graph]\n"
               "DIR/net.onnx: help: no order of these nodes exists: export the model anew");
}

TEST_F(ImportErrors, UnknownAttributeAndName) {
  ModelBuilder model;
  model.input("x", kFloat, {2});
  model.node("Relu", {"x"}, {"a"}, {onnx::float_attribute("slope", 0.5F)}, "act");
  model.node("Neg", {"nowhere"}, {"b"}, {}, "neg");
  model.node("Softmax", {"x"}, {"c"}, {onnx::float_attribute("axis", 0)}, "sm");
  model.output("x", kFloat);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:act: error: not supported yet: `slope` is not an attribute of Relu in opset 18 [unsupported-attribute]\n"
               "  %a = Relu(%x: f32[2])\n"
               "DIR/net.onnx:act: help: export the model without the attribute, or with a value that the message names\n"
               "DIR/net.onnx:neg: error: operand `nowhere` is made by no node, input or initializer [malformed-file]\n"
               "  %b = Neg(%nowhere)\n"
               "DIR/net.onnx:sm: error: attribute `axis` is a float, an integer was expected [malformed-file]\n"
               "  %c = Softmax(%x: f32[2])");
}

TEST_F(ImportErrors, SizeMismatch) {
  ModelBuilder model = relu_model();
  model.floats("w", {2, 3}, {1, 2, 3});
  auto& raw = model.floats("v", {4}, {});
  raw.set_raw_data(std::string(12, '\0'));
  auto& negative = model.floats("u", {}, {});
  negative.add_dims(-2);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:w: error: tensor `w` has 3 values, its type f32[2, 3] needs 6 [malformed-file]\n"
               "DIR/net.onnx:v: error: tensor `v` has 12 bytes, its type f32[4] needs 16 [malformed-file]\n"
               "DIR/net.onnx:u: error: tensor `u` has a size of -2, 0 or more was expected [malformed-file]");
}

TEST_F(ImportErrors, StringsAndSequences) {
  ModelBuilder model;
  model.input("s", pb::TensorProto::STRING, {2});
  auto& sequence = *model.graph().add_input();
  sequence.set_name("q");
  sequence.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(kFloat);
  model.node("Identity", {"s"}, {"y"});
  model.output("y", pb::TensorProto::STRING);
  expect_error(
      model, ExitCode::model,
      "DIR/net.onnx:s: error: not supported yet: elements of type string [unsupported-dtype]\n"
      "DIR/net.onnx:s: help: tensors are numbers here: let the program around the model do the steps that work on text\n"
      "DIR/net.onnx:q: error: input `q` is a sequence, whose length is not known [unknown-value]\n"
      "DIR/net.onnx:q: help: give the shape of each element, which is an input of its own then: --shapes=NAME.0:SIZES,NAME.1:SIZES");
}

TEST_F(ImportErrors, RandomOpsAndDerivatives) {
  ModelBuilder model;
  model.import_domain("ai.onnx.preview.training", 1);
  model.input("seed", kFloat, {});
  model.input("x", kFloat, {2, 3});
  model.input("trains", pb::TensorProto::BOOL, {});
  model.node("RandomUniformLike", {"x"}, {"noise"}, {}, "noise");
  model.node("Dropout", {"x", "", "trains"}, {"kept"}, {}, "drop");
  auto& node = model.node("Gradient", {"x"}, {"g"}, {}, "grad", "ai.onnx.preview.training");
  auto& xs = *node.add_attribute();
  xs.set_name("xs");
  xs.set_type(pb::AttributeProto::STRINGS);
  xs.add_strings("x");
  auto& y = *node.add_attribute();
  y.set_name("y");
  y.set_type(pb::AttributeProto::STRING);
  y.set_s("loss");
  for (const char* name : {"noise", "kept", "g"}) model.output(name, kFloat);
  expect_error(
      model, ExitCode::model,
      "DIR/net.onnx:noise: error: not supported yet: random ops read an i64 that is given at run time as `seed`, but the model has another "
      "value of that name [unsupported-op]\n"
      "  %noise = RandomUniformLike(%x: f32[2, 3])\n"
      "DIR/net.onnx:drop: error: `training_mode` (operand `trains`) is not known at compile time [unknown-value]\n"
      "  %kept = Dropout(%x: f32[2, 3], none, %trains: bool[])\n"
      "DIR/net.onnx:drop: help: give the input behind it a value with --bind=NAME=VALUE, or export the model with it as a constant\n"
      "DIR/net.onnx:grad: error: `y` is `loss`, which is the name of no tensor [malformed-file]\n"
      "  %g = Gradient(%x: f32[2, 3])");
}

/// Function `name` of domain `local`, [a] -> [b], that calls each of `calls` on what the one before gave.
void add_function(ModelBuilder& model, const std::string& name, const std::vector<std::string>& calls) {
  auto& function = *model.proto.add_functions();
  function.set_domain("local");
  function.set_name(name);
  function.add_input("a");
  function.add_output("b");
  auto* import = function.add_opset_import();
  import->set_domain("local");
  import->set_version(1);
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string from = i == 0 ? "a" : "v" + std::to_string(i), to = i + 1 == calls.size() ? "b" : "v" + std::to_string(i + 1);
    const bool is_op = calls[i] == "Relu";
    *function.add_node() = onnx::make_node(calls[i], {from}, {to}, {}, "", is_op ? "" : "local");
  }
}

ModelBuilder model_that_calls(const std::string& function) {
  ModelBuilder model = relu_model();
  model.import_domain("local", 1);
  model.node(function, {"x"}, {"z"}, {}, "outer", "local");
  return model;
}

TEST_F(ImportErrors, FunctionsThatDouble) {
  ModelBuilder model = model_that_calls("f30");
  add_function(model, "f0", {"Relu"});
  for (int i = 1; i <= 30; ++i) add_function(model, "f" + std::to_string(i), {"f" + std::to_string(i - 1), "f" + std::to_string(i - 1)});
  expect_error(model, ExitCode::model,
               "DIR/net.onnx: error: inlining the model's functions makes 3.221e+09 nodes, the most is 262144 [too-complex]");
}

TEST_F(ImportErrors, FunctionsInAChain) {
  for (const int length : {150, 5000}) {
    ModelBuilder model = model_that_calls("f" + std::to_string(length));
    add_function(model, "f0", {"Relu"});
    for (int i = 1; i <= length; ++i) add_function(model, "f" + std::to_string(i), {"f" + std::to_string(i - 1)});
    if (length < 200) {
      model.save(path());
      Diagnostics diagnostics;
      EXPECT_EQ(import_model(path(), {}, diagnostics)->body.nodes.size(), 2u);
    } else {
      expect_error(model, ExitCode::model,
                   "DIR/net.onnx: error: calls of functions and subgraphs are nested more than 200 deep, in `f4801` for one [too-complex]");
    }
  }
}

// Each of 20 functions calls all others: there are 20! ways through them.
TEST_F(ImportErrors, FunctionsThatAllCallEachOther) {
  ModelBuilder model = model_that_calls("f0");
  for (int i = 0; i < 20; ++i) {
    std::vector<std::string> others;
    for (int j = 0; j < 20; ++j) {
      if (j != i) others.push_back("f" + std::to_string(j));
    }
    add_function(model, "f" + std::to_string(i), others);
  }
  model.save(path());
  Diagnostics diagnostics;
  EXPECT_THROW(import_model(path(), {}, diagnostics), Error);
}

TEST_F(ImportErrors, LongNamesOfManyCalls) {
  ModelBuilder model = model_that_calls("f1");
  add_function(model, "f0", std::vector<std::string>(1000, "Relu"));
  add_function(model, "f1", std::vector<std::string>(200, "f0"));
  for (auto& node : *model.proto.mutable_functions(1)->mutable_node()) node.set_name(std::string(2000, 'n'));
  expect_error(model, ExitCode::model,
               "DIR/net.onnx: error: inlining the model's functions makes names of more than 256 MiB [too-complex]");
}

TEST_F(ImportErrors, OutputsOfOneName) {
  ModelBuilder model = relu_model();
  model.output("y", kFloat);
  expect_error(model, ExitCode::model, "DIR/net.onnx:y: error: output `y` is declared twice [malformed-file]");
}

TEST_F(ImportErrors, SizesThatNothingHolds) {
  ModelBuilder model;
  model.input("x", kFloat, {int64_t{1} << 40, int64_t{1} << 40});
  model.node("Relu", {"x"}, {"y"}, {}, "act");
  model.output("y", kFloat);
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:x: error: a tensor is f32[1099511627776, 1099511627776], the most that one may take is 64 TiB [too-large]");
}

TEST_F(ImportErrors, FunctionThatCallsItself) {
  ModelBuilder model = relu_model();
  model.import_domain("local", 1);
  auto& function = *model.proto.add_functions();
  function.set_domain("local");
  function.set_name("Again");
  function.add_input("a");
  function.add_output("b");
  *function.add_node() = onnx::make_node("Again", {"a"}, {"b"}, {}, "inner", "local");
  model.node("Again", {"x"}, {"z"}, {}, "outer", "local");
  expect_error(model, ExitCode::model,
               "DIR/net.onnx:outer/inner: error: function `Again` calls itself [malformed-file]\n"
               "  %b = Again(%a: f32[2, 3])");
}

/// A MatMulNBits of 2 x 32 by 2 x 32, whose operands follow the weights and scales.
ModelBuilder product_of_packed_weights(std::vector<std::string> more, int64_t bits, int64_t block) {
  ModelBuilder model;
  model.import_domain("com.microsoft", 1);
  for (const char* name : {"x", "s"}) model.input(name, kFloat, {2, name[0] == 'x' ? 32 : 32 / std::max<int64_t>(block, 1)});
  for (const char* name : {"w", "z", "g"}) model.input(name, pb::TensorProto::UINT8, {2, 2, 8});
  std::vector<std::string> operands{"x", "w", "s"};
  operands.insert(operands.end(), more.begin(), more.end());
  model.node("MatMulNBits", operands, {"y"},
             {onnx::int_attribute("K", 32), onnx::int_attribute("N", 2), onnx::int_attribute("bits", bits),
              onnx::int_attribute("block_size", block)},
             "fc", "com.microsoft");
  model.output("y", kFloat);
  return model;
}

TEST_F(ImportErrors, PackedWeightsThatAreNotKnown) {
  const auto first_line = [&](const ModelBuilder& model) {
    model.save(path());
    Diagnostics diagnostics;
    try {
      import_model(path(), {}, diagnostics);
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(path("").size(), text.find('\n') - path("").size());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(
      first_line(product_of_packed_weights({"", "g"}, 4, 16)),
      "net.onnx:fc: error: not supported yet: the operand `g_idx`, by which inputs choose their blocks, is there [unsupported-attribute]");
  EXPECT_EQ(first_line(product_of_packed_weights({}, 2, 16)),
            "net.onnx:fc: error: not supported yet: `bits` is 2, lowered are 4 and 8 [unsupported-attribute]");
  EXPECT_EQ(first_line(product_of_packed_weights({}, 4, 24)),
            "net.onnx:fc: error: `block_size` is 24, `K` is 32, `N` is 2; a block is a power of two from 16 on [type-error]");
  EXPECT_EQ(first_line(product_of_packed_weights({}, 4, 16)),
            "net.onnx:fc: error: `weights` (operand `w`) is not known at compile time [unknown-value]");
}

}  // namespace
}  // namespace tcc
