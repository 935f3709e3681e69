// A small program made by hand, whose kernels are C compiled when the test runs: what the launcher and linker tests run.
//
//   x: f32[2, 3] ── k_scale ──> t (arena) ── k_add_weight ──> y: f32[2, 3]      y = 2x + w
//               └─ copy ──────────────────────────────> z: f32[2, 3]       z = x
//   u: i32[4]  <── fill                                                     u = 7
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tcc/link/link.h"
#include "tcc/support/diagnostics.h"

namespace tcc::test {

/// A folder of this test's own, empty, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::vector<std::string> files() const;

 private:
  std::string path_;
};

/// Runs a command; its exit code, and what it printed on both streams.
struct CommandResult {
  int exit_code;
  std::string output;
};
CommandResult run_command(const std::string& command);

/// The bytes of an object compiled from C.
std::string compile_c(const TemporaryFolder& folder, const std::string& source);

/// `cuda`: with a second target whose kernels are PTX.
link::LinkInput toy_model(const TemporaryFolder& folder, bool cuda = false);
/// Makes the first kernel report elements of x that are 100 or more, as a check of indices does.
void add_check(link::LinkInput* input);
/// Halves w, and makes twice of it what an instance prepares and the second kernel adds: the outputs are the same.
void add_preparation(link::LinkInput* input);
/// The input x = first, first + 1, ..., and a check of what the model has to give for it.
Tensor toy_input(float first);
void expect_toy_outputs(const std::vector<Tensor>& outputs, float first);

/// The C of the kernels, for the fake CUDA driver: what tcc_v1_<name> computes, and how many parameters it has as <name>_parameters.
extern const char* const kToyKernels;
extern const char* const kTrainerKernels;

/// What the error says; "no error" when there is none. Its exit code is checked.
std::string message_of(const std::function<void()>& action, ExitCode code);

}  // namespace tcc::test
