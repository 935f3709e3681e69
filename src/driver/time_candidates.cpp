// How candidates are compared. In each round every candidate runs for some milliseconds, one after the other, in a new order; so what slows a machine down for a
// while slows all of them down. A round is several pieces, of which the fastest counts: what another process takes away is not the candidate's. A candidate takes the place of the choice only where its median is shorter by a margin and it was faster in most of the rounds:
// otherwise chance would decide, and the file would change with each tuning.
#include "driver/time_candidates.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "driver/describe_library.h"
#include "driver/from_loops.h"
#include "driver/link_library.h"
#include "driver/target_build.h"
#include "tcc/driver/array_files.h"
#include "tcc/driver/tolerance.h"
#include "tcc/loop/rewrite.h"
#include "tcc/plan/plan_unit.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/temporary.h"
#include "tcc/support/text.h"

namespace tcc::driver {

namespace {

constexpr int kRounds = 9, kWarmups = 3;
/// Of one candidate in a round, in microseconds; pieces of it, and most runs of one.
constexpr double kRoundUs = 4000;
constexpr int kPieces = 8, kMostRuns = 100;
/// Rounds after which a candidate that takes so many times the least time is left out.
constexpr int kEarlyRounds = 2;
constexpr double kFarBehind = 1.3;
/// What a candidate must be faster by than the choice, and in how many of the rounds.
constexpr double kMargin = 0.03, kMostRounds = 0.7;
/// Of a unit whose results jump (comparisons, rounding to integers), the share of elements that may be on the other side.
constexpr double kJumping = 1e-3;

/// Valid for all checks of indices in the unit; nothing where there are none.
std::optional<IntRange> range_of_indices(const loop::Unit& unit) {
  std::optional<int64_t> least;
  loop::walk_exprs(unit.body, [&](const loop::Expr& e) {
    if (e.kind != loop::Expr::Kind::op || e.op != Op::check_index_) return;
    least = std::min(least.value_or(e.args[3]->int_value), e.args[3]->int_value);
  });
  return least ? std::optional(IntRange{0, std::max<int64_t>(*least - 1, 0)}) : std::nullopt;
}

/// Whether a last digit can decide about a whole value: somewhere a float becomes an integer or a truth.
bool jumps(const loop::Unit& unit) {
  bool found = false;
  loop::walk_exprs(unit.body, [&](const loop::Expr& e) {
    if (e.kind != loop::Expr::Kind::op || e.args.empty() || !is_float(e.args[0]->dtype)) return;
    found = found || !is_float(e.dtype) || e.op == Op::round_even_ || e.op == Op::trunc_ || e.op == Op::floor_ || e.op == Op::ceil_ ||
            e.op == Op::sign_;
  });
  return found;
}

/// Of the coarsest float that goes in or out; products of tf32 keep the digits of f16.
Tolerance tolerance_of(const loop::Unit& unit, const Target& target) {
  std::optional<DType> coarsest;
  const auto consider = [&](DType dtype) {
    if (is_float(dtype) && (!coarsest || default_tolerance(dtype).rtol > default_tolerance(coarsest).rtol)) coarsest = dtype;
  };
  for (const loop::Param& param : unit.params) consider(param.buffer->dtype);
  if (target.is_cuda() && target.allow_tf32) consider(DType::f16);
  return default_tolerance(coarsest);
}

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::infinity();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

UnitProgram::UnitProgram(loop::FirstForm form) : form_(std::move(form)) {
  const std::optional<IntRange> range = range_of_indices(*form_.unit);
  std::vector<ExpectedTensor> expected;
  for (const loop::Param& param : form_.unit->params) {
    if (param.written) continue;
    const DType dtype = param.buffer->dtype;
    expected.push_back(
        {param.buffer->name, dtype, param.buffer->padded_extents(), is_float(dtype) || dtype == DType::boolean ? std::nullopt : range});
  }
  const std::vector<Tensor> values = gather_inputs(expected, {.random = true}, "").tensors;
  std::map<std::string, Tensor> constants;
  size_t next = 0;
  for (const loop::Param& param : form_.unit->params) {
    if (param.written) continue;
    const Tensor& value = values[next++];
    if (param.constant) constants.emplace(param.buffer->name, value);
    else inputs_.push_back(value);
  }
  interface_ = interface_of(form_.unit->params, constants);
  for (const auto& weight : interface_->weights()) weights_.push_back(weight.get());
}

std::shared_ptr<const runtime::Library> UnitProgram::compile(const schedule::Schedule& schedule, const TargetChoice& choice,
                                                             const Options& options) const {
  Options quiet;
  quiet.model = options.model;
  quiet.optimization = options.optimization;
  quiet.progress = ProgressStyle::off;
  quiet.quiet = true;
  Diagnostics diagnostics;
  Session session(quiet, diagnostics);
  std::vector<TargetBuild> builds(1);
  TargetBuild& build = builds.front();
  build.choice = choice;
  build.choice.target.base.clear();  // it stands alone
  build.choice.name = choice.target.is_cpu() ? "cpu" : "cuda";
  auto scheduled = std::make_shared<const schedule::ScheduledUnit>(schedule::schedule_unit(form_, schedule, choice.target));
  build.plans.push_back(plan::plan_unit(*scheduled, choice.target, "unit", weights_));
  build.scheduled.push_back({choice.target, {scheduled}});
  LibraryInterface interface;
  interface.model_name = "unit";
  interface.functions = {{"infer", interface_.get()}};
  TemporaryFolder folder;  // once the library is loaded its file is not needed
  const std::string path = folder.file("candidate.so");
  OutputFiles outputs;
  link_library(session, interface, builds, outputs, path);
  outputs.commit(path);
  return runtime::Library::open(path);
}

struct CandidateRace::Runner {
  Runner(std::shared_ptr<const runtime::Library> library, const runtime::InstanceOptions& options)
      : instance(std::move(library), options) {}

