// What makes a unit of two clusters.
//
// Kinds:  map + map = map, map or rows + rows = rows, map + an anchored kind = that kind; two anchors never share a unit.
// Sizes:  at most 64 ops and 24 buffers. Ops of random words are long chains with two words alive, and count a quarter.
// Places: every value that others read, and every reduction, has a place in the domain (placement.h), so that it is computed once. A value without one, or
//         with fewer variables than the domain, is computed again wherever it is pulled: allowed while it is cheap and nobody else needs it, and where
//         it depends on no index at all, so that a thread computes it once, in small units at a higher cost.
//         What depends on an anchor must sit on the anchor's own index, because an anchor computed twice is the work of two.
// Columns: a unit of rows whose rows are columns of memory, by a layout, has reductions that do not wait for each other, and nothing full: what many blocks reduce
//         together is known when all of them are done.
// Rows:   full values beside a reduction only where the rows are many enough to keep a machine busy: with few long rows they are a unit of their own.
// Halves: a node of the backward pass (loc.phase) stays out of the units of the forward pass, or what it computes would be stored from then on, although it
//         may be there to be computed again, so as not to live until it is read.
// Copies: a value that is computed again so as not to be kept is not stored beside what it is a copy of.
// Order:  no cycle (clusters.cpp).

#include <algorithm>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "group/merge.h"
#include "tcc/ops/op.h"

namespace tcc::group {
namespace {

/// What may be computed again, in additions per element.
constexpr int kMaxRecomputedCost = 6;
/// The same where a product of matrices may have dequantised operands: with casts, a zero point and a scale.
constexpr int kMaxOperandCost = 9;
/// The same of values that depend on no index, in additions per thread, which computes them once: in a unit of no more elements than this their
/// cost is hidden, as another launch would not be.
constexpr int kMaxScalarCost = 256;
constexpr int64_t kMostElementsBesideScalars = 1 << 20;
/// A unit with fewer rows than this, each longer than that, computes only its reductions.
constexpr int64_t kFewRows = 8, kLongRow = 32768;

/// Parts of other values that the epilogue of a product reads beside each result: a thread holds results that are no neighbours, and reads single elements.
constexpr int kMostPartsBeside = 6;

/// Pieces of a concat that count as one op together.
constexpr size_t kFewPieces = 8;

bool is_anchored(UnitKind kind) { return kind != UnitKind::map && kind != UnitKind::rows; }

int64_t product_of_extents(const std::vector<loop::VarRef>& vars) {
  int64_t product = 1;
  for (const loop::VarRef& var : vars) product *= var->extent;
  return product;
}

int count_ops(const Cluster& cluster) {
  int quarters = 0;
  for (const Node* node : cluster.nodes) {
    const DType dtype = node->result()->type.dtype;
    quarters += dtype == DType::u32 || dtype == DType::u64 ? 1 : 4;
    // A concat of many pieces is as many choices; few are as cheap as an op.
    if (node->op == Op::concat_ && node->operands.size() > kFewPieces) quarters += 4 * static_cast<int>(node->operands.size());
  }
  return quarters / 4;
}

bool has_few_buffers(const Clusters& clusters, const std::vector<Node*>& nodes, int a, int b) {
  std::vector<const Value*> buffers;
  const auto add = [&](const Value* value) {
    if (std::find(buffers.begin(), buffers.end(), value) == buffers.end()) buffers.push_back(value);
  };
  for (const Node* node : nodes) {
    for (const Value* operand : node->operands) {
      if (!operand->producer) {
        add(operand);
      } else if (clusters.is_core(*operand->producer)) {
        const int cluster = clusters.cluster_of(operand->producer);
        if (cluster != a && cluster != b) add(operand);
      }
    }
    if (buffers.size() > kMaxUnitBuffers) return false;
    if (!clusters.is_core(*node)) continue;
    for (const Value* result : node->results) {
      if (clusters.escapes(result, a, b)) add(result);
    }
  }
  return buffers.size() <= kMaxUnitBuffers;
}

/// Whether the node reads `operand`, at the place of its own result, where the operand has its place.
bool reads_in_place(const Placement& placement, const Node& node, const Value* operand) {
  const Indices* from = placement.find(operand);
  const Indices* to = placement.find(node.result());
  if (!from || !to) return false;
  if (is_pointwise(node) || node.op == Op::cumulative_) return from == to || *from == *to;
  if (is_view(node)) return node.op != Op::pad_ && pull_back(node, *to) == *from;
  if (!is_reduce(node)) return false;
  Indices kept;
  for (int axis : kept_axes(node)) kept.push_back((*from)[static_cast<size_t>(axis)]);
  return kept == *to;
}

/// What follows from the index of a value; many values of a unit share one.
struct PlaceFacts {
  const Indices* at = nullptr;
  bool covers_domain = false, is_empty = false;
  int64_t count = 0;  ///< of different indices
  std::vector<loop::VarRef> inner;
};

class PlaceTable {
 public:
  explicit PlaceTable(const Placement& placement) : placement_(placement) {}
  const PlaceFacts& of(const Indices* at) {
    for (const PlaceFacts& known : known_) {
      if (known.at == at) return known;
    }
    PlaceFacts& facts = known_.emplace_back();
    facts.at = at;
    if (at == nullptr) return facts;
    const std::vector<loop::VarRef> vars = vars_of(*at);
    facts.covers_domain = placement_.covers_domain(*at);
    facts.is_empty = vars.empty();
    facts.count = product_of_extents(vars);
    facts.inner = placement_.inner_vars(*at);
    return facts;
  }

