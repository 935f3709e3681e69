// The plans tried: cuts for rising prices of memory, each made into a graph and planned, and one of them taken.
//
// The peak of a plan is not what the cut counts, and falls by fits and starts as the price rises: only plans say what a cut is worth. So all are planned, those
// that differ, and the choice is among plans. docs/residuals.md says what each is for.

#include "tcc/residuals/residuals.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "residuals/checkpoints.h"
#include "residuals/recompute.h"
#include "tcc/schedule/schedule.h"
#include "tcc/support/diagnostics.h"
#include "tcc/support/parallel.h"

namespace tcc::residuals {
namespace {

/// In times of reading a byte. The last is more than contractions cost, but not more than the statistics of long rows, which are small.
constexpr double kPrices[] = {0, 1, 4, 16, 64, 256};
constexpr double kMemoryIsAll = 1024;
/// Under a budget plans this near the fastest count as equally fast: the smallest of them is taken.
constexpr double kAsFast = 1.02;
/// Without a budget time is traded for memory up to this factor, where a plan with half the peak may take sqrt(2) times as long.
constexpr double kWorthwhile = 1.1;
/// Without a budget, a cut that computes more than this share of the time again is not planned: nor would a mix with it be taken.
constexpr double kTooSlow = 0.3;
/// Plans between two others that are tried to use up a budget of memory or time, and how near they come to what is known already: the first guess is
/// between the two by what they take, and what a share of them takes is nearly linear.
constexpr int kMixes = 2;
constexpr double kLeastStep = 0.125;
/// Plans that are made at the same time, on any machine: afterwards some may be known to be of no use.
constexpr size_t kTogether = 4;

/// Where between two plans a limit lies: shares of the one that are known to be on either side of it, and what plans with them take.
struct Bracket {
  double low = 0, high = 1;
  double low_amount, high_amount;

  double guess(double limit) const {
    const double share = low_amount == high_amount ? 0.5 : (limit - low_amount) / (high_amount - low_amount);
    return low + (high - low) * std::clamp(share, kLeastStep, 1 - kLeastStep);
  }
  void narrow(double share, double amount, bool is_low) {
    (is_low ? low : high) = share;
    (is_low ? low_amount : high_amount) = amount;
  }
};

class Chooser {
 public:
  Chooser(const Graph& joint, const schedule::Target& target, const Options& options, const Planner& planner)
      : target_(target), options_(options), planner_(planner), costs_(analyze(joint, target, planner.group)) {
    result_.options = options;
  }

  Result run() {
    if (options_.mode == Mode::full) {
      std::vector<Try> tries;
      add_checkpoints(tries);
      try_plans(std::move(tries));
    } else {
      add_plan({.name = "none"}, save_all(costs_));
      if (options_.mode == Mode::none) plan_added();
      if (options_.mode == Mode::automatic) {
        const int pieces = best_number_of_pieces(costs_);
        const Checkpoints checkpoints = place_checkpoints(costs_, pieces);
        std::vector<Try> tries;
        for (const double price : kPrices) {
          TriedPlan plan{.name = "price " + number(price), .price = price};
          if (price >= 16 && pieces > 1) plan.checkpoints = checkpoints.places;
          const std::vector<char> keep = plan.checkpoints > 0 ? checkpoints.keep : std::vector<char>();
          tries.push_back({plan, [this, price, keep] { return cut(costs_, per_kib(price), keep); }});
        }
        add_checkpoints(tries);
        try_plans(std::move(tries));
      }
    }
    choose();
    if (options_.mode == Mode::automatic) {
      if (options_.budget_bytes > 0) mix_for_budget();
      else mix_for_time();
    }
    finish();
    return std::move(result_);
  }

 private:
  /// A plan that is not planned yet, and what it saves.
  struct Try {
    TriedPlan plan;
    std::function<Saved()> saved;
  };

  static std::string number(double value) { return std::to_string(static_cast<int64_t>(value)); }

  Picoseconds per_kib(double price) const { return std::llround(price * 1000 * 1024 / target_.bytes_per_ns); }

