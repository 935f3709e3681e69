// tcc tune, and what compiling does with the file that it writes.
#include <cstdlib>
#include <map>
#include <regex>

#include "cli/commands.h"

namespace tcc::test {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) found++;
  return found;
}

class Tune : public Commands {
 protected:
  const std::string model_ = "$MODELS/mnist_mlp/dynamo.onnx --target=cpu ", other_ = "$MODELS/bert_tiny/dynamo.onnx --target=cpu ";
  const std::string tune_ = "tune --candidates=3 --tune-db=t ";

  /// Of the kernels that `--emit=schedule` prints, and of those whose schedules are from the file.
  static int kernels(const std::string& schedules) { return count(schedules, "\nk"); }
  static int tuned(const std::string& schedules) { return count(schedules, "// tuned: "); }

  /// The first line of an entry of this kind.
  static std::string line(const std::string& text, const std::string& word) {
    const size_t at = text.find("\n  " + word + " ");
    EXPECT_NE(at, std::string::npos) << text;
    return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  }
};

TEST_F(Tune, WhatIsMeasuredIsBuilt) {
  const std::string said = good(tune_ + model_);
  EXPECT_NE(said.find("2 units measured, "), std::string::npos) << said;
  const std::string file = folder_.read("t");
  EXPECT_EQ(file.substr(0, file.find('\n')), "tcc-tuning 1");
  EXPECT_EQ(count(file, "\nunit "), 2) << file;
  EXPECT_EQ(count(file, " for x86-64-v3\n"), 2) << file;
  EXPECT_NE(file.find("f32[8, 784]"), std::string::npos) << file;
  EXPECT_EQ(folder_.files(), std::vector<std::string>{"t"});

  const std::string frozen = model_ + "--tune-db=t --tune-frozen ";
  const std::string schedules = good(frozen + "--emit=schedule");
  EXPECT_GE(tuned(schedules), 2) << schedules;
  EXPECT_EQ(tuned(schedules), kernels(schedules)) << schedules;
  EXPECT_NE(schedules.find(line(file, "schedule").substr(13)), std::string::npos) << schedules << file;
  good(frozen + "-o a.so --soname=none");
  good(frozen + "-o b.so --soname=none -j 1");
  EXPECT_EQ(folder_.read("a.so"), folder_.read("b.so"));
  good("verify " + frozen + "--device cpu");
  EXPECT_NE(tcc(frozen + "-o a.so --time-report").err.find("use-tuning"), std::string::npos);
  // The file counts among what the library is made of.
  EXPECT_NE(good(frozen + "-o a.so -MF -").find(" t\n"), std::string::npos);
}

TEST_F(Tune, WhatTheFileHasIsNotMeasuredAgain) {
  good(tune_ + model_);
  const std::string first = folder_.read("t");
  EXPECT_NE(good(tune_ + model_).find("0 units measured, 0 of them faster; 2 were known, "), std::string::npos);
  EXPECT_EQ(folder_.read("t"), first);
  EXPECT_NE(good(tune_ + model_ + "--again").find("2 units measured, "), std::string::npos);
  // Another model's entries are added to it, and those of this one stay.
  folder_.write("t", first);
  good(tune_ + "--from=loop " TCC_SOURCE_DIR "/tests/schedule/small/softmax.loop --target=cpu");
  const std::string both = folder_.read("t");
  EXPECT_EQ(count(both, "\nunit "), 3) << both;
  for (const std::string& entry : {line(first, "schedule"), line(first, "tuned")}) EXPECT_NE(both.find(entry), std::string::npos) << both;
  std::string last;
  const std::regex heading("\nunit ([0-9a-f]{32}) ");
  for (std::sregex_iterator at(both.begin(), both.end(), heading); at != std::sregex_iterator(); ++at) {
    EXPECT_LT(last, (*at)[1].str());
    last = (*at)[1].str();
  }
}