 private:
  const Placement& placement_;
  std::deque<PlaceFacts> known_;
};

/// All that compute_cost() looks at, as text.
std::string key_of(const Clusters& clusters, UnitKind kind, const std::vector<Node*>& nodes, const Node* anchor, int a, int b) {
  std::string key(nodes.size() * 8 * sizeof(int), 0);  // about what the nodes take
  size_t end = 0;
  const auto add = [&](int number) {
    if (end + sizeof number > key.size()) key.resize(2 * (end + sizeof number));
    std::memcpy(key.data() + end, &number, sizeof number);
    end += sizeof number;
  };
  std::unordered_map<const Value*, int> numbers;
  numbers.reserve(4 * nodes.size());
  const auto add_value = [&](const Value* value) {
    add(value ? numbers.emplace(value, static_cast<int>(numbers.size())).first->second : -1);
  };
  add(static_cast<int>(kind));
  for (const Node* node : nodes) {
    add(clusters.computation(node));
    add(node == anchor);
    if (is_reduce(*node)) add(clusters.reduces_columns(node));
    for (const Value* operand : node->operands) add_value(operand);
    for (const Value* result : node->results) {
      add_value(result);
      add(clusters.is_core(*node) && clusters.escapes(result, a, b));
    }
  }
  key.resize(end);
  return key;
}

/// What is read once each, by pads that spread it over a larger domain, directly or through more of this: the gradient of what a window took.
std::unordered_set<const Value*> spread_by_pads(const Clusters& clusters, const std::vector<Node*>& nodes) {
  std::unordered_set<const Value*> spread;
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& node = *nodes[i];
    const bool spreads = node.op == Op::pad_ || (is_pointwise(node) && spread.contains(node.result()));
    if (!spreads) continue;
    for (const Value* operand : node.operands) {
      if (operand && operand->producer && clusters.is_core(*operand->producer) && clusters.consumers(operand).size() == 1)
        spread.insert(operand);
    }
  }
  return spread;
}

/// The cost of what would be computed again, -1 when the places don't allow the merge.
int compute_cost(const Clusters& clusters, UnitKind kind, const std::vector<Node*>& nodes, const std::vector<Node*>& core,
                 const Node* anchor, int a, int b) {
  const Placement placement = place(kind, nodes, anchor, main_value(core));
  PlaceTable places(placement);
  // What depends on the anchor, on the anchor or a reduction; by id.
  auto& [unused, after_anchor, after_loop] = clusters.seen();
  after_anchor.clear();
  after_loop.clear();
  const auto id = [](const Value* value) { return static_cast<size_t>(value->id); };
  int cost = 0, scalar_cost = 0, operand_cost = 0;
  int64_t spread_cost = 0;
  const std::unordered_set<const Value*> spread = spread_by_pads(clusters, nodes);
  const int64_t domain = product_of_extents(placement.domain);
  const bool is_small = domain <= kMostElementsBesideScalars;
  bool has_full = false;
  // What the running state of a scan is stored at: the one inner variable that others may have.
  const std::vector<loop::VarRef> scanned =
      kind == UnitKind::scan ? placement.inner_vars(*placement.find(anchor->result())) : std::vector<loop::VarRef>();
  int64_t row_length = 1;
  bool reduces_columns = false, reduces_again = false;
  for (const Node* node : nodes) {
    if (is_reduce(*node)) {
      reduces_columns = reduces_columns || clusters.reduces_columns(node);
      reduces_again = reduces_again || after_loop.has(id(node->operand(0)));
    }
    // What an anchor or a reduction computes is read where it is, or there would be a second one for the other index.
    bool follows = node == anchor;
    for (const Value* operand : node->operands) {
      if (after_loop.has(id(operand)) && !reads_in_place(placement, *node, operand)) return -1;
      follows = follows || after_anchor.has(id(operand));
    }
    const bool loops = follows || is_reduce(*node) ||
                       std::any_of(node->operands.begin(), node->operands.end(), [&](const Value* o) { return after_loop.has(id(o)); });
    for (const Value* result : node->results) {
      if (follows) after_anchor.insert(id(result));
      if (loops) after_loop.insert(id(result));
      if (!clusters.is_core(*node)) continue;
      const Indices* at = placement.find(result);
      const PlaceFacts& facts = places.of(at);
      const bool covers = facts.covers_domain && facts.count == result->type.count();
      const std::vector<loop::VarRef>& inner = facts.inner;
      if (is_reduce(*node)) {
        if (!covers || !inner.empty()) return -1;
        const Indices* operand = placement.find(node->operand(0));
        if (operand) row_length = std::max(row_length, product_of_extents(placement.inner_vars(*operand)));
        continue;
      }
      if (covers) {
        if (kind == UnitKind::scan ? inner != scanned || scanned.empty() : !inner.empty() && kind != UnitKind::rows) return -1;
        has_full = has_full || (!inner.empty() && clusters.escapes(result, a, b));
        row_length = std::max(row_length, product_of_extents(inner));
        continue;
      }
      if (follows || clusters.escapes(result, a, b)) return -1;
      if (!at && spread.contains(result)) {
        spread_cost += op_cost(*node) * result->type.count();
        continue;
      }
      const bool widens = node->op == Op::cast_ || node->op == Op::sub_ || node->op == Op::mul_;
      (is_small && facts.is_empty ? scalar_cost : widens ? operand_cost : cost) += op_cost(*node);
    }
  }
  cost += static_cast<int>(std::min<int64_t>(spread_cost / std::max<int64_t>(domain, 1), kMaxRecomputedCost + 1));
  const auto is_part_beside = [&](const Node* node) {
    return node->op == Op::slice_ && node->result()->type.count() == anchor->result()->type.count();
  };
  if (kind == UnitKind::contract && std::ranges::count_if(nodes, is_part_beside) > kMostPartsBeside) return -1;
  const bool multiplies = anchor && anchor->op == Op::dot_general_;
  if (cost > kMaxRecomputedCost || cost + operand_cost > (multiplies ? kMaxOperandCost : kMaxRecomputedCost) ||
      scalar_cost > kMaxScalarCost)
    return -1;
  if (clusters.has_columns_by_layout() && reduces_columns && (has_full || reduces_again)) return -1;
  if (kind == UnitKind::rows && has_full && product_of_extents(placement.domain) < kFewRows && row_length > kLongRow) return -1;
  return cost + operand_cost;
}

int recomputed_cost(const Clusters& clusters, UnitKind kind, const std::vector<Node*>& nodes, const std::vector<Node*>& core,
                    const Node* anchor, int a, int b) {
  const auto [at, is_new] = clusters.known_costs().try_emplace(key_of(clusters, kind, nodes, anchor, a, b));
  if (is_new) at->second = compute_cost(clusters, kind, nodes, core, anchor, a, b);
  return at->second;
}

/// Whether a node of one is a copy of a node of the other.
bool hold_copies(const Clusters& clusters, const Cluster& x, const Cluster& y) {
  if (!clusters.has_copies()) return false;
  const Cluster &fewer = x.nodes.size() < y.nodes.size() ? x : y, &more = x.nodes.size() < y.nodes.size() ? y : x;
  return std::ranges::any_of(fewer.nodes, [&](const Node* node) {
    return std::ranges::any_of(more.nodes,
                               [&](const Node* other) { return clusters.result_number(node) == clusters.result_number(other); });
  });
}

/// Both are pointwise, `from` ends where `to` begins, with the same shape and no view between: nothing to check.
bool is_plain_chain(const Clusters& clusters, const Cluster& x, const Cluster& y) {
  if (x.kind != UnitKind::map || y.kind != UnitKind::map || x.recomputed != 0 || y.recomputed != 0) return false;
  const Cluster& one = x.nodes.size() == 1 ? x : y;
  const Cluster& other = x.nodes.size() == 1 ? y : x;
  if (one.nodes.size() != 1 || !is_pointwise(*one.nodes[0])) return false;
  const Node& node = *one.nodes[0];
  const Value* main = main_value(other.nodes);
  if (main->type.dims != node.result()->type.dims) return false;
  const int cluster = clusters.cluster_of(other.nodes[0]);
  bool joined = false;
  for (const Value* operand : node.operands) {
    for (const Value* source : clusters.sources(operand)) {
      if (clusters.cluster_of(source->producer) != cluster) continue;
      if (source != operand || source->type.dims != main->type.dims) return false;
      joined = true;
    }
  }
  return joined && !clusters.consumers(main).empty();
}

}  // namespace

