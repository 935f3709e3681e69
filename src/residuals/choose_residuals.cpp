// The ladder: cuts for rising prices of memory, each made into a graph and planned, and one of them taken.
//
// The peak of a plan is not what the cut counts, and falls by fits and starts as the price rises: only plans say what a cut is worth. So all are planned, those
// that differ, and the choice is among plans. docs/residuals.md says what the rungs are for.

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
/// Plans between two rungs that are tried to use up a budget of memory or time.
constexpr int kMixes = 3;

class Chooser {
 public:
  Chooser(const Graph& joint, const schedule::Target& target, const Options& options, const Planner& planner)
      : target_(target), options_(options), planner_(planner), facts_(analyze(joint, target, planner.group)) {
    result_.options = options;
  }

  Result run() {
    if (options_.mode == Mode::full) {
      std::vector<Try> tries;
      add_checkpoints(tries);
      try_rungs(std::move(tries));
    } else {
      try_rung({.name = "none"}, save_all(facts_));
      if (options_.mode == Mode::automatic) {
        const int pieces = best_number_of_pieces(facts_);
        const Checkpoints checkpoints = place_checkpoints(facts_, pieces);
        std::vector<Try> tries;
        for (const double price : kPrices) {
          Rung rung{.name = "price " + number(price), .price = price};
          if (price >= 16 && pieces > 1) rung.checkpoints = checkpoints.places;
          tries.push_back({rung, cut(facts_, per_kib(price), rung.checkpoints > 0 ? checkpoints.keep : std::vector<char>())});
        }
        add_checkpoints(tries);
        try_rungs(std::move(tries));
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
  /// A rung that is not planned yet, and what it saves.
  struct Try {
    Rung rung;
    Saved saved;
  };

  static std::string number(double value) { return std::to_string(static_cast<int64_t>(value)); }

  Picoseconds per_kib(double price) const { return std::llround(price * 1000 * 1024 / target_.bytes_per_ns); }

  void add_checkpoints(std::vector<Try>& tries) const {
    const int best = best_number_of_pieces(facts_);
    for (const int pieces : {best / 2, best, 2 * best}) {
      if (pieces < 2) continue;
      const Checkpoints checkpoints = place_checkpoints(facts_, pieces);
      if (checkpoints.places == 0) continue;
      Rung rung{.name = "checkpoints " + std::to_string(checkpoints.places), .price = kMemoryIsAll, .checkpoints = checkpoints.places};
      tries.push_back({rung, cut_between(checkpoints, true)});
      // Where the peak is at the loss, behind the last piece, its values are in the way.
      rung.name += " all";
      if (pieces == best) tries.push_back({rung, cut_between(checkpoints, false)});
    }
    tries.push_back({{.name = "full", .price = kMemoryIsAll}, cut(facts_, per_kib(kMemoryIsAll))});
  }

  /// Checkpoints are saved, what is between is computed again. With `spare_last` not the last piece, which is needed at once: what would be stored again may
  /// be saved for nothing.
  Saved cut_between(const Checkpoints& checkpoints, bool spare_last) const {
    Facts facts = facts_;
    if (!spare_last) facts.priced_bytes = facts.bytes;
    const std::vector<Node*>& nodes = facts.graph->body.nodes;
    const std::vector<int> ranks = forward_ranks(facts);
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!spare_last || ranks[i] <= ranks[checkpoints.last]) continue;
      for (const Value* result : nodes[i]->results) {
        const size_t id = static_cast<size_t>(result->id);
        if (facts.stored_again[id]) facts.priced_bytes[id] = 0;
      }
    }
    return cut(facts, per_kib(kMemoryIsAll), checkpoints.keep);
  }

  /// Between what is fast and what fits.
  void mix_for_budget() {
    if (fitting_ == SIZE_MAX) return;
    const size_t small = fitting_;
    size_t fast = SIZE_MAX;
    for (size_t i = 0; i < result_.ladder.size(); ++i) {
      if (fits(result_.ladder[i]) || result_.ladder[i].cost_ns >= result_.ladder[small].cost_ns) continue;
      if (fast == SIZE_MAX || result_.ladder[i].peak_bytes < result_.ladder[fast].peak_bytes) fast = i;
    }
    if (fast == SIZE_MAX) return;
    double low = 0, high = 1;  // shares that are as in `small`: too few to fit, enough
    for (int i = 0; i < kMixes; ++i) {
      const double share = (low + high) / 2;
      (fits(result_.ladder[try_mix(small, fast, share)]) ? high : low) = share;
    }
    choose();
  }

  /// Between the plan that would be taken and the next smaller one, which takes too long.
  void mix_for_time() {
    const size_t fast = fitting_;
    size_t small = SIZE_MAX;
    for (size_t i = 0; i < result_.ladder.size(); ++i) {
      if (worthwhile(result_.ladder[i]) || result_.ladder[i].peak_bytes >= result_.ladder[fast].peak_bytes) continue;
      if (small == SIZE_MAX || result_.ladder[i].cost_ns < result_.ladder[small].cost_ns) small = i;
    }
    if (small == SIZE_MAX) return;
    double low = 0, high = 1;  // shares that are as in `small`: quick enough, too slow
    for (int i = 0; i < kMixes; ++i) {
      const double share = (low + high) / 2;
      (worthwhile(result_.ladder[try_mix(small, fast, share)]) ? low : high) = share;
    }
    choose();
  }

  /// The first part of the forward pass as in `small`, because its values would live longest, the rest as in `fast`; gives its number in the ladder.
  size_t try_mix(size_t small, size_t fast, double share) {
    const Saved few = saved_[small], many = saved_[fast];
    Rung rung{.name = "mix " + std::to_string(std::lround(share * 100)) + " %", .checkpoints = result_.ladder[small].checkpoints};
    return try_rung(std::move(rung), mix(few, many, static_cast<int>(share * num_forward())), true);
  }

  /// Values of the forward nodes before `end` as in `first`, the others as in `rest`; early ones go with what they are computed from.
  Saved mix(const Saved& first, const Saved& rest, int end) const {
    const std::vector<Node*>& nodes = facts_.graph->body.nodes;
    const std::vector<int> ranks = forward_ranks(facts_);
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
    const std::vector<Half>& halves = facts_.halves.of_node;
    return static_cast<int>(std::count(halves.begin(), halves.end(), Half::forward));
  }

  size_t try_rung(Rung rung, Saved saved, bool however_slow = false) {
    const size_t next = sets_.size(), number = add_rung(std::move(rung), std::move(saved), however_slow);
    plan_from(next);
    return number;
  }

  void try_rungs(std::vector<Try> tries) {
    const size_t next = sets_.size();
    for (Try& one : tries) add_rung(std::move(one.rung), std::move(one.saved), false);
    plan_from(next);
  }

  /// Plans what was added to the ladder.
  void plan_from(size_t next) {
    parallel_each(sets_.size() - next, [&](size_t i) {
      Rung& rung = result_.ladder[next + i];
      const Planned planned = planner_.plan(*rebuilt_[next + i].graph);
      rung.peak_bytes = options_.fixed_bytes + planned.peak_bytes;
      rung.cost_ns = planned.cost_ns;
    });
  }

  /// Makes the graph of the cut, unless there is one of the same; gives its number in the ladder, SIZE_MAX where it is not worth a plan.
  size_t add_rung(Rung rung, Saved saved, bool however_slow) {
    Rebuilt rebuilt = recompute(facts_, saved);
    const auto same = std::find(sets_.begin(), sets_.end(), rebuilt.saved);
    if (same != sets_.end()) return static_cast<size_t>(same - sets_.begin());
    double again_ns = 0;
    for (size_t i = 0; i < rebuilt.again.size(); ++i) again_ns += rebuilt.again[i] ? static_cast<double>(facts_.recompute[i]) / 1000 : 0;
    const bool may_be_slow = however_slow || options_.mode != Mode::automatic || options_.budget_bytes > 0 || result_.ladder.empty();
    if (!may_be_slow && again_ns > kTooSlow * result_.ladder[0].cost_ns) return SIZE_MAX;
    for (size_t id = 0; id < rebuilt.saved.size(); ++id) {
      if (!rebuilt.saved[id]) continue;
      ++rung.num_saved;
      rung.saved_bytes += facts_.bytes[id];
    }
    rung.num_copies = rebuilt.num_copies;
    result_.ladder.push_back(std::move(rung));
    sets_.push_back(rebuilt.saved);
    saved_.push_back(std::move(saved));
    rebuilt_.push_back(std::move(rebuilt));
    return sets_.size() - 1;
  }

  bool fits(const Rung& rung) const { return options_.budget_bytes <= 0 || rung.peak_bytes <= options_.budget_bytes; }

  void choose() {
    fitting_ = SIZE_MAX;
    const std::vector<Rung>& ladder = result_.ladder;
    if (options_.mode == Mode::full) {
      for (size_t i = 0; i < ladder.size(); ++i) {
        if (!fits(ladder[i])) continue;
        if (fitting_ == SIZE_MAX || better_by_memory(ladder[i], ladder[fitting_])) fitting_ = i;
      }
      return;
    }
    fastest_ns_ = INFINITY;
    for (const Rung& rung : ladder) {
      if (fits(rung)) fastest_ns_ = std::min(fastest_ns_, rung.cost_ns);
    }
    if (options_.budget_bytes <= 0) {
      for (size_t i = 0; i < ladder.size(); ++i) {
        if (worthwhile(ladder[i]) && (fitting_ == SIZE_MAX || worth(ladder[i]) < worth(ladder[fitting_]))) fitting_ = i;
      }
      return;
    }
    for (size_t i = 0; i < ladder.size(); ++i) {
      if (!fits(ladder[i]) || ladder[i].cost_ns > fastest_ns_ * kAsFast) continue;
      if (fitting_ == SIZE_MAX || better_by_memory(ladder[i], ladder[fitting_])) fitting_ = i;
    }
  }

  bool worthwhile(const Rung& rung) const { return rung.cost_ns <= fastest_ns_ * kWorthwhile; }
  static double worth(const Rung& rung) { return rung.cost_ns * std::sqrt(static_cast<double>(rung.peak_bytes)); }
  static bool better_by_memory(const Rung& a, const Rung& b) {
    return a.peak_bytes != b.peak_bytes ? a.peak_bytes < b.peak_bytes : a.cost_ns < b.cost_ns;
  }

  void finish() {
    if (fitting_ == SIZE_MAX) refuse();
    for (Rung& rung : result_.ladder) {
      rung.on_front = std::none_of(result_.ladder.begin(), result_.ladder.end(), [&](const Rung& other) {
        const bool no_worse = other.peak_bytes <= rung.peak_bytes && other.cost_ns <= rung.cost_ns;
        return no_worse && (other.peak_bytes < rung.peak_bytes || other.cost_ns < rung.cost_ns);
      });
    }
    result_.taken = fitting_;
    const bool bounded = options_.budget_bytes > 0;
    if (options_.mode == Mode::none) result_.reason = "all is saved, as asked";
    else if (options_.mode == Mode::full) result_.reason = "the smallest of those that compute all again";
    else if (bounded) result_.reason = "of those within the budget, the smallest that is within 2 % of the fastest";
    else result_.reason = "within 10 % of the fastest, the smallest time * sqrt(peak)";
    list_candidates(rebuilt_[fitting_]);
    result_.graph = std::move(rebuilt_[fitting_].graph);
  }

  void list_candidates(const Rebuilt& rebuilt) {
    const std::vector<Node*>& nodes = facts_.graph->body.nodes;
    const std::vector<int> ranks = forward_ranks(facts_);
    std::vector<size_t> order(nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranks[a] < ranks[b]; });
    for (const size_t i : order) {
      if (is_free(*nodes[i]) && nodes[i]->op != Op::slice_) continue;
      for (const Value* value : nodes[i]->results) {
        const size_t id = static_cast<size_t>(value->id);
        // What is computed in the backward half alone is no copy.
        const bool copied = rebuilt.again[i] && facts_.needed_by_forward[i] && !is_free(*nodes[i]);
        if (!rebuilt.saved[id] && !copied) continue;
        Candidate candidate;
        candidate.value = value->name;
        candidate.type = to_string(value->type);
        candidate.op = name_of(nodes[i]->op);
        candidate.node = nodes[i]->loc.node;
        candidate.size_bytes = value->type.size_bytes();
        candidate.save_ns = static_cast<double>(facts_.save[id]) / 1000;
        candidate.recompute_ns = static_cast<double>(facts_.recompute[i]) / 1000;
        candidate.saved = rebuilt.saved[id] != 0;
        result_.candidates.push_back(std::move(candidate));
      }
    }
  }