  void add_checkpoints(std::vector<Try>& tries) const {
    const int best = best_number_of_pieces(costs_);
    for (const int pieces : {best / 2, best, 2 * best}) {
      if (pieces < 2) continue;
      const Checkpoints checkpoints = place_checkpoints(costs_, pieces);
      if (checkpoints.places == 0) continue;
      TriedPlan plan{.name = "checkpoints " + std::to_string(checkpoints.places), .price = kMemoryIsAll, .checkpoints = checkpoints.places};
      tries.push_back({plan, [this, checkpoints] { return cut_between(checkpoints, true); }});
      // Where the peak is at the loss, behind the last piece, its values are in the way.
      plan.name += " all";
      if (pieces == best) tries.push_back({plan, [this, checkpoints] { return cut_between(checkpoints, false); }});
    }
    tries.push_back({{.name = "full", .price = kMemoryIsAll}, [this] { return cut(costs_, per_kib(kMemoryIsAll)); }});
  }

  /// Checkpoints are saved, what is between is computed again. With `spare_last` not the last piece, which is needed at once: what would be stored again may
  /// be saved for nothing.
  Saved cut_between(const Checkpoints& checkpoints, bool spare_last) const {
    RecomputeCosts costs = costs_;
    if (!spare_last) costs.priced_bytes = costs.bytes;
    const std::vector<Node*>& nodes = costs.graph->body.nodes;
    const std::vector<int> ranks = forward_ranks(costs);
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!spare_last || ranks[i] <= ranks[checkpoints.last]) continue;
      for (const Value* result : nodes[i]->results) {
        const size_t id = static_cast<size_t>(result->id);
        if (costs.stored_again[id]) costs.priced_bytes[id] = 0;
      }
    }
    return cut(costs, per_kib(kMemoryIsAll), checkpoints.keep);
  }

  /// Between what is fast and what fits.
  void mix_for_budget() {
    if (fitting_ == SIZE_MAX) return;
    const size_t small = fitting_;
    size_t fast = SIZE_MAX;
    for (size_t i = 0; i < result_.tried.size(); ++i) {
      if (fits(result_.tried[i]) || result_.tried[i].cost_ns >= result_.tried[small].cost_ns) continue;
      if (fast == SIZE_MAX || result_.tried[i].peak_bytes < result_.tried[fast].peak_bytes) fast = i;
    }
    if (fast == SIZE_MAX) return;
    // Shares that are as in `small`: too few to fit, enough.
    Bracket shares{.low_amount = static_cast<double>(result_.tried[fast].peak_bytes),
                   .high_amount = static_cast<double>(result_.tried[small].peak_bytes)};
    for (int i = 0; i < kMixes; ++i) {
      const double share = shares.guess(static_cast<double>(options_.budget_bytes));
      const TriedPlan& plan = result_.tried[try_combination(small, fast, share)];
      shares.narrow(share, static_cast<double>(plan.peak_bytes), !fits(plan));
    }
    choose();
  }

  /// Between the plan that would be taken and the next smaller one, which takes too long.
  void mix_for_time() {
    const size_t fast = fitting_;
    size_t small = SIZE_MAX;
    for (size_t i = 0; i < result_.tried.size(); ++i) {
      if (worthwhile(result_.tried[i]) || result_.tried[i].peak_bytes >= result_.tried[fast].peak_bytes) continue;
      if (small == SIZE_MAX || result_.tried[i].cost_ns < result_.tried[small].cost_ns) small = i;
    }
    if (small == SIZE_MAX) return;
    // Shares that are as in `small`: quick enough, too slow.
    Bracket shares{.low_amount = result_.tried[fast].cost_ns, .high_amount = result_.tried[small].cost_ns};
    for (int i = 0; i < kMixes; ++i) {
      const double share = shares.guess(fastest_ns_ * kWorthwhile);
      const size_t number = try_combination(small, fast, share);
      if (number == SIZE_MAX) shares.high = share;
      else shares.narrow(share, result_.tried[number].cost_ns, worthwhile(result_.tried[number]));
    }
    choose();
  }

