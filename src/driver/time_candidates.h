// Candidates of one unit on the device: compiled into a library each, compared with the first one's results, and timed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "driver/run_stage.h"
#include "driver/targets.h"
#include "tcc/graph/graph.h"
#include "tcc/loop/first_form.h"
#include "tcc/runtime/library.h"
#include "tcc/schedule/candidates.h"

namespace tcc::driver {

/// A unit alone as a program: inputs and outputs are its parameters, its constants are weights. Values are random.
class UnitProgram {
 public:
  explicit UnitProgram(loop::FirstForm form);
  const loop::FirstForm& form() const { return form_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }
  /// Compiled by the schedule, and loaded. Several threads may compile at once.
  std::shared_ptr<const runtime::Library> compile(const schedule::Schedule& schedule, const TargetChoice& choice,
                                                  const Options& options) const;

 private:
  loop::FirstForm form_;
  std::unique_ptr<Graph> interface_;  ///< owns the weights
  std::vector<Weight*> weights_;
  std::vector<Tensor> inputs_;
};

struct CandidateTimes {
  std::vector<double> us;  ///< medians, of each candidate; those that fell far behind have fewer rounds
  size_t winner = 0;       ///< the first candidate, unless another one is clearly faster
};

/// Loads all of them onto the device, compares and times them; the first one is the choice of the model. Error (internal) when a candidate computes something else,
/// (environment) when the device refuses one.
class CandidateRace {
 public:
  CandidateRace(const UnitProgram& program, const std::vector<schedule::Candidate>& candidates,
                const std::vector<std::shared_ptr<const runtime::Library>>& libraries, const TargetChoice& choice,
                const runtime::InstanceOptions& options);
  ~CandidateRace();
  CandidateTimes run();

 private:
  struct Runner;
  void compare(const std::vector<Tensor>& expected, const std::vector<Tensor>& found, size_t number) const;
  void run_round();

  const UnitProgram& program_;
  const std::vector<schedule::Candidate>& candidates_;
  const TargetChoice& choice_;
  std::vector<std::unique_ptr<Runner>> runners_;
};

}  // namespace tcc::driver
