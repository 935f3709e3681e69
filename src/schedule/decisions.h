// Where a choice ranks alternatives. `choose` takes the best one at each of these points; `candidates` chooses again and again, and asks for another one at some of
// them. A strategy names what it chooses from, and takes what it is told:
//
//   const ThreadTile& tile = tiles[chooser.decide("tile", times_ns, best)];
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tcc::schedule {

/// The points of one run of the choice, in the order in which it comes to them.
class Decisions {
 public:
  struct Point {
    std::string what;  ///< "register tile"
    std::vector<double>
        slower;  ///< of the alternatives to the best option, in their order: times of the model, in those of the best; empty: no model ranks them
    size_t num_alternatives = 0;  ///< beside the best option
    bool open = false;            ///< how many alternatives there are is known when they are tried
  };

  /// `ranks`: what the points take, in order: 0 is the best option, 1 the first alternative. Points beyond them take the best.
  explicit Decisions(std::vector<size_t> ranks) : ranks_(std::move(ranks)) {}

  /// The option to take. `ns`: what the model says of each.
  size_t take(std::string what, std::span<const double> ns, size_t best);
  /// The same where no model ranks the options; alternatives are in their order.
  size_t take(std::string what, size_t count, size_t best);
  /// How many options are to be passed over, where each is known when the one before it was tried.
  size_t pass_over(std::string what);

  const std::vector<Point>& points() const { return points_; }

  /// While it lives, points take the best option and are not counted: they belong to what is passed over.
  class Muted {
   public:
    explicit Muted(Decisions* decisions) : decisions_(decisions) {
      if (decisions_) decisions_->muted_++;
    }
    ~Muted() {
      if (decisions_) decisions_->muted_--;
    }
    Muted(const Muted&) = delete;
    Muted& operator=(const Muted&) = delete;

   private:
    Decisions* decisions_;
  };

 private:
  /// The rank that the next point takes.
  size_t next_rank() const { return points_.size() < ranks_.size() ? ranks_[points_.size()] : 0; }

  std::vector<size_t> ranks_;
  std::vector<Point> points_;
  int muted_ = 0;
};

}  // namespace tcc::schedule