  /// The first part of the forward pass as in `small`, because its values would live longest, the rest as in `fast`; returns add_plan's number.
  size_t try_combination(size_t small, size_t fast, double share) {
    const Saved few = saved_[small], many = saved_[fast];
    TriedPlan plan{.name = "mix " + std::to_string(std::lround(share * 100)) + " %", .checkpoints = result_.tried[small].checkpoints};
    return try_plan(std::move(plan), mix(few, many, static_cast<int>(share * num_forward())));
  }

  /// Values of the forward nodes before `end` as in `first`, the others as in `rest`; early ones go with what they are computed from.
  Saved mix(const Saved& first, const Saved& rest, int end) const {
    const std::vector<Node*>& nodes = costs_.graph->body.nodes;
    const std::vector<int> ranks = forward_ranks(costs_);
    Saved saved(first.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const Value* result : nodes[i]->results) {
        const size_t id = static_cast<size_t>(result->id);
        saved[id] = ranks[i] < end ? first[id] : rest[id];
      }
    }
    return saved;
  }

  int num_forward() const {
    const std::vector<Half>& halves = costs_.partition.of_node;
    return static_cast<int>(std::count(halves.begin(), halves.end(), Half::forward));
  }

  size_t try_plan(TriedPlan plan, Saved saved) {
    const size_t number = add_plan(std::move(plan), std::move(saved));
    plan_added();
    return number;
  }

  void try_plans(std::vector<Try> tries) {
    std::vector<Saved> saved(tries.size());
    std::vector<Division> divisions(tries.size());
    parallel_each(tries.size(), [&](size_t i) {
      saved[i] = tries[i].saved();
      divisions[i] = divide(costs_, saved[i]);
    });
    std::vector<size_t> order(tries.size());
    std::iota(order.begin(), order.end(), 0);
    if (!plans_all())
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return more_ns(divisions[a]) < more_ns(divisions[b]); });
    for (const size_t i : order) {
      add_plan(std::move(tries[i].plan), std::move(saved[i]), std::move(divisions[i]));
      // The first one says how long others may take.
      if (graphs_.size() - num_planned_ < (num_planned_ == 0 ? 2 : kTogether) || plans_all()) continue;
      plan_added();
      if (has_too_slow()) return;
    }
    plan_added();
  }

  /// Otherwise only what may be taken, or mixed: nothing that computes more again than a plan that is too slow already, or than memory is left to save.
  bool plans_all() const { return options_.mode != Mode::automatic || options_.budget_bytes > 0; }

  bool has_too_slow() const {
    return std::ranges::any_of(result_.tried, [&](const TriedPlan& plan) { return plan.cost_ns > fastest_planned_ns_ * kWorthwhile; });
  }

  /// Even if what it computes again saved all the memory that any plan can save.
  bool is_hopeless(const Division& division) const {
    if (num_planned_ == 0) return false;
    const double ns = more_ns(division);
    if (ns > kTooSlow * result_.tried[0].cost_ns) return true;
    const double least_bytes = static_cast<double>(options_.fixed_bytes + floor_bytes_);
    return std::ranges::any_of(result_.tried, [&](const TriedPlan& plan) {
      return plan.peak_bytes > 0 && plan.cost_ns <= fastest_planned_ns_ * kWorthwhile &&
             worth(plan) <= (fastest_planned_ns_ + ns) * std::sqrt(least_bytes);
    });
  }

  /// How much longer it takes than if all were saved, by the costs of the cut.
  double more_ns(const Division& division) const { return again_ns(division) + saving_ns(division) - saving_ns(divisions_.front()); }

  double saving_ns(const Division& division) const {
    Picoseconds sum = 0;
    for (size_t id = 0; id < division.saved.size(); ++id) sum += division.saved[id] ? costs_.save[id] : 0;
    return static_cast<double>(sum) / 1000;
  }

  /// What computing again takes by the costs of the cut.
  double again_ns(const Division& division) const {
    Picoseconds sum = 0;
    for (size_t i = 0; i < division.again.size(); ++i) sum += division.again[i] ? costs_.recompute[i] : 0;
    return static_cast<double>(sum) / 1000;
  }

  /// Plans what was added to `tried`, and not planned yet.
  void plan_added() {
    const size_t next = num_planned_;
    std::vector<Planned> all(graphs_.size() - next);
    parallel_each(all.size(), [&](size_t i) {
      const Division& division = divisions_[next + i];
      const auto make = [&] { return recompute(costs_, division); };
      graphs_[next + i] = planner_.shared ? planner_.shared->find_or_make(division.saved, make) : make();
      all[i] = planner_.plan(*graphs_[next + i]);
    });
    for (size_t i = 0; i < all.size(); ++i) {
      result_.tried[next + i].peak_bytes = options_.fixed_bytes + all[i].peak_bytes;
      result_.tried[next + i].cost_ns = all[i].cost_ns;
      floor_bytes_ = std::min(floor_bytes_, all[i].floor_bytes);
      fastest_planned_ns_ = std::min(fastest_planned_ns_, all[i].cost_ns);
    }
    num_planned_ = graphs_.size();
  }

  size_t add_plan(TriedPlan plan, Saved saved) {
    Division division = divide(costs_, saved);
    return add_plan(std::move(plan), std::move(saved), std::move(division));
  }

  /// Adds the plan of a cut and its graph, unless there is one of the same cut; returns its number in `tried`, SIZE_MAX where it is not worth a plan.
  size_t add_plan(TriedPlan plan, Saved saved, Division division) {
    const auto same = std::find_if(divisions_.begin(), divisions_.end(), [&](const Division& d) { return d.saved == division.saved; });
    if (same != divisions_.end()) return static_cast<size_t>(same - divisions_.begin());
    if (!plans_all() && is_hopeless(division)) return SIZE_MAX;
    for (size_t id = 0; id < division.saved.size(); ++id) {
      if (!division.saved[id]) continue;
      ++plan.num_saved;
      plan.saved_bytes += costs_.bytes[id];
    }
    plan.num_copies = division.num_copies;
    result_.tried.push_back(std::move(plan));
    saved_.push_back(std::move(saved));
    divisions_.push_back(std::move(division));
    graphs_.emplace_back();
    return graphs_.size() - 1;
  }

  bool fits(const TriedPlan& plan) const { return options_.budget_bytes <= 0 || plan.peak_bytes <= options_.budget_bytes; }

  void choose() {
    fitting_ = SIZE_MAX;
    const std::vector<TriedPlan>& tried = result_.tried;
    if (options_.mode == Mode::full) {
      for (size_t i = 0; i < tried.size(); ++i) {
        if (!fits(tried[i])) continue;
        if (fitting_ == SIZE_MAX || better_by_memory(tried[i], tried[fitting_])) fitting_ = i;
      }
      return;
    }
    fastest_ns_ = INFINITY;
    for (const TriedPlan& plan : tried) {
      if (fits(plan)) fastest_ns_ = std::min(fastest_ns_, plan.cost_ns);
    }
    if (options_.budget_bytes <= 0) {
      for (size_t i = 0; i < tried.size(); ++i) {
        if (worthwhile(tried[i]) && (fitting_ == SIZE_MAX || worth(tried[i]) < worth(tried[fitting_]))) fitting_ = i;
      }
      return;
    }
    for (size_t i = 0; i < tried.size(); ++i) {
      if (!fits(tried[i]) || tried[i].cost_ns > fastest_ns_ * kAsFast) continue;
      if (fitting_ == SIZE_MAX || better_by_memory(tried[i], tried[fitting_])) fitting_ = i;
    }
  }

  bool worthwhile(const TriedPlan& plan) const { return plan.cost_ns <= fastest_ns_ * kWorthwhile; }
  static double worth(const TriedPlan& plan) { return plan.cost_ns * std::sqrt(static_cast<double>(plan.peak_bytes)); }
  static bool better_by_memory(const TriedPlan& a, const TriedPlan& b) {
    return a.peak_bytes != b.peak_bytes ? a.peak_bytes < b.peak_bytes : a.cost_ns < b.cost_ns;
  }

  void finish() {
    if (fitting_ == SIZE_MAX) refuse();
    for (TriedPlan& plan : result_.tried) {
      plan.on_front = std::none_of(result_.tried.begin(), result_.tried.end(), [&](const TriedPlan& other) {
        const bool no_worse = other.peak_bytes <= plan.peak_bytes && other.cost_ns <= plan.cost_ns;
        return no_worse && (other.peak_bytes < plan.peak_bytes || other.cost_ns < plan.cost_ns);
      });
    }
    result_.taken = fitting_;
    const bool bounded = options_.budget_bytes > 0;
    if (options_.mode == Mode::none) result_.reason = "all is saved, as asked";
    else if (options_.mode == Mode::full) result_.reason = "the smallest of those that compute all again";
    else if (bounded) result_.reason = "of those within the budget, the smallest that is within 2 % of the fastest";
    else result_.reason = "within 10 % of the fastest, the smallest time * sqrt(peak)";
    list_candidates(divisions_[fitting_]);
    result_.graph = graphs_[fitting_]->clone();
  }

  void list_candidates(const Division& division) {
    const std::vector<Node*>& nodes = costs_.graph->body.nodes;
    const std::vector<int> ranks = forward_ranks(costs_);
    std::vector<size_t> order(nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranks[a] < ranks[b]; });
    for (const size_t i : order) {
      if (is_free(*nodes[i]) && nodes[i]->op != Op::slice_) continue;
      for (const Value* value : nodes[i]->results) {
        const size_t id = static_cast<size_t>(value->id);
        // What is computed in the backward half alone is no copy.
        const bool copied = division.again[i] && costs_.needed_by_forward[i] && !is_free(*nodes[i]);
        if (!division.saved[id] && !copied) continue;
        Candidate candidate;
        candidate.value = value->name;
        candidate.type = to_string(value->type);
        candidate.op = name_of(nodes[i]->op);
        candidate.node = nodes[i]->loc.node;
        candidate.size_bytes = value->type.size_bytes();
        candidate.save_ns = static_cast<double>(costs_.save[id]) / 1000;
        candidate.recompute_ns = static_cast<double>(costs_.recompute[i]) / 1000;
        candidate.saved = division.saved[id] != 0;
        result_.candidates.push_back(std::move(candidate));
      }
    }
  }

  [[noreturn]] void refuse() const {
    const TriedPlan& smallest = *std::min_element(result_.tried.begin(), result_.tried.end(), better_by_memory);
    const std::string plans =
        result_.tried.size() == 1 ? "the only plan tried" : "the smallest of " + std::to_string(result_.tried.size()) + " plans";
    std::string help = "the smallest budget that works is --mem-budget=" + std::to_string(smallest.peak_bytes);
    if (options_.mode != Mode::automatic) help += "; --remat=auto tries more plans";
    else help += "; a smaller batch needs less";
    throw Error(ExitCode::model, "memory-budget", costs_.graph->file,
                "--mem-budget: " + std::to_string(options_.budget_bytes) + " bytes are too few, " + plans + " needs " +
                    std::to_string(smallest.peak_bytes) + ", of which " + std::to_string(options_.fixed_bytes) + " are weights and state",
                help);
  }

  const schedule::Target& target_;
  const Options options_;
  const Planner& planner_;
  const RecomputeCosts costs_;
  Result result_;
  // By number in `tried`:
  std::vector<Saved> saved_;         ///< also what isn't needed
  std::vector<Division> divisions_;  ///< told apart by what they save
  std::vector<std::shared_ptr<const Graph>> graphs_;
  size_t fitting_ = SIZE_MAX;  ///< the plan to take
  double fastest_ns_ = 0;      ///< of those that fit
  size_t num_planned_ = 0;     ///< the first of `tried`
  // Of those that are planned:
  int64_t floor_bytes_ = INT64_MAX;
  double fastest_planned_ns_ = INFINITY;
};

}  // namespace

Mode parse_mode(std::string_view text) {
  for (const Mode mode : {Mode::none, Mode::full, Mode::automatic}) {
    if (text == name_of(mode)) return mode;
  }
  throw Error(ExitCode::usage, "invalid-argument", "", "--remat=" + std::string(text) + ": there is no such choice",
              "choices are auto, none and full");
}

std::string_view name_of(Mode mode) { return mode == Mode::none ? "none" : mode == Mode::full ? "full" : "auto"; }

Result choose_residuals(const Graph& joint, const schedule::Target& target, const Options& options, const Planner& planner) {
  return Chooser(joint, target, options, planner).run();
}

}  // namespace tcc::residuals
