// What the command line and a library refuse, each with its exit code and whole message. Models that are refused are in tests/errors.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "cli/program.h"
#include "tcc/support/npy.h"

namespace tcc::test {
namespace {

class Errors : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("small.graph", small_graph());
    folder_.write("net.onnx", "not a model");
  }
  /// Nothing goes to standard output, and no file is left behind.
  void expect(const std::string& arguments, int exit_code, const std::string& message) const {
    const std::vector<std::string> before = folder_.files();
    const Result result = run_tcc(arguments, folder_.path());
    EXPECT_EQ(result.exit_code, exit_code) << arguments;
    EXPECT_EQ(result.err, message + "\n") << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(folder_.files(), before) << arguments;
  }
  void good(const std::string& arguments) const {
    const Result result = run_tcc(arguments, folder_.path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }
  Folder folder_;
};

TEST_F(Errors, Usage) {
  expect("", 2, "tcc: error: no model is given [invalid-argument]\ntcc: help: `tcc --help` lists what it takes");
  expect("net.onnx", 2,
         "tcc: error: nothing is asked for [invalid-argument]\ntcc: help: name the library to write with -o, or what to print with --emit");
  expect("net.onnx -o n.so --optimize", 2,
         "tcc: error: there is no flag `--optimize` [invalid-argument]\ntcc: help: did you mean `--optimizer`? `tcc --help` lists what it "
         "takes");
  expect("net.onnx -o n.so -O7", 2, "tcc: error: -O7: levels are 0 to 3 [invalid-argument]");
  expect("net.onnx -o n.so --target=tpu", 2,
         "tcc: error: --target=tpu: there is no such choice [invalid-argument]\ntcc: help: did you mean `cpu`? choices are `cuda`, `cpu`");
  expect("net.onnx -o n.so -march=sm_70", 2,
         "tcc: error: -march: `sm_70` is not a chip that tcc generates code for [invalid-argument]\n"
         "tcc: help: chips are sm_80 and newer, such as sm_80, sm_90a; `ptx` leaves the choice to the driver");
  expect("net.onnx -o n.so --cpu=i386", 2,
         "tcc: error: --cpu: `i386` is not a level that tcc generates code for [invalid-argument]\ntcc: help: levels are x86-64-v3 and "
         "x86-64-v4");
  expect("net.onnx --emit=sass", 2,
         "tcc: error: --emit=sass: there is no such product [invalid-argument]\n"
         "tcc: help: did you mean `asm`?");
  expect("net.onnx --emit=joint", 2,
         "tcc: error: --emit=joint: an inference has no `joint` [invalid-argument]\ntcc: help: it goes with --mode=grad and --mode=train");
  expect("net.onnx --emit=ptx --target=cpu", 2,
         "tcc: error: --emit=ptx: none of the targets has it [invalid-argument]\ntcc: help: name another one with --target");
  expect("net.onnx --emit=plan,plan", 2, "tcc: error: --emit names `plan` twice [invalid-argument]");
  expect("--from=graph small.graph -o n.so --shapes=x", 2,
         "tcc: error: --shapes: `x` is not NAME:SIZES [invalid-argument]\ntcc: help: write --shapes=NAME:8x3x224x224, several pairs "
         "separated by commas");
  expect("net.onnx -o n.so --from=dot", 2,
         "tcc: error: --from=dot: there is no such form [invalid-argument]\ntcc: help: forms that can be read back are `graph`, `prims`, "
         "`loop`, `kernel`");
  expect("net.onnx -o n.so -x tflite", 2,
         "tcc: error: -x tflite: there is no such kind of model [invalid-argument]\ntcc: help: kinds are onnx, pt2 and fx");
  expect("--from=prims small.graph --emit=graph", 2, "tcc: error: --emit=graph: --from=prims begins after that stage [invalid-argument]");
  expect("--from=graph small.graph --pass=resolve -o s.so", 2,
         "tcc: error: --pass runs only the passes that it names, no library can come of that [invalid-argument]\ntcc: help: leave -o out");
  expect("--from=graph small.graph --pass=simplify --emit=graph", 2,
         "tcc: error: --pass: there is no pass `simplify` [unknown-pass]\n"
         "tcc: help: passes are `bind-shapes`, `resolve`, `autocast`, `canonicalize`, `fold-constants`, `eliminate-common-subexpressions`, "
         "`eliminate-dead-code`, `train-batch-norms`, `build-joint`, `decompose`, `multiply-quantized`, `join-products`, "
         "`reassociate-products`, "
         "`recognize-sequences`, "
         "`copy-concat-pieces`, "
         "`split-wide-nodes`, "
         "`choose-residuals`, `forward-half`, `backward-half`");
  expect("--from=graph small.graph -o s.so --print-after=nothing", 2,
         "tcc: error: --print-after: there is no pass `nothing` [unknown-pass]\n"
         "tcc: help: passes are `bind-shapes`, `resolve`, `autocast`, `canonicalize`, `fold-constants`, `eliminate-common-subexpressions`, "
         "`eliminate-dead-code`, `train-batch-norms`, `build-joint`, `decompose`, `multiply-quantized`, `join-products`, "
         "`reassociate-products`, "
         "`recognize-sequences`, "
         "`copy-concat-pieces`, "
         "`split-wide-nodes`, "
         "`choose-residuals`, `forward-half`, `backward-half`, `form-groups`, `lower-units`, `schedule-units`, `make-plan`");
}

TEST_F(Errors, Inputs) {
  expect("--from=graph small.graph -o s.so --shapes=y:4x3", 2,
         "small.graph: error: --shapes: `y` is not an input of the model [unknown-input]\nsmall.graph: help: inputs are `x`");
  expect("--from=graph small.graph -o s.so --shapes=x:4by3", 2,
         "tcc: error: --shapes: `x:4by3` is not NAME:SIZES [invalid-argument]\ntcc: help: write --shapes=NAME:8x3x224x224, several pairs "
         "separated by commas");
  expect("--from=graph small.graph -o s.so --shapes=x:4x4", 1,
         "small.graph:x: error: axis 1 is given as 4, the model declares f32[4, 3] [type-error]");
  expect("--from=graph small.graph -o s.so --bind=y=3", 2,
         "tcc: error: --bind: `y` is not an input or a size of the model [unknown-input]\ntcc: help: inputs are `x`");
  expect(
      "--from=graph small.graph -o s.so --bind=x=big", 2,
      "tcc: error: --bind: `big` is not a value of input `x` (f32[4, 3]) [invalid-argument]\ntcc: help: write a number, true, false, or a "
      "file that ends in .npy, .npz or .pb");
}

TEST_F(Errors, Precision) {
  expect("net.onnx -o n.so --precision=fp16", 2,
         "tcc: error: --precision=fp16: there is no such choice [invalid-argument]\ntcc: help: did you mean `f16`? choices are `keep`, "
         "`bf16`, `f16`");
  expect(
      "--from=prims small.graph -o s.so --precision=bf16", 2,
      "tcc: error: --precision says nothing with --from=prims [invalid-argument]\ntcc: help: dtypes are fixed before that form; give it to "
      "the model or with --from=graph");
  expect("--from=graph small.graph --pass=autocast --emit=graph", 2,
         "small.graph: error: --pass=autocast: which precision? [invalid-argument]\nsmall.graph: help: add --precision=bf16 or f16");
}

TEST_F(Errors, FilesThatCantBeReadOrWritten) {
  expect("missing.onnx -o n.so", 5, "missing.onnx: error: file can't be read: no such file or directory [unreadable-file]");
  ::mkdir((folder_ / "folder").c_str(), 0777);
  expect("folder -o n.so", 5, "folder: error: file can't be read: is a directory [unreadable-file]");
  expect("--from=graph small.graph -o folder", 5, "folder: error: file can't be written: is a directory [unwritable-file]");
  expect("--from=graph small.graph -o no/such/folder.so", 5,
         "no/such/folder.so: error: file can't be written: no such file or directory [unwritable-file]");
  expect("--from=graph small.graph -o /dev/full", 5, "/dev/full: error: file can't be written: no space left on device [unwritable-file]");
  expect("--from=graph small.graph --emit=graph > /dev/full", 5,
         "<stdout>: error: can't be written: No space left on device [unwritable-file]");
  expect("--from=graph small.graph --emit=graph=/dev/full", 5,
         "/dev/full: error: file can't be written: no space left on device [unwritable-file]");
  expect("--from=graph small.graph --dump-dir=small.graph/x", 5,
         "small.graph/x: error: the folder can't be made: not a directory [unwritable-file]");
}

// Nothing is read or worked on before an output has a place: the model is not even a model here.
TEST_F(Errors, OutputsAreCheckedBeforeTheWork) {
  for (const char* arguments : {"-o no/m.so", "--emit=ptx=no/m.so", "-o m.so --emit=plan=p,ptx=no/m.so", "-o m.so -MF no/m.so",
                                "--emit=header=no/m.so", "--emit=graph --emit-weights=no/m.so"}) {
    expect(std::string("net.onnx ") + arguments, 5, "no/m.so: error: file can't be written: no such file or directory [unwritable-file]");
  }
  expect("net.onnx -o m.so --weights=file --emit=ptx=no/x", 5,
         "no/x: error: file can't be written: no such file or directory [unwritable-file]");
  ::mkdir((folder_ / "m.so.weights").c_str(), 0777);
  expect("net.onnx -o m.so --weights=file", 5, "m.so.weights: error: file can't be written: is a directory [unwritable-file]");
  expect("net.onnx -o " + std::string(300, 'n'), 5,
         std::string(300, 'n') + ": error: file can't be written: file name too long [unwritable-file]");
  expect("net.onnx -o -", 2,
         "tcc: error: -o -: a library doesn't go to standard output [invalid-argument]\ntcc: help: name a file; ./- is one of that name");
}

TEST_F(Errors, OutputsThatAreInputs) {
  write_npy(folder_ / "x.npy", Tensor(DType::f32, {4, 3}));
  ::symlink("net.onnx", (folder_ / "soft").c_str());
  ::link((folder_ / "net.onnx").c_str(), (folder_ / "hard").c_str());
  const auto replaces = [&](const std::string& arguments, const std::string& path, const std::string& what) {
    expect(arguments, 2, path + ": error: " + what + " [overwritten-file]\n" + path + ": help: give it another name");
  };
  for (const std::string path : {"net.onnx", "./net.onnx", "soft", "hard"}) {
    replaces("net.onnx -o " + path, path, "-o would replace the model `net.onnx`");
    replaces("net.onnx --emit=graph=" + path, path, "--emit=graph would replace the model `net.onnx`");
    replaces("net.onnx -o m.so -MF " + path, path, "-MD would replace the model `net.onnx`");
    replaces("- -o " + path + " < net.onnx", path, "-o would replace the model on standard input `<stdin>`");
  }
  replaces("net.onnx --bind y=x.npy -o x.npy", "x.npy", "-o would replace the value of input `y` `x.npy`");
  replaces("net.onnx --emit=graph --emit-weights=soft", "soft", "the weights of --emit=graph would replace the model `net.onnx`");
  // Known when the text has been read.
  good("--from=graph small.graph --emit=graph=g.graph");
  replaces("--from=graph g.graph -o g.graph.safetensors", "g.graph.safetensors",
           "-o would replace the weights of the text `g.graph.safetensors`");
  replaces("--from=graph g.graph --emit=graph=h --dump-dir=. --emit=prims=g.graph", "g.graph",
           "--emit=prims would replace the model `g.graph`");
  // Of a run.
  good("--from=graph small.graph -o small.so --target=cpu");
  const std::string run = "run small.so --device=cpu --random ";
  folder_.write("a.npz", "none");
  replaces(run + "--save-state ./small.so", "./small.so", "--save-state would replace the library `small.so`");
  replaces(run + "--input a.npz --save a.npz", "a.npz", "--save would replace an input `a.npz`");
  replaces(run + "--input x=a.npz --save a.npz", "a.npz", "--save would replace an input `a.npz`");
  replaces(run + "--expect a.npz --save a.npz", "a.npz", "--save would replace what is expected `a.npz`");
  expect(run + "--save-state no/such", 5, "no/such: error: file can't be written: no such file or directory [unwritable-file]");
}

TEST_F(Errors, ProductsWithOneName) {
  const auto one = [&](const std::string& arguments, const std::string& path, const std::string& what) {
    expect("net.onnx " + arguments, 2,
           path + ": error: " + what + " are one file [overwritten-file]\n" + path + ": help: give one of them another name");
  };
  one("-o m.so --emit=header=m.so", "m.so", "--emit=header and -o (`m.so`)");
  one("-o m.so -MF ./m.so", "./m.so", "-MD and -o (`m.so`)");
  one("-o m.so --weights=file --emit=plan=m.so.weights --target=cpu", "m.so.weights",
      "--emit=plan for cpu and --weights=file (`m.so.weights`)");
  one("--emit=plan=p,header=p --target=cpu", "p", "--emit=header and --emit=plan for cpu (`p`)");
  one("--emit=graph=p,header=p.safetensors", "p.safetensors", "--emit=header and the weights of --emit=graph (`p.safetensors`)");
}

TEST_F(Errors, InputsThatAreNoFiles) {
  ::mkfifo((folder_ / "pipe").c_str(), 0600);
  const std::string refused = ": error: file can't be read: is a pipe, a regular file was expected [unreadable-file]";
  expect("pipe -o m.so", 5, "pipe" + refused);
  expect("--from=graph pipe -o m.so", 5, "pipe" + refused);
  folder_.write("w.graph", "weights \"pipe\"\n" + small_graph());
  expect("--from=graph w.graph -o m.so", 5, "pipe" + refused);
  ::mkfifo((folder_ / "pipe.npy").c_str(), 0600);
  expect("--from=graph small.graph --bind x=pipe.npy -o m.so", 5, "pipe.npy" + refused);
  expect("verify --from=graph small.graph --input pipe.npy", 5, "pipe.npy" + refused);
  expect("/dev/zero -o m.so", 5, "/dev/zero: error: file can't be read: is a device, a regular file was expected [unreadable-file]");
}

TEST_F(Errors, Text) {
  folder_.write("bad.graph", "graph @g(%x: f32[2]) -> (%y: f32[2]) {\n  %y: f32[2] = frobnicate(%x)\n}\n");
  expect("--from=graph bad.graph --emit=graph", 1,
         "bad.graph:2:16: error: found `frobnicate`, expected an operation [syntax]\n    %y: f32[2] = frobnicate(%x)\n                 ^");
  folder_.write("types.graph", "graph @g(%x: f32[2]) -> (%y: f32[3]) {\n  %y: f32[3] = relu(%x)\n}\n");
  expect("--from=graph types.graph --emit=graph", 1,
         "types.graph:2: error: not well-formed graph: %y is f32[3], expected f32[2] [type-error]\n  %y: f32[3] = relu(%x)");
}

TEST_F(Errors, EveryVerbHasMessagesAsJson) {
  expect("run --diagnostics=json", 2,
         R"({"severity":"error","kind":"invalid-argument","where":"","message":"no library is given",)"
         R"("helps":[{"where":"","message":"`tcc run --help` lists what it takes"}]})");
  expect("inspect none.onnx --diagnostics json", 5,
         R"({"severity":"error","kind":"unreadable-file","where":"none.onnx","message":"file can't be read: no such file or directory"})");
  expect("bench none.so --diagnostics=xml", 2,
         "tcc: error: --diagnostics=xml: there is no such choice [invalid-argument]\ntcc: help: choices are `text`, `json`");
}

TEST_F(Errors, TextWithoutItsWeights) {
  folder_.write("bare.graph",
                "graph @g(%x: f32[2]) -> (%y: f32[2]) {\n  weight @w: f32[2]\n  weight @v: f32[2]\n  %y: f32[2] = add(%x, @w)\n}\n");
  expect(
      "--from=graph bare.graph -o n.so", 1,
      "bare.graph:2:10: error: `@w` is not among the weights given [syntax]\n    weight @w: f32[2]\n           ^\n"
      "bare.graph: help: name the file of the weights in a first line `weights \"<file>\"`; --emit-weights=FILE writes it for a graph on "
      "standard output");
}

TEST_F(Errors, BindTakesCommas) {
  folder_.write("sizes.graph",
                "graph @g(%x: f32[batch, 3], %m: f32[seq], %k: i64[]) -> (%y: f32[batch, 3]) {\n  %y: f32[batch, 3] = relu(%x)\n}\n");
  good("--from=graph sizes.graph --bind batch=2,seq=4,k=7 --target=cpu -o n.so");
  expect("--from=graph sizes.graph --bind batch=2 --target=cpu -o m.so", 1,
         "sizes.graph: error: sizes of inputs are not bound: `m` axis 0 is `seq` [unbound-size]\n"
         "sizes.graph: help: give the sizes with --bind seq=<seq> or --shapes=m:<seq>");
  expect("--from=graph sizes.graph --bind batch=2,sqe=4 --target=cpu -o m.so", 2,
         "tcc: error: --bind: `sqe` is not an input or a size of the model [unknown-input]\n"
         "tcc: help: did you mean `seq`? inputs are `x`, `m`, `k`; sizes are `batch`, `seq`");
  expect("--from=graph sizes.graph --bind batch=two --target=cpu -o m.so", 2,
         "tcc: error: --bind: size `batch` is `two`, a number of 0 or more was expected [invalid-argument]");
}

/// Hand-made schedules are refused as what they are, an argument; kernels and units of a file like a model.
TEST_F(Errors, SchedulesAndKernels) {
  folder_.write(
      "t.loop",
      "unit (%a: f32[7, 12]) -> (%b: f32[7, 12]) {\n  map %i in 7, %j in 12 {\n    store add(load %a[%i, %j], 1.0), %b[%i, %j]\n  }\n}\n");
  const auto refused = [&](const std::string& arguments, int exit_code, const std::string& part) {
    const Result result = run_tcc(arguments, folder_.path());
    EXPECT_EQ(result.exit_code, exit_code) << arguments << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << arguments << "\n" << result.err;
    EXPECT_EQ(result.err.find(".cpp"), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "") << arguments;
  };
  const std::string given = "--from=loop t.loop --emit=kernel --target=";
  refused(given + "cpu --pass='splitt(j, 4)'", 2,
          "error: there is no primitive `splitt` [invalid-schedule]\ntcc: help: did you mean `split`?");
  refused(given + "cpu --pass='split(zz, 4)'", 2,
          "`split(zz, 4)` does not fit: there is no loop `zz` [invalid-schedule]\ntcc: help: loops of the unit are `i`, `j`");
  refused(given + "cpu --pass='split(j, 0)'", 2, "the factor is 0");
  refused(given + "cpu --pass='split(j 4)'", 2, "--pass='split(j 4)': ");
  refused(given + "cpu --pass='bind(i, lane)'", 2,
          "t.loop: error: what the schedule makes can't run on x86-64-v3: %i is bound to lane, which x86-64-v3 does not have "
          "[invalid-schedule]");
  refused(given + "cpu --pass='vectorize(i)' --pass='vectorize(j)'", 2, "%j is bound to vector within another loop bound to vector");
  refused(given + "cuda --pass='bind(i, parallel)'", 2, "%i is bound to parallel, which sm_80 does not have");
  // Counted across the nest, as two digits of one number.
  const Result nested = run_tcc(
      "--from=loop t.loop --target=cpu --pass='split(i, 4)' --pass='bind(i_0, parallel)' --pass='peel(i_1)' "
      "--pass='bind(j, parallel)' -o t.so && \"$TCC\" run t.so --random",
      folder_.path());
  EXPECT_TRUE(nested.exit_code == 0 || (nested.exit_code == 2 && nested.err.find("[invalid-schedule]") != std::string::npos)) << nested.err;
  // Names that primitives make are taken by other loops: chosen schedules go around, a scatter stays on one lane.
  folder_.write(
      "s.loop",
      "unit (%a0: f32[64, 100], %a1: i64[10, 1], %a2: f32[10, 100]) -> (%r0: f32[64, 100]) {\n"
      "  map %i in 64, %j in 100 {\n    store load %a0[%i, %i], %r0[%i, %j]\n  }\n"
      "  map %i_1 in 10, %j_1 in 100 {\n    %v1: i64 = load %a1[%i_1, 0]\n    scatter add load %a2[%i_1, %j_1], %r0[%v1, %j_1]\n  }\n}\n");
  good("--from=loop s.loop --target=cpu -o s.so --verify-passes");
  folder_.write("n.kernel",
                "kernel #k target x86-64-v3 grid 6 threads 1 shared 0 (%a: f32[2, 3]) -> (%b: f32[2, 3]) {\n map %i in 2 bind(vector) {\n"
                "  map %j in 3 bind(vector) { store load %a[%i, %j], %b[%i, %j] } } }\n");
  refused("--from=kernel n.kernel -o n.so", 1, "n.kernel: error: not well-formed kernel: ");
  folder_.write("o.loop", "unit (%a: f32[7]) -> (%b: f32[7]) {\n  map %i in 7 {\n    store load %a[%i + 1], %b[%i]\n  }\n}\n");
  refused("--from=loop o.loop -o o.so", 1, "o.loop:3: error: not well-formed loops: a load may be out of bounds");
}

TEST_F(Errors, RunTime) {
  good("--from=graph small.graph -o small.so");
  const auto save = [&](const std::string& name, DType dtype, Shape shape) { write_npy(folder_ / name, Tensor(dtype, std::move(shape))); };
  save("x.npy", DType::f32, {4, 3});
  save("double.npy", DType::f64, {4, 3});
  save("rank.npy", DType::f32, {4, 3, 1});
  save("size.npy", DType::f32, {4, 5});
  write_npz(folder_ / "names.npz", {{"z", Tensor(DType::f32, {4, 3})}});
  const std::string run = "run small.so --device cpu ";
  expect(run, 2,
         "small.so: error: input `x` (f32[4, 3]) is not given [missing-input]\nsmall.so: help: give each with --input NAME=FILE, or "
         "--random for random values");
  expect(run + "--input double.npy", 2,
         "double.npy: error: input `x` is f64[4, 3], expected f32[4, 3] [invalid-argument]\ndouble.npy: help: convert it in Python: "
         "x.astype(np.float32)");
  expect(
      run + "--input rank.npy", 2,
      "rank.npy: error: input `x` is f32[4, 3, 1], expected f32[4, 3] [invalid-argument]\nrank.npy: help: it has as many elements as are "
      "expected: reshape it");
  expect(
      run + "--input size.npy", 2,
      "size.npy: error: input `x` is f32[4, 5], expected f32[4, 3] [invalid-argument]\nsize.npy: help: sizes are fixed when the model is "
      "compiled: give what it was compiled for, or compile it with other --shapes");
  write_npz(folder_ / "two.npz", {{"x", Tensor(DType::i64, {4, 3})}});
  expect(run + "--input two.npz", 2,
         "two.npz: error: array `x` is i64[4, 3], expected f32[4, 3] [invalid-argument]\ntwo.npz: help: convert it in Python: "
         "x.astype(np.float32)");
  expect(run + "--input z=x.npy", 2, "small.so: error: `z` is not an input of the model [unknown-input]\nsmall.so: help: inputs are `x`");
  expect(run + "--input names.npz", 2,
         "names.npz: error: array `z` is not an input of the model [unknown-input]\nnames.npz: help: inputs are `x`");
  expect(run + "--input x.npy --input x.npy", 2, "small.so: error: `x.npy` is one input too many, the model has 1 [invalid-argument]");
  expect(run + "--input x=x.npy --input x=x.npy", 2, "small.so: error: input `x` is given twice [invalid-argument]");
  expect(run + "--input none.npy", 5, "none.npy: error: file can't be read: no such file or directory [unreadable-file]");
  expect("run small.so --device tpu", 2,
         "tcc: error: --device=tpu: there is no such choice [invalid-argument]\ntcc: help: did you mean `cpu`? choices are `auto`, `cpu`, "
         "`cuda`");
  expect("run small.graph --random", 5,
         "small.graph: error: is not a shared library [unusable-library]\nsmall.graph: help: this verb takes the .so that `tcc -o` wrote");
  expect("run missing.so --random", 5, "missing.so: error: cannot be opened: No such file or directory [unusable-library]");
}

// An error and what belongs to it are one object in one line.
TEST_F(Errors, AsJson) {
  expect("--from=graph small.graph --diagnostics=json --pass=resovle --emit=graph", 2,
         R"({"severity":"error","kind":"unknown-pass","where":"","message":"--pass: there is no pass `resovle`",)"
         R"("helps":[{"where":"","message":"did you mean `resolve`?"}]})");
  folder_.write("cos.graph", "graph @g(%x: f32[2]) -> (%y: f32[2]) {\n  %y: f32[2] = gelu(%x) {approximate=\"cos\"}\n}\n");
  expect(
      "--from=graph cos.graph --emit=prims --diagnostics json", 1,
      R"({"severity":"error","supported":false,"kind":"unsupported-attribute","where":"cos.graph:y","message":"`approximate` is \"cos\", )"
      R"(known are \"none\" and \"tanh\"","snippet":"%y: f32[2] = gelu(%x) {approximate=\"cos\"}"})");
}

// Stand-ins for ptxas: only what ptxas itself says of the PTX is a bug of tcc, whatever keeps it from running is the machine's trouble.
TEST_F(Errors, PtxasThatFails) {
  struct Failure {
    const char* script;
    int exit_code;
    const char* message;
  };
  constexpr Failure kFailures[] = {
      {"echo '/bin/sh: 0: 3: Invalid argument' >&2; exit 2", 5, "failed: /bin/sh: 0: 3: Invalid argument [failed-tool]"},
      {"echo 'ptxas: error while loading shared libraries: libpthread.so.0' >&2; exit 127", 5, "error while loading shared libraries"},
      {"echo 'ptxas fatal   : Memory allocation failure' >&2; exit 255", 5, "Memory allocation failure [failed-tool]"},
      {"exit 3", 5, "failed [failed-tool]"},
      {"kill -9 $$", 5, "was ended by signal 9 [failed-tool]"},
      {"echo 'ptxas in.ptx, line 4; error   : Unknown modifier' >&2; exit 255", 4, "ptxas refuses a kernel"},
      {"echo hm >&2; echo \"ptxas error   : Entry function 'k' uses too much shared data\" >&2; exit 255", 4, "ptxas refuses a kernel"},
  };
  for (const Failure& failure : kFailures) {
    SCOPED_TRACE(failure.script);
    folder_.write("ptxas", std::string("#!/bin/sh\n") + failure.script + "\n");
    ASSERT_EQ(::chmod((folder_ / "ptxas").c_str(), 0700), 0);
    ASSERT_EQ(::mkdir((folder_ / "tmp").c_str(), 0700), 0);
    const Result result =
        run_shell("TMPDIR=$PWD/tmp TCC_PTXAS=./ptxas \"$TCC\" --from=graph small.graph --target=cuda -o n.so", folder_.path());
    EXPECT_EQ(result.exit_code, failure.exit_code) << result.err;
    EXPECT_NE(result.err.find(failure.message), std::string::npos) << result.err;
    std::filesystem::remove_all(folder_ / "tmp");
  }
}

}  // namespace
}  // namespace tcc::test