  [[noreturn]] void refuse() const {
    const Rung& smallest = *std::min_element(result_.ladder.begin(), result_.ladder.end(), better_by_memory);
    const std::string plans =
        result_.ladder.size() == 1 ? "the only plan tried" : "the smallest of " + std::to_string(result_.ladder.size()) + " plans";
    std::string help = "the smallest budget that works is --mem-budget=" + std::to_string(smallest.peak_bytes);
    if (options_.mode != Mode::automatic) help += "; --remat=auto tries more plans";
    else help += "; a smaller batch needs less";
    throw Error(ExitCode::model, "memory-budget", facts_.graph->file,
                "--mem-budget: " + std::to_string(options_.budget_bytes) + " bytes are too few, " + plans + " needs " +
                    std::to_string(smallest.peak_bytes) + ", of which " + std::to_string(options_.fixed_bytes) + " are weights and state",
                help);
  }

  const schedule::Target& target_;
  const Options options_;
  const Planner& planner_;
  const Facts facts_;
  Result result_;
  // By number in the ladder:
  std::vector<Rebuilt> rebuilt_;
  std::vector<std::vector<char>> sets_;  ///< what is saved and needed: tells cuts apart
  std::vector<Saved> saved_;
  size_t fitting_ = SIZE_MAX;  ///< the plan to take
  double fastest_ns_ = 0;      ///< of those that fit
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