int op_cost(const Node& node) {
  switch (info(node.op).lowering) {
    case Lowering::indexed: return 4;
    case Lowering::concat: return static_cast<int>(node.operands.size());
    case Lowering::pointwise: break;
    default: return 1000;
  }
  return arithmetic_cost(node.op);
}

const Value* main_value(const std::vector<Node*>& core) {
  const Value* main = nullptr;
  for (const Node* node : core) {
    for (const Value* result : node->results) {
      if (!main || result->type.count() >= main->type.count()) main = result;
    }
  }
  return main;
}

std::vector<Node*> with_views(const Clusters& clusters, const std::vector<Node*>& core) {
  Marks& seen = clusters.seen().nodes;
  seen.clear();
  for (const Node* node : core) seen.insert(Clusters::number_of(node));
  std::vector<Node*> nodes = core;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const Value* operand : nodes[i]->operands) {
      Node* producer = operand->producer;
      if (producer && !clusters.is_core(*producer) && seen.insert(Clusters::number_of(producer))) nodes.push_back(producer);
    }
  }
  const auto is_before = [&](const Node* x, const Node* y) { return clusters.position(x) < clusters.position(y); };
  const auto views = nodes.begin() + static_cast<ptrdiff_t>(core.size());
  std::sort(views, nodes.end(), is_before);
  std::inplace_merge(nodes.begin(), views, nodes.end(), is_before);
  return nodes;
}