/// The machine with the device needs no model.
TEST_F(Tune, UnitsThatWerePrintedAreThoseOfTheModel) {
  folder_.write("units", good(other_ + "--emit=loop"));
  good(tune_ + "--from=loop units --target=cpu --threads=1");
  const std::string schedules = good(other_ + "--tune-db=t --tune-frozen --emit=schedule");
  EXPECT_EQ(tuned(schedules), kernels(schedules)) << schedules;
}

TEST_F(Tune, UnitsWithPaddedRowsAreMeasured) {
  folder_.write("rows.loop", R"(unit (%a: f32[40, 77] strides(80, 1)) -> (%r: f32[40, 77] strides(80, 1)) {
    map %i in 40, %j in 77 {
      %v: f32 = load %a[%i, %j]
      store exp(%v), %r[%i, %j]
    }
  })");
  const std::string said = good(tune_ + "--from=loop rows.loop --target=cpu");
  EXPECT_NE(said.find("1 unit measured, "), std::string::npos) << said;
}

TEST_F(Tune, TheScheduleOfTheFileIsTaken) {
  good(tune_ + model_);
  std::string file = folder_.read("t");
  for (int i = 0; i < 2; i++) {
    const std::string word = "\n  schedule ", old = file;
    size_t at = file.find(word);
    if (i == 1) at = file.find(word, at + 1);
    file = file.substr(0, at) + word + "bind(i, parallel)" + file.substr(file.find('\n', at + 1));
  }
  folder_.write("t", file);
  const std::string kernels = good(model_ + "--tune-db=t --tune-frozen --emit=schedule");
  EXPECT_EQ(count(kernels, ": bind(i, parallel)\n"), 2) << kernels;
  good("verify " + model_ + "--tune-db=t --device cpu");
  // What is given by hand goes before it.
  folder_.write("s", "k0: split(i, 2) bind(i_0, parallel)\n");
  EXPECT_NE(good(model_ + "--tune-db=t --schedule=s --emit=schedule").find("k0: split(i, 2) bind(i_0, parallel)\n"), std::string::npos);
}

TEST_F(Tune, AFrozenBuildNamesWhatIsMissing) {
  folder_.write("t", "tcc-tuning 1\n");
  const Result result = tcc(model_ + "--tune-db=t --tune-frozen -o m.so");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(count(result.err, "[untuned-unit]"), 2) << result.err;
  EXPECT_NE(result.err.find("dynamo.onnx:1/node_linear + 2/node_relu: error: the unit has several candidates, and t has no entry for it on "
                            "x86-64-v3 [untuned-unit]\n  unit (%a0: f32[8, 784], "),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("help: run `tcc tune` with the same flags where the device is, and check t in"), std::string::npos)
      << result.err;
  EXPECT_EQ(folder_.files(), std::vector<std::string>{"t"});
  // Otherwise the choice stands.
  good(model_ + "--tune-db=t -o with.so --soname=none");
  good(model_ + "-o without.so --soname=none");
  EXPECT_EQ(folder_.read("with.so"), folder_.read("without.so"));
  // An entry is of one target.
  good(tune_ + model_);
  refused("$MODELS/mnist_mlp/dynamo.onnx --target=cuda --tune-db=t --tune-frozen --emit=plan", 2, "[untuned-unit]");
}