  void begin(const std::vector<Tensor>& inputs) {
    instance.prepare(inputs);
    double us = 0;
    for (int i = 0; i < kWarmups; ++i) us = instance.run_prepared().device_us;
    const double wanted = kRoundUs / std::max(us, 0.1);
    pieces = std::clamp(static_cast<int>(wanted), 1, kPieces);
    runs = std::clamp(static_cast<int>(wanted / pieces), 1, kMostRuns);
  }
  void time() {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < pieces; ++i) least = std::min(least, instance.run_prepared_many(runs).device_us / runs);
    us.push_back(least);
  }

  runtime::Instance instance;
  int pieces = 1, runs = 1;
  std::vector<double> us;  ///< of one run, in each round
  bool left_out = false;
};

CandidateRace::CandidateRace(const UnitProgram& program, const std::vector<schedule::Candidate>& candidates,
                             const std::vector<std::shared_ptr<const runtime::Library>>& libraries, const TargetChoice& choice,
                             const runtime::InstanceOptions& options)
    : program_(program), candidates_(candidates), choice_(choice) {
  for (const auto& library : libraries) runners_.push_back(std::make_unique<Runner>(library, options));
}

CandidateRace::~CandidateRace() = default;

void CandidateRace::compare(const std::vector<Tensor>& expected, const std::vector<Tensor>& found, size_t number) const {
  const loop::Unit& unit = *program_.form().unit;
  const Tolerance tolerance = tolerance_of(unit, choice_.target);
  for (size_t i = 0; i < expected.size(); ++i) {
    const Comparison comparison = driver::compare(found[i], expected[i], tolerance);
    const auto allowed =
        jumps(unit) ? std::max<int64_t>(1, static_cast<int64_t>(kJumping * static_cast<double>(comparison.num_elements))) : 0;
    if (comparison.num_wrong <= allowed) continue;
    internal_error("a candidate computes something else than the choice: " + std::to_string(comparison.num_wrong) + " of " +
                   std::to_string(comparison.num_elements) + " elements of result " + std::to_string(i) + " differ, element " +
                   std::to_string(comparison.worst) + " is " + print_float(comparison.found) + ", expected " +
                   print_float(comparison.expected) + " (candidate: " + print(candidates_[number].schedule) +
                   ") (choice: " + print(candidates_.front().schedule) + ")");
  }
}

void CandidateRace::run_round() {
  const size_t round = runners_.front()->us.size();
  for (size_t i = 0; i < runners_.size(); ++i) {
    Runner& runner = *runners_[(i + round) % runners_.size()];
    if (!runner.left_out) runner.time();
  }
}

CandidateTimes CandidateRace::run() {
  std::vector<Tensor> expected;
  for (size_t i = 0; i < runners_.size(); ++i) {
    runners_[i]->begin(program_.inputs());
    std::vector<Tensor> found = runners_[i]->instance.prepared_outputs();
    if (i == 0) expected = std::move(found);
    else compare(expected, found, i);
  }
  for (int round = 0; round < kRounds; ++round) {
    run_round();
    if (round + 1 != kEarlyRounds) continue;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& runner : runners_) least = std::min(least, *std::min_element(runner->us.begin(), runner->us.end()));
    for (size_t i = 1; i < runners_.size(); ++i)
      runners_[i]->left_out = *std::min_element(runners_[i]->us.begin(), runners_[i]->us.end()) > kFarBehind * least;
  }
  CandidateTimes times;
  for (const auto& runner : runners_) times.us.push_back(median(runner->us));
  const auto best = static_cast<size_t>(std::min_element(times.us.begin(), times.us.end()) - times.us.begin());
  const std::vector<double>&chosen = runners_.front()->us, &fastest = runners_[best]->us;
  int faster = 0;
  for (size_t round = 0; round < std::min(chosen.size(), fastest.size()); ++round) faster += fastest[round] < chosen[round];
  if (times.us[best] < (1 - kMargin) * times.us[0] && faster >= kMostRounds * kRounds) times.winner = best;
  return times;
}

}  // namespace tcc::driver
