// Candidates are found by choosing again, with another option at one or more of the points where a choice ranks options (decisions.h):
//
//   ranks {}         what `choose` takes:       packed_panels, tile 4 x 3, 16 items
//   ranks {1}        another strategy:          register_tile, its best tile
//   ranks {0, 1}     the second tile:           packed_panels, tile 5 x 2, 16 items
//   ranks {1, 1}     both
//
// They come in rounds: the first alternatives of all points, then the second ones and pairs of first ones, and so on. So the few that are wanted differ in more
// than the size of one tile. Options that a model ranks, such as tiles, are many and matter most: two of them come in a round. In a round the faster ones, by the
// model, are first.
#include "tcc/schedule/candidates.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <queue>
#include <set>

#include "schedule/strategy.h"
#include "tcc/loop/first_form.h"
#include "tcc/schedule/schedule_units.h"
#include "tcc/support/diagnostics.h"

namespace tcc::schedule {

namespace {

/// What the model says takes that many times the time of the choice is not worth timing.
constexpr double kFarBehind = 4;
/// The choice is run so many times for each candidate that is wanted: several runs may give one schedule.
constexpr size_t kRunsPerCandidate = 12;

/// A run that is to be made.
struct Run {
  std::vector<size_t> ranks;
  size_t round = 0;
  bool ranked = false;     ///< a strategy's model says how much slower it is than the run that it differs from
  double ns = 0;           ///< modelled; where it is not ranked, that of the run that it differs from,
  double finished_ns = 0;  ///< whose finished kernels take that long by the model
};

struct Later {
  bool operator()(const Run& a, const Run& b) const {
    if (a.round != b.round) return a.round > b.round;
    if (a.ns != b.ns) return a.ns > b.ns;
    return a.ranks > b.ranks;
  }
};

class Search {
 public:
  Search(const loop::Unit& unit, const Target& target, size_t most) : unit_(unit), target_(target), most_(most) {
    form_.unit = std::shared_ptr<const loop::Unit>(std::shared_ptr<const void>(), &unit_);  // which outlives it
  }

  std::vector<Candidate> run() {
    waiting_.push({});
    for (size_t runs = 0; !waiting_.empty() && found_.size() < most_ && runs < most_ * kRunsPerCandidate; runs++) {
      const Run next = waiting_.top();
      waiting_.pop();
      make(next);
    }
    if (!found_.empty())
      std::stable_sort(found_.begin() + 1, found_.end(), [](const Candidate& a, const Candidate& b) { return a.ns < b.ns; });
    return std::move(found_);
  }

 private:
  /// Of the finished kernels. Error (internal) when the schedule does not apply.
  double estimate(const Schedule& schedule) const {
    try {
      const std::vector<double> costs = schedule_unit(form_, schedule, target_).costs_ns;
      return std::accumulate(costs.begin(), costs.end(), 0.0);
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      internal_error(error.diagnostics()[0].message + " (candidate: " + print(schedule) + ")");
    }
  }

  /// Makes the run. Where its schedule is new and not far behind, it is a candidate, and runs that differ from it in one more point wait.
  void make(const Run& given) {
    Run run = given;
    Decisions decisions(run.ranks);
    Schedule schedule = choose(unit_, target_, &decisions);
    if (!seen_.insert(print(schedule)).second) return;
    const bool first = found_.empty();
    const double finished_ns = estimate(schedule);
    if (first) run.ns = finished_ns;
    else if (!run.ranked) run.ns *= run.finished_ns > 0 ? finished_ns / run.finished_ns : 1;
    if (!run.ranks.empty() && decisions.points().at(run.ranks.size() - 1).open) {
      Run next = given;
      next.ranks.back()++;
      next.round++;
      waiting_.push(std::move(next));
    }
    if (!first && run.ns > kFarBehind * found_.front().ns) return;
    found_.push_back({std::move(schedule), run.ns});
    run.finished_ns = finished_ns;
    for (size_t i = run.ranks.size(); i < decisions.points().size(); i++) expand(run, i, decisions.points()[i]);
  }

  /// Runs that take another option at the point.
  void expand(const Run& run, size_t number, const Decisions::Point& point) {
    const auto wait = [&](size_t rank, bool ranked, double ns) {
      Run other{run.ranks, run.round + (ranked ? (rank + 1) / 2 : rank), ranked, ns, run.finished_ns};
      other.ranks.resize(number);
      other.ranks.push_back(rank);
      waiting_.push(std::move(other));
    };
    if (point.open) return wait(1, false, run.ns);
    const bool ranked = !point.slower.empty();
    for (size_t rank = 1; rank <= point.num_alternatives; rank++) {
      const double ns = run.ns * (ranked ? point.slower[rank - 1] : 1);
      if (ranked && ns > kFarBehind * found_.front().ns) return;  // those behind are slower
      wait(rank, ranked, ns);
    }
  }

  const loop::Unit& unit_;
  const Target& target_;
  const size_t most_;
  loop::FirstForm form_;
  std::vector<Candidate> found_;
  std::set<std::string> seen_;
  std::priority_queue<Run, std::vector<Run>, Later> waiting_;
};

}  // namespace

std::vector<Candidate> candidates(const loop::Unit& unit, const Target& target, size_t most) {
  if (unit.body.empty()) return {};
  return Search(unit, target, most).run();
}

}  // namespace tcc::schedule