TEST_F(Tune, AScheduleThatDoesNotFitAnyMoreIsAWarning) {
  good(tune_ + model_);
  const std::string file = folder_.read("t"), old = line(file, "schedule");
  for (const auto& [schedule, message] : std::map<std::string, std::string>{
           {"split(zz, 4)", "`split(zz, 4)` does not fit: there is no loop `zz`"},
           {"no_such(i)", "there is no primitive `no_such`"},
           {"bind(i, lane)", "what the schedule makes can't run on x86-64-v3: %i is bound to lane, which x86-64-v3 does not have"},
           {"split(i 4)", "found `4`, expected `,`"}}) {
    folder_.write("t", replaced(file, old, "  schedule   " + schedule));
    const Result result = tcc(model_ + "--tune-db=t --emit=schedule");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.err.find("t:8: warning: the schedule does not fit its unit any more: " + message), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("; the unit is scheduled as if it had no entry [stale-tuning]"), std::string::npos) << result.err;
    EXPECT_GE(tuned(result.out), 1) << result.out;
    EXPECT_LT(tuned(result.out), kernels(result.out)) << result.out;
    refused(model_ + "--tune-db=t --tune-frozen --emit=schedule", 2, "t:8: error: the schedule does not fit its unit any more: " + message);
  }
  EXPECT_NE(good(tune_ + model_).find("1 unit measured, "), std::string::npos);
  good(model_ + "--tune-db=t --tune-frozen --emit=schedule");
}

TEST_F(Tune, AFileThatIsNotWhatTuneWritesIsRefused) {
  good(tune_ + model_);
  const std::string file = folder_.read("t"), build = model_ + "--tune-db=t --emit=schedule";
  const auto wrong = [&](const std::string& text, const std::string& message) {
    folder_.write("t", text);
    refused(build, 2, message);
    refused(tune_ + model_, 2, message);
    EXPECT_EQ(folder_.read("t"), text);
  };
  wrong("", "t:0: error: the file does not begin with `tcc-tuning 1` [invalid-tuning]");
  wrong(
      "\x7f"
      "ELF\n",
      "t:1: error: found `\\x7fELF`, expected `tcc-tuning 1` [invalid-tuning]");
  wrong(replaced(file, "tcc-tuning 1", "tcc-tuning 2"),
        "t:1: error: found `tcc-tuning 2`, expected `tcc-tuning 1` [invalid-tuning]\nt:1: help: the file is of another version of tcc");
  wrong(file.substr(0, file.size() - 1), "error: the last line has no end: the file was cut [invalid-tuning]");
  wrong(file.substr(0, file.rfind("  schedule")), "error: the entry has no line `schedule` [invalid-tuning]");
  wrong(replaced(file, "  chip ", "  chp "),
        "t:5: error: there is no line `chp` of an entry [invalid-tuning]\nt:5: help: did you mean `chip`?");
  wrong(replaced(file, line(file, "chip") + "\n", ""), "t:3: error: the entry has no line `chip` [invalid-tuning]");
  wrong(replaced(file, line(file, "chip"), line(file, "chip") + "\n" + line(file, "chip")),
        "t:6: error: the entry has two lines `chip` [invalid-tuning]");
  wrong(replaced(file, line(file, "tuned"), "  tuned      fast"), "t:7: error: `tuned` is `fast`, expected a time such as `8.36 us`");
  wrong(replaced(file, line(file, "tuned"), "  tuned      -1 us"), "t:7: error: `tuned` is `-1 us`, expected a time");
  wrong(replaced(file, "\nunit ", "\nunit x"), "t:3: error: found `unit x");
  wrong(replaced(file, "\nunit ", "\n<<<<<<< HEAD\nunit "), "t:3: error: found `<<<<<<< HEAD`, expected `unit <hash> for <target>`");
  const size_t second = file.rfind("\nunit ");
  wrong(file + file.substr(second), "error: the unit has an entry for x86-64-v3 in line ");
  // Every fault at once.
  folder_.write("t", replaced(replaced(file, "  chip ", "  chp "), line(file, "tuned"), "  tuned      fast"));
  EXPECT_EQ(count(tcc(build).err, "[invalid-tuning]"), 3) << tcc(build).err;
  // Comments, and lines with blanks or an end of another system's, are none.
  folder_.write("t", std::regex_replace("# ours\n" + file, std::regex("\n"), " \r\n"));
  const std::string read = good(build);
  EXPECT_EQ(tuned(read), kernels(read)) << read;
  refused(model_ + "--tune-db=none --emit=plan", 5, "none: error: file can't be read");
}

