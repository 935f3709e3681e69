// Joins products whose results are used for nothing but factors of further products with these, each of which makes them again: the gradients of attention.
//
//   unit 5 contract {%s = dot_general(%q, %k), %p = exp(sub(%s, %m))} -> (%p)       unit 7 chain {%s, %p, %x} anchor %x (%q, %k, %m, %g) -> (%x)
//   unit 6 contract {%t = dot_general(%g, %v), %d = mul(%p, %t)} -> (%d)        ->  unit 8 chain {%s, %p, %t, %d, %y} anchor %y (...) -> (%y)
//   unit 7 contract {%x = dot_general(%p, %g)} (%p, %g) -> (%x)                     unit 9 chain {%s, %p, %t, %d, %z} anchor %z (...) -> (%z)
//   unit 8 contract {%y = dot_general(%d, %k)} -> (%y)
//   unit 9 contract {%z = dot_general(%q, %d)} -> (%z)
//
// Two chains that sum along the same columns, as gradients of keys and of values do, are one with two results (unit 7 and the one of %z), where that takes less time.
//
// Such results are larger than what they are made of and what they are used for, by the ratio of a row's length to a head's: writing and reading them takes longer
// than computing them again where they are needed. That pays where none of them is stored, so that all readers become chains, or none. Whether a kernel can do it
// the target says, of the loops that come out.
#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "group/join_units.h"
#include "tcc/group/group.h"
#include "tcc/rules/softmax.h"

namespace tcc::group {

namespace {

class ProductChainer : UnitJoiner {
 public:
  ProductChainer(Groups& groups, const GroupOptions& options) : UnitJoiner(groups, options) {}

  bool run() {
    for (size_t last = 0; last < groups_.units.size(); ++last) {
      if (is_product(groups_.units[last])) try_chain(last);
    }
    while (drop_one()) {}
    join_chains();
    for (auto& [last, chain] : chains_) replace(last, std::move(chain.joined), chain.inner, chain.inside);
    return finish();
  }

 private:
  struct Chain {
    Union joined;
    std::vector<size_t> inner;  ///< units that it has in it
    std::unordered_set<const Value*> inside;
    double ns = 0;
  };

  void try_chain(size_t last) {
    Chain chain;
    // What the largest factor is made of that is as large.
    const auto count = [&](const Value* value) { return storage_.of(value)->type.count(); };
    const Value* factor = *std::ranges::max_element(groups_.units[last].inputs, {}, count);
    if (count(factor) <= groups_.units[last].outputs[0]->type.count()) return;
    std::vector<size_t> open{last};
    for (size_t i = 0; i < open.size(); ++i) {
      for (const Value* input : groups_.units[open[i]].inputs) {
        const std::optional<size_t> writer = count(input) == count(factor) && is_whole(input) ? writer_of(input) : std::nullopt;
        if (!writer || !is_product(groups_.units[*writer])) continue;
        chain.inside.insert(storage_.of(input));
        if (std::ranges::find(open, *writer) == open.end()) open.push_back(*writer);
      }
    }
    if (open.size() == 1) return;
    chain.inner.assign(open.begin() + 1, open.end());
    std::sort(open.begin(), open.end());
    chain.joined = union_of(UnitKind::chain, open, chain.inside);
    find_maxima(chain.joined.unit);
    const std::optional<double> ns = ns_of(chain.joined.unit);
    if (!ns) return;
    chain.ns = *ns;
    chains_.emplace(last, std::move(chain));
  }

  /// Inputs that bound the rows that they are subtracted from.
  void find_maxima(Unit& unit) {
    for (const Node* node : unit.nodes) {
      const Node* spread = node->op == Op::sub_ ? node->operand(1)->producer : nullptr;
      if (spread == nullptr || spread->op != Op::broadcast_in_dim_) continue;
      Value* rows = spread->operand(0);
      const bool is_new =
          std::ranges::find(unit.inputs, rows) != unit.inputs.end() && std::ranges::find(unit.maxima, rows) == unit.maxima.end();
      if (is_new && bounds_rows(rows, node->operand(0), alike_)) unit.maxima.push_back(rows);
    }
  }

  /// Whether nothing but chains reads what the unit stores.
  bool is_inside(size_t number, std::unordered_set<size_t>& seen) const {
    if (!seen.insert(number).second) return true;
    for (const Value* output : groups_.units[number].outputs) {
      for (const size_t reader : readers_of(output)) {
        const auto chain = chains_.find(reader);
        const bool has_it = chain != chains_.end() && chain->second.inside.contains(output);
        const bool may_go = std::ranges::any_of(
            chains_, [&](const auto& one) { return std::ranges::find(one.second.inner, reader) != one.second.inner.end(); });
        if (!has_it && !(may_go && is_inside(reader, seen))) return false;
      }
    }
    return true;
  }

  /// Makes one chain of two that sum along the same columns: what they have in common is then made once.
  void join_chains() {
    for (auto second = chains_.begin(); second != chains_.end(); ++second) {
      for (auto first = chains_.begin(); first != second; ++first) {
        if (!shares_inner(first->second, second->second) || !may_wait(first->first, second->first)) continue;
        std::vector<size_t> numbers = second->second.inner;
        numbers.insert(numbers.end(), first->second.inner.begin(), first->second.inner.end());
        numbers.push_back(first->first);
        std::sort(numbers.begin(), numbers.end());
        numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
        numbers.push_back(second->first);
        Chain joined;
        joined.inside = second->second.inside;
        joined.inside.insert(first->second.inside.begin(), first->second.inside.end());
        joined.joined = union_of(UnitKind::chain, numbers, joined.inside);
        std::vector<Value*>& outputs = joined.joined.unit.outputs;
        outputs.clear();
        for (const Chain* chain : {&second->second, &first->second})
          outputs.insert(outputs.end(), chain->joined.unit.outputs.begin(), chain->joined.unit.outputs.end());
        find_maxima(joined.joined.unit);
        const std::optional<double> ns = ns_of(joined.joined.unit);
        if (!ns || *ns >= first->second.ns + second->second.ns) continue;
        joined.ns = *ns;
        joined.inner.assign(numbers.begin(), numbers.end() - 1);
        second->second = std::move(joined);
        chains_.erase(first);
        break;
      }
    }
  }

  static bool shares_inner(const Chain& a, const Chain& b) {
    return std::ranges::any_of(a.inner, [&](size_t number) { return std::ranges::find(b.inner, number) != b.inner.end(); });
  }

  /// Gives up one chain of which something would be stored all the same.
  bool drop_one() {
    const auto dropped = std::ranges::find_if(chains_, [&](const auto& chain) {
      return std::ranges::any_of(chain.second.inner, [&](size_t number) {
        std::unordered_set<size_t> seen;
        return !is_inside(number, seen);
      });
    });
    if (dropped == chains_.end()) return false;
    chains_.erase(dropped);
    return true;
  }

  Alike alike_;
  std::map<size_t, Chain> chains_;  ///< by the unit that becomes one
};

}  // namespace

bool chain_products(Groups& groups, const GroupOptions& options) { return ProductChainer(groups, options).run(); }

}  // namespace tcc::group
