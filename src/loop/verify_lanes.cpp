// What the emitters ask of loops bound to vector and unroll, of reduces across threads, and of the size of the code that comes out.
//
// In a vector loop each value is one for all lanes or varies by lane. A value varies when it is made of the lane's variable or of values that vary; what a
// reduce or scan gives is taken to vary. A store of a varying value needs an address that varies, or lanes would write different values to one element.
#include "loop/verify_lanes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "tcc/loop/fields.h"
#include "tcc/loop/rewrite.h"
#include "tcc/ops/op.h"
#include "tcc/ops/scalar.h"

namespace tcc::loop {
namespace {

bool is_across(Bind bind) { return bind == Bind::thread || bind == Bind::warp || bind == Bind::lane; }

class Lanes {
 public:
  explicit Lanes(const Kernel& kernel) : digits_(digits_of(kernel.body)) {}

  std::vector<std::string> run(const Block& body) {
    visit(body, 1);
    if (operations_ > kMostOperations) {
      faults_.push_back("unrolled loops make " + std::to_string(operations_) + (operations_ >= kCountless ? " or more" : "") +
                        " operations of code, the most is " + std::to_string(kMostOperations) + ", where a math function counts " +
                        std::to_string(kFunction));
    }
    return std::move(faults_);
  }

 private:
  static constexpr int64_t kCountless = int64_t{1} << 40, kFunction = 100;

  static int64_t operations(const ExprPtr& expr) {
    if (!expr || expr->kind == Expr::Kind::constant || expr->kind == Expr::Kind::scalar) return 0;
    int64_t count = expr->kind == Expr::Kind::op && info(expr->op).cost == ScalarCost::function ? kFunction : 1;
    for (const ExprPtr& arg : expr->args) count += operations(arg);
    return count + operations(expr->otherwise);
  }

  void fault(const Stmt& stmt, const std::string& message) {
    const std::string text = print(stmt);
    faults_.push_back(message + "\n  " + text.substr(0, text.find('\n')));
  }

  void visit(const Block& block, int64_t copies) {
    for (const Stmt& stmt : block) visit(stmt, copies);
  }

  void visit(const Stmt& stmt, int64_t copies) {
    int64_t size = 1;
    each_expr(stmt, [&](const ExprPtr& expr) { size += operations(expr); });
    operations_ = std::min(operations_ + (size > kCountless / copies ? kCountless : size * copies), kCountless);
    if (const auto* reduce = as<Reduce>(stmt)) check_reduce(stmt, *reduce);
    check_states(stmt);
    if (lane_) check_in_vector(stmt);

    const Var* outer_lane = lane_;
    const std::set<Bind> outer_across = across_;
    if (const auto* dims = dims_of(stmt)) {
      for (const Dim& dim : *dims) {
        const int64_t extent = std::max<int64_t>(dim.var->extent, 1);
        if (dim.bind == Bind::unroll) copies = extent > kCountless / copies ? kCountless : copies * extent;
        if (dim.bind == Bind::vector) {
          if (extent > kMostLanes)
            fault(stmt,
                  "%" + dim.var->name + " is a vector of " + std::to_string(extent) + " lanes, the most is " + std::to_string(kMostLanes));
          if (extent > 1) lane_ = dim.var.get();
        }
        if (is_across(dim.bind) && extent > 1) across_.insert(dim.bind);
      }
    }
    if (const auto* loop = as<Loop>(stmt); loop && loop->tile && loop->tile->tile) {
      copies = std::min(copies * std::max<int64_t>(registers_of(*loop->tile->tile), 1), kCountless);
    }
    for (const Block* inner : blocks_of(stmt)) visit(*inner, copies);
    across_ = outer_across;
    // What a vector loop defines is not seen outside of it, but for the results of a reduce, which are combined over its lanes.
    lane_ = outer_lane;
    if (lane_) note_varying(stmt);
  }

  // ------------------------------------------------------------------------------------------------------------ vectors