TEST_F(Tune, FlagsThatSayNothingAreRefused) {
  refused("tune " + model_, 2, "error: no file is named for what is measured [invalid-argument]");
  refused(tune_ + model_ + "--tune-frozen", 2, "error: --tune-frozen says nothing with `tcc tune`");
  refused("tune --tune-db=t --candidates=1 " + model_, 2, "error: --candidates=1: a number from 2 to 64 was expected");
  refused(model_ + "--tune-frozen -o m.so", 2, "error: --tune-frozen says nothing without --tune-db");
  refused("tune --tune-db=t --threads=0 " + model_, 2, "error: --threads=0: a number of threads was expected, at least 1");
  refused("--from=loop u --pass='bind(i, parallel)' --tune-db=t --emit=kernel", 2, "error: --tune-db says nothing with --pass");
  refused("--from=kernel k --tune-db=t -o m.so", 2, "error: --tune-db says nothing with --from=kernel");
  refused("tune --tune-db=no/such/t " + model_, 5, "[unwritable-file]");
  folder_.write("g", small_graph());
  refused("tune --from=graph g --target=cpu --tune-db=g", 2, "[overwritten-file]");
}

TEST_F(Tune, WithoutADeviceItSaysSo) {
  ASSERT_EQ(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
  const std::string both = "$MODELS/mnist_mlp/dynamo.onnx --march=ptx ";
  refused(tune_ + both + "--target=cuda", 5, "error: code for sm_80 can't be timed here: ");
  const Result result = tcc(tune_ + both);
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("warning: code for sm_80 can't be timed here: "), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("2 units measured, "), std::string::npos) << result.out;
}

TEST_F(Tune, AnInterruptionLosesNothing) {
  // So many candidates take far longer than the time after which the signal comes.
  const Result result = run_shell(
      "timeout --preserve-status -s INT 4 \"$TCC\" tune --candidates=64 --tune-db=t -j 1 \"$MODELS\"/bert_tiny/dynamo.onnx --target=cpu",
      folder_.path());
  EXPECT_EQ(result.exit_code, 130) << result.out << result.err;
  EXPECT_NE(result.out.find("stopped; what was measured is saved"), std::string::npos) << result.out << result.err;
  EXPECT_EQ(folder_.files(), std::vector<std::string>{"t"});
  good(other_ + "--tune-db=t --emit=plan");
}

TEST_F(Tune, CandidatesArePrinted) {
  const std::string text = good(model_ + "--emit=candidates");
  EXPECT_NE(text.find("// k0\n// 1/node_linear + 2/node_relu\n// "), std::string::npos) << text;
  EXPECT_GT(count(text, " us\n// contraction: "), 6) << text;
  // What is chosen is the first.
  const std::string schedules = good(model_ + "--emit=schedule"), chosen = schedules.substr(schedules.find("\nk0: ") + 5);
  const std::string line = chosen.substr(0, chosen.find('\n'));
  EXPECT_NE(text.find(line), std::string::npos) << text;
  EXPECT_LT(text.find(line), text.find("not packed_panels: another candidate was asked for")) << text;
  EXPECT_NE(good("$MODELS/mnist_mlp/dynamo.onnx --emit=candidates --target=cuda -march=sm_90a").find("// k0\n"), std::string::npos);
}

TEST_F(Tune, ModesAndPrecisionsHaveUnitsOfTheirOwn) {
  const std::string step = "$MODELS/mnist_mlp/unoptimized.onnx --target=cpu --mode=train --loss=cross_entropy --optimizer=sgd ";
  good(tune_ + step);
  good(step + "--tune-db=t --tune-frozen -o step.so");
  good("run step.so --random --steps 2 --device cpu");
  refused(step + "--precision=bf16 --tune-db=t --tune-frozen -o step.so", 2, "[untuned-unit]");
}

}  // namespace
}  // namespace tcc::test