bool check_unit(Clusters& clusters, int cluster) {
  Cluster& c = clusters[cluster];
  const std::vector<Node*> nodes = with_views(clusters, c.nodes);
  if (count_ops(c) > kMaxUnitOps || !has_few_buffers(clusters, nodes, cluster, cluster)) return false;
  const int recomputed = recomputed_cost(clusters, c.kind, nodes, c.nodes, c.anchor, cluster, cluster);
  if (recomputed < 0) return false;
  c.recomputed = recomputed;
  return true;
}

bool try_merge(Clusters& clusters, int a, int b) {
  if (a == b) return true;
  const Cluster& x = clusters[a];
  const Cluster& y = clusters[b];
  if (x.fixed || y.fixed || (is_anchored(x.kind) && y.kind != UnitKind::map) || (is_anchored(y.kind) && x.kind != UnitKind::map))
    return false;
  if ((x.forward && y.backward) || (y.forward && x.backward)) return false;
  if (x.kind == UnitKind::sort || y.kind == UnitKind::sort || x.kind == UnitKind::scatter || y.kind == UnitKind::scatter) return false;
  const UnitKind kind = is_anchored(x.kind) || y.kind == UnitKind::map ? x.kind : y.kind;
  if (count_ops(x) + count_ops(y) > kMaxUnitOps || hold_copies(clusters, x, y)) return false;

  std::vector<Node*> core(x.nodes.size() + y.nodes.size());
  std::merge(x.nodes.begin(), x.nodes.end(), y.nodes.begin(), y.nodes.end(), core.begin(),
             [&](const Node* p, const Node* q) { return clusters.position(p) < clusters.position(q); });
  Node* anchor = x.anchor ? x.anchor : y.anchor;
  const std::vector<Node*> nodes = with_views(clusters, core);
  if (!has_few_buffers(clusters, nodes, a, b)) return false;
  int recomputed = 0;
  if (!is_plain_chain(clusters, x, y)) {
    recomputed = recomputed_cost(clusters, kind, nodes, core, anchor, a, b);
    if (recomputed < 0) return false;
  }
  if (!clusters.can_merge(a, b)) return false;
  clusters.merge(a, b);
  clusters[a].kind = kind;
  clusters[a].anchor = anchor;
  clusters[a].recomputed = recomputed;
  return true;
}

}  // namespace tcc::group