  bool varies(const Uses& uses) const {
    return uses.vars.count(lane_) ||
           std::any_of(uses.scalars.begin(), uses.scalars.end(), [&](const Scalar* s) { return varying_.count(s); });
  }
  bool varies(const std::vector<Index>& indices) const {
    return std::any_of(indices.begin(), indices.end(), [&](const Index& index) { return varies(uses_of(index_value(index))); });
  }

  void note_varying(const Stmt& stmt) {
    const auto* let = as<Let>(stmt);
    for (const ScalarRef& scalar : defined_by(stmt)) {
      if (!let || varies(uses_of(let->value)) || reads_otherwise(let->value)) varying_.insert(scalar.get());
    }
  }

  /// A load with `else` takes its other value where lanes are masked, so it varies where a condition does.
  static bool reads_otherwise(const ExprPtr& expr) {
    if (!expr) return false;
    return expr->otherwise || std::any_of(expr->args.begin(), expr->args.end(), [](const ExprPtr& arg) { return reads_otherwise(arg); });
  }

  void check_in_vector(const Stmt& stmt) {
    if (as<Scatter>(stmt)) fault(stmt, "a scatter within a loop bound to vector");
    if (together(stmt).team == Team::block && !dims_of(stmt)) fault(stmt, "a statement of all threads within a loop bound to vector");
    if (const auto* loop = as<Loop>(stmt); loop && loop->tile) fault(stmt, "a loop over a register tile within a loop bound to vector");
    const auto* store = as<Store>(stmt);
    if (store && !varies(store->indices) && (varies(uses_of(store->value)) || reads_otherwise(store->value)))
      fault(stmt, "the lanes of a vector store different values to one element of %" + store->buffer->name);
  }

  // ------------------------------------------------------------------------------------------------------------ reduces

  void check_states(const Stmt& stmt) {
    const auto* reduce = as<Reduce>(stmt);
    const auto* scan = as<Scan>(stmt);
    const std::vector<State>* states = reduce ? &reduce->states : scan ? &scan->states : nullptr;
    if (!states || combine_of(stmt)) return;
    for (const State& state : *states) {
      const DType dtype = state.result->dtype;
      const DType both[] = {dtype, dtype};
      if (result_dtype(pointwise_of(state.combiner), both) != dtype) {
        fault(stmt, "`" + std::string(tcc::name_of(state.combiner)) + "` does not combine " + std::string(name_of(dtype)));
      }
    }
  }

  /// Lanes combine in steps of powers of two, all of them or those within a loop over the others; threads of a block all at once.
  void check_reduce(const Stmt& stmt, const Reduce& reduce) {
    const Digit *first = nullptr, *last = nullptr;
    Bind across = Bind::none;
    for (const Dim& dim : reduce.dims) {
      if (!is_across(dim.bind)) continue;
      const Digit& digit = digits_.at(dim.var.get());
      if (!first) first = &digit;
      last = &digit;
      if (across != Bind::none && across != dim.bind) fault(stmt, "a reduce across lanes and threads at once");
      across = dim.bind;
    }
    if (across == Bind::none) return;
    if (across == Bind::warp) fault(stmt, "a reduce across warps is bound to thread");
    if (last->stride != 1) fault(stmt, "a loop bound to " + std::string(name_of(across)) + " within a reduce that is bound to it");
    if (across == Bind::thread && across_.count(Bind::thread)) fault(stmt, "a reduce across threads within a loop over threads");
    if (across == Bind::lane && first->radix != 0 && (first->radix > 32 || !std::has_single_bit(static_cast<uint64_t>(first->radix)))) {
      fault(stmt, "a reduce across " + std::to_string(first->radix) + " lanes within a loop over lanes, expected a power of two");
    }
  }

  std::map<const Var*, Digit> digits_;
  std::vector<std::string> faults_;
  int64_t operations_ = 0;
  const Var* lane_ = nullptr;
  std::set<const Scalar*> varying_;
  std::set<Bind> across_;
};

}  // namespace

std::vector<std::string> verify_lanes(const Kernel& kernel) { return Lanes(kernel).run(kernel.body); }

}  // namespace tcc::loop
