// A schedule under construction: each primitive is applied as soon as it is chosen, so that the next choice looks at what is there.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schedule/analysis.h"
#include "schedule/apply.h"
#include "schedule/decisions.h"
#include "tcc/schedule/schedule.h"

namespace tcc::schedule {

class Chooser {
 public:
  /// `decisions`: which options are taken where the choice ranks several; null: the best ones.
  Chooser(loop::Unit unit, const Target& target, Decisions* decisions = nullptr)
      : unit_(std::move(unit)), target_(target), decisions_(decisions) {}

  const loop::Unit& unit() const { return unit_; }
  const Target& target() const { return target_; }
  const Schedule& schedule() const { return schedule_; }
  /// Goes on where a copy of this one has come to.
  void take_over(Chooser&& trial) {
    unit_ = std::move(trial.unit_);
    schedule_ = std::move(trial.schedule_);
  }
  Schedule take() { return std::move(schedule_); }

  /// The option to take of those that take so long by the model, or that no model ranks: the best, unless another candidate is sought.
  size_t decide(const std::string& what, std::span<const double> ns, size_t best) const {
    return decisions_ ? decisions_->take(what, ns, best) : best;
  }
  size_t decide(const std::string& what, size_t count, size_t best) const {
    return decisions_ ? decisions_->take(what, count, best) : best;
  }
  /// Null: the best options are taken.
  Decisions* decisions() const { return decisions_; }

  /// Says why the primitives from number `first` on were chosen.
  void explain(size_t first, std::string why);

  /// Error (internal) when the primitive does not fit: choosing it was a mistake.
  void add(const std::string& primitive, std::vector<Argument> arguments);
  static Argument arg(std::string word) { return {"", std::move(word)}; }
  static Argument arg(int64_t number) { return {"", number}; }
  static Argument key(std::string name, std::string word) { return {std::move(name), std::move(word)}; }

  void split(const std::string& dim, int64_t factor) { add("split", {arg(dim), arg(factor)}); }
  void peel(const std::string& dim) { add("peel", {arg(dim)}); }
  void bind(const std::string& dim, const std::string& where) { add("bind", {arg(dim), arg(where)}); }
  void vectorize(const std::string& dim) { add("vectorize", {arg(dim)}); }
  void unroll(const std::string& dim) { add("unroll", {arg(dim)}); }
  /// Fuses and gives the name of the result.
  std::string fuse(const std::string& outer, const std::string& inner) {
    add("fuse", {arg(outer), arg(inner)});
    return outer + "_" + inner;
  }
  void reorder(const std::vector<std::string>& names) {
    std::vector<Argument> arguments;
    for (const std::string& name : names) arguments.push_back(arg(name));
    add("reorder", std::move(arguments));
  }

  /// The statement with a dim of exactly this name; internal error when there is none.
  const loop::Stmt& find(const std::string& dim) const;
  bool has(const std::string& dim) const;
  int64_t extent(const std::string& dim) const;

  /// Fuses neighbouring dims of the statement that has `dim`, from the innermost, wherever indices stay sums; gives the names that are left.
  std::vector<std::string> fuse_all(const std::string& dim);

 private:
  loop::Unit unit_;
  const Target& target_;
  Decisions* decisions_ = nullptr;
  Schedule schedule_;
};

std::vector<std::string> names_of(const std::vector<loop::Dim>& dims);

/// `choose`, with other options than the best where `decisions` (may be null) says so.
Schedule choose(const loop::Unit& unit, const Target& target, Decisions* decisions);

/// Takes sums of many terms in a row apart, in all nests: long_sums.cpp.
void shorten_sums(Chooser& chooser);

}  // namespace tcc::schedule
